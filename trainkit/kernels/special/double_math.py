"""Exponential, logarithm, sine and cosine of float64 that LLVM makes vector code of.

Each is a function of one number without branches, for kernels that are `ordered`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainkit.kernels.elementwise.elementwise_reference import polynomial
from trainkit.kernels.elementwise.formula_text import number_function
from trainkit.kernels.jit.options import inlined

_LOG2_E = math.log2(math.e)
# log(2) in two parts, of which the first has 33 bits: its product with an exponent is exact.
_LOG_2_HIGH, _LOG_2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
# pi in two parts, of which the first has 30 bits.
_PI_HIGH = math.floor(math.pi * 2.0**28) / 2.0**28
_PI_LOW = (math.pi - _PI_HIGH) + 1.2246467991473532e-16
_HALF_TURN, _QUARTER = 1 / math.pi, math.pi / 2
_LEAST, _MOST = -750.0, 710.0  # beyond them the exponential is 0, or infinite
_SHIFT = 1.5 * 2.0**52  # a whole number added to it stands in the lowest bits
_BIAS = 1023.0
_MANTISSA = np.int64((1 << 52) - 1)
_EXPONENT_BITS = np.int64(52)
_SQRT_HALF = np.int64(0x3FE6A09E667F3BCD)  # the bits of sqrt(1 / 2)
_TINY, _TINY_SCALE = 2.0**-1022, 2.0**54  # the least normal number, and what makes others such


def _series(first: int, last: int) -> tuple[float, ...]:
    """(-1)**k / n! for n = last, last - 2, ..., first, where the first of all has k = 0."""
    return tuple((-1) ** ((n - first) // 2) / math.factorial(n) for n in range(last, first - 1, -2))


def _numbers_of(coefficients: tuple[float, ...]) -> Any:
    """The polynomial with these coefficients, as a function of a number."""

    def series(xp: Any, x: Any) -> Any:
        return polynomial(coefficients, x)

    return inlined(number_function(series, ["float64"]))


_exponential_series = _numbers_of(tuple(1 / math.factorial(n) for n in range(13, -1, -1)))
_sine_series = _numbers_of(_series(1, 21))
_cosine_series = _numbers_of(_series(0, 22))
_logarithm_series = _numbers_of(
    (
        1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01,
        2.222219843214978396e-01, 2.857142874366239149e-01, 3.999999999940941908e-01,
        6.666666666666735130e-01, 0.0,
    )
)  # fmt: skip


@inlined
def power_of_two(n):
    """2**n for whole n from -1022 to 1023."""
    return np.int64(np.float64(n + _BIAS + _SHIFT).view(np.int64) << _EXPONENT_BITS).view(
        np.float64
    )


@inlined
def exponential(x):
    """e**x, with the numbers below the least normal one, 0 and inf at the ends.

    It splits x into n * log(2) + r with |r| <= log(2) / 2, and sums fourteen terms of the series
    for r. Source: Cody and Waite 1980, "Software manual for the elementary functions".
    """
    x = _MOST if x > _MOST else x
    x = _LEAST if x < _LEAST else x
    n = np.floor(x * _LOG2_E + 0.5)
    p = _exponential_series((x - n * _LOG_2_HIGH) - n * _LOG_2_LOW)
    half = np.floor(n * 0.5)  # 2**n itself may be no normal number
    return p * power_of_two(half) * power_of_two(n - half)


@inlined
def logarithm(x):
    """log(x) to a unit in the last place: -inf at 0, NaN below.

    Source: fdlibm, Sun Microsystems 1993, e_log.c: with x = 2**k (1 + f) and s = f / (2 + f) a
    minimax polynomial in s**2, summed up so that errors of the parts stay below the last place.
    """
    small = x < _TINY
    bits = np.float64(x * _TINY_SCALE if small else x).view(np.int64)
    steps = (bits - _SQRT_HALF) >> _EXPONENT_BITS
    f = np.int64(bits - (steps << _EXPONENT_BITS)).view(np.float64) - 1.0
    k = np.float64(steps) - (54.0 if small else 0.0)
    s = f / (2.0 + f)
    half = 0.5 * f * f
    series = s * (half + _logarithm_series(s * s))
    value = k * _LOG_2_HIGH - ((half - (series + k * _LOG_2_LOW)) - f)
    value = x if x == np.inf else value
    value = -np.inf if x == 0.0 else value
    return np.nan if x < 0.0 else (x if x != x else value)


@inlined
def sine(x):
    """sin(x) for |x| <= pi / 2, by its series."""
    return x * _sine_series(x * x)


@inlined
def cosine(x):
    """cos(x) for |x| <= pi / 2, by its series."""
    return _cosine_series(x * x)


@inlined
def _half_turns(x):
    """The whole number of half turns that is nearest to an angle, and what is left of it.

    Exact to the rounding of x: the product of the first part of pi and numbers below 2**23 is.
    """
    n = np.floor(x * _HALF_TURN + 0.5)
    angle = (x - n * _PI_HIGH) - n * _PI_LOW
    angle = _QUARTER if angle > _QUARTER else angle  # of angles that are no whole numbers any more
    return n, -_QUARTER if angle < -_QUARTER else angle


@inlined
def _turn(n, y):
    """`y` after `n` half turns."""
    return -y if np.floor(n * 0.5) * 2.0 < n else y


@inlined
def wide_sine(x):
    """sin(x) for finite x."""
    n, angle = _half_turns(x)
    return _turn(n, sine(angle))


@inlined
def wide_cosine(x):
    """cos(x) for finite x."""
    n, angle = _half_turns(x)
    return _turn(n, cosine(angle))


@inlined
def log_one_plus(x):
    """log(1 + x) for 0 <= x <= 1, with what rounding 1 + x takes away."""
    u = 1.0 + x
    return logarithm(u) + (x - (u - 1.0))
