"""Exponential, sigmoid and tanh of float32 that LLVM turns into vector instructions.

The exponential splits x into n * log(2) + r with |r| <= log(2) / 2, sums eight terms of the series
for r, and sets n as the exponent. Source: Cody and Waite 1980, "Software manual for the elementary
functions" (the split of log(2) in two).
"""

from __future__ import annotations

import numpy as np
from numba import njit

_LOG2_E = np.float32(1.4426950408889634)
_LOG_2_HIGH = np.float32(0.693359375)
_LOG_2_LOW = np.float32(-2.12194440e-4)
_TERMS = tuple(np.float32(1 / n) for n in (720, 120, 24, 6, 2, 1, 1))
_C7 = np.float32(1 / 5040)
_C6, _C5, _C4, _C3, _C2, _C1, _C0 = _TERMS
_HALF, _ONE, _TWO = np.float32(0.5), np.float32(1), np.float32(2)
_LEAST, _MOST = np.float32(-87), np.float32(88)


@njit(error_model="numpy", inline="always", fastmath={"contract", "nnan", "nsz"})
def exponential(x):
    """e**x, between e**-87 and e**88."""
    x = min(max(x, _LEAST), _MOST)
    n = np.floor(x * _LOG2_E + _HALF)
    r = x - n * _LOG_2_HIGH - n * _LOG_2_LOW
    p = _C7 * r + _C6
    p = p * r + _C5
    p = p * r + _C4
    p = p * r + _C3
    p = p * r + _C2
    p = p * r + _C1
    p = p * r + _C0
    power = np.int32((np.int32(n) + np.int32(127)) << np.int32(23)).view(np.float32)
    return p * power


@njit(error_model="numpy", inline="always", fastmath={"contract", "nnan", "nsz"})
def sigmoid(x):
    """1 / (1 + e**-x)."""
    return _ONE / (_ONE + exponential(-x))


@njit(error_model="numpy", inline="always", fastmath={"contract", "nnan", "nsz"})
def tanh(x):
    """Hyperbolic tangent; near 0 by its series, where 1 - 2 / (1 + e**2x) would cancel."""
    q = x * x
    tail = np.float32(62 / 2835) + q * np.float32(-1382 / 155925)
    tail = np.float32(2 / 15) + q * (np.float32(-17 / 315) + q * tail)
    series = x + x * q * (np.float32(-1 / 3) + q * tail)
    far = _ONE - _TWO / (_ONE + exponential(_TWO * x))
    return series if q < np.float32(0.16) else far
