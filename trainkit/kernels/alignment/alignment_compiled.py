"""Forward and backward variables of CTC, row by row, each step's states in vectors.

The arithmetic is of float64, whatever the arrays hold.
"""

from __future__ import annotations

import numpy as np
from numba import boolean, float32, float64, types

from trainkit.kernels.jit.builders import by_parts
from trainkit.kernels.jit.options import inlined
from trainkit.kernels.special.double_math import exponential, logarithm
from trainkit.kernels.threads.parallel_for import chunk_range

_FAR = -1e30  # stands for log(0)
_INTS = types.int64[::1]
_CHOICES = boolean[:, ::1]


@inlined
def _log_sum(one, two, three):
    """log(exp(one) + exp(two) + exp(three)), no overflow."""
    top = one if one > two else two
    top = top if top > three else three
    return top + logarithm(
        exponential(one - top) + exponential(two - top) + exponential(three - top)
    )


def _forward(part, parts, emitted, skips, lengths, alpha):
    """Log of the chance of all ways to each state at each time, (batch, time, states)."""
    rows, steps, states = emitted.shape
    begin, end = chunk_range(part, parts, rows, 1)
    for b in range(begin, end):
        for s in range(states):
            alpha[b, 0, s] = emitted[b, 0, s] if s < 2 else _FAR
        for t in range(1, min(steps, lengths[b])):
            for s in range(min(2, states)):
                before = np.float64(alpha[b, t - 1, s - 1]) if s else _FAR
                ways = _log_sum(np.float64(alpha[b, t - 1, s]), before, _FAR)
                alpha[b, t, s] = ways + emitted[b, t, s]
            for s in range(2, states):
                leap = np.float64(alpha[b, t - 1, s - 2])
                leap = leap if skips[b, s] else _FAR
                near = np.float64(alpha[b, t - 1, s - 1])
                ways = _log_sum(np.float64(alpha[b, t - 1, s]), near, leap)
                alpha[b, t, s] = ways + emitted[b, t, s]
        for t in range(max(1, lengths[b]), steps):
            for s in range(states):
                alpha[b, t, s] = alpha[b, t - 1, s]


def _backward(part, parts, emitted, skips, last, lengths, beta):
    """Log of the chance of all ways from each state at each time to the end."""
    rows, steps, states = emitted.shape
    begin, end = chunk_range(part, parts, rows, 1)
    for b in range(begin, end):
        for t in range(max(0, lengths[b] - 1), steps):
            for s in range(states):
                beta[b, t, s] = 0.0 if s == last[b] or s == last[b] - 1 else _FAR
        for t in range(min(steps, lengths[b]) - 2, -1, -1):
            for s in range(states - 2):
                same = np.float64(beta[b, t + 1, s]) + np.float64(emitted[b, t + 1, s])
                near = np.float64(beta[b, t + 1, s + 1]) + np.float64(emitted[b, t + 1, s + 1])
                leap = np.float64(beta[b, t + 1, s + 2]) + np.float64(emitted[b, t + 1, s + 2])
                leap = leap if skips[b, s + 2] else _FAR
                beta[b, t, s] = _log_sum(same, near, leap)
            for s in range(max(0, states - 2), states):
                same = np.float64(beta[b, t + 1, s]) + np.float64(emitted[b, t + 1, s])
                near = _FAR
                if s + 1 < states:
                    near = np.float64(beta[b, t + 1, s + 1]) + np.float64(emitted[b, t + 1, s + 1])
                beta[b, t, s] = _log_sum(same, near, _FAR)


def _forward_for(kind):
    return by_parts(kind[:, :, ::1], _CHOICES, _INTS, kind[:, :, ::1], ordered=True)(_forward)


def _backward_for(kind):
    kinds = kind[:, :, ::1], _CHOICES, _INTS, _INTS, kind[:, :, ::1]
    return by_parts(*kinds, ordered=True)(_backward)


forward, forward_float64 = _forward_for(float32), _forward_for(float64)
backward, backward_float64 = _backward_for(float32), _backward_for(float64)
