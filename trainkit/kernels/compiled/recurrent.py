"""LSTM over whole sequences: each worker takes eight samples through all steps, without a pause."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float32, prange, void

from trainkit.kernels.compiled.activations import sigmoid, tanh
from trainkit.kernels.compiled.options import compiled

_CUBE, _MATRIX = float32[:, :, ::1], float32[:, ::1]


def lstm(units: int, block: int) -> Any:
    """`run(projected, h, c, kernel, hidden, memory, gates)` for this many units."""
    width = 4 * units

    @compiled()
    def run(projected, h, c, kernel, hidden, memory, gates):
        batch, steps = projected.shape[0], projected.shape[1]
        for number in prange((batch + 7) // 8):
            first = np.int64(number) * 8
            here = min(8, batch - first)
            state = np.zeros((8, units), np.float32)
            cell = np.zeros((8, units), np.float32)
            z = np.zeros((8, width), np.float32)
            for q in range(here):
                for u in range(units):
                    state[q, u] = h[first + q, u]
                    cell[q, u] = c[first + q, u]
            for t in range(steps):
                for f0 in range(0, width, block):
                    acc = np.zeros((8, block), np.float32)
                    for k in range(units):
                        s0, s1, s2, s3 = state[0, k], state[1, k], state[2, k], state[3, k]
                        s4, s5, s6, s7 = state[4, k], state[5, k], state[6, k], state[7, k]
                        for f in range(block):
                            w = kernel[k, f0 + f]
                            acc[0, f] += s0 * w
                            acc[1, f] += s1 * w
                            acc[2, f] += s2 * w
                            acc[3, f] += s3 * w
                            acc[4, f] += s4 * w
                            acc[5, f] += s5 * w
                            acc[6, f] += s6 * w
                            acc[7, f] += s7 * w
                    for q in range(8):
                        for f in range(block):
                            z[q, f0 + f] = acc[q, f]
                for q in range(here):
                    n = first + q
                    for u in range(units):
                        i = sigmoid(z[q, u] + projected[n, t, u])
                        f = sigmoid(z[q, units + u] + projected[n, t, units + u])
                        g = tanh(z[q, 2 * units + u] + projected[n, t, 2 * units + u])
                        o = sigmoid(z[q, 3 * units + u] + projected[n, t, 3 * units + u])
                        new = f * cell[q, u] + i * g
                        out = o * tanh(new)
                        cell[q, u], state[q, u] = new, out
                        memory[n, t, u], hidden[n, t, u] = new, out
                        gates[n, t, u] = i
                        gates[n, t, units + u] = f
                        gates[n, t, 2 * units + u] = g
                        gates[n, t, 3 * units + u] = o

    run.compile(void(_CUBE, _MATRIX, _MATRIX, _MATRIX, _CUBE, _CUBE, _CUBE))
    return run


def lstm_gradient(units: int, block: int) -> Any:
    """`run(by_hidden, by_memory, c, turned, memory, gates, slopes, by_h, by_c)`.

    `turned` is the recurrent kernel with its axes swapped.
    """
    width = 4 * units

    @compiled()
    def run(by_hidden, by_memory, c, turned, memory, gates, slopes, by_h, by_c):
        batch, steps = gates.shape[0], gates.shape[1]
        one = np.float32(1)
        for number in prange((batch + 7) // 8):
            first = np.int64(number) * 8
            here = min(8, batch - first)
            dh = np.zeros((8, units), np.float32)
            dc = np.zeros((8, units), np.float32)
            z = np.zeros((8, width), np.float32)
            for back in range(steps):
                t = steps - 1 - back
                for q in range(here):
                    n = first + q
                    for u in range(units):
                        i, f = gates[n, t, u], gates[n, t, units + u]
                        g, o = gates[n, t, 2 * units + u], gates[n, t, 3 * units + u]
                        before = memory[n, t - 1, u] if t > 0 else c[n, u]
                        squashed = tanh(memory[n, t, u])
                        slope_h = dh[q, u] + by_hidden[n, t, u]
                        slope_c = dc[q, u] + by_memory[n, t, u]
                        slope_c += slope_h * o * (one - squashed * squashed)
                        dc[q, u] = slope_c * f
                        z[q, u] = slope_c * g * i * (one - i)
                        z[q, units + u] = slope_c * before * f * (one - f)
                        z[q, 2 * units + u] = slope_c * i * (one - g * g)
                        z[q, 3 * units + u] = slope_h * squashed * o * (one - o)
                    for f0 in range(width):
                        slopes[n, t, f0] = z[q, f0]
                for u0 in range(0, units, block):
                    acc = np.zeros((8, block), np.float32)
                    for k in range(width):
                        s0, s1, s2, s3 = z[0, k], z[1, k], z[2, k], z[3, k]
                        s4, s5, s6, s7 = z[4, k], z[5, k], z[6, k], z[7, k]
                        for u in range(block):
                            w = turned[k, u0 + u]
                            acc[0, u] += s0 * w
                            acc[1, u] += s1 * w
                            acc[2, u] += s2 * w
                            acc[3, u] += s3 * w
                            acc[4, u] += s4 * w
                            acc[5, u] += s5 * w
                            acc[6, u] += s6 * w
                            acc[7, u] += s7 * w
                    for q in range(8):
                        for u in range(block):
                            dh[q, u0 + u] = acc[q, u]
            for q in range(here):
                for u in range(units):
                    by_h[first + q, u] = dh[q, u]
                    by_c[first + q, u] = dc[q, u]

    matrices = (_MATRIX, _MATRIX)
    run.compile(void(_CUBE, _CUBE, *matrices, _CUBE, _CUBE, _CUBE, *matrices))
    return run
