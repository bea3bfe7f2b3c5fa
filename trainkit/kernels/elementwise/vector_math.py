"""Exponential, logarithm, error function and relatives of float32 that LLVM makes vector code of.

Each is a function of one number without branches. NaN stays NaN, and comparisons are written so
that it does: `most if x > most else x` keeps it, `min(x, most)` need not.
"""

from __future__ import annotations

import numpy as np

from trainkit.kernels.jit.options import inlined

_LOG2_E = np.float32(1.4426950408889634)
_LOG_2_HIGH = np.float32(0.693359375)
_LOG_2_LOW = np.float32(-2.12194440e-4)
_LOG_2 = np.float32(0.6931471805599453)
_TERMS = tuple(np.float32(1 / n) for n in (720, 120, 24, 6, 2, 1, 1))
_C7 = np.float32(1 / 5040)
_C6, _C5, _C4, _C3, _C2, _C1, _C0 = _TERMS
_HALF, _ZERO, _ONE, _TWO = np.float32(0.5), np.float32(0), np.float32(1), np.float32(2)
_LEAST, _MOST = np.float32(-88), np.float32(89)
_HALF_LOG2_E = np.float32(0.5 * 1.4426950408889634)
_DENSITY = np.float32((2 * np.pi) ** -0.5)
_FARTHEST = np.float32(13.2665)
_TOP_BITS = np.int32(-4096)


@inlined
def exponential(x):
    """e**x: 0 up to -87.7, inf from 88.4 on.

    It splits x into n * log(2) + r with |r| <= log(2) / 2, sums eight terms of the series for r,
    and sets n as the exponent. Source: Cody and Waite 1980, "Software manual for the elementary
    functions" (the split of log(2) in two).
    """
    x = _MOST if x > _MOST else x
    x = _LEAST if x < _LEAST else x
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


@inlined
def sigmoid(x):
    """1 / (1 + e**-x)."""
    return _ONE / (_ONE + exponential(-x))


@inlined
def tanh(x):
    """Hyperbolic tangent; near 0 by its series, where 1 - 2 / (1 + e**2x) would cancel."""
    q = x * x
    tail = np.float32(62 / 2835) + q * np.float32(-1382 / 155925)
    tail = np.float32(2 / 15) + q * (np.float32(-17 / 315) + q * tail)
    series = x + x * q * (np.float32(-1 / 3) + q * tail)
    far = _ONE - _TWO / (_ONE + exponential(_TWO * x))
    return series if q < np.float32(0.16) else far


@inlined
def softplus(x):
    """log(1 + e**x)."""
    size = abs(x)
    return (x if x > _ZERO else _ZERO) + log_one_plus(exponential(-size))


@inlined
def erf(x):
    """Error function, x times the ratio of polynomials in x**2 of `ops.math.error_functions`."""
    x = np.float32(4) if x > np.float32(4) else x
    x = np.float32(-4) if x < np.float32(-4) else x
    q = x * x
    top = np.float32(1.986648191844802e-06) * q + np.float32(0.00028455542942285256)
    top = top * q + np.float32(0.003883339700814107)
    top = top * q + np.float32(0.05310175418127554)
    top = top * q + np.float32(0.1935464549078571)
    top = top * q + np.float32(1.1283791394067937)
    bottom = np.float32(3.741820720134403e-05) * q + np.float32(0.001185549400101956)
    bottom = bottom * q + np.float32(0.015207271334095171)
    bottom = bottom * q + np.float32(0.11535041196506143)
    bottom = bottom * q + np.float32(0.5048586373291866)
    bottom = bottom * q + _ONE
    y = x * top / bottom
    y = _ONE if y > _ONE else y
    return -_ONE if y < -_ONE else y


# What follows is for kernels that are `ordered`: sums in another order lose what the splits keep.


@inlined
def bell(t):
    """exp(-t**2 / 2) for 0 <= t <= 13.2665; 0 at the end.

    t**2 / 2 is rounded nowhere: t is split into its upper 12 bits, whose square is a float32, and
    the rest. The polynomial errs by at most 7e-8, as a minimax fit on |r| <= log(2) / 2.
    """
    upper = np.int32(np.float32(t).view(np.int32) & _TOP_BITS).view(np.float32)
    n = np.floor(_HALF - t * t * _HALF_LOG2_E)
    r = _HALF * upper * upper + n * _LOG_2_HIGH
    r = r + n * _LOG_2_LOW + _HALF * ((t - upper) * (t + upper))
    p = np.float32(0.04191649065741676) - np.float32(0.00829147034978633) * r
    p = np.float32(0.16667674657015905) - p * r
    p = np.float32(0.4999888613231448) - p * r
    p = np.float32(0.9999996602135041) - p * r
    p = np.float32(1.0000000722763058) - p * r
    return p * np.int32((np.int32(n) + np.int32(127)) << np.int32(23)).view(np.float32)


@inlined
def mills_ratio(t):
    """exp(t**2 / 2) times the normal distribution function of -t, for 0 <= t <= 13.2665.

    The ratio of polynomials in t of `ops.math.error_functions`.
    """
    top = np.float32(2.1165280294169975e-07) * t + np.float32(0.014576691117281501)
    top = top * t + np.float32(0.10857582039537265)
    top = top * t + np.float32(0.34170183700256435)
    top = top * t + np.float32(0.4999999286043085)
    bottom = np.float32(0.03656405080589212) * t + np.float32(0.2716341301620386)
    bottom = bottom * t + np.float32(0.8991085342080644)
    bottom = bottom * t + np.float32(1.481280571431044)
    bottom = bottom * t + _ONE
    return top / bottom


@inlined
def gelu(x):
    """X times the normal distribution function, with all digits of the tail."""
    t = abs(x)
    t = _FARTHEST if t > _FARTHEST else t
    tail = t * mills_ratio(t) * bell(t)
    return x - tail if x >= _ZERO else -tail


@inlined
def gelu_slope(x):
    """The derivative of `gelu`, distribution + x * density."""
    t = abs(x)
    t = _FARTHEST if t > _FARTHEST else t
    tail = (mills_ratio(t) - t * _DENSITY) * bell(t)
    return _ONE - tail if x >= _ZERO else tail
