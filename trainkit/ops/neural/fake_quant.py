"""Numbers as they come back from few bits, with a gradient: fake quantization."""

from __future__ import annotations

from typing import Any

from trainkit.core import shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import ELEMENTWISE, FLAT, Absent
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.tensor import Tensor
from trainkit.ops.math.comparisons import greater, greater_equal, less, less_equal, logical_and
from trainkit.ops.math.elementwise import add, divide, multiply, subtract, where
from trainkit.ops.math.rounding import floor
from trainkit.ops.math.value_limits import clip

# name: bits of the mantissa, exponent of the least normal number, greatest number
FLOAT8 = {"float8_e4m3fn": (3, -6, 448.0), "float8_e5m2": (2, -14, 57344.0)}
"""The formats of 8 bits that `float8_rounded` knows."""


@primitive(shapes.floating_broadcast, semantics=ELEMENTWISE)
def fake_quant(
    xp: ArrayModule, x: Array, low: Array, high: Array, *, num_bits: int, narrow_range: bool
) -> Array:
    """`x` clipped to [low, high] and rounded to one of the `2**num_bits` numbers there.

    The interval is moved so that 0 is one of them. Formula: TensorFlow's
    `fake_quant_with_min_max_vars`. Inside of the interval the gradient is that of the identity;
    outside it is that of the end to which `x` is clipped.
    """
    lowest, greatest = int(narrow_range), 2**num_bits - 1
    empty = high == low
    width = xp.where(empty, 1, high - low)
    scale, inverse = width / (greatest - lowest), (greatest - lowest) / width
    zero = xp.floor(xp.minimum(xp.maximum(lowest - low / scale, lowest), greatest) + 0.5)
    start, end = (lowest - zero) * scale, (greatest - zero) * scale
    first = xp.floor(0.5 - start * inverse)
    steps = (xp.minimum(xp.maximum(x, start), end) - start) * inverse
    return xp.where(empty, 0, xp.floor(steps - first + 0.5) * scale)


def _ends(low: Tensor, high: Tensor, num_bits: int, narrow_range: bool) -> tuple[Any, Any]:
    """The ends of the interval after it was moved."""
    lowest, greatest = int(narrow_range), 2**num_bits - 1
    scale = divide(subtract(high, low), greatest - lowest)
    zero = floor(add(clip(subtract(lowest, divide(low, scale)), lowest, greatest), 0.5))
    return multiply(subtract(lowest, zero), scale), multiply(subtract(greatest, zero), scale)


def _by_x(g: Tensor, y: Tensor, x: Tensor, low: Tensor, high: Tensor, **settings: Any) -> Any:
    start, end = _ends(low, high, **settings)
    return where(logical_and(greater_equal(x, start), less_equal(x, end)), g, 0.0)


def _by_low(g: Tensor, y: Tensor, x: Tensor, low: Tensor, high: Tensor, **settings: Any) -> Any:
    return where(less(x, _ends(low, high, **settings)[0]), g, 0.0)


def _by_high(g: Tensor, y: Tensor, x: Tensor, low: Tensor, high: Tensor, **settings: Any) -> Any:
    return where(greater(x, _ends(low, high, **settings)[1]), g, 0.0)


fake_quant.gradients(_by_x, _by_low, _by_high)


@primitive(
    shapes.unchanged,
    semantics=ELEMENTWISE,
    no_gradient=FLAT,
    lowering=Absent("it takes floats apart"),
)
def float8_rounded(xp: ArrayModule, x: Array, *, kind: str) -> Array:
    """The nearest number of a format of 8 bits, the even one of two; greater ones are clipped."""
    mantissa, lowest, greatest = FLOAT8[kind]
    floats = x.astype("float32") if x.dtype.itemsize < 4 else x
    clipped = xp.minimum(xp.maximum(floats, -greatest), greatest)
    _, exponent = xp.frexp(xp.maximum(xp.abs(clipped), 2.0**lowest))  # fractions in [1/2, 1)
    step = xp.ldexp(xp.ones_like(floats), exponent - (mantissa + 1))
    rounded = xp.rint(clipped / step) * step
    return rounded.astype(x.dtype, copy=False)
