"""The gamma function's logarithm and its derivatives, and Hurwitz's zeta function.

Values are computed in float64. Source: Abramowitz and Stegun 1964, chapters 6 and 23: the
recurrence, reflection, Stirling's series and the Euler-Maclaurin formula.
"""

from __future__ import annotations

import math

import numpy as np

from trainkit.core import shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import SPECIAL_FUNCTION, Tuned
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.dtypes import real_floats
from trainkit.kernels.special import special_reference, special_tuned
from trainkit.kernels.special.special_reference import BERNOULLI, START
from trainkit.ops.math.elementwise import add, multiply, negative, scalar_like

_MOST_TERMS = 10_000  # of a sum that begins at a negative number


@primitive(shapes.floating, **SPECIAL_FUNCTION, tuned=special_tuned.LGAMMA.facet())
def lgamma(xp: ArrayModule, x: Array) -> Array:
    """Logarithm of |gamma(x)|; infinite at 0 and the negative whole numbers.

    Example:
        >>> tk.math.lgamma([1.0, 4.0]).numpy().round(4)
        array([0.    , 1.7918], dtype=float32)
    """
    return special_reference.lgamma(xp, real_floats(x).astype(xp.float64)).astype(x.dtype)


@primitive(shapes.floating, **SPECIAL_FUNCTION, tuned=special_tuned.DIGAMMA.facet())
def digamma(xp: ArrayModule, x: Array) -> Array:
    """Derivative of log(gamma(x)); NaN at 0 and the negative whole numbers.

    Example:
        >>> round(float(tk.math.digamma(1.0)), 4)
        -0.5772
    """
    return special_reference.digamma(xp, real_floats(x).astype(xp.float64)).astype(x.dtype)


@primitive(shapes.floating_broadcast, **SPECIAL_FUNCTION)
def zeta(xp: ArrayModule, x: Array, q: Array) -> Array:
    """Hurwitz's zeta function: the sum of (q + k)**-x over k = 0, 1, ..., for x > 1.

    Infinite at x = 1, and for even x where q is 0 or a negative whole number; for other negative q
    x must be whole. NaN elsewhere, as in TensorFlow.

    Example:
        >>> round(float(tk.math.zeta(2.0, 1.0)), 4)
        1.6449
    """
    s, a = xp.broadcast_arrays(real_floats(x).astype(xp.float64), real_floats(q).astype(xp.float64))
    pole = (a <= 0) & (a == xp.floor(a))
    plain = ~pole & xp.isfinite(a) & (a > -_MOST_TERMS) & xp.isfinite(s)
    total = _zeta_sum(xp, xp.where(plain, s, 2.0), xp.where(plain, a, 1.0))
    total = xp.where(plain, total, xp.nan)
    total = xp.where(pole & (s % 2 == 0), np.inf, total)
    total = xp.where(s == np.inf, xp.where(a > 1, 0, xp.where(a == 1, 1, np.inf)), total)
    total = xp.where((a == np.inf) & (s > 1), 0, total)
    total = xp.where((s < 1) | xp.isnan(a) | xp.isnan(s), np.nan, total)
    return xp.where(s == 1, np.inf, total).astype(x.dtype)


def _zeta_sum(xp: ArrayModule, s: Array, a: Array) -> Array:
    """The first terms, until those behind are those of a smooth function, and the rest of them."""
    total = 0 * (s + a)
    steps = START if not a.size else max(START, math.ceil(START - float(a.min())))
    for k in range(steps):
        total = total + (a + k) ** -s
    end = a + steps
    total = total + end ** (1 - s) / (s - 1) + 0.5 * end**-s
    # Euler-Maclaurin: each term has two more factors s + j and two more powers of 1 / end.
    factor = s * end ** (-s - 1)
    for k, bernoulli in enumerate(BERNOULLI, 1):
        total = total + bernoulli / math.factorial(2 * k) * factor
        factor = factor * (s + 2 * k - 1) * (s + 2 * k) / (end * end)
    return total


zeta.gradients(None, lambda g, y, x, q: negative(multiply(g, multiply(x, zeta(add(x, 1), q)))))


def _is_trigamma(a: Array) -> bool:
    """Whether all orders ask for the first derivative of digamma."""
    return a.size > 0 and bool((a == 1).all())


def _compiled_trigamma(a: Array, x: Array) -> Array | None:
    if np.broadcast_shapes(a.shape, x.shape) != x.shape or not _is_trigamma(a):
        return None
    return special_tuned.TRIGAMMA(x)


@primitive(
    shapes.floating_broadcast,
    **SPECIAL_FUNCTION,
    tuned=Tuned(_compiled_trigamma, fewest=special_tuned.TRIGAMMA.min_elements, of=1),
)
def polygamma(xp: ArrayModule, a: Array, x: Array) -> Array:
    """Derivative number a of digamma(x), for whole a >= 0.

    At 0 and the negative whole numbers infinite for a = 1, 3, 5, ..., else NaN.

    Example:
        >>> round(float(tk.math.polygamma(1.0, 1.0)), 4)
        1.6449
    """
    order, doubles = xp.broadcast_arrays(
        real_floats(a).astype(xp.float64), real_floats(x).astype(xp.float64)
    )
    if xp is np and _is_trigamma(a):
        return special_reference.trigamma(np, doubles).astype(x.dtype)
    factorial = xp.exp(special_reference.positive_lgamma(xp, order + 1))
    sign = 2 * (order % 2) - 1
    value = sign * factorial * zeta.primitive.kernel(xp, order + 1, doubles)
    value = xp.where(order == 0, digamma.primitive.kernel(xp, doubles), value)
    valid = (order >= 0) & (order == xp.floor(order))
    return xp.where(valid, value, np.nan).astype(x.dtype)


polygamma.gradients(None, lambda g, y, a, x: multiply(g, polygamma(add(a, 1), x)))
digamma.gradients(lambda g, y, x: multiply(g, polygamma(scalar_like(1, x.dtype, x), x)))
lgamma.gradients(lambda g, y, x: multiply(g, digamma(x)))
