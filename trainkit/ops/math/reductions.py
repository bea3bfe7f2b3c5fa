"""Reductions: sums, means and variances along axes, and the sums that undo broadcasting.

`axis` is an int, a sequence of ints, or `None` for all axes; `keepdims=True` keeps reduced axes
with size 1. Sums of small integers are int32 or uint32, as in Keras 3; floats of 16 bits are summed
in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trainkit.core import dtypes, shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.eager import WIDE, with_tuned
from trainkit.core.dispatch.facets import (
    ARRANGEMENT,
    IF_ALIKE,
    OVER_AXES,
    REDUCTION,
    SHAPE,
    TRACE,
    VIEW,
    Absent,
    Direct,
    Tuned,
)
from trainkit.core.dispatch.native import squared_distances
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.shapes import Spec
from trainkit.core.tensor import LARGE, Tensor
from trainkit.core.values.docstrings import describe_arguments
from trainkit.core.values.type_aliases import TensorLike
from trainkit.kernels.reductions.reductions_tuned import (
    FEWEST,
    axis_sum,
    may_use_blas,
    wide_axis_sum,
)
from trainkit.ops.core.vmap import as_stack, reshaped, stacked
from trainkit.ops.math.elementwise import cast, multiply, sqrt, subtract

Axis = Any

# ------------------------------------------------------------------ arguments


def axis_setting(axis: Axis) -> int | tuple[int, ...] | None:
    """`axis` as a setting of a primitive: an int, a tuple of ints, or `None` for all axes."""
    if axis is None or type(axis) is int:
        return axis
    if hasattr(axis, "__index__"):
        return int(axis.__index__())
    return tuple(int(a.__index__()) for a in axis)


_SUMMED_IN = {
    np.dtype(np.bool_): np.dtype(np.int32),
    np.dtype(np.int8): np.dtype(np.int32),
    np.dtype(np.int16): np.dtype(np.int32),
    np.dtype(np.uint8): np.dtype(np.uint32),
    np.dtype(np.uint16): np.dtype(np.uint32),
    np.dtype(np.int32): np.dtype(np.int32),
    np.dtype(np.uint32): np.dtype(np.uint32),
    dtypes.bfloat16.dtype: np.dtype(np.float32),
    dtypes.float16.dtype: np.dtype(np.float32),
}
_F32, _BOOL = np.dtype(np.float32), np.dtype(np.bool_)
_GREATEST = {d.dtype: d.max for d in dtypes.ALL if d.is_floating}
_HALVES = (dtypes.bfloat16.dtype, dtypes.float16.dtype)


def check_axes(x: Array, axis: Axis, op: str) -> None:
    """Raise for an axis of a scalar, which NumPy would take for no axis at all."""
    if axis is not None and axis != () and not x.shape:
        shapes.canonical_axes(axis, 0, op)


def wide_sum_dtype(dtype: Any) -> Any:
    """The NumPy dtype in which halves are summed, else `None`."""
    return _SUMMED_IN[dtype] if dtype in _HALVES else None


def summed_dtype(dtype: dtypes.DType) -> dtypes.DType:
    """The dtype of a sum: small integers and bool grow to 32 bits, others stay."""
    if dtype.is_floating:
        return dtype
    return dtypes.as_dtype(_SUMMED_IN.get(dtype.dtype, dtype.dtype))


# ------------------------------------------------------------------ sums and their gradients


def over_last_axes(rank: int, settings: dict[str, Any]) -> bool:
    """Whether the axes summed over are the last ones, whose numbers lie side by side in stacks too.

    Then they are added up in the same order.
    """
    axes = shapes.canonical_axes(settings["axis"], rank)
    return sorted(axes) == list(range(rank - len(axes), rank))


def _not_by_blas(arrays: Sequence[Any], settings: dict[str, Any]) -> bool:
    """Whether `axis_sum` leaves a sum to NumPy, by its axes."""
    return not may_use_blas(arrays[0].ndim, settings["axis"])


@primitive(
    lambda x, *, axis, keepdims: Spec(
        shapes.reduced_dims(x.shape, axis, keepdims), summed_dtype(x.dtype)
    ),
    name="sum",
    semantics=REDUCTION,
    tuned=Tuned(axis_sum, fewest=FEWEST, unless=_not_by_blas),
    direct=Direct("reduction", (np.add,)),
)
def _sum(xp: ArrayModule, x: Array, *, axis: Axis, keepdims: bool) -> Array:
    """Sum along axes."""
    if axis is not None:
        check_axes(x, axis, "sum")
    if x.dtype is _F32:
        return xp.add.reduce(x, axis, None, None, keepdims)
    if axis is None and x.dtype is _BOOL and xp is np:
        # In a tenth of the time of a sum, which casts each to int32.
        count = np.int64(np.count_nonzero(x)).astype(np.int32)
        return np.full((1,) * x.ndim, count) if keepdims else count
    total = xp.add.reduce(x, axis, _SUMMED_IN.get(x.dtype), None, keepdims)
    return total.astype(x.dtype) if x.dtype in _HALVES else total


def _spread_rule(g: Spec, x: Spec, *, axis: Axis, keepdims: bool, mean: bool) -> Spec:
    return Spec(x.shape, g.dtype)


@primitive(_spread_rule, semantics=ARRANGEMENT, reads={1: SHAPE}, lowering=TRACE)
def spread(xp: ArrayModule, g: Array, x: Array, *, axis: Axis, keepdims: bool, mean: bool) -> Array:
    """Repeat `g`, which stands for `x` reduced along `axis`, along these axes.

    With `mean` each copy is divided by how many there are, as the gradient of a mean needs it.
    """
    if mean:
        g = g / (x.size // g.size if g.size and x.size else 1)
    if axis is not None and not keepdims and x.shape:
        g = xp.expand_dims(g, shapes.canonical_axes(axis, len(x.shape)))
    if not g.shape and xp is np and g.dtype.kind == "f":
        # What `broadcast_to` gives, in a tenth of its time.
        return np.ndarray(x.shape, g.dtype, g, 0, (0,) * x.ndim)
    return xp.broadcast_to(g, x.shape)


_spread: Any = spread.primitive.kernel
spread.gradients(
    lambda g, y, short, x, *, axis, keepdims, mean: _reduce(g, axis, keepdims, mean), None
)
spread.declare(batch=OVER_AXES)


def _reduce(x: Tensor, axis: Axis, keepdims: bool, mean: bool) -> Tensor:
    reduce = _mean if mean else _sum
    return reduce(x, axis=axis, keepdims=keepdims)


_sum.gradients(
    lambda g, y, x, *, axis, keepdims: spread(g, x, axis=axis, keepdims=keepdims, mean=False)
)
_sum.array_gradients(
    lambda g, y, x, *, axis, keepdims: _spread(np, g, x, axis=axis, keepdims=keepdims, mean=False)
)
_sum.declare(stackable=over_last_axes)


def sum(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Sum of elements along `axis`.

    Returns:
        A tensor of the dtype of `x`; bool and integers under 32 bits grow to 32 bits.

    Raises:
        ShapeError: an axis is out of range or named twice.

    Example:
        >>> tk.ops.sum([[1.0, 2.0], [3.0, 4.0]], axis=0).numpy()
        array([4., 6.], dtype=float32)
    """
    where = None if axis is None else axis_setting(axis)
    return _sum(x, axis=where, keepdims=keepdims)


def _to_like_rule(g: Spec, x: Spec) -> Spec:
    return Spec(x.shape, g.dtype)


def _broadcast_axes(dims: tuple[int, ...], broadcast_dims: tuple[int, ...]) -> tuple[int, ...]:
    """The axes along which something of the shape `dims` was repeated to `broadcast_dims`."""
    added = len(broadcast_dims) - len(dims)
    return tuple(range(added)) + tuple(
        i + added for i, n in enumerate(dims) if n == 1 and broadcast_dims[i + added] != 1
    )


def _to_like_by_blas(g: Array, x: Array) -> Array | None:
    target, source = x.shape, g.shape
    if target == source or (not target and g.dtype is _F32):
        return None
    axes = _broadcast_axes(target, source)
    y = axis_sum(g, axes, True) if axes else None
    return None if y is None else y.reshape(target)


@primitive(
    _to_like_rule,
    semantics=ARRANGEMENT,
    reads={1: SHAPE},
    simplify=IF_ALIKE,
    lowering=TRACE,
    tuned=Tuned(_to_like_by_blas, fewest=FEWEST),
)
def sum_to_like(xp: ArrayModule, g: Array, x: Array) -> Array:
    """Sum of `g` over the axes along which `x` was broadcast to it, in the shape of `x`."""
    target, source = x.shape, g.shape
    if target == source:
        return g
    if not target and g.dtype is _F32:
        return xp.add.reduce(g, None)
    axes = _broadcast_axes(target, source)
    dtype = _SUMMED_IN[g.dtype] if g.dtype in _HALVES else g.dtype
    total = xp.add.reduce(g, axes, dtype) if axes else g
    if total.shape != target:
        total = total.reshape(target)
    return total if total.dtype is g.dtype else total.astype(g.dtype)


@primitive(_to_like_rule, semantics=VIEW, reads={1: SHAPE}, text="beside numbers")
def broadcast_like(xp: ArrayModule, x: Array, like: Array) -> Array:
    """`x` repeated along axes to the shape of `like`."""
    return xp.broadcast_to(x, like.shape)


sum_to_like.gradients(lambda g, y, big, x: broadcast_like(g, big), None)
sum_to_like.declare(stackable=Absent("it adds up numbers"))
broadcast_like.gradients(lambda g, y, x, like: sum_to_like(g, x), None)


@sum_to_like.batch_by
def _sum_to_like_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    g, x = inputs
    like = as_stack(x, len(g.shape), count)
    return reshaped(primitive.op(stacked(g, count), like), (count, *x.shape))


@broadcast_like.batch_by
def _broadcast_like_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    x, like = inputs
    return primitive.op(as_stack(x, len(like.shape), count), stacked(like, count))


# ------------------------------------------------------------------ means and moments


def _mean_by_blas(x: Array, *, axis: Axis, keepdims: bool) -> Array | None:
    total = axis_sum(x, axis, keepdims) if x.dtype is _F32 else wide_axis_sum(x, axis, keepdims)
    if total is None:
        return None
    mean = total / (x.size // total.size)
    return mean if mean.dtype == x.dtype else mean.astype(x.dtype)


@primitive(
    lambda x, *, axis, keepdims: Spec(
        shapes.reduced_dims(x.shape, axis, keepdims), shapes.float_dtype(x.dtype)
    ),
    name="mean",
    semantics=REDUCTION,
    tuned=Tuned(_mean_by_blas, fewest=FEWEST, unless=_not_by_blas),
    direct=Direct("mean", (np.add,)),
)
def _mean(xp: ArrayModule, x: Array, *, axis: Axis, keepdims: bool) -> Array:
    """Mean along axes."""
    if axis is not None:
        check_axes(x, axis, "mean")
    dtype = x.dtype
    if dtype is _F32:
        result_dtype = summed = dtype
    else:
        result_dtype = dtype if dtype.kind in "fcV" else np.dtype(dtypes.floatx())
        summed = _F32 if dtype in _HALVES else result_dtype
    total = xp.add.reduce(x, axis, summed, None, keepdims)
    count = x.size // total.size if total.size else 1
    mean = total / count if count else total * np.nan
    return mean if mean.dtype is result_dtype else mean.astype(result_dtype)


def _mean_gradient(g: Tensor, y: Tensor, x: Tensor, *, axis: Axis, keepdims: bool) -> Tensor | None:
    if not x.dtype.is_differentiable:
        return None
    return spread(g, x, axis=axis, keepdims=keepdims, mean=True)


_mean.gradients(_mean_gradient)


def _mean_gradient_on_arrays(g: Array, y: Array, x: Array, *, axis: Axis, keepdims: bool) -> Any:
    if x.dtype is not g.dtype:
        return NotImplemented
    if axis is None and not keepdims and x.size:
        return np.ndarray(x.shape, x.dtype, g / x.size, 0, (0,) * x.ndim)
    return _spread(np, g, x, axis=axis, keepdims=keepdims, mean=True)


_mean.array_gradients(_mean_gradient_on_arrays)
_mean.declare(stackable=over_last_axes)


def mean(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Mean of elements along `axis`.

    Returns:
        A tensor of the dtype of `x`, or of the default float if that is no float. The mean of
        nothing is NaN.

    Raises:
        ShapeError: an axis is out of range or named twice.

    Example:
        >>> tk.ops.mean([[1.0, 5.0], [2.0, 4.0]], axis=1).numpy()
        array([3., 3.], dtype=float32)
    """
    where = None if axis is None else axis_setting(axis)
    return _mean(x, axis=where, keepdims=keepdims)


def _variance_rule(x: Spec, *, axis: Axis, keepdims: bool) -> Spec:
    dtype = shapes.float_dtype(x.dtype.real_dtype)
    return Spec(shapes.reduced_dims(x.shape, axis, keepdims), dtype)


def _variance_by(
    xp: ArrayModule, x: Array, axis: Axis, keepdims: bool, total: Any, squares: Any
) -> Array:
    """The variance by functions that sum floats, and their squared distances to a mean."""
    check_axes(x, axis, "var")
    kind = x.dtype.kind
    floats = x if kind in "fc" and x.dtype.itemsize > 2 else x.astype(np.float32)
    sums = total(xp, floats, axis, True)
    count = x.size // sums.size if sums.size else 1
    if not count:
        nothing = xp.add.reduce(floats, axis, None, None, keepdims).real * np.nan
        return nothing.astype(x.dtype) if x.dtype in _HALVES else nothing
    variance = squares(xp, floats, sums / count, axis, keepdims) / count
    return variance.astype(x.dtype) if x.dtype in _HALVES else variance


def _total(xp: ArrayModule, x: Array, axis: Axis, keepdims: bool) -> Array:
    return xp.add.reduce(x, axis, None, None, keepdims)


_total_by_blas = with_tuned(_total, Tuned(axis_sum, fewest=FEWEST))
"""The sum of floats, by BLAS where that pays."""


def _square(x: Array, centre: Array) -> Array:
    """|x - centre|^2."""
    away = x - centre
    if x.dtype.kind == "c":
        return (away * away.conj()).real
    away *= away
    return away


def _squares(xp: ArrayModule, x: Array, centre: Array, axis: Axis, keepdims: bool) -> Array:
    return _total(xp, _square(x, centre), axis, keepdims)


def _squares_by_blas(xp: ArrayModule, x: Array, centre: Array, axis: Axis, keepdims: bool) -> Array:
    if x.size >= LARGE and centre.size == 1 and x.dtype.char in "fd":
        total = _squared_distances_to_one(x.reshape(-1), centre.item())
        shape = shapes.reduced_dims(x.shape, axis, keepdims)
        return np.full(shape, total) if shape else total
    return _total_by_blas(xp, _square(x, centre), axis, keepdims)


def _squared_distances_to_one(x: Array, centre: float) -> Any:
    """The sum of (x - centre)^2, for as many at a time as the caches hold, on all cores."""
    totals = []
    for start in range(0, x.size, 2 * LARGE):
        some = x[start : start + 2 * LARGE]
        call = WIDE[0] if WIDE and some.size >= LARGE else _call
        squares = squared_distances(some, centre) if call is _call else None
        if squares is None:
            away = call(np.subtract, some, centre)
            squares = call(np.multiply, away, away)
        enough = squares.size >= FEWEST
        totals.append((_total_by_blas if enough else _total)(np, squares, None, False))
    return np.add.reduce(np.array(totals))


def _call(ufunc: Any, *arrays: Any) -> Any:
    return ufunc(*arrays)


def _large_variance(x: Array, *, axis: Axis, keepdims: bool) -> Array:
    return _variance_by(np, x, axis, keepdims, _total_by_blas, _squares_by_blas)


@primitive(
    _variance_rule,
    name="var",
    semantics=REDUCTION,
    tuned=Tuned(_large_variance, fewest=FEWEST),
    direct=Direct("variance", (np.add, np.subtract, np.multiply)),
)
def _variance(xp: ArrayModule, x: Array, *, axis: Axis, keepdims: bool) -> Array:
    """Mean squared distance to the mean along axes."""
    return _variance_by(xp, x, axis, keepdims, _total, _squares)


def _variance_gradient(
    g: Tensor, y: Tensor, x: Tensor, *, axis: Axis, keepdims: bool
) -> Tensor | None:
    if not x.dtype.is_differentiable:
        return None
    share = spread(g, x, axis=axis, keepdims=keepdims, mean=True)
    centred = subtract(x, _mean(x, axis=axis, keepdims=True))
    return multiply(cast(share, x.dtype), multiply(centred, 2))


_variance.gradients(_variance_gradient)
_variance.declare(stackable=over_last_axes)


def var(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Variance along `axis`: the mean squared distance to the mean, dividing by n.

    Returns:
        A real tensor of the dtype of `x`, or of the default float if that is no float.

    Example:
        >>> float(tk.ops.var([1.0, 3.0]))
        1.0
    """
    return _variance(x, axis=axis_setting(axis), keepdims=keepdims)


def std(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Standard deviation along `axis`, the square root of `var`.

    Returns:
        A real tensor of the dtype of `x`, or of the default float if that is no float.

    Example:
        >>> float(tk.ops.std([1.0, 3.0]))
        1.0
    """
    return sqrt(var(x, axis, keepdims))


describe_arguments(
    globals(),
    """
    x: tensor of any shape.
    axis: int, sequence of ints, or `None` for all axes.
    keepdims: keep the reduced axes with size 1.
    """,
)
