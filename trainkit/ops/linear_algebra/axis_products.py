"""Products of tensors over chosen axes: `dot`, `inner`, `outer`, `kron`, `tensordot`."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from trainkit.core import dtypes, shapes
from trainkit.core.errors import ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.ops.arrays.axes import swap_last_axes
from trainkit.ops.arrays.shaping import as_tensor, rank_of, reshape
from trainkit.ops.core.dynamic_shapes import Bound
from trainkit.ops.core.one_node import sizes_later
from trainkit.ops.linear_algebra.einsum import labels, product_of_two
from trainkit.ops.linear_algebra.matmul import matmul
from trainkit.ops.math.elementwise import cast, conjugated, multiply


def dot(x1: Any, x2: Any) -> Tensor:
    """Dot product: the last axis of `x1` with the second to last (of a vector: the only) of `x2`.

    Args:
        x1: tensor (..., m); a scalar multiplies.
        x2: tensor (..., m, p) or (m,); a scalar multiplies.

    Returns:
        A tensor of shape `x1.shape[:-1] + x2.shape[:-2] + x2.shape[-1:]`.

    Raises:
        ShapeError: the sizes of the joined axes differ.

    Example:
        >>> float(tk.ops.dot([1.0, 2.0], [3.0, 4.0]))
        11.0
    """
    a, b = as_tensor(x1), as_tensor(x2)
    rank_a, rank_b = rank_of(a), rank_of(b)
    if not rank_a or not rank_b:
        return multiply(a, b)
    if rank_b <= 2:
        return _kept_short(matmul(a, b), a, b)
    return tensordot(a, b, axes=((rank_a - 1,), (rank_b - 2,)))


def _sizes(x: Tensor) -> Any:
    return x._array.shape if type(x) is Tensor else x.shape


def _kept_short(y: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """`y` as int8 if the inputs promote to it; only `matmul` and `einsum` widen it, as in Keras."""
    if y.dtype is dtypes.int32 and dtypes.result_type(a, b) == dtypes.int8:
        return cast(y, dtypes.int8)
    return y


def vdot(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Sum of the products of all elements; the first tensor is conjugated. A scalar tensor.

    Raises:
        ShapeError: the numbers of elements differ.

    Example:
        >>> float(tk.ops.vdot([1.0, 2.0], [3.0, 4.0]))
        11.0
    """
    a = reshape(x1, (-1,))
    b = reshape(x2, (-1,))
    return _kept_short(matmul(conjugated(a), b), a, b)


def inner(x1: Any, x2: Any) -> Tensor:
    """Sum of products over the last axis of both.

    Args:
        x1: tensor (...a, m); a scalar multiplies.
        x2: tensor (...b, m); a scalar multiplies.

    Returns:
        A tensor (...a, ...b).

    Raises:
        ShapeError: the last sizes differ.

    Example:
        >>> float(tk.ops.inner([1.0, 2.0], [3.0, 4.0]))
        11.0
    """
    a, b = as_tensor(x1), as_tensor(x2)
    rank_a, rank_b = rank_of(a), rank_of(b)
    if not rank_a or not rank_b:
        return multiply(a, b)
    if rank_a <= 2 and rank_b <= 2 and _sizes(a)[-1] == _sizes(b)[-1] is not None:
        return _kept_short(matmul(a, b if rank_b == 1 else swap_last_axes(b)), a, b)
    return tensordot(a, b, axes=((rank_a - 1,), (rank_b - 1,)))


def outer(x1: TensorLike, x2: TensorLike) -> Tensor:
    """All products of an element of `x1` with one of `x2`: a matrix (x1.size, x2.size).

    Example:
        >>> tk.ops.outer([1, 2], [3, 4]).numpy()
        array([[3, 4],
               [6, 8]], dtype=int32)
    """
    a, b = reshape(x1, (-1, 1)), reshape(x2, (1, -1))
    return multiply(a, b)


def _kron_spec(a: Bound) -> Any:
    x, y = as_tensor(a["x1"]), as_tensor(a["x2"])
    rank = max(len(x.shape), len(y.shape))
    pairs = zip(*((1,) * (rank - len(z.shape)) + tuple(z.shape) for z in (x, y)), strict=True)
    dims = [None if None in pair else pair[0] * pair[1] for pair in pairs]
    return Spec(dims, dtypes.result_type(x, y)) if None in dims else None


@sizes_later("numpy.kron", _kron_spec)
def kron(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Kronecker product: `x2` laid out once for each element of `x1`, multiplied by it.

    Args:
        x1: tensor of any shape; the one of lower rank gets axes of size 1 in front.
        x2: tensor of any shape.

    Returns:
        A tensor whose sizes are the products of theirs.

    Example:
        >>> tk.ops.kron([1, 2], [1, 10]).numpy()
        array([ 1, 10,  2, 20], dtype=int32)
    """
    a, b = as_tensor(x1), as_tensor(x2)
    rank = max(len(a.shape), len(b.shape))
    dims_a = (1,) * (rank - len(a.shape)) + tuple(a.shape)
    dims_b = (1,) * (rank - len(b.shape)) + tuple(b.shape)
    spread_a = reshape(a, [k for n in dims_a for k in (n, 1)])
    spread_b = reshape(b, [k for n in dims_b for k in (1, n)])
    return reshape(
        multiply(spread_a, spread_b), [n * m for n, m in zip(dims_a, dims_b, strict=True)]
    )


def tensordot(x1: TensorLike, x2: TensorLike, axes: Any = 2) -> Tensor:
    """Sum of products over pairs of axes.

    Args:
        x1: tensor of any shape.
        x2: tensor of any shape.
        axes: an int n, for the last n axes of `x1` with the first n of `x2`; or two axes, or two
            sequences of axes, one for each tensor.

    Returns:
        A tensor with the other axes of `x1`, then those of `x2`.

    Raises:
        ShapeError: joined sizes differ, the numbers of axes differ, or an axis is out of range.

    Example:
        >>> tk.ops.tensordot([[1.0, 2.0]], [[3.0], [4.0]], axes=1).numpy()
        array([[11.]], dtype=float32)
    """
    a, b = as_tensor(x1), as_tensor(x2)
    if axes == 1 and type(axes) is int and rank_of(a) in (1, 2) and rank_of(b) in (1, 2):
        if _sizes(a)[-1] == _sizes(b)[0] is not None:
            return _kept_short(matmul(a, b), a, b)
    a_dims, b_dims = tuple(a.shape), tuple(b.shape)
    of_a, of_b = _paired_axes(axes, len(a_dims), len(b_dims))
    for i, j in zip(of_a, of_b, strict=True):
        n, m = a_dims[i], b_dims[j]
        if None not in (n, m) and n != m:
            raise ShapeError(
                f"tensordot: axis {i} of x1 has size {n}, axis {j} of x2 has {m}\n"
                f"  x1  {a_dims}\n  x2  {b_dims}"
            )
    return _kept_short(product_of_two(a, b, *_terms(of_a, of_b, len(a_dims), len(b_dims))), a, b)


@lru_cache(maxsize=256)
def _terms(
    of_a: tuple[int, ...], of_b: tuple[int, ...], rank_a: int, rank_b: int
) -> tuple[str, str, str]:
    """The letters of the axes of two tensors, of which some are paired, and of their product."""
    names = labels(rank_a + rank_b)
    for_a, for_b = names[:rank_a], names[rank_a:]
    for i, j in zip(of_a, of_b, strict=True):
        for_b[j] = for_a[i]
    output_names = [s for i, s in enumerate(for_a) if i not in of_a]
    output_names += [s for j, s in enumerate(for_b) if j not in of_b]
    return "".join(for_a), "".join(for_b), "".join(output_names)


def _paired_axes(axes: Any, rank_a: int, rank_b: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if isinstance(axes, int | np.integer):
        count = int(axes)
        if not 0 <= count <= min(rank_a, rank_b):
            raise ShapeError(
                f"tensordot: can't join {count} axes of tensors of rank {rank_a} and {rank_b}"
            )
        return tuple(range(rank_a - count, rank_a)), tuple(range(count))
    if len(axes) != 2:
        raise ShapeError(f"tensordot: axes must be an int or a pair, got {axes!r}")
    of_a = shapes.canonical_axes(axes[0], rank_a, "tensordot")
    of_b = shapes.canonical_axes(axes[1], rank_b, "tensordot")
    if len(of_a) != len(of_b):
        raise ShapeError(f"tensordot: {len(of_a)} axes of x1 and {len(of_b)} of x2 can't be paired")
    return of_a, of_b
