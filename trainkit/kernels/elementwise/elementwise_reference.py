"""Element-wise formulas over `xp`, which operations run and kernels are written from."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

Array = Any

# GELU by tanh(scale * (x + cubic * x**3)).
TANH_SCALE, CUBIC = math.sqrt(2 / math.pi), 0.044715
DENSITY = 1 / math.sqrt(2 * math.pi)

# Coefficients of polynomials, highest power first.
# erf(x) / x in x**2 for |x| <= 4: least squares weighted to equal relative errors, at most 2.5e-8.
_ERF_TOP = (
    1.986648191844802e-06, 0.00028455542942285256, 0.003883339700814107,
    0.05310175418127554, 0.1935464549078571, 1.1283791394067937,
)  # fmt: skip
_ERF_BOTTOM = (
    3.741820720134403e-05, 0.001185549400101956, 0.015207271334095171,
    0.11535041196506143, 0.5048586373291866, 1.0,
)  # fmt: skip
# exp(t**2 / 2) times the normal distribution function of -t, for 0 <= t <= 13.2665: least squares
# weighted to equal relative errors.
_MILLS_TOP = (
    2.1165280294169975e-07, 0.014576691117281501, 0.10857582039537265,
    0.34170183700256435, 0.4999999286043085,
)  # fmt: skip
_MILLS_BOTTOM = (
    0.03656405080589212, 0.2716341301620386, 0.8991085342080644, 1.481280571431044, 1.0,
)  # fmt: skip

# ------------------------------------------------------------------ rectifiers and limits


def relu(xp: Any, x: Array) -> Array:
    """max(x, 0)."""
    return xp.maximum(x, 0)


def relu6(xp: Any, x: Array) -> Array:
    """min(max(x, 0), 6)."""
    return xp.minimum(xp.maximum(x, 0), 6)


def relu_gradient(xp: Any, g: Array, y: Array) -> Array:
    """`g` where y > 0, else g * 0."""
    return g * (y > 0)


def leaky_relu(xp: Any, x: Array, *, negative_slope: float) -> Array:
    """`x` above 0, negative_slope * x below it, with a slope in (0, 1]: the greater of the two."""
    return xp.maximum(x, x * negative_slope)


def clip(xp: Any, x: Array, *, x_min: float, x_max: float) -> Array:
    """min(max(x, x_min), x_max)."""
    return xp.minimum(xp.maximum(x, x_min), x_max)


def soft_shrink(xp: Any, x: Array, *, threshold: float) -> Array:
    """`x` moved towards 0 by the threshold, 0 within it."""
    return xp.where(x > threshold, x - threshold, xp.where(-x > threshold, x + threshold, 0))


def hard_shrink(xp: Any, x: Array, *, threshold: float) -> Array:
    """`x` beyond the threshold, 0 within it."""
    return xp.where(xp.abs(x) > threshold, x, 0)


def sparse_plus(xp: Any, x: Array) -> Array:
    """0 below -1, (x + 1)**2 / 4 up to 1, then x."""
    bend = 0.25 * (x + 1) * (x + 1)
    return xp.where(x >= 1, x, xp.where(x <= -1, 0, bend))


def huber_penalty(xp: Any, x: Array, *, delta: float) -> Array:
    """x**2 / 2 up to `delta` on either side of 0, a straight line beyond."""
    size = xp.abs(x)
    bounded = xp.minimum(size, delta)
    return bounded * (size - 0.5 * bounded)


def nan_to_num(xp: Any, x: Array, *, nan: float, posinf: float, neginf: float) -> Array:
    """`x` with numbers for NaN and infinities."""
    finite_above = xp.where(x == -np.inf, neginf, x)
    return xp.where(xp.isnan(x), nan, xp.where(x == np.inf, posinf, finite_above))


# ------------------------------------------------------------------ sigmoids


def sigmoid(xp: Any, x: Array) -> Array:
    """1 / (1 + e**-x)."""
    return 1 / (1 + xp.exp(-x))


def hard_sigmoid(xp: Any, x: Array) -> Array:
    """x / 6 + 1/2, between 0 and 1."""
    return xp.minimum(xp.maximum(x / 6 + 0.5, 0), 1)


def hard_silu(xp: Any, x: Array) -> Array:
    """x * hard_sigmoid(x)."""
    return x * hard_sigmoid(xp, x)


def hard_silu_gradient(xp: Any, g: Array, x: Array) -> Array:
    """g * (hard_sigmoid(x) + x / 6 between -3 and 3)."""
    rise = xp.where(x > -3, xp.where(x < 3, x * (1 / 6), 0), 0)
    return g * (hard_sigmoid(xp, x) + rise)


def softplus(xp: Any, x: Array) -> Array:
    """log(1 + e**x), without overflow."""
    # NumPy's logaddexp takes ten times as long on large arrays.
    return xp.maximum(x, 0) + xp.log1p(xp.exp(-xp.abs(x)))


def silu(xp: Any, x: Array) -> Array:
    """x * sigmoid(x)."""
    return x / (1 + xp.exp(-x))


def silu_gradient(xp: Any, g: Array, x: Array) -> Array:
    """g * s * (1 + x * (1 - s)) with s = sigmoid(x)."""
    s = sigmoid(xp, x)
    return g * (s * (1 + x * (1 - s)))


# ------------------------------------------------------------------ GELU by tanh


def _inverse_gate(xp: Any, x: Array, squared: Array) -> Array:
    """1 + e**(-2 * u), with u the argument of tanh: (1 + tanh(u)) / 2 is its reciprocal."""
    return 1 + xp.exp(x * (squared * (-2 * TANH_SCALE * CUBIC) - 2 * TANH_SCALE))


def gelu_tanh(xp: Any, x: Array) -> Array:
    """x * (1 + tanh(u)) / 2, which does not cancel where tanh(u) is near -1."""
    return x / _inverse_gate(xp, x, x * x)


def gelu_tanh_gradient(xp: Any, g: Array, x: Array) -> Array:
    """g * s * (1 + x * (1 - s) * slope of 2 * u) with s = (1 + tanh(u)) / 2."""
    squared = x * x
    s = 1 / _inverse_gate(xp, x, squared)
    slope = squared * (6 * TANH_SCALE * CUBIC) + 2 * TANH_SCALE
    return g * (s * (1 + x * slope * (1 - s)))


# ------------------------------------------------------------------ exponential below 0

_SELU_ALPHA = 1.6732632423543772
_SELU_SCALE = 1.0507009873554805


def elu_gradient(xp: Any, g: Array, x: Array, *, alpha: float) -> Array:
    """`g` above 0, g * alpha * e**x elsewhere."""
    slope = xp.exp(xp.minimum(x, 0)) * alpha
    return xp.where(x > 0, g, g * slope).astype(g.dtype, copy=False)  # CuPy's bfloat16 is wider


def selu(xp: Any, x: Array) -> Array:
    """scale * x above 0, scale * alpha * (e**x - 1) below it."""
    below = (_SELU_SCALE * _SELU_ALPHA) * xp.expm1(xp.minimum(x, 0))
    return _SELU_SCALE * xp.maximum(x, 0) + below


def selu_gradient(xp: Any, g: Array, x: Array) -> Array:
    """g * scale from 0 on, g * scale * alpha * e**x below it."""
    below = xp.exp(xp.minimum(x, 0)) * (_SELU_SCALE * _SELU_ALPHA)
    return xp.where(x >= 0, g * _SELU_SCALE, g * below).astype(g.dtype, copy=False)


# ------------------------------------------------------------------ roots


def rsqrt(xp: Any, x: Array) -> Array:
    """1 / sqrt(x)."""
    return 1 / xp.sqrt(x)


# ------------------------------------------------------------------ ratios of polynomials


def polynomial(coefficients: Sequence[float], x: Array) -> Array:
    """The polynomial with these coefficients, the highest power first, by Horner's rule."""
    value = x * coefficients[0]
    value += coefficients[1]
    for c in coefficients[2:]:
        value *= x
        value += c
    return value


def ratio(top: Sequence[float], bottom: Sequence[float], x: Array) -> Array:
    """One polynomial divided by another."""
    value = polynomial(top, x)
    value /= polynomial(bottom, x)
    return value


def erf(xp: Any, x: Array) -> Array:
    """The error function to the digits of float32."""
    x = xp.clip(x, -4, 4)  # NumPy's maximum and minimum take six times as long
    value = ratio(_ERF_TOP, _ERF_BOTTOM, x * x)
    value *= x
    return xp.clip(value, -1, 1)


def mills_ratio(xp: Any, t: Array) -> Array:
    """e**(t**2 / 2) times the normal distribution function of -t, to the digits of float32."""
    return ratio(_MILLS_TOP, _MILLS_BOTTOM, t)


# ------------------------------------------------------------------ GELU by the normal distribution


class NormalTail(NamedTuple):
    """The standard normal distribution beyond t >= 0, to the digits of one dtype.

    Attributes:
        farthest: from here on the density is 0, whose product with inf would be NaN.
        gap: `(xp, t)` to t times the share beyond t, by which GELU lies below max(x, 0).
        slope: `(xp, t)` to the share beyond t less t times the density.
    """

    farthest: float
    gap: Callable[[Any, Array], Array]
    slope: Callable[[Any, Array], Array]


def tail_by_mills_ratio(bell: Callable[[Any, Array], Array], farthest: float) -> NormalTail:
    """That of float32, by `bell(xp, t)`, e**(-t**2 / 2)."""
    return NormalTail(
        farthest,
        lambda xp, t: t * mills_ratio(xp, t) * bell(xp, t),
        lambda xp, t: (mills_ratio(xp, t) - t * DENSITY) * bell(xp, t),
    )


def tail_by_erfc(erfc: Callable[[Array], Array]) -> NormalTail:
    """That of any dtype, by `erfc(t)`, the complement of its error function."""

    def share(t: Array) -> Array:
        value = erfc(t * math.sqrt(0.5))
        value *= 0.5
        return value

    def gap(xp: Any, t: Array) -> Array:
        value = share(t)
        value *= t
        return value

    def slope(xp: Any, t: Array) -> Array:
        value = share(t)
        value -= t * xp.exp(t * t * -0.5) * DENSITY
        return value

    return NormalTail(39.0, gap, slope)


def _choose(xp: Any, condition: Array, x: Array, y: Array) -> Array:
    """`x` where the condition is true, else `y`, by new arrays of one shape and dtype."""
    if type(x) is not np.ndarray:
        return xp.where(condition, x, y)
    # By bits: NumPy's `where` branches, and takes as long as ten functions where signs are mixed.
    bits, others = (a.view(f"i{a.itemsize}") for a in (x, y))
    bits ^= others
    bits *= condition
    bits ^= others
    return x


def gelu_erf(xp: Any, x: Array, tail: NormalTail) -> Array:
    """x times the share of the normal distribution below x, for x < 0 by that beyond -x."""
    below = tail.gap(xp, xp.clip(xp.abs(x), -math.inf, tail.farthest))
    return _choose(xp, x >= 0, x - below, -below)


def gelu_erf_gradient(xp: Any, g: Array, x: Array, tail: NormalTail) -> Array:
    """g times the slope of that, the normal distribution plus x times its density."""
    slope = tail.slope(xp, xp.clip(xp.abs(x), -math.inf, tail.farthest))
    return g * _choose(xp, x >= 0, 1 - slope, slope)
