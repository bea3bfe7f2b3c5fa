"""Formulas of special functions over `xp`, in float64, which operations run and kernels are of.

Sources: W. J. Cody 1969, "Rational Chebyshev approximations for the error function", Mathematics of
Computation 23; M. J. Wichura 1988, "Algorithm AS 241: the percentage points of the normal
distribution", Applied Statistics 37; Abramowitz and Stegun 1964, chapter 6: the recurrence,
reflection and Stirling's series.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainkit.kernels.elementwise.elementwise_reference import polynomial, ratio

Array = Any

# Coefficients of polynomials, highest power first.
# Cody, erf(x) / x in x**2 for |x| <= 0.46875.
_ERF_TOP = (
    1.85777706184603153e-1, 3.16112374387056560e0, 1.13864154151050156e2,
    3.77485237685302021e2, 3.20937758913846947e3,
)  # fmt: skip
_ERF_BOTTOM = (
    1.0, 2.36012909523441209e1, 2.44024637934444173e2,
    1.28261652607737228e3, 2.84423683343917062e3,
)  # fmt: skip
# Cody, exp(x**2) erfc(x) in x for 0.46875 <= x <= 4.
_ERFC_TOP = (
    2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594e0,
    6.61191906371416295e1, 2.98635138197400131e2, 8.81952221241769090e2,
    1.71204761263407058e3, 2.05107837782607147e3, 1.23033935479799725e3,
)  # fmt: skip
_ERFC_BOTTOM = (
    1.0, 1.57449261107098347e1, 1.17693950891312499e2,
    5.37181101862009858e2, 1.62138957456669019e3, 3.29079923573345963e3,
    4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3,
)  # fmt: skip
# Cody, the tail beyond 4 in 1 / x**2.
_TAIL_TOP = (
    1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1,
    1.25781726111229246e-1, 1.60837851487422766e-2, 6.58749161529837803e-4,
)  # fmt: skip
_TAIL_BOTTOM = (
    1.0, 2.56852019228982242e0, 1.87295284992346047e0,
    5.27905102951428412e-1, 6.05183413124413191e-2, 2.33520497626869185e-3,
)  # fmt: skip
# Wichura's PPND16: near the middle in 0.180625 - q**2, then in sqrt(-log p) - 1.6, then in that -
# 5.
_MIDDLE_TOP = (
    2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4,
    4.5921953931549871457e4, 1.3731693765509461125e4, 1.9715909503065514427e3,
    1.3314166789178437745e2, 3.3871328727963666080e0,
)  # fmt: skip
_MIDDLE_BOTTOM = (
    5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4,
    2.1213794301586595867e4, 5.3941960214247511077e3, 6.8718700749205790830e2,
    4.2313330701600911252e1, 1.0,
)  # fmt: skip
_NEAR_TOP = (
    7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
    1.27045825245236838258e0, 3.64784832476320460504e0, 5.76949722146069140550e0,
    4.63033784615654529590e0, 1.42343711074968357734e0,
)  # fmt: skip
_NEAR_BOTTOM = (
    1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
    1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940e0,
    2.05319162663775882187e0, 1.0,
)  # fmt: skip
_FAR_TOP = (
    2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
    2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580e0,
    5.46378491116411436990e0, 6.65790464350110377720e0,
)  # fmt: skip
_FAR_BOTTOM = (
    2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5,
    7.86869131145613259100e-4, 1.48753612908506148525e-2, 1.36929880922735805310e-1,
    5.99832206555887937690e-1, 1.0,
)  # fmt: skip

BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
MOST_TERMS = 3000  # of series and fractions of incomplete functions
START = 10  # from here on the series of the gamma function are exact to 1e-16

# ------------------------------------------------------------------ the error function


def erf(xp: Any, x: Array) -> Array:
    """2 / sqrt(pi) times the integral of exp(-t**2) from 0 to x."""
    size = xp.minimum(xp.abs(x), 6)  # beyond 6 the result is 1 to the last place
    centre = x * ratio(_ERF_TOP, _ERF_BOTTOM, xp.minimum(size * size, 0.25))
    outside = 1 - xp.exp(-size * size) * ratio(_ERFC_TOP, _ERFC_BOTTOM, size)
    return xp.where(size <= 0.46875, centre, xp.copysign(outside, x))


def erfc(xp: Any, x: Array) -> Array:
    """1 - erf(x), exact in its tail."""
    size = xp.abs(x)
    # From 30 on exp(-x**2) is 0; an infinite x would make 0 times infinity of the tail.
    outer = xp.minimum(xp.maximum(size, 4), 30)
    inverse = 1 / (outer * outer)
    # Divisions take longest, so of the three approximations the parts are chosen, then divided.
    parts = [
        xp.where(
            size <= 0.46875,
            polynomial(centre, xp.minimum(size * size, 0.25)),
            xp.where(size <= 4, polynomial(middle, xp.minimum(size, 4)), polynomial(tail, inverse)),
        )
        for centre, middle, tail in (
            (_ERF_TOP, _ERFC_TOP, _TAIL_TOP),
            (_ERF_BOTTOM, _ERFC_BOTTOM, _TAIL_BOTTOM),
        )
    ]
    share = parts[0] / parts[1]
    tail = (1 / math.sqrt(math.pi) - inverse * share) * (inverse * outer)
    upper = _exp_of_square(xp, size) * xp.where(size <= 4, share, tail)
    outside = xp.where(x < 0, 2 - upper, upper)
    return xp.where(size <= 0.46875, 1 - x * share, outside)


def _exp_of_square(xp: Any, x: Array) -> Array:
    """exp(-x**2) for x >= 0; cutting x at 16ths keeps the rounding of x**2 out of the exponent."""
    x = xp.minimum(x, 30)
    coarse = xp.floor(x * 16) / 16
    return xp.exp(-coarse * coarse) * xp.exp(-(x - coarse) * (x + coarse))


# ------------------------------------------------------------------ quantiles


def _normal_quantile(xp: Any, q: Array, p: Array) -> Array:
    """The point below which the normal distribution has the share 1/2 + q.

    Args:
        xp: array module.
        q: in [-1/2, 1/2].
        p: the smaller of 1/2 + q and 1/2 - q; apart, as it may be far smaller than `q` can tell.
    """
    is_middle = xp.abs(q) <= 0.425
    r = xp.sqrt(-xp.log(p))
    t_near, t_far = xp.minimum(r, 5) - 1.6, xp.maximum(xp.minimum(r, 30), 5) - 5
    t_middle = 0.180625 - xp.minimum(q * q, 0.180625)
    parts = [
        xp.where(
            is_middle,
            polynomial(middle, t_middle),
            xp.where(r <= 5, polynomial(near, t_near), polynomial(outer, t_far)),
        )
        for middle, near, outer in (
            (_MIDDLE_TOP, _NEAR_TOP, _FAR_TOP),
            (_MIDDLE_BOTTOM, _NEAR_BOTTOM, _FAR_BOTTOM),
        )
    ]
    share = parts[0] / parts[1]
    tail = xp.copysign(xp.where(p == 0, np.inf, share), q)
    value = xp.where(is_middle, q * share, tail)
    return xp.where(p < 0, np.nan, value)


def erfinv(xp: Any, x: Array) -> Array:
    """The number whose erf is x."""
    return _normal_quantile(xp, x / 2, (1 - xp.abs(x)) / 2) * math.sqrt(0.5)


def erfcinv(xp: Any, x: Array) -> Array:
    """The number whose erfc is x."""
    return _normal_quantile(xp, (1 - x) / 2, xp.minimum(x, 2 - x) / 2) * math.sqrt(0.5)


def ndtri(xp: Any, x: Array) -> Array:
    """The point below which the normal distribution has the share x."""
    return _normal_quantile(xp, x - 0.5, xp.minimum(x, 1 - x))


# ------------------------------------------------------------------ the gamma function


def stirling_series(x: Array) -> Array:
    """What log(gamma(x)) has beyond (x - 1/2) log(x) - x + log(2 pi) / 2, for x >= `START`."""
    inverse = 1 / x
    return polynomial(_STIRLING, inverse * inverse) * inverse


_STIRLING = tuple(b / (2 * k * (2 * k - 1)) for k, b in enumerate(BERNOULLI, 1))[::-1]
_DIGAMMA = (*(b / (2 * k) for k, b in reversed([*enumerate(BERNOULLI, 1)])), 0.0)
_TRIGAMMA = (*reversed(BERNOULLI), 0.0)
_HALF_LOG = 0.5 * math.log(2 * math.pi)


def positive_lgamma(xp: Any, x: Array) -> Array:
    """log(gamma(x)) for x > 0: Stirling's series after the recurrence gamma(x + 1) = x gamma(x)."""
    product, x = _product_to_start(xp, x)
    return (x - 0.5) * xp.log(x) - x + _HALF_LOG + stirling_series(x) - xp.log(product)


def _product_to_start(xp: Any, x: Array) -> tuple[Array, Array]:
    """The product of x, x + 1, ... below `START`, and the first of them that is not."""
    product = xp.where(x < START, x, 1.0)
    x = x + (x < START)
    for _ in range(START - 1):
        below = x < START
        product = xp.where(below, product * x, product)
        x = x + below
    return product, x


def lgamma(xp: Any, x: Array) -> Array:
    """log(|gamma(x)|), below 1/2 by the reflection gamma(x) gamma(1 - x) = pi / sin(pi x)."""
    upper = xp.where(x < 0.5, 1 - x, x)
    value = positive_lgamma(xp, xp.minimum(upper, 1e300))
    part = x - xp.rint(x)  # exact beside 0, where both go to infinity
    reflected = math.log(math.pi) - xp.log(xp.abs(xp.sin(math.pi * part))) - value
    value = xp.where(x < 0.5, reflected, value)
    pole = ((x <= 0) & (part == 0)) | (xp.abs(x) == np.inf)
    return xp.where(pole, np.inf, value)


def digamma(xp: Any, x: Array) -> Array:
    """The derivative of log(gamma(x)), below 1/2 by reflection."""
    high = xp.where(x < 0.5, 1 - x, x)
    top, bottom = xp.where(high < START, 1.0, 0.0), xp.where(high < START, high, 1.0)
    high = high + (high < START)
    for _ in range(START - 1):  # top / bottom is the sum of 1 / high over all steps
        below = high < START
        top = xp.where(below, top * high + bottom, top)
        bottom = xp.where(below, bottom * high, bottom)
        high = high + below
    inverse = 1 / high
    series = polynomial(_DIGAMMA, inverse * inverse)
    value = xp.log(high) - 0.5 * inverse - series - top / bottom
    part = x - xp.rint(x)  # exact beside 0, where both go to infinity
    angle = math.pi * part
    value = xp.where(x < 0.5, value - math.pi * xp.cos(angle) / xp.sin(angle), value)
    value = xp.where((x <= 0) & (part == 0), np.nan, value)
    return xp.where(x == np.inf, np.inf, value)


def trigamma(xp: Any, x: Array) -> Array:
    """The derivative of digamma(x), below 1/2 by reflection."""
    high = xp.where(x < 0.5, 1 - x, x)
    top, bottom = xp.where(high < START, 1.0, 0.0), xp.where(high < START, high * high, 1.0)
    high = high + (high < START)
    for _ in range(START - 1):  # top / bottom is the sum of 1 / high**2 over all steps
        below, square = high < START, high * high
        top = xp.where(below, top * square + bottom, top)
        bottom = xp.where(below, bottom * square, bottom)
        high = high + below
    inverse = 1 / high
    square = inverse * inverse
    value = top / bottom + inverse * polynomial(_TRIGAMMA, square) + 0.5 * square + inverse
    part = x - xp.rint(x)  # exact beside 0, where both go to infinity
    slope = math.pi / xp.sin(math.pi * part)
    value = xp.where(x < 0.5, slope * slope - value, value)
    return xp.where(((x <= 0) & (part == 0)) | (x == -np.inf), np.inf, value)


# ------------------------------------------------------------------ sums of exponentials


def logaddexp(xp: Any, a: Array, b: Array) -> Array:
    """log(exp(a) + exp(b)), no overflow."""
    top = xp.maximum(a, b)
    # Equal infinities have no difference.
    gap = xp.where(a == b, 0.0, -xp.abs(a - b))
    return top + xp.log1p(xp.exp(gap))
