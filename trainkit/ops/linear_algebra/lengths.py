"""Lengths of vectors, norms of matrices, and tensors divided by them.

The arguments are TensorFlow's; `name` is not kept.
"""

from __future__ import annotations

import math
from typing import Any

from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import Axis, TensorLike
from trainkit.ops.arrays.shaping import as_tensor, refuse_bools, reshape
from trainkit.ops.core.axis_numbers import plain, reduced
from trainkit.ops.linear_algebra.norms import length
from trainkit.ops.linear_algebra.norms import norm as norm_
from trainkit.ops.math.complex_parts import complex_from, conj, imag, real
from trainkit.ops.math.elementwise import (
    absolute,
    cast,
    divide,
    maximum,
    multiply,
    rsqrt,
    sqrt,
    square,
)
from trainkit.ops.math.reductions import sum as sum_


def norm(
    tensor: TensorLike,
    ord: Any = "euclidean",
    axis: Axis | None = None,
    keepdims: Any = None,
    name: str | None = None,
) -> Tensor:
    """Length of vectors or size of matrices.

    Args:
        tensor: of any shape.
        ord: `"euclidean"`, `"fro"`, 1, 2, another p above 0, or inf.
        axis: `None` for all elements as one vector, an int for vectors, a pair for matrices.
        keepdims: keep the axes with size 1.

    Returns:
        A tensor of the dtype of `tensor`; integers stay so where `ord` is 1 or inf, and have norms
        of the default float otherwise. Complex numbers have complex roots of sums of squares, and
        real norms of other orders.

    Example:
        >>> float(tk.linalg.norm([3.0, 4.0]))
        5.0
    """
    axis, keep = plain(axis), bool(keepdims)
    x = convert_to_tensor(tensor)
    if x.dtype.is_integer and ord in (1, math.inf):
        return cast(norm(cast(x, "float64"), ord, axis, keep), x.dtype)
    norms = _real_norm(x, ord, axis, keep)
    # TensorFlow sums x * conj(x), whose root is complex; magnitudes, for other orders, are real.
    is_matrix = isinstance(axis, tuple) and len(axis) == 2
    is_root = ord in ("euclidean", "fro") or (ord == 2 and not is_matrix)
    return cast(norms, x.dtype) if x.dtype.is_complex and is_root else norms


def _real_norm(x: Tensor, ord: Any, axis: Axis | None, keep: bool) -> Tensor:
    if ord in ("euclidean", "fro") or (axis is None and ord == 2):
        return length(x, axis, keep)
    if axis is None:
        flat = _real_norm(reshape(x, (-1,)), ord, 0, False)
        return reshape(flat, (1,) * len(x.shape)) if keep else flat
    pair = isinstance(axis, tuple) and len(axis) == 2
    single = axis[0] if isinstance(axis, tuple) and not pair else axis
    return norm_(x, ord=ord, axis=single, keepdims=keep)


def normalize(
    tensor: TensorLike, ord: Any = "euclidean", axis: Axis | None = None, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """`tensor` divided by its norm, and the norm with the axes kept.

    Args:
        tensor: of any shape.
        ord: as for `norm`.
        axis: as for `norm`.

    Example:
        >>> x, norm = tk.linalg.normalize([3.0, 4.0])
        >>> x.numpy().round(4), norm.numpy()
        (array([0.6, 0.8], dtype=float32), array([5.], dtype=float32))
    """
    norms = norm(tensor, ord, axis, keepdims=True)
    return divide(tensor, norms), norms


def reduce_euclidean_norm(
    input_tensor: TensorLike,
    axis: Axis | None = None,
    keepdims: bool = False,
    name: str | None = None,
) -> Tensor:
    """sqrt(sum(|x|**2)) over the axes `axis`.

    Args:
        input_tensor: tensor of numbers.
        axis: int, ints, or a tensor of them; by default all.
        keepdims: keep the reduced axes with size 1.

    Returns:
        A tensor of the dtype of `input_tensor`; of integers the root is rounded towards 0.

    Example:
        >>> float(tk.math.reduce_euclidean_norm([3.0, 4.0]))
        5.0
        >>> int(tk.math.reduce_euclidean_norm([1, 2]))
        2
    """
    x = refuse_bools(as_tensor(input_tensor), "reduce_euclidean_norm")
    squares = square(absolute(x) if x.dtype.is_complex else x)
    return cast(sqrt(reduced(sum_, squares, axis, keepdims)), x.dtype)


def l2_normalize(
    x: TensorLike,
    axis: Axis | None = None,
    epsilon: float = 1e-12,
    name: str | None = None,
    dim: Any = None,
) -> Tensor:
    """`x / sqrt(max(sum(|x|**2), epsilon))` along `axis`, which `dim` is an older name of.

    Args:
        x: tensor of numbers.
        axis: int, ints, or a tensor of them; by default all.
        epsilon: keeps the divisor from 0.
        dim: an older name of `axis`.

    Example:
        >>> tk.math.l2_normalize([3.0, 4.0]).numpy().round(4)
        array([0.6, 0.8], dtype=float32)
    """
    x, axis = as_tensor(x), dim if axis is None else axis
    if x.dtype.is_complex:
        parts = real(x), imag(x)
        squares = reduced(sum_, real(multiply(x, conj(x))), axis, True)
        scale = rsqrt(maximum(squares, epsilon))
        return complex_from(*[multiply(part, scale) for part in parts])
    squares = reduced(sum_, square(x), axis, True)
    return multiply(x, rsqrt(maximum(squares, epsilon)))
