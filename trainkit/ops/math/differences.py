"""Differences of neighbours, cross and sliding products: diff, trapezoid, cross, correlate."""

from __future__ import annotations

from typing import Any

from trainkit.core import dtypes, shapes
from trainkit.core.cpu.cost_model import CALL_FLOATS
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch import late_ops
from trainkit.core.dispatch.facets import AXIS
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.dtypes import DType
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.ops.arrays.axes import expand_dims, moveaxis
from trainkit.ops.arrays.concat_and_split import stack
from trainkit.ops.arrays.diagonals import diagonal
from trainkit.ops.arrays.pad_and_roll import flip, pad, roll
from trainkit.ops.arrays.shaping import as_tensor, reshape
from trainkit.ops.core.vmap import NoBatch
from trainkit.ops.indexing.get_item import get_item
from trainkit.ops.linear_algebra.matmul import matmul
from trainkit.ops.linear_algebra.matrices import adjoint
from trainkit.ops.math.comparisons import not_equal
from trainkit.ops.math.complex_parts import real
from trainkit.ops.math.elementwise import (
    add,
    cast,
    conjugated,
    divide,
    multiply,
    promoted,
    sqrt,
    subtract,
)
from trainkit.ops.math.reductions import mean
from trainkit.ops.math.reductions import sum as sum_
from trainkit.ops.vmap_rules.shared_rules import by_formula

_MOST_TIMES = 1 << 16  # each is a step of a graph


def diff(a: Any, n: int = 1, axis: int = -1) -> Tensor:
    """The n-th differences of neighbours: `a[i + 1] - a[i]`, n times; of bools whether they differ.

    Args:
        a: tensor of rank 1 at least.
        n: how many times, 0 or more.
        axis: along which.

    Returns:
        A tensor whose size along `axis` is n less, 0 at least.

    Raises:
        InvalidArgumentError: `n` is negative, or more than 65536 and less than the size.
        ShapeError: `axis` is out of range.

    Example:
        >>> tk.ops.diff([1, 4, 9]).numpy()
        array([3, 5], dtype=int32)
    """
    if n < 0:
        raise InvalidArgumentError(f"diff: n must be 0 or more, got {n}")
    x = as_tensor(a)
    axis_index = shapes.canonical_axis(axis, len(x.shape), "diff")
    before, size = (slice(None),) * axis_index, x.shape[axis_index]
    if size is not None and n >= size:  # nothing is left, and each time would take its time
        return get_item(x, (*before, slice(0, 0)))
    if n > _MOST_TIMES:
        raise InvalidArgumentError(f"diff: n is {n}, and may be up to {_MOST_TIMES}")
    minus = not_equal if x.dtype.is_bool else subtract
    for _ in range(n):
        x = minus(get_item(x, (*before, slice(1, None))), get_item(x, (*before, slice(None, -1))))
    return x


def trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Tensor:
    """The area under straight lines between the points (x, y).

    Args:
        y: heights, of rank 1 at least; integers become the default float.
        x: places along `axis`: a vector, or a tensor of the shape of `y`; by default `dx` apart.
        dx: distance of neighbours without `x`.
        axis: along which.

    Returns:
        A tensor without `axis`.

    Raises:
        ShapeError: `axis` is out of range, or shapes don't fit.

    Example:
        >>> float(tk.ops.trapezoid([1.0, 2.0, 3.0]))
        4.0
    """
    heights = _to_floats(y)
    axis_index = shapes.canonical_axis(axis, len(heights.shape), "trapezoid")
    before = (slice(None),) * axis_index
    low, high = (*before, slice(None, -1)), (*before, slice(1, None))
    size = heights.shape[axis_index]
    if x is None and isinstance(dx, int | float) and size is not None and size > 1:
        # each number but the first and the last is in two of the means: one pass over them
        inner = sum_(get_item(heights, (*before, slice(1, -1))), axis=axis_index)
        ends = add(get_item(heights, (*before, 0)), get_item(heights, (*before, -1)))
        return multiply(add(inner, divide(ends, 2.0)), dx)
    middle = divide(add(get_item(heights, high), get_item(heights, low)), 2.0)
    if x is None:
        return sum_(multiply(middle, dx), axis=axis_index)
    abscissas = _to_floats(x)
    if len(abscissas.shape) == 1:
        steps = reshape(diff(abscissas), (-1,) + (1,) * (len(heights.shape) - axis_index - 1))
    else:
        steps = diff(abscissas, axis=axis_index)
    return sum_(multiply(middle, steps), axis=axis_index)


def _to_floats(x: Any) -> Tensor:
    tensor = as_tensor(x)
    return cast(tensor, shapes.float_dtype(tensor.dtype))


def corrcoef(x: TensorLike) -> Tensor:
    """The correlation of each pair of rows, in [-1, 1] (Pearson's coefficient).

    Args:
        x: rows of observations (variables, observations), or one row.

    Returns:
        A float tensor (variables, variables), or a scalar for one row.

    Raises:
        ShapeError: `x` has another rank.

    Example:
        >>> tk.ops.corrcoef([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]).numpy().round(4)
        array([[ 1., -1.],
               [-1.,  1.]], dtype=float32)
    """
    rows = as_tensor(x)
    rows = cast(rows, shapes.wide_float_dtype(rows.dtype))
    if len(rows.shape) not in (1, 2):
        raise ShapeError(f"corrcoef: needs a vector or a matrix, got shape {tuple(rows.shape)}")
    apart = subtract(rows, mean(rows, axis=-1, keepdims=True))
    if len(rows.shape) == 1:
        apart = expand_dims(apart, 0)
    covariance = matmul(apart, adjoint(apart))
    deviation = sqrt(real(diagonal(covariance)))
    correlations = divide(divide(covariance, expand_dims(deviation, 0)), expand_dims(deviation, 1))
    return correlations if len(rows.shape) == 2 else get_item(correlations, (0, 0))


# ------------------------------------------------------------------ cross


def cross(
    x1: TensorLike,
    x2: TensorLike,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: int | None = None,
) -> Tensor:
    """Cross product of vectors with 3 components, or 2, which lie in the plane.

    Args:
        x1: tensor whose axis `axisa` has size 2 or 3.
        x2: tensor whose axis `axisb` has size 2 or 3; the other axes broadcast.
        axisa: the components of `x1`.
        axisb: the components of `x2`.
        axisc: the components of the result.
        axis: all three of them at once.

    Returns:
        A tensor with 3 components; of two vectors with 2 only the third component, without an axis
        for it.

    Raises:
        ShapeError: the components are not 2 or 3, or shapes do not broadcast.

    Example:
        >>> tk.ops.cross([1.0, 0.0, 0.0], [0.0, 1.0, 0.0]).numpy()
        array([0., 0., 1.], dtype=float32)
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = (as_tensor(x) for x in promoted(as_tensor(x1), as_tensor(x2)))
    a = a if axisa == -1 else moveaxis(a, axisa, -1)
    b = b if axisb == -1 else moveaxis(b, axisb, -1)
    sizes = (a.shape[-1], b.shape[-1])
    if any(n not in (2, 3) for n in sizes):
        raise ShapeError(
            f"cross: vectors have 2 or 3 components, got {sizes[0]} and {sizes[1]} in tensors of "
            f"shapes {tuple(as_tensor(x1).shape)} and {tuple(as_tensor(x2).shape)}"
        )
    if sizes == (3, 3) and _is_short(a) and _is_short(b):
        # the third component first, then the first and the second
        turned = subtract(multiply(a, roll(b, -1, -1)), multiply(roll(a, -1, -1), b))
        turned = roll(turned, -1, -1)
        return turned if axisc == -1 else moveaxis(turned, -1, axisc)
    third = subtract(_times(a, 0, b, 1), _times(a, 1, b, 0))
    if sizes == (2, 2):
        return third
    parts = [*_plane_parts(a, b, sizes), third]
    return moveaxis(stack(parts, axis=-1), -1, axisc)


def _is_short(x: Tensor) -> bool:
    """Whether calls of operations take longer than their work, that of turning short rows."""
    return type(x) is Tensor and x._array.size <= CALL_FLOATS


def _times(a: Tensor, i: int, b: Tensor, j: int) -> Tensor:
    return multiply(get_item(a, (..., i)), get_item(b, (..., j)))


def _plane_parts(a: Tensor, b: Tensor, sizes: tuple[int, int]) -> list[Tensor]:
    """The first two components; a missing third one of an input is 0."""
    if sizes == (3, 3):
        return [
            subtract(_times(a, 1, b, 2), _times(a, 2, b, 1)),
            subtract(_times(a, 2, b, 0), _times(a, 0, b, 2)),
        ]
    if sizes == (2, 3):
        return [_times(a, 1, b, 2), subtract(multiply(_times(a, 0, b, 2), 0), _times(a, 0, b, 2))]
    zero = multiply(_times(a, 2, b, 1), 0)
    return [subtract(zero, _times(a, 2, b, 1)), _times(a, 2, b, 0)]


# ------------------------------------------------------------------ correlate


def _correlation_dtype(a: DType, b: DType) -> DType:
    """The promoted type, floating; int64 gives float64 as in Keras."""
    joined = dtypes.result_type(a, b)
    return dtypes.float64 if joined == dtypes.int64 else shapes.float_dtype(joined)


def _sliding_rule(x: Spec, window: Spec) -> Spec:
    n, m = x.shape[0], window.shape[0]
    return Spec((None if None in (n, m) else max(n - m + 1, 0),), x.dtype)  # type: ignore[operator]


@primitive(_sliding_rule, semantics=AXIS)
def sliding_product(xp: ArrayModule, x: Array, window: Array) -> Array:
    """Sums of products of `window` (m,) with each run of m neighbours in `x` (n,), n at least m."""
    return xp.correlate(x, xp.conj(window), "valid").astype(x.dtype)


def _sliding_gradient_x(g: Tensor, y: Tensor, x: Tensor, window: Tensor) -> Tensor:
    edge = window.shape[0] - 1
    result: Tensor = sliding_product(pad(g, ((edge, edge),)), flip(conjugated(window), 0))
    return result


sliding_product.gradients(
    _sliding_gradient_x, lambda g, y, x, window: sliding_product(conjugated(x), g)
)


@sliding_product.batch_by
@by_formula
def _sliding_by_steps(x: Tensor, window: Tensor) -> Any:
    if None in (x.shape[0], window.shape[0]) or not window.shape[0]:
        raise NoBatch
    runs = late_ops.extract_sequences(x, length=window.shape[0], stride=1)
    return matmul(runs, window)


def correlate(x1: TensorLike, x2: TensorLike, mode: str = "valid") -> Tensor:
    """Sums of products of one vector with the other at each shift; the second is conjugated.

    Args:
        x1: vector (n,); integers become the default float.
        x2: vector (m,).
        mode: `"valid"` for the shifts at which they overlap wholly, max(n, m) - min(n, m) + 1 of
            them; `"same"` for max(n, m), in the middle; `"full"` for all n + m - 1.

    Returns:
        A vector.

    Raises:
        ValueError: `mode` is another one.
        ShapeError: an input is no vector, is empty, or its length is not known.

    Example:
        >>> tk.ops.correlate([1.0, 2.0, 3.0], [0.0, 1.0, 0.5]).numpy()
        array([3.5], dtype=float32)
    """
    if mode not in ("valid", "same", "full"):
        raise ValueError(f"correlate: mode is 'valid', 'same' or 'full', not {mode!r}")
    a, b = as_tensor(x1), as_tensor(x2)
    if len(a.shape) != 1 or len(b.shape) != 1 or not a.shape[0] or not b.shape[0]:
        raise ShapeError(
            f"correlate: needs two vectors of known length, got shapes {tuple(a.shape)} and "
            f"{tuple(b.shape)}"
        )
    product_dtype = _correlation_dtype(a.dtype, b.dtype)
    a, b = cast(a, product_dtype), conjugated(cast(b, product_dtype))
    n, m = a.shape[0], b.shape[0]
    swap = m > n
    if swap:
        a, b, n, m = b, a, m, n
    low, high = {"valid": (0, 0), "full": (m - 1, m - 1)}.get(mode, (m // 2, (m - 1) // 2))
    products: Tensor = sliding_product(pad(a, ((low, high),)), b)
    return flip(products, 0) if swap else products
