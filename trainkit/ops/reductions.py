"""Reductions: sums, means, extremes and counts along axes, and the sums that undo broadcasting.

`axis` is an int, a sequence of ints, or `None` for all axes; `keepdims=True` keeps reduced axes
with size 1. Sums of small integers are int32 or uint32, as in Keras 3; floats of 16 bits are summed
in float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core import dtypes, shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.primitive import primitive
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor
from trainkit.kernels.reductions_cpu import (
    FEWEST,
    leading_sum,
    row_extreme,
    spatial_sum,
    whole_sum,
)
from trainkit.ops.elementwise import (
    cast,
    divide,
    equal,
    exp,
    keep_where,
    multiply,
    sqrt,
    subtract,
)

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
_F32 = np.dtype(np.float32)
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


def _sum_rule(x: Spec, *, axis: Axis, keepdims: bool) -> Spec:
    return Spec(shapes.reduced_dims(x.shape, axis, keepdims), summed_dtype(x.dtype))


# ------------------------------------------------------------------ sums and their gradients


@primitive(_sum_rule, name="sum")
def _sum(xp: ArrayModule, x: Array, *, axis: Axis, keepdims: bool) -> Array:
    """Sum along axes."""
    if axis is not None:
        check_axes(x, axis, "sum")
        if axis == 0 and xp is np and x.ndim > 1 and x.size >= FEWEST and x.dtype.kind == "f":
            if x.dtype not in _HALVES:
                total = leading_sum(x, 1)
                return total[None] if keepdims else total
    if xp is np and x.size >= FEWEST and (found := whole_sum(x, axis, keepdims)) is not None:
        return found
    if x.dtype is _F32:
        return xp.add.reduce(x, axis, None, None, keepdims)
    total = xp.add.reduce(x, axis, _SUMMED_IN.get(x.dtype), None, keepdims)
    return total.astype(x.dtype) if x.dtype in _HALVES else total


def _spread_rule(g: Spec, x: Spec, *, axis: Axis, keepdims: bool, mean: bool) -> Spec:
    return Spec(x.shape, g.dtype)


@primitive(_spread_rule)
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


def _reduce(x: Tensor, axis: Axis, keepdims: bool, mean: bool) -> Tensor:
    reduce = _mean if mean else _sum
    return reduce(x, axis=axis, keepdims=keepdims)  # type: ignore[no-any-return]


def _sum_gradient(g: Tensor, y: Tensor, x: Tensor, *, axis: Axis, keepdims: bool) -> Tensor:
    return spread(g, x, axis=axis, keepdims=keepdims, mean=False)  # type: ignore[no-any-return]


_sum.gradients(_sum_gradient)
_sum.array_gradients(
    lambda g, y, x, *, axis, keepdims: _spread(np, g, x, axis=axis, keepdims=keepdims, mean=False)
)


def sum(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Sum of elements along `axis`.

    Args:
        x: tensor of any shape.
        axis: int, sequence of ints, or `None` for all axes.
        keepdims: keep the reduced axes with size 1.

    Returns:
        A tensor of the dtype of `x`; bool and integers under 32 bits grow to 32 bits.

    Raises:
        ShapeError: an axis is out of range or named twice.
    """
    return _sum(x, axis=axis_setting(axis), keepdims=keepdims)  # type: ignore[no-any-return]


def _to_like_rule(g: Spec, x: Spec) -> Spec:
    return Spec(x.shape, g.dtype)


@primitive(_to_like_rule)
def sum_to_like(xp: ArrayModule, g: Array, x: Array) -> Array:
    """Sum of `g` over the axes along which `x` was broadcast to it, in the shape of `x`."""
    wanted, given = x.shape, g.shape
    if wanted == given:
        return g
    if not wanted and g.dtype is _F32:
        return xp.add.reduce(g, None)
    added = len(given) - len(wanted)
    axes = tuple(range(added)) + tuple(
        i + added for i, n in enumerate(wanted) if n == 1 and given[i + added] != 1
    )
    if xp is np and g.size >= FEWEST and axes == tuple(range(len(axes))) and axes:
        if g.dtype not in _HALVES:
            return leading_sum(g, len(axes)).reshape(wanted)
    dtype = _SUMMED_IN[g.dtype] if g.dtype in _HALVES else g.dtype
    total = xp.add.reduce(g, axes, dtype) if axes else g
    if total.shape != wanted:
        total = total.reshape(wanted)
    return total if total.dtype is g.dtype else total.astype(g.dtype)


@primitive(_to_like_rule)
def broadcast_like(xp: ArrayModule, x: Array, like: Array) -> Array:
    """`x` repeated along axes to the shape of `like`."""
    return xp.broadcast_to(x, like.shape)


sum_to_like.gradients(lambda g, y, big, x: broadcast_like(g, big), None)
broadcast_like.gradients(lambda g, y, x, like: sum_to_like(g, x), None)

# ------------------------------------------------------------------ means and moments


def _mean_rule(x: Spec, *, axis: Axis, keepdims: bool) -> Spec:
    return Spec(shapes.reduced_dims(x.shape, axis, keepdims), shapes.float_dtype(x.dtype))


@primitive(_mean_rule, name="mean")
def _mean(xp: ArrayModule, x: Array, *, axis: Axis, keepdims: bool) -> Array:
    """Mean along axes."""
    if axis is not None:
        check_axes(x, axis, "mean")
    dtype = x.dtype
    if dtype is _F32:
        wanted = summed = dtype
    else:
        wanted = dtype if dtype.kind in "fcV" else np.dtype(dtypes.floatx())
        summed = _F32 if dtype in _HALVES else wanted
    total = None
    if xp is np and x.size >= FEWEST:
        total = whole_sum(x, axis, keepdims)
        total = spatial_sum(x, axis, keepdims) if total is None else total
    if total is None:
        total = xp.add.reduce(x, axis, summed, None, keepdims)
    count = x.size // total.size if total.size else 1
    mean = total / count if count else total * np.nan
    return mean if mean.dtype is wanted else mean.astype(wanted)


def _mean_gradient(g: Tensor, y: Tensor, x: Tensor, *, axis: Axis, keepdims: bool) -> Tensor | None:
    if not x.dtype.is_differentiable:
        return None
    return spread(g, x, axis=axis, keepdims=keepdims, mean=True)  # type: ignore[no-any-return]


_mean.gradients(_mean_gradient)


def _mean_gradient_on_arrays(g: Array, y: Array, x: Array, *, axis: Axis, keepdims: bool) -> Any:
    if x.dtype is not g.dtype:
        return NotImplemented
    if axis is None and not keepdims and x.size:
        return np.ndarray(x.shape, x.dtype, g / x.size, 0, (0,) * x.ndim)
    return _spread(np, g, x, axis=axis, keepdims=keepdims, mean=True)


_mean.array_gradients(_mean_gradient_on_arrays)


def mean(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Mean of elements along `axis`.

    Args:
        x: tensor of any shape.
        axis: int, sequence of ints, or `None` for all axes.
        keepdims: keep the reduced axes with size 1.

    Returns:
        A tensor of the dtype of `x`, or of the default float if that is no float. The mean of
        nothing is NaN.

    Raises:
        ShapeError: an axis is out of range or named twice.
    """
    return _mean(x, axis=axis_setting(axis), keepdims=keepdims)  # type: ignore[no-any-return]


def _variance_rule(x: Spec, *, axis: Axis, keepdims: bool) -> Spec:
    dtype = shapes.float_dtype(x.dtype.real_dtype)
    return Spec(shapes.reduced_dims(x.shape, axis, keepdims), dtype)


@primitive(_variance_rule, name="var")
def _variance(xp: ArrayModule, x: Array, *, axis: Axis, keepdims: bool) -> Array:
    """Mean squared distance to the mean along axes."""
    check_axes(x, axis, "var")
    kind = x.dtype.kind
    x_wide = x if kind in "fc" and x.dtype.itemsize > 2 else x.astype(np.float32)
    total = xp.add.reduce(x_wide, axis, None, None, True)
    count = x.size // total.size if total.size else 1
    if not count:
        return xp.add.reduce(x_wide, axis, None, None, keepdims).real * np.nan
    centred = x_wide - total / count
    squares = (centred * centred.conj()).real if kind == "c" else centred * centred
    variance = xp.add.reduce(squares, axis, None, None, keepdims) / count
    return variance.astype(x.dtype) if x.dtype in _HALVES else variance


def _variance_gradient(
    g: Tensor, y: Tensor, x: Tensor, *, axis: Axis, keepdims: bool
) -> Tensor | None:
    if not x.dtype.is_differentiable:
        return None
    share = spread(g, x, axis=axis, keepdims=keepdims, mean=True)
    centred = subtract(x, _mean(x, axis=axis, keepdims=True))
    return multiply(cast(share, x.dtype), multiply(centred, 2))  # type: ignore[no-any-return]


_variance.gradients(_variance_gradient)


def var(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Variance along `axis`: the mean squared distance to the mean, dividing by n.

    Args:
        x: tensor of any shape.
        axis: int, sequence of ints, or `None` for all axes.
        keepdims: keep the reduced axes with size 1.

    Returns:
        A real tensor of the dtype of `x`, or of the default float if that is no float.
    """
    return _variance(x, axis=axis_setting(axis), keepdims=keepdims)  # type: ignore[no-any-return]


def std(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Standard deviation along `axis`, the square root of `var`.

    Args:
        x: tensor of any shape.
        axis: int, sequence of ints, or `None` for all axes.
        keepdims: keep the reduced axes with size 1.

    Returns:
        A real tensor of the dtype of `x`, or of the default float if that is no float.
    """
    return sqrt(var(x, axis, keepdims))  # type: ignore[no-any-return]


@primitive(_mean_rule, name="logsumexp")
def _logsumexp(xp: ArrayModule, x: Array, *, axis: Axis, keepdims: bool) -> Array:
    """Logarithm of the sum of exponentials along axes."""
    check_axes(x, axis, "logsumexp")
    if x.dtype.kind in "iub":
        x = x.astype(dtypes.floatx())
    if not x.size:
        return xp.log(_sum.primitive.kernel(xp, x, axis=axis, keepdims=keepdims))
    top = _extreme(xp, "max", x, axis, True)
    limit = _GREATEST[x.dtype]
    top = xp.minimum(xp.maximum(top, -limit), limit)  # inf - inf would be NaN
    total = xp.log(xp.add.reduce(xp.exp(x - top), axis, None, None, keepdims))
    return total + top.reshape(total.shape)


def _logsumexp_gradient(
    g: Tensor, y: Tensor, x: Tensor, *, axis: Axis, keepdims: bool
) -> Tensor | None:
    if not x.dtype.is_differentiable:
        return None
    settings = {"axis": axis, "keepdims": keepdims, "mean": False}
    return multiply(spread(g, x, **settings), exp(subtract(x, spread(y, x, **settings))))  # type: ignore[no-any-return]


_logsumexp.gradients(_logsumexp_gradient)


def logsumexp(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """log(sum(exp(x))) along `axis`, without overflow.

    Args:
        x: tensor of any shape.
        axis: int, sequence of ints, or `None` for all axes.
        keepdims: keep the reduced axes with size 1.

    Returns:
        A tensor of the dtype of `x`, or of the default float if that is no float.
    """
    return _logsumexp(x, axis=axis_setting(axis), keepdims=keepdims)  # type: ignore[no-any-return]


# ------------------------------------------------------------------ extremes


def _reduced_extreme(
    xp: ArrayModule, x: Array, name: str, axis: Axis, keepdims: bool, initial: Any
) -> Array:
    check_axes(x, axis, name)
    if x.size >= FEWEST and initial is None:
        found = row_extreme(name, x, axis, keepdims)
        if found is not None:
            return found
    if initial is None:
        return _extreme(xp, name, x, axis, keepdims)
    pick = xp.maximum if name == "max" else xp.minimum
    if xp is np:
        return pick.reduce(x, axis, None, None, keepdims, initial)
    start = xp.asarray(initial, x.dtype)
    if not x.size:
        return xp.full(shapes.reduced_dims(x.shape, axis, keepdims), start)
    return pick(_extreme(xp, name, x, axis, keepdims), start)


def _extreme(xp: ArrayModule, name: str, x: Array, axis: Axis, keepdims: bool) -> Array:
    """`xp.max` or `xp.min`; CuPy's ufuncs can't reduce, and NumPy's skip a wrapper."""
    if xp is np:
        pick = xp.maximum if name == "max" else xp.minimum
        return pick.reduce(x, axis, None, None, keepdims)
    return getattr(xp, name)(x, axis, None, keepdims)


def _extreme_rule(x: Spec, *, axis: Axis, keepdims: bool, initial: Any) -> Spec:
    return Spec(shapes.reduced_dims(x.shape, axis, keepdims), x.dtype)


@primitive(_extreme_rule, name="max")
def _max(xp: ArrayModule, x: Array, *, axis: Axis, keepdims: bool, initial: Any) -> Array:
    """Greatest element along axes; NaN wins."""
    return _reduced_extreme(xp, x, "max", axis, keepdims, initial)


@primitive(_extreme_rule, name="min")
def _min(xp: ArrayModule, x: Array, *, axis: Axis, keepdims: bool, initial: Any) -> Array:
    """Least element along axes; NaN wins."""
    return _reduced_extreme(xp, x, "min", axis, keepdims, initial)


def _extreme_gradient(
    g: Tensor, y: Tensor, x: Tensor, *, axis: Axis, keepdims: bool, initial: Any
) -> Tensor:
    """`g` in equal shares to the elements that have the extreme value."""
    settings = {"axis": axis, "keepdims": keepdims, "mean": False}
    reached = equal(x, spread(y, x, **settings))
    count = _sum(cast(reached, g.dtype), axis=axis, keepdims=keepdims)
    if initial is not None:  # nothing reaches an extreme that is the initial value
        count = _max(count, axis=(), keepdims=False, initial=1)
    return keep_where(spread(divide(g, count), x, **settings), reached)  # type: ignore[no-any-return]


_max.gradients(_extreme_gradient)
_min.gradients(_extreme_gradient)


def _initial_setting(initial: Any) -> Any:
    if initial is None or isinstance(initial, int | float):
        return initial
    return np.asarray(initial).item()


def max(x: Any, axis: Axis = None, keepdims: bool = False, initial: Any = None) -> Tensor:
    """Greatest element along `axis`. Equal greatest ones share the gradient equally.

    Args:
        x: tensor of any shape.
        axis: int, sequence of ints, or `None` for all axes.
        keepdims: keep the reduced axes with size 1.
        initial: a number that counts as one more element; an empty axis needs it.

    Returns:
        A tensor of the dtype of `x`.

    Raises:
        InvalidArgumentError: an axis of size 0 is reduced without `initial`.
    """
    return _max(  # type: ignore[no-any-return]
        x, axis=axis_setting(axis), keepdims=keepdims, initial=_initial_setting(initial)
    )


def min(x: Any, axis: Axis = None, keepdims: bool = False, initial: Any = None) -> Tensor:
    """Least element along `axis`. Equal least ones share the gradient equally.

    Args:
        x: tensor of any shape.
        axis: int, sequence of ints, or `None` for all axes.
        keepdims: keep the reduced axes with size 1.
        initial: a number that counts as one more element; an empty axis needs it.

    Returns:
        A tensor of the dtype of `x`.

    Raises:
        InvalidArgumentError: an axis of size 0 is reduced without `initial`.
    """
    return _min(  # type: ignore[no-any-return]
        x, axis=axis_setting(axis), keepdims=keepdims, initial=_initial_setting(initial)
    )


def _position_rule(x: Spec, *, axis: int | None, keepdims: bool, dtype: str) -> Spec:
    return Spec(shapes.reduced_dims(x.shape, axis, keepdims), dtype)


@primitive(_position_rule, name="argmax")
def _argmax(xp: ArrayModule, x: Array, *, axis: Any, keepdims: bool, dtype: str) -> Array:
    """Position of the greatest element."""
    check_axes(x, axis, "argmax")
    return xp.argmax(x, axis=axis, keepdims=keepdims).astype(dtype)


@primitive(_position_rule, name="argmin")
def _argmin(xp: ArrayModule, x: Array, *, axis: Any, keepdims: bool, dtype: str) -> Array:
    """Position of the least element."""
    check_axes(x, axis, "argmin")
    return xp.argmin(x, axis=axis, keepdims=keepdims).astype(dtype)


def argmax(x: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Position of the greatest element along `axis`; the first of equal ones.

    Args:
        x: tensor of any shape.
        axis: int, or `None` for the position in the flattened tensor.
        keepdims: keep the reduced axis with size 1.

    Returns:
        An int32 tensor.

    Raises:
        InvalidArgumentError: the axis has size 0.
    """
    return _argmax(x, axis=axis_setting(axis), keepdims=keepdims, dtype="int32")  # type: ignore[no-any-return]


def argmin(x: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Position of the least element along `axis`; the first of equal ones.

    Args:
        x: tensor of any shape.
        axis: int, or `None` for the position in the flattened tensor.
        keepdims: keep the reduced axis with size 1.

    Returns:
        An int32 tensor.

    Raises:
        InvalidArgumentError: the axis has size 0.
    """
    return _argmin(x, axis=axis_setting(axis), keepdims=keepdims, dtype="int32")  # type: ignore[no-any-return]
