"""Exponential, logarithm, error function and relatives of float32 that LLVM makes vector code of.

Each is a function of one number without branches. NaN stays NaN, and comparisons are written so
that it does: `most if x > most else x` keeps it, `min(x, most)` need not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.kernels.elementwise import elementwise_reference
from trainkit.kernels.elementwise.formula_text import number_function
from trainkit.kernels.jit.options import inlined

LOG2_E = np.float32(1.4426950408889634)
LOG_2_HIGH = np.float32(0.693359375)
LOG_2_LOW = np.float32(-2.12194440e-4)
_LOG_2 = np.float32(0.6931471805599453)
SERIES = tuple(np.float32(1 / n) for n in (5040, 720, 120, 24, 6, 2, 1, 1))
"""Of the exponential, the highest power first."""
_C7, _C6, _C5, _C4, _C3, _C2, _C1, _C0 = SERIES
_HALF, _ZERO, _ONE, _TWO = np.float32(0.5), np.float32(0), np.float32(1), np.float32(2)
LEAST, _MOST = np.float32(-88), np.float32(89)
_HALF_LOG2_E = _HALF * LOG2_E
_TOP_BITS = np.int32(-4096)


@inlined
def exponential(x):
    """e**x: 0 up to -87.7, inf from 88.4 on.

    It splits x into n * log(2) + r with |r| <= log(2) / 2, sums eight terms of the series for r,
    and sets n as the exponent. Source: Cody and Waite 1980, "Software manual for the elementary
    functions" (the split of log(2) in two).
    """
    x = _MOST if x > _MOST else x
    x = LEAST if x < LEAST else x
    n = np.floor(x * LOG2_E + _HALF)
    r = x - n * LOG_2_HIGH - n * LOG_2_LOW
    p = _C7 * r + _C6
    p = p * r + _C5
    p = p * r + _C4
    p = p * r + _C3
    p = p * r + _C2
    p = p * r + _C1
    p = p * r + _C0
    power = np.int32((np.int32(n) + np.int32(127)) << np.int32(23)).view(np.float32)
    return p * power


@inlined
def log_one_plus(x):
    """log(1 + x) for 0 <= x <= 1, by the series of 2 artanh(x / (2 + x)).

    Above log(1.5) a factor 3/2 is taken off first, so that the argument of the series stays within
    1/5.
    """
    large = x > _HALF
    shifted = (x - _HALF) / np.float32(1.5) if large else x
    s = shifted / (_TWO + shifted)
    q = s * s
    series = np.float32(1 / 9) + q * np.float32(1 / 11)
    series = np.float32(1 / 5) + q * (np.float32(1 / 7) + q * series)
    series = _TWO * s + _TWO * s * q * (np.float32(1 / 3) + q * series)
    return series + (np.float32(0.4054651081081644) if large else _ZERO)


sigmoid = inlined(number_function(elementwise_reference.sigmoid, ["float32"], {"exp": exponential}))


@inlined
def tanh(x):
    """Hyperbolic tangent; near 0 by its series, where 1 - 2 / (1 + e**2x) would cancel."""
    q = x * x
    tail = np.float32(62 / 2835) + q * np.float32(-1382 / 155925)
    tail = np.float32(2 / 15) + q * (np.float32(-17 / 315) + q * tail)
    series = x + x * q * (np.float32(-1 / 3) + q * tail)
    far = _ONE - _TWO / (_ONE + exponential(_TWO * x))
    return series if q < np.float32(0.16) else far


# What follows is for kernels that are `ordered`: sums in another order lose what the splits keep.


@inlined
def bell(t):
    """exp(-t**2 / 2) for 0 <= t <= 13.2665; 0 at the end.

    t**2 / 2 is rounded nowhere: t is split into its upper 12 bits, whose square is a float32, and
    the rest. The polynomial errs by at most 7e-8, as a minimax fit on |r| <= log(2) / 2.
    """
    upper = np.int32(np.float32(t).view(np.int32) & _TOP_BITS).view(np.float32)
    n = np.floor(_HALF - t * t * _HALF_LOG2_E)
    r = _HALF * upper * upper + n * LOG_2_HIGH
    r = r + n * LOG_2_LOW + _HALF * ((t - upper) * (t + upper))
    p = np.float32(0.04191649065741676) - np.float32(0.00829147034978633) * r
    p = np.float32(0.16667674657015905) - p * r
    p = np.float32(0.4999888613231448) - p * r
    p = np.float32(0.9999996602135041) - p * r
    p = np.float32(1.0000000722763058) - p * r
    return p * np.int32((np.int32(n) + np.int32(127)) << np.int32(23)).view(np.float32)


_TAIL = elementwise_reference.tail_by_mills_ratio(lambda xp, t: t.call("bell"), 13.2665)


def gelu_formula(xp: Any, x: Any) -> Any:
    """The formula of GELU, to be traced: `bell` has all digits of the tail."""
    return elementwise_reference.gelu_erf(xp, x, _TAIL)


def gelu_gradient_formula(xp: Any, g: Any, x: Any) -> Any:
    """That of its gradient."""
    return elementwise_reference.gelu_erf_gradient(xp, g, x, _TAIL)


gelu = inlined(number_function(gelu_formula, ["float32"], {"bell": bell}))
gelu_gradient = inlined(number_function(gelu_gradient_formula, ["float32"] * 2, {"bell": bell}))
