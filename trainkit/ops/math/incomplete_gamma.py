"""The incomplete gamma and beta functions, regularized to lie in [0, 1].

Power series where they converge fast, continued fractions elsewhere, in float64 for all elements at
once. Sources: NIST Digital Library of Mathematical Functions, 8.9.2, 8.11.4, 8.17.22; Lentz 1976,
"Generating Bessel functions in Mie scattering calculations using continued fractions", Applied
Optics 15, for the way to evaluate the fractions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core import shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import ELEMENTWISE, ITERATED
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.dtypes import real_floats
from trainkit.core.tensor import Tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.kernels.special import special_tuned
from trainkit.kernels.special.special_reference import MOST_TERMS
from trainkit.ops.math.elementwise import exp, log, log1p, multiply, negative, subtract
from trainkit.ops.math.gamma import digamma, lgamma

_EPSILON = 1e-16
_TINY = 1e-300


def _log_gamma(xp: ArrayModule, x: Array) -> Array:
    return lgamma.primitive.kernel(xp, x)


def _fraction(xp: ArrayModule, first: Array, term: Any, active: Array) -> Array:
    """The continued fraction first + a1 / (b1 + a2 / (b2 + ...)), `term(n)` giving (an, bn)."""
    value = xp.where(first == 0, _TINY, first)
    c, d = value, xp.zeros_like(value)
    for n in range(1, MOST_TERMS):
        a, b = term(n)
        d = b + a * d
        d = 1 / xp.where(d == 0, _TINY, d)
        c = b + a / c
        c = xp.where(c == 0, _TINY, c)
        step = c * d
        value = xp.where(active, value * step, value)
        active = active & (xp.abs(step - 1) > _EPSILON * 8)
        if n % 16 == 0 and not active.any():
            break
    return value


def _lower_series(xp: ArrayModule, a: Array, x: Array, active: Array) -> Array:
    """1 + x / (a + 1) + x**2 / ((a + 1) (a + 2)) + ..."""
    total, term = xp.ones_like(a), xp.ones_like(a)
    for n in range(1, MOST_TERMS):
        term = xp.where(active, term * x / (a + n), 0)
        total = total + term
        if n % 16 == 0 and not (term > _EPSILON * total).any():
            break
    return total


def _gamma_parts(xp: ArrayModule, a: Array, x: Array) -> tuple[Array, Array, Array]:
    """The lower part where x < a + 1, the upper one elsewhere, and which of them it is."""
    low = x < a + 1
    valid = (a > 0) & (x > 0) & xp.isfinite(x) & xp.isfinite(a)
    safe_a, safe_x = xp.where(valid, a, 1.0), xp.where(valid, x, 1.0)
    scale = xp.exp(safe_a * xp.log(safe_x) - safe_x - _log_gamma(xp, safe_a))
    lower = scale / safe_a * _lower_series(xp, safe_a, safe_x, valid & low)
    b0 = safe_x + 1 - safe_a
    upper = scale / _fraction(xp, b0, lambda n: (-n * (n - safe_a), b0 + 2 * n), valid & ~low)
    return xp.where(low, lower, upper), low, valid


def _igamma(xp: ArrayModule, a: Array, x: Array, upper: bool) -> Array:
    a64, x64 = xp.broadcast_arrays(
        real_floats(a).astype(np.float64), real_floats(x).astype(np.float64)
    )
    part, low, valid = _gamma_parts(xp, a64, x64)
    value = xp.where(low != upper, part, 1 - part)
    at_end = xp.where((x64 == 0) != upper, 0.0, 1.0)
    value = xp.where(valid, value, xp.where((x64 == 0) | (x64 == np.inf), at_end, np.nan))
    wrong = (a64 <= 0) | (x64 < 0) | xp.isnan(a64) | xp.isnan(x64)
    return xp.where(wrong, np.nan, value).astype(x.dtype)


@primitive(
    shapes.floating_broadcast, semantics=ELEMENTWISE, lowering=ITERATED, tuned=special_tuned.IGAMMA
)
def igamma(xp: ArrayModule, a: Array, x: Array) -> Array:
    """The lower regularized incomplete gamma function P(a, x), for a > 0 and x >= 0.

    P(a, x) = integral from 0 to x of t**(a - 1) exp(-t) dt / gamma(a); NaN outside of that range.

    Example:
        >>> round(float(tk.math.igamma(1.0, 1.0)), 4)
        0.6321
    """
    return _igamma(xp, a, x, False)


@primitive(
    shapes.floating_broadcast, semantics=ELEMENTWISE, lowering=ITERATED, tuned=special_tuned.IGAMMAC
)
def igammac(xp: ArrayModule, a: Array, x: Array) -> Array:
    """The upper regularized incomplete gamma function Q(a, x) = 1 - P(a, x).

    Example:
        >>> round(float(tk.math.igammac(1.0, 1.0)), 4)
        0.3679
    """
    return _igamma(xp, a, x, True)


def gammainc(x1: TensorLike, x2: TensorLike) -> Tensor:
    """The lower regularized incomplete gamma function P(x1, x2).

    Args:
        x1: the exponent, above 0; tensors that broadcast.
        x2: the end of the integral, 0 or more.

    Returns:
        A tensor of floats in [0, 1], NaN outside of that range.

    Example:
        >>> round(float(tk.ops.gammainc(1.0, 1.0)), 4)
        0.6321
    """
    return igamma(x1, x2)


def _gamma_density(a: Any, x: Any) -> Tensor:
    """exp(-x) x**(a - 1) / gamma(a)."""
    power = multiply(subtract(a, 1), log(x))
    return exp(subtract(subtract(power, x), lgamma(a)))


def _lower_slope(xp: ArrayModule, a: Array, x: Array, active: Array) -> Array:
    """dP / da by the series of P, whose terms have the derivatives -term * sum of 1 / (a + k)."""
    total, term = xp.ones_like(a), xp.ones_like(a)
    bent, harmonic = xp.zeros_like(a), xp.zeros_like(a)
    for n in range(1, MOST_TERMS):
        term = xp.where(active, term * x / (a + n), 0)
        harmonic = harmonic + 1 / (a + n)
        total, bent = total + term, bent - term * harmonic
        if n % 16 == 0 and not (term * (1 + harmonic) > _EPSILON * total).any():
            break
    log_scale = a * xp.log(x) - x - _log_gamma(xp, a + 1)
    by_scale = xp.log(x) - digamma.primitive.kernel(xp, a + 1)
    return xp.exp(log_scale) * (by_scale * total + bent)


def _upper_slope(xp: ArrayModule, a: Array, x: Array, active: Array) -> Array:
    """dQ / da by the fraction of Q, each of whose steps is differentiated by `a`."""
    first = x + 1 - a
    value, slope = first, xp.full_like(first, -1.0)
    c, dc = value, slope
    d, dd = xp.zeros_like(value), xp.zeros_like(value)
    for n in range(1, MOST_TERMS):
        top, bottom = -n * (n - a), first + 2 * n  # derivatives n and -1
        dd = -1 + n * d + top * dd
        d = bottom + top * d
        d = 1 / xp.where(d == 0, _TINY, d)
        dd = -dd * d * d
        dc = -1 + n / c - top * dc / (c * c)
        c = bottom + top / c
        c = xp.where(c == 0, _TINY, c)
        step, bend = c * d, dc * d + c * dd
        slope = xp.where(active, slope * step + value * bend, slope)
        value = xp.where(active, value * step, value)
        settled = (xp.abs(step - 1) <= _EPSILON * 8) & (xp.abs(bend) <= _EPSILON * 8)
        active = active & ~settled
        if n % 16 == 0 and not active.any():
            break
    scale = xp.exp(a * xp.log(x) - x - _log_gamma(xp, a))
    by_scale = xp.log(x) - digamma.primitive.kernel(xp, a)
    return scale / value * (by_scale - slope / value)


@primitive(shapes.floating_broadcast, semantics=ELEMENTWISE, lowering=ITERATED)
def igamma_slope(xp: ArrayModule, a: Array, x: Array) -> Array:
    """The derivative of `igamma` by `a`; 0 where `x` is 0 or infinite."""
    a64, x64 = xp.broadcast_arrays(
        real_floats(a).astype(np.float64), real_floats(x).astype(np.float64)
    )
    valid = (a64 > 0) & (x64 > 0) & xp.isfinite(x64) & xp.isfinite(a64)
    safe_a, safe_x = xp.where(valid, a64, 1.0), xp.where(valid, x64, 1.0)
    low = safe_x < safe_a + 1
    value = _lower_slope(xp, safe_a, xp.where(low, safe_x, safe_a), valid & low)
    beyond = xp.where(low, safe_a + 2, safe_x)
    value = xp.where(low, value, -_upper_slope(xp, safe_a, beyond, valid & ~low))
    at_end = (a64 > 0) & ((x64 == 0) | (x64 == np.inf))
    return xp.where(valid, value, xp.where(at_end, 0.0, np.nan)).astype(x.dtype)


def _slope_by_x(g: Tensor, y: Tensor, a: Tensor, x: Tensor) -> Any:
    return multiply(g, multiply(_gamma_density(a, x), subtract(log(x), digamma(a))))


igamma_slope.gradients(None, _slope_by_x)
igamma.gradients(
    lambda g, y, a, x: multiply(g, igamma_slope(a, x)),
    lambda g, y, a, x: multiply(g, _gamma_density(a, x)),
)
igammac.gradients(
    lambda g, y, a, x: negative(multiply(g, igamma_slope(a, x))),
    lambda g, y, a, x: negative(multiply(g, _gamma_density(a, x))),
)


def _beta_term(a: Array, b: Array, x: Array, n: int) -> tuple[Array, float]:
    """Number n of the fraction DLMF 8.17.22: even and odd ones have formulas of their own."""
    m = n // 2
    if n % 2 == 0:
        return m * (b - m) * x / ((a + n - 1) * (a + n)), 1.0
    return -(a + m) * (a + b + m) * x / ((a + n - 1) * (a + n)), 1.0


@primitive(shapes.floating_broadcast, semantics=ELEMENTWISE, lowering=ITERATED)
def betainc(xp: ArrayModule, a: Array, b: Array, x: Array) -> Array:
    """The regularized incomplete beta function I(x; a, b), for a, b > 0 and x in [0, 1].

    I(x; a, b) = integral from 0 to x of t**(a - 1) (1 - t)**(b - 1) dt / beta(a, b); NaN outside of
    that range. There is a gradient by `x`, none by `a` and `b`.

    Example:
        >>> round(float(tk.math.betainc(1.0, 1.0, 0.25)), 4)
        0.25
    """
    a64, b64, x64 = xp.broadcast_arrays(*(real_floats(v).astype(np.float64) for v in (a, b, x)))
    valid = (a64 > 0) & (b64 > 0) & (x64 >= 0) & (x64 <= 1)
    inside = valid & (x64 > 0) & (x64 < 1)
    a_, b_ = xp.where(inside, a64, 1.0), xp.where(inside, b64, 1.0)
    x_ = xp.where(inside, x64, 0.5)
    turned = x_ > (a_ + 1) / (a_ + b_ + 2)  # I(x; a, b) = 1 - I(1 - x; b, a), which converges
    p, q = xp.where(turned, b_, a_), xp.where(turned, a_, b_)
    z = xp.where(turned, 1 - x_, x_)
    complement = xp.where(turned, x_, 1 - x_)
    log_beta = _log_gamma(xp, p) + _log_gamma(xp, q) - _log_gamma(xp, p + q)
    scale = xp.exp(p * xp.log(z) + q * xp.log(complement) - log_beta) / p
    part = scale / _fraction(xp, xp.ones_like(z), lambda n: _beta_term(p, q, z, n), inside)
    value = xp.where(turned, 1 - part, part)
    value = xp.where(inside, value, xp.where(x64 >= 1, 1.0, 0.0))
    return xp.where(valid, value, np.nan).astype(x.dtype)


def _beta_density(a: Any, b: Any, x: Any) -> Tensor:
    log_beta = subtract(lgamma(a) + lgamma(b), lgamma(a + b))
    powers = multiply(subtract(a, 1), log(x)) + multiply(subtract(b, 1), log1p(negative(x)))
    return exp(subtract(powers, log_beta))


betainc.gradients(None, None, lambda g, y, a, b, x: multiply(g, _beta_density(a, b, x)))
