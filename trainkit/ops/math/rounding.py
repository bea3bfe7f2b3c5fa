"""Rounding, whole division and its rest, signs and steps, element by element."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core import dtypes, shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import COMMON, ELEMENTWISE, FLAT, INTEGERS, Absent, Direct
from trainkit.core.dispatch.primitive import primitive, ufunc
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import DTypeLike, TensorLike
from trainkit.ops.math.comparisons import equal
from trainkit.ops.math.elementwise import cast, divide, multiply, negative, where

# ------------------------------------------------------------------ to whole numbers


@primitive(shapes.floating, semantics=ELEMENTWISE, no_gradient=FLAT)
def floor(xp: ArrayModule, x: Array) -> Array:
    """The greatest whole number not above x, as a float. It has no gradient.

    Example:
        >>> tk.math.floor([0.5, -0.5]).numpy()
        array([ 0., -1.], dtype=float32)
    """
    return xp.floor(x)


@primitive(shapes.floating, semantics=ELEMENTWISE, no_gradient=FLAT)
def ceil(xp: ArrayModule, x: Array) -> Array:
    """The least whole number not below x, as a float. It has no gradient.

    Example:
        >>> tk.math.ceil([0.5, 1.0]).numpy()
        array([1., 1.], dtype=float32)
    """
    return xp.ceil(x)


trunc = ufunc(
    np.trunc,
    shapes.unchanged,
    "The whole number next to x on the side of 0.",
    ("tk.ops.trunc([-1.7, 1.7]).numpy()", "array([-1.,  1.], dtype=float32)"),
    no_gradient=FLAT,
)
_rint = ufunc(
    np.rint,
    shapes.unchanged,
    "The nearest whole number; halves go to even.",
    ("tk.math.round([0.5, 1.5, 1.7]).numpy()", "array([0., 2., 2.], dtype=float32)"),
    name="round",
    no_gradient=FLAT,
)


def round(x: TensorLike, decimals: int = 0) -> Tensor:
    """The nearest number with `decimals` places; halves go to the even neighbour.

    Args:
        x: tensor of any shape; integers are rounded only by negative `decimals`.
        decimals: places after the point, negative for places before it.

    Returns:
        A tensor like `x`. It has no gradient.

    Example:
        >>> tk.ops.round([1.234], 2).numpy()
        array([1.23], dtype=float32)
    """
    x = x if isinstance(x, Tensor) else convert_to_tensor(x)
    if not x.dtype.is_differentiable:
        return x if decimals >= 0 else _rounded_integer(x, decimals)
    if not decimals:
        return _rint(x)
    scale = 10.0 ** abs(decimals)
    if decimals > 0:
        return divide(_rint(multiply(x, scale)), scale)
    return multiply(_rint(divide(x, scale)), scale)


def _rounded_integer(x: Tensor, decimals: int) -> Tensor:
    scale = 10**-decimals
    return cast(multiply(_rint(divide(cast(x, "float64"), scale)), scale), x.dtype)


# ------------------------------------------------------------------ whole division


def _divide(xp: ArrayModule, function: Any, a: Array, b: Array, op: str) -> Array:
    """Divide, but raise for an integer by 0, which has no result (floats give inf or NaN)."""
    if b.dtype.kind in "iub" and xp is np and not b.all():
        raise InvalidArgumentError(f"{op}: division of an integer by zero")
    if b.dtype.kind == "b":
        a, b = a.astype(np.int32), b.astype(np.int32)
    return function(a, b)


def _division_rule(a: Any, b: Any) -> Spec:
    result = shapes.broadcast(a, b)
    return Spec(result.shape, dtypes.int32) if result.dtype.is_bool else result


@primitive(
    _division_rule,
    promotion=COMMON,
    semantics=ELEMENTWISE,
    direct=Direct("division", (np.floor_divide,)),
    lowering=Absent("an integer divided by zero raises, which is seen by values"),
    no_gradient=FLAT,
)
def floor_divide(xp: ArrayModule, x1: Array, x2: Array) -> Array:
    """Greatest whole number not above x1 / x2; an integer divided by 0 raises on the CPU.

    Example:
        >>> tk.math.floordiv([5, -5], 2).numpy()
        array([ 2, -3], dtype=int32)
    """
    return _divide(xp, xp.floor_divide, x1, x2, "floor_divide")


@primitive(
    _division_rule,
    promotion=COMMON,
    semantics=ELEMENTWISE,
    direct=Direct("division", (np.remainder,)),
    lowering=Absent("an integer divided by zero raises, which is seen by values"),
)
def mod(xp: ArrayModule, x1: Array, x2: Array) -> Array:
    """Rest of x1 / x2 with the sign of x2; an integer divided by 0 raises on the CPU.

    Example:
        >>> tk.math.mod([5, -5], 3).numpy()
        array([2, 1], dtype=int32)
    """
    return _divide(xp, xp.remainder, x1, x2, "mod")


mod.primitive.broadcasts = True
mod.gradients(lambda g, y, a, b: g, lambda g, y, a, b: negative(multiply(g, floor_divide(a, b))))


@primitive(
    _division_rule,
    promotion=COMMON,
    semantics=ELEMENTWISE,
    direct=Direct("division", (np.fmod,)),
    lowering=Absent("an integer divided by zero raises, which is seen by values"),
)
def fmod(xp: ArrayModule, x1: Array, x2: Array) -> Array:
    """Rest of x1 / x2 with the sign of x1; an integer divided by 0 raises on the CPU.

    Example:
        >>> tk.ops.fmod([-5.0], [3.0]).numpy()
        array([-2.], dtype=float32)
    """
    return _divide(xp, xp.fmod, x1, x2, "fmod")


fmod.primitive.broadcasts = True
fmod.gradients(lambda g, y, a, b: g, lambda g, y, a, b: negative(multiply(g, trunc(divide(a, b)))))

gcd = ufunc(
    np.gcd,
    shapes.broadcast,
    "Greatest common divisor of two integers.",
    ("tk.ops.gcd([4], [6]).numpy()", "array([2], dtype=int32)"),
    no_gradient=INTEGERS,
)
lcm = ufunc(
    np.lcm,
    shapes.broadcast,
    "Least common multiple of two integers.",
    ("tk.ops.lcm([4], [6]).numpy()", "array([12], dtype=int32)"),
    no_gradient=INTEGERS,
)

# ------------------------------------------------------------------ signs and steps

signbit = ufunc(
    np.signbit,
    shapes.unchanged_bool,
    "Whether the sign is minus, also that of -0.0.",
    ("tk.ops.signbit([-1.0, 0.0]).numpy()", "array([ True, False])"),
)
copysign = ufunc(
    np.copysign,
    shapes.floating_broadcast,
    "Magnitude of x1 with the sign of x2.",
    ("tk.ops.copysign([1.0, 2.0], [-1.0, 1.0]).numpy()", "array([-1.,  2.], dtype=float32)"),
)
copysign.gradients(
    lambda g, y, a, b: multiply(g, multiply(copysign(1.0, a), copysign(1.0, b))), None
)

heaviside = ufunc(
    np.heaviside,
    shapes.wide_floating_broadcast,
    "0 below 0, 1 above it, and x2 at 0.",
    ("tk.ops.heaviside([-1.0, 0.0, 2.0], 0.5).numpy()", "array([0. , 0.5, 1. ], dtype=float32)"),
)
heaviside.gradients(None, lambda g, y, a, b: where(equal(a, 0), g, 0))

nextafter = ufunc(
    np.nextafter,
    shapes.floating_broadcast,
    "The float next to x1 towards x2.",
    ("bool(tk.math.nextafter(1.0, 2.0) > 1.0)", "True"),
    no_gradient=FLAT,
)

# ------------------------------------------------------------------ into a range


@primitive(
    lambda x, *, dtype: Spec(x.shape, dtype),
    name="saturate_cast",
    semantics=ELEMENTWISE,
    lowering=Absent("the ends of a range of integers may be beyond a kernel's numbers"),
)
def _saturate_cast(xp: ArrayModule, x: Array, *, dtype: str) -> Array:
    """Convert, with values beyond the range of the dtype at its ends."""
    target = dtypes.as_dtype(dtype)
    low, high = target.limits
    if x.dtype.kind not in "iub":
        # A float next to the greatest integer may lie beyond it, so the ends are put in by
        # comparison.
        inside = (x >= low) & (x <= high)
        clipped = xp.where(inside, x, 0).astype(target.dtype)
        clipped = xp.where(x >= high, xp.asarray(high, target.dtype), clipped)
        return xp.where(x <= low, xp.asarray(low, target.dtype), clipped)
    if target.is_floating:
        return x.astype(target.dtype)
    source_limits = dtypes.as_dtype(x.dtype).limits
    return xp.clip(x, max(low, source_limits[0]), min(high, source_limits[1])).astype(target.dtype)


def _saturate_gradient(g: Tensor, y: Tensor, x: Tensor, *, dtype: str) -> Tensor | None:
    if not (x.dtype.is_floating and y.dtype.is_floating):
        return None
    low, high = y.dtype.limits
    return cast(where((x >= low) & (x <= high), g, 0), x.dtype)


_saturate_cast.gradients(_saturate_gradient)


def saturate_cast(x: TensorLike, dtype: DTypeLike) -> Tensor:
    """Convert `x` to `dtype`; values beyond its range become its least or greatest value.

    Args:
        x: tensor of any shape.
        dtype: an element type; `None` for the default float.

    Returns:
        A tensor of the shape of `x`. NaN becomes 0 in integers.

    Raises:
        TypeError: `dtype` is complex or text, which have no range.

    Example:
        >>> tk.ops.saturate_cast([300.0, -5.0], "uint8").numpy()
        array([255,   0], dtype=uint8)
    """
    target = dtypes.as_dtype(dtypes.floatx() if dtype is None else dtype)
    x = x if isinstance(x, Tensor) else convert_to_tensor(x)
    if target.is_bool or target == x.dtype:
        return cast(x, target)
    _ = target.limits  # raises for a dtype without a range
    return _saturate_cast(x, dtype=target.name)
