"""Maxima and minima along axes, and where they are.

`axis` and `keepdims` are those of the reductions. A NaN is greater and less than all numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core import shapes
from trainkit.core.devices import Array, ArrayModule, number_on
from trainkit.core.dispatch.facets import INTEGERS, REDUCTION, Absent, Direct, Tuned
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.kernels.elementwise.half_casts_tuned import run_in_float32
from trainkit.kernels.reductions.reductions_tuned import FEWEST, axis_extreme
from trainkit.ops.core.vmap import later, reshaped
from trainkit.ops.math.comparisons import equal
from trainkit.ops.math.elementwise import cast, divide, multiply
from trainkit.ops.math.reductions import Axis, axis_setting, check_axes, spread
from trainkit.ops.math.reductions import sum as total


def _reduced_extreme(
    xp: ArrayModule, x: Array, name: str, axis: Axis, keepdims: bool, initial: Any
) -> Array:
    check_axes(x, axis, name)
    if initial is None:
        return extreme(xp, name, x, axis, keepdims)
    pick = xp.maximum if name == "max" else xp.minimum
    if xp is np:
        return pick.reduce(x, axis, None, None, keepdims, initial)
    start = number_on(xp, initial, x.dtype)
    if not x.size:
        return xp.full(shapes.reduced_dims(x.shape, axis, keepdims), start)
    return pick(extreme(xp, name, x, axis, keepdims), start)


def extreme(xp: ArrayModule, name: str, x: Array, axis: Axis, keepdims: bool) -> Array:
    """`xp.max` or `xp.min`; CuPy's ufuncs can't reduce, and NumPy's skip a wrapper."""
    if xp is np:
        pick = xp.maximum if name == "max" else xp.minimum
        return pick.reduce(x, axis, None, None, keepdims)
    return getattr(xp, name)(x, axis, None, keepdims)


def _extreme_rule(x: Spec, *, axis: Axis, keepdims: bool, initial: Any) -> Spec:
    return Spec(shapes.reduced_dims(x.shape, axis, keepdims), x.dtype)


def _make_tuned(name: str) -> Tuned:
    def run(x: Array, *, axis: Axis, keepdims: bool, initial: Any) -> Array | None:
        return axis_extreme(name, x, axis, keepdims) if initial is None else None

    def find(x: Array, *, axis: Axis, keepdims: bool) -> Array:
        y = axis_extreme(name, x, axis, keepdims)
        return extreme(np, name, x, axis, keepdims) if y is None else y

    def run_on_bfloat16(x: Array, *, initial: Any, **settings: Any) -> Array | None:
        # float32 is exact, and its loops are ten times as fast
        if initial is not None or x.size < FEWEST:
            return None
        y: Array = run_in_float32(find, x, **settings)
        return y

    return Tuned(run, fewest=FEWEST, on_bfloat16=run_on_bfloat16)


@primitive(
    _extreme_rule,
    name="max",
    semantics=REDUCTION,
    tuned=_make_tuned("max"),
    direct=Direct("reduction", (np.maximum,)),
)
def _max(xp: ArrayModule, x: Array, *, axis: Axis, keepdims: bool, initial: Any) -> Array:
    """Greatest element along axes; NaN wins."""
    return _reduced_extreme(xp, x, "max", axis, keepdims, initial)


@primitive(
    _extreme_rule,
    name="min",
    semantics=REDUCTION,
    tuned=_make_tuned("min"),
    direct=Direct("reduction", (np.minimum,)),
)
def _min(xp: ArrayModule, x: Array, *, axis: Axis, keepdims: bool, initial: Any) -> Array:
    """Least element along axes; NaN wins."""
    return _reduced_extreme(xp, x, "min", axis, keepdims, initial)


def _extreme_gradient(
    g: Tensor, y: Tensor, x: Tensor, *, axis: Axis, keepdims: bool, initial: Any
) -> Tensor:
    """`g` in equal shares to the elements that have the extreme value; NaN where that is NaN."""
    settings = {"axis": axis, "keepdims": keepdims, "mean": False}
    reached = cast(equal(x, spread(y, x, **settings)), g.dtype)
    count = total(reached, axis=axis, keepdims=keepdims)  # 0 beside a NaN, which equals nothing
    if initial is not None:  # nothing reaches an extreme that is the initial value
        count = _max(count, axis=(), keepdims=False, initial=1)
    return multiply(spread(divide(g, count), x, **settings), reached)


_max.gradients(_extreme_gradient)
_max.declare(stackable=True)
_min.gradients(_extreme_gradient)
_min.declare(stackable=True)


def _initial_setting(initial: Any) -> Any:
    if initial is None or isinstance(initial, int | float):
        return initial
    return np.asarray(initial).item()


def max(x: TensorLike, axis: Axis = None, keepdims: bool = False, initial: Any = None) -> Tensor:
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

    Example:
        >>> tk.ops.max([[1.0, 5.0], [2.0, 3.0]], axis=0).numpy()
        array([2., 5.], dtype=float32)
    """
    return _max(x, axis=axis_setting(axis), keepdims=keepdims, initial=_initial_setting(initial))


def min(x: TensorLike, axis: Axis = None, keepdims: bool = False, initial: Any = None) -> Tensor:
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

    Example:
        >>> tk.ops.min([[1.0, 5.0], [2.0, 3.0]], axis=0).numpy()
        array([1., 3.], dtype=float32)
    """
    return _min(x, axis=axis_setting(axis), keepdims=keepdims, initial=_initial_setting(initial))


def _position_rule(x: Spec, *, axis: int | None, keepdims: bool, dtype: str) -> Spec:
    return Spec(shapes.reduced_dims(x.shape, axis, keepdims), dtype)


def _position(
    xp: ArrayModule, name: str, x: Array, axis: int | None, keepdims: bool, dtype: str
) -> Array:
    if xp is np and not keepdims:  # the method itself, behind no wrapper in Python
        positions = x.argmax(axis) if name == "argmax" else x.argmin(axis)
    else:
        positions = getattr(xp, name)(x, axis=axis, keepdims=keepdims)
    return positions.astype(dtype, copy=False)


@primitive(
    _position_rule,
    name="argmax",
    semantics=REDUCTION,
    direct=Direct("position", (True,)),
    lowering=Absent("positions of maxima are found in order"),
    no_gradient=INTEGERS,
)
def argmax_as(xp: ArrayModule, x: Array, *, axis: Any, keepdims: bool, dtype: str) -> Array:
    """Position of the greatest element."""
    check_axes(x, axis, "argmax")
    return _position(xp, "argmax", x, axis, keepdims, dtype)


argmax_as.declare(stackable=True)


@primitive(
    _position_rule,
    name="argmin",
    semantics=REDUCTION,
    direct=Direct("position", (False,)),
    lowering=Absent("positions of maxima are found in order"),
    no_gradient=INTEGERS,
)
def argmin_as(xp: ArrayModule, x: Array, *, axis: Any, keepdims: bool, dtype: str) -> Array:
    """Position of the least element."""
    check_axes(x, axis, "argmin")
    return _position(xp, "argmin", x, axis, keepdims, dtype)


argmin_as.declare(stackable=True)


@argmax_as.batch_by
@argmin_as.batch_by
def _position_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    """Without an axis, the position in the flattened value."""
    stack, axis, rank = inputs[0].stacked, settings["axis"], len(inputs[0].shape)
    if axis is not None:
        return primitive.op(stack, **{**settings, "axis": later(axis)})
    flat = reshaped(stack, (count, -1))
    y = primitive.op(flat, **{**settings, "axis": 1, "keepdims": False})
    return reshaped(y, (count, *(1,) * rank)) if settings["keepdims"] else y


def argmax(x: TensorLike, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Position of the greatest element along `axis`; the first of equal ones.

    Args:
        x: tensor of any shape.
        axis: int, or `None` for the position in the flattened tensor.
        keepdims: keep the reduced axis with size 1.

    Returns:
        An int32 tensor.

    Raises:
        InvalidArgumentError: the axis has size 0.

    Example:
        >>> int(tk.ops.argmax([1.0, 3.0, 2.0]))
        1
    """
    return argmax_as(x, axis=axis_setting(axis), keepdims=keepdims, dtype="int32")


def argmin(x: TensorLike, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Position of the least element along `axis`; the first of equal ones.

    Args:
        x: tensor of any shape.
        axis: int, or `None` for the position in the flattened tensor.
        keepdims: keep the reduced axis with size 1.

    Returns:
        An int32 tensor.

    Raises:
        InvalidArgumentError: the axis has size 0.

    Example:
        >>> int(tk.ops.argmin([1.0, 3.0, 0.0]))
        2
    """
    return argmin_as(x, axis=axis_setting(axis), keepdims=keepdims, dtype="int32")
