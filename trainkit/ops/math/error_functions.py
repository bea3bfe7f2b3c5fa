"""The error function, its complement and its inverse, and the normal distribution made of them.

float64 follows Cody's rational approximations, good to a few units in the last place; float32 and
below use a shorter rational function that was fitted to the same accuracy of their own.
Sources: W. J. Cody 1969, "Rational Chebyshev approximations for the error function", Mathematics of
Computation 23; M. J. Wichura 1988, "Algorithm AS 241: the percentage points of the normal
distribution", Applied Statistics 37.
"""

from __future__ import annotations

import math

import numpy as np

from trainkit.core import shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import ELEMENTWISE, LONG_FORMULA, SPECIAL_FUNCTION
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.dtypes import widen_halves
from trainkit.core.process.later_imports import DeferredModule
from trainkit.kernels.elementwise import elementwise_reference, elementwise_tuned
from trainkit.kernels.elementwise.elementwise_reference import ratio
from trainkit.ops.math.elementwise import exp, multiply, negative, square

gelu_cuda = DeferredModule("trainkit.kernels.elementwise.gelu_cuda")

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


# ------------------------------------------------------------------ erf and erfc


@primitive(
    shapes.floating,
    semantics=ELEMENTWISE,
    lowering=LONG_FORMULA,
    tuned=elementwise_tuned.erf.facet(on_gpu=(gelu_cuda.erf,)),
)
def erf(xp: ArrayModule, x: Array) -> Array:
    """Error function 2 / sqrt(pi) times the integral of exp(-t**2) from 0 to x."""
    if x.dtype != np.float64:
        return elementwise_reference.erf(xp, widen_halves(x)).astype(x.dtype, copy=False)
    size = xp.minimum(xp.abs(x), 6)  # beyond 6 the result is 1 to the last place
    centre = x * ratio(_ERF_TOP, _ERF_BOTTOM, xp.minimum(size * size, 0.25))
    outside = 1 - xp.exp(-size * size) * ratio(_ERFC_TOP, _ERFC_BOTTOM, size)
    return xp.where(size <= 0.46875, centre, xp.copysign(outside, x))


@primitive(shapes.floating, semantics=ELEMENTWISE, lowering=LONG_FORMULA)
def erfc(xp: ArrayModule, x: Array) -> Array:
    """Complement 1 - erf(x), exact in its tail.

    Example:
        >>> tk.math.erfc([0.0, 1.0]).numpy().round(4)
        array([1.    , 0.1573], dtype=float32)
    """
    doubles = x.astype(xp.float64)
    size = xp.abs(doubles)
    centre = 1 - doubles * ratio(_ERF_TOP, _ERF_BOTTOM, xp.minimum(size * size, 0.25))
    middle = ratio(_ERFC_TOP, _ERFC_BOTTOM, xp.minimum(size, 4))
    bound = xp.maximum(size, 4)
    inverse = 1 / (bound * bound)
    tail = (1 / math.sqrt(math.pi) - inverse * ratio(_TAIL_TOP, _TAIL_BOTTOM, inverse)) / bound
    upper = _exp_of_square(xp, size) * xp.where(size <= 4, middle, tail)
    outside = xp.where(doubles < 0, 2 - upper, upper)
    return xp.where(size <= 0.46875, centre, outside).astype(x.dtype)


def _exp_of_square(xp: ArrayModule, x: Array) -> Array:
    """exp(-x**2) for x >= 0; cutting x at 16ths keeps the rounding of x**2 out of the exponent."""
    x = xp.minimum(x, 30)
    coarse = xp.floor(x * 16) / 16
    return xp.exp(-coarse * coarse) * xp.exp(-(x - coarse) * (x + coarse))


_SLOPE = 2 / math.sqrt(math.pi)

erf.gradients(lambda g, y, x: multiply(g, multiply(exp(negative(square(x))), _SLOPE)))
erfc.gradients(lambda g, y, x: multiply(g, multiply(exp(negative(square(x))), -_SLOPE)))


_TAIL32 = elementwise_reference.tail_by_mills_ratio(lambda xp, t: xp.exp(t * t * -0.5), 15.0)
_TAIL64 = elementwise_reference.tail_by_erfc(lambda t: erfc.primitive.run((t,), {}))


def normal_tail(x: Array) -> elementwise_reference.NormalTail:
    """The normal distribution to the digits of `x`, float32 or float64, of which `gelu` is made."""
    return _TAIL64 if x.dtype == np.float64 else _TAIL32


# ------------------------------------------------------------------ inverses


def _normal_quantile(xp: ArrayModule, q: Array, p: Array) -> Array:
    """The point below which the normal distribution has the share 1/2 + q.

    Args:
        xp: array module.
        q: in [-1/2, 1/2], float64.
        p: the smaller of 1/2 + q and 1/2 - q; apart, as it may be far smaller than `q` can tell.
    """
    middle = q * ratio(_MIDDLE_TOP, _MIDDLE_BOTTOM, 0.180625 - xp.minimum(q * q, 0.180625))
    r = xp.sqrt(-xp.log(p))
    near = ratio(_NEAR_TOP, _NEAR_BOTTOM, xp.minimum(r, 5) - 1.6)
    outer = ratio(_FAR_TOP, _FAR_BOTTOM, xp.maximum(xp.minimum(r, 30), 5) - 5)
    tail = xp.where(r <= 5, near, xp.where(p == 0, np.inf, outer))
    value = xp.where(xp.abs(q) <= 0.425, middle, xp.copysign(tail, q))
    return xp.where(p < 0, np.nan, value)


@primitive(shapes.floating, **SPECIAL_FUNCTION)
def erfinv(xp: ArrayModule, x: Array) -> Array:
    """Inverse of erf: infinite at -1 and 1, NaN beyond.

    Example:
        >>> tk.math.erfinv([0.0, 0.5]).numpy().round(4)
        array([0.    , 0.4769], dtype=float32)
    """
    doubles = x.astype(xp.float64)
    value = _normal_quantile(xp, doubles / 2, (1 - xp.abs(doubles)) / 2)
    return (value * math.sqrt(0.5)).astype(x.dtype)


@primitive(shapes.floating, **SPECIAL_FUNCTION)
def erfcinv(xp: ArrayModule, x: Array) -> Array:
    """Inverse of erfc: infinite at 0 and 2, NaN beyond.

    Example:
        >>> tk.math.erfcinv([1.0]).numpy().round(4) + 0.0
        array([0.], dtype=float32)
    """
    doubles = x.astype(xp.float64)
    value = _normal_quantile(xp, (1 - doubles) / 2, xp.minimum(doubles, 2 - doubles) / 2)
    return (value * math.sqrt(0.5)).astype(x.dtype)


@primitive(shapes.floating, **SPECIAL_FUNCTION)
def ndtri(xp: ArrayModule, x: Array) -> Array:
    """The point below which the normal distribution has the share x; NaN outside of [0, 1].

    Example:
        >>> tk.math.ndtri([0.5]).numpy().round(4) + 0.0
        array([0.], dtype=float32)
    """
    doubles = x.astype(xp.float64)
    return _normal_quantile(xp, doubles - 0.5, xp.minimum(doubles, 1 - doubles)).astype(x.dtype)


erfinv.gradients(lambda g, y, x: multiply(g, multiply(exp(square(y)), 1 / _SLOPE)))
erfcinv.gradients(lambda g, y, x: multiply(g, multiply(exp(square(y)), -1 / _SLOPE)))
ndtri.gradients(
    lambda g, y, x: multiply(g, multiply(exp(multiply(square(y), 0.5)), math.sqrt(2 * math.pi)))
)
