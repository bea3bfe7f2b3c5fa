"""Lengths of vectors and sizes of matrices: norm; distances between points: cdist."""

from __future__ import annotations

import math
from typing import Any

from trainkit.core import shapes
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.tensor import Tensor
from trainkit.core.values.type_aliases import Axis, TensorLike
from trainkit.ops.arrays.axes import expand_dims, moveaxis, squeeze
from trainkit.ops.arrays.shaping import as_tensor
from trainkit.ops.core.one_node import symbol_in
from trainkit.ops.linear_algebra.matrices import same_type
from trainkit.ops.linear_algebra.singular_values import singular_values
from trainkit.ops.linear_algebra.square_sums import square_sum
from trainkit.ops.math.comparisons import not_equal
from trainkit.ops.math.elementwise import absolute, cast, power, sqrt, square, subtract
from trainkit.ops.math.max_and_argmax import max as max_
from trainkit.ops.math.max_and_argmax import min as min_
from trainkit.ops.math.reductions import axis_setting
from trainkit.ops.math.reductions import sum as sum_

_INFINITY = math.inf


def _to_floats(x: Any) -> Tensor:
    tensor = as_tensor(x)
    norm_dtype = shapes.float_dtype(tensor.dtype)
    return tensor if tensor.dtype == norm_dtype else cast(tensor, norm_dtype)


def length(x: Any, axis: Any, keepdims: bool) -> Tensor:
    """The root of the sum of squares.

    Args:
        x: tensor of any shape; integers become the default float.
        axis: int, ints, or `None` for all.
        keepdims: keep the reduced axes with size 1.
    """
    x = _to_floats(x)
    is_complex = x.dtype.is_complex
    # a model that is drawn up has the steps, as Keras has a class for each of these only
    if is_complex or (type(x) is not Tensor and symbol_in(x) is not None):
        squares = square(absolute(x) if is_complex else x)
        return sqrt(sum_(squares, axis=axis, keepdims=keepdims))
    return sqrt(square_sum(x, axis=axis_setting(axis), keepdims=keepdims))


def _extreme(sizes: Tensor, order: Any, axis: int, keepdims: bool) -> Tensor:
    """The greatest of `sizes` for an order above 0, the least below; of none as in Keras."""
    reduce, initial = (max_, -_INFINITY) if order > 0 else (min_, _INFINITY)
    has_none = sizes.shape[axis] == 0
    return reduce(sizes, axis=axis, keepdims=keepdims, initial=initial if has_none else None)


def _vector_norm(x: Tensor, order: Any, axis: int, keepdims: bool) -> Tensor:
    if order is None or order == 2:
        return length(x, axis, keepdims)
    if isinstance(order, str):
        raise InvalidArgumentError(f"norm: ord={order!r} is for matrices; give two axes")
    size = absolute(x)
    if order in (_INFINITY, -_INFINITY):
        return _extreme(size, order, axis, keepdims)
    if order == 0:
        return sum_(cast(not_equal(x, 0), size.dtype), axis=axis, keepdims=keepdims)
    if order == 1:
        return sum_(size, axis=axis, keepdims=keepdims)
    total = sum_(power(size, float(order)), axis=axis, keepdims=keepdims)
    return power(total, 1.0 / order)


def _matrix_norm(x: Tensor, order: Any, axes: tuple[int, int], keepdims: bool) -> Tensor:
    if order in (None, "fro"):
        return length(x, axes, keepdims)
    if order in ("nuc", 2, -2):
        return _by_singular_values(x, order, axes, keepdims)
    sums = {1: 0, -1: 0, _INFINITY: 1, -_INFINITY: 1}
    if order not in sums:
        raise InvalidArgumentError(
            f"norm: ord={order!r} is no order of matrices; there are None, 'fro', 'nuc', 1, -1, 2, "
            "-2, inf and -inf"
        )
    along, other = axes[sums[order]], axes[1 - sums[order]]
    total = sum_(absolute(x), axis=along, keepdims=True)
    norms = _extreme(total, order, other, keepdims=True)
    return norms if keepdims else squeeze(norms, axes)


def _by_singular_values(x: Tensor, order: Any, axes: tuple[int, int], keepdims: bool) -> Tensor:
    s = singular_values(moveaxis(x, axes, (-2, -1)))
    norms = sum_(s, axis=-1) if order == "nuc" else _extreme(s, order, -1, keepdims=False)
    return expand_dims(norms, tuple(sorted(axes))) if keepdims else norms


def norm(
    x: TensorLike, ord: Any = None, axis: Axis | None = None, keepdims: bool = False
) -> Tensor:
    """The length of vectors or the size of matrices.

    Vectors: `None` or 2 for the root of the sum of squares, inf and -inf for the greatest and least
    magnitude, 0 for the count of elements that are not 0, another p for sum(|x|**p)**(1/p).
    Matrices: `None` or `"fro"` for the root of the sum of squares, `"nuc"` for the sum of the
    singular values, 2 and -2 for the greatest and least, 1 and -1 for the greatest and least
    column sum of magnitudes, inf and -inf for those of rows.

    Args:
        x: tensor of any shape; integers become the default float.
        ord: which norm.
        axis: one axis for vectors, two for matrices. By default all of `x` is one vector or, with
            `ord` and two axes, one matrix.
        keepdims: keep the axes with size 1.

    Returns:
        A tensor of real floats. The greatest of no numbers is minus infinity, the least infinity.

    Raises:
        InvalidArgumentError: there is no such norm.
        ShapeError: an axis is out of range, or there are not one or two of them.

    Example:
        >>> float(tk.ops.norm([3.0, 4.0]))
        5.0
    """
    tensor = _to_floats(x)
    rank = len(tensor.shape)
    if axis is None:
        if ord is None or (ord == 2 and rank == 1):
            return length(tensor, None, keepdims)
        axes = tuple(range(rank))
    else:
        axes = shapes.canonical_axes(axis, rank, "norm")
    if len(axes) == 1:
        return _vector_norm(tensor, ord, axes[0], keepdims)
    if len(axes) == 2:
        return _matrix_norm(tensor, ord, (axes[0], axes[1]), keepdims)
    raise ShapeError(
        f"norm: needs one axis or two, got axis={axis} for shape {tuple(tensor.shape)}"
    )


def cdist(x: TensorLike, y: TensorLike) -> Tensor:
    """Euclidean distances between all points of `x` and all of `y`.

    Args:
        x: points (..., n, d); integers become the default float.
        y: points (..., m, d).

    Returns:
        A tensor (..., n, m).

    Raises:
        ShapeError: the points have different numbers of coordinates, or an input is no list of
            points.

    Example:
        >>> tk.ops.cdist([[0.0, 0.0]], [[3.0, 4.0]]).numpy()
        array([[5.]], dtype=float32)
    """
    a, b = same_type(as_tensor(x), as_tensor(y))
    a, b = _to_floats(a), _to_floats(b)
    if min(len(a.shape), len(b.shape)) < 2 or (
        None not in (a.shape[-1], b.shape[-1]) and a.shape[-1] != b.shape[-1]
    ):
        raise ShapeError(
            f"cdist: needs points (..., n, d) and (..., m, d), got shapes {tuple(a.shape)} and "
            f"{tuple(b.shape)}"
        )
    apart = subtract(expand_dims(a, -2), expand_dims(b, -3))
    return sqrt(sum_(square(apart), axis=-1))
