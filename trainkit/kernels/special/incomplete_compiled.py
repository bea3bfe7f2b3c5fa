"""Incomplete gamma functions of flat arrays of float64, one element after the other.

Sources: NIST Digital Library of Mathematical Functions, 8.9.2 and 8.11.4; Abramowitz and Stegun
1964, 3.10.1, the recurrence of Wallis for the numerators and denominators of a continued fraction.
"""

from __future__ import annotations

import numpy as np
from numba import float64, types

from trainkit.kernels.elementwise.formula_text import number_function
from trainkit.kernels.jit.builders import by_parts
from trainkit.kernels.jit.options import inlined
from trainkit.kernels.special import special_reference
from trainkit.kernels.special.double_math import exponential, logarithm
from trainkit.kernels.special.special_reference import MOST_TERMS
from trainkit.kernels.threads.parallel_for import chunk_range

DOUBLES = float64[::1]
_LARGE, _SMALL, _FAR = 2.0**200, 2.0**-200, 1e150
_log_gamma = inlined(
    number_function(special_reference.positive_lgamma, ["float64"], {"log": logarithm})
)


@inlined
def _lower_series(a, x, tolerance):
    """1 + x / (a + 1) + x**2 / ((a + 1) (a + 2)) + ..."""
    total, term = 1.0, 1.0
    for n in range(1, MOST_TERMS):
        term *= x / (a + n)
        total += term
        if term <= tolerance * total:
            break
    return total


@inlined
def _upper_fraction(a, x, tolerance):
    """The fraction x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / (...)), its inverse.

    Numerator and denominator go forward without divisions, which wait for one another in Lentz's
    way; both are made smaller before they overflow.
    """
    b = x + 1.0 - a
    top_before, bottom_before = 0.0, 1.0
    top, bottom = 1.0, b
    value = top / bottom
    for n in range(1, MOST_TERMS):
        factor = n * (a - n)
        b += 2.0
        top, top_before = b * top + factor * top_before, top
        bottom, bottom_before = b * bottom + factor * bottom_before, bottom
        if abs(bottom) > _LARGE:
            top, top_before = top * _SMALL, top_before * _SMALL
            bottom, bottom_before = bottom * _SMALL, bottom_before * _SMALL
        last, value = value, top / bottom
        if abs(value - last) <= tolerance * abs(value):
            break
    return value


@by_parts(DOUBLES, DOUBLES, DOUBLES, types.intp, types.float64, ordered=True)
def incomplete_gamma(part, parts, a, x, result, upper, tolerance):
    """The lower or upper incomplete gamma function, regularized; NaN outside of its range."""
    first, last = chunk_range(part, parts, result.size, 16)
    for i in range(first, last):  # exp(-x) x**a / gamma(a), in vectors
        result[i] = exponential(a[i] * logarithm(x[i]) - x[i] - _log_gamma(a[i]))
    for i in range(first, last):
        if 0.0 < a[i] < np.inf and 0.0 < x[i] < np.inf:
            is_low = x[i] < a[i] + 1.0
            is_far = not is_low and (result[i] == 0.0 or a[i] > _FAR)
            if is_far:  # numerators may overflow
                share = 0.0
            elif is_low:
                share = result[i] / a[i] * _lower_series(a[i], x[i], tolerance)
            else:
                share = result[i] * _upper_fraction(a[i], x[i], tolerance)
            result[i] = share if is_low != (upper != 0) else 1.0 - share
        elif a[i] > 0.0 and (x[i] == 0.0 or x[i] == np.inf):
            result[i] = 1.0 if (x[i] == 0.0) == (upper != 0) else 0.0
        else:
            result[i] = np.nan
