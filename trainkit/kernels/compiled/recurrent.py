"""LSTM over whole sequences: each worker takes eight samples through all steps, without a pause.

What a worker keeps from step to step lies in arrays that the caller gives: Numba promises LLVM
that the arrays given to a parallel loop do not overlap, but not that those made inside it do not,
and then sums would go through memory. For the same reason loops are short, with few arrays each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float32, prange, void

from trainkit.kernels.compiled.activations import sigmoid, tanh
from trainkit.kernels.compiled.options import compiled

_CUBE, _MATRIX = float32[:, :, ::1], float32[:, ::1]


def lstm(units: int) -> Any:
    """`run(projected, kernel, hidden, memory, gates, state, cell, z)` for a multiple of 32 units.

    `state` and `cell`, (workers, 8, units), hold the first h and c; `z`, (workers, 8, 4 units), is
    room.
    """
    width = 4 * units

    @compiled()
    def run(projected, kernel, hidden, memory, gates, state, cell, z):
        batch, steps = projected.shape[0], projected.shape[1]
        for number in prange(state.shape[0]):
            worker = np.int64(number)
            here = min(8, batch - worker * 8)
            for t in range(steps):
                for f0 in range(0, width, 32):
                    acc = np.zeros((8, 32), np.float32)
                    for k in range(units):
                        s0, s1 = state[worker, 0, k], state[worker, 1, k]
                        s2, s3 = state[worker, 2, k], state[worker, 3, k]
                        s4, s5 = state[worker, 4, k], state[worker, 5, k]
                        s6, s7 = state[worker, 6, k], state[worker, 7, k]
                        for f in range(32):
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
                        for f in range(32):
                            z[worker, q, f0 + f] = acc[q, f]
                for q in range(here):
                    n = worker * 8 + q
                    for u in range(width):
                        z[worker, q, u] += projected[n, t, u]
                    for u in range(2 * units):
                        z[worker, q, u] = sigmoid(z[worker, q, u])
                    for u in range(2 * units, 3 * units):
                        z[worker, q, u] = tanh(z[worker, q, u])
                    for u in range(3 * units, width):
                        z[worker, q, u] = sigmoid(z[worker, q, u])
                    for u in range(units):
                        new = z[worker, q, u] * z[worker, q, 2 * units + u]
                        cell[worker, q, u] = z[worker, q, units + u] * cell[worker, q, u] + new
                    for u in range(units):
                        state[worker, q, u] = z[worker, q, 3 * units + u] * tanh(cell[worker, q, u])
                    for u in range(width):
                        gates[n, t, u] = z[worker, q, u]
                    for u in range(units):
                        memory[n, t, u] = cell[worker, q, u]
                    for u in range(units):
                        hidden[n, t, u] = state[worker, q, u]

    run.compile(void(_CUBE, _MATRIX, *[_CUBE] * 6))
    return run


def lstm_gradient(units: int) -> Any:
    """`run(by_hidden, by_memory, before, turned, memory, gates, slopes, dh, dc, z, room)`.

    `before` is c before each step, `turned` the recurrent kernel with its axes swapped. `dh` and
    `dc`, (workers, 8, units), are zeros, in the end gradients by the first h and c; `z`, (workers,
    8, 4 units), and `room`, (workers, 8, units), are room.
    """
    width = 4 * units

    @compiled()
    def run(by_hidden, by_memory, before, turned, memory, gates, slopes, dh, dc, z, room):
        batch, steps = gates.shape[0], gates.shape[1]
        one = np.float32(1)
        for number in prange(dh.shape[0]):
            worker = np.int64(number)
            here = min(8, batch - worker * 8)
            for back in range(steps):
                t = steps - 1 - back
                for q in range(here):
                    n = worker * 8 + q
                    for u in range(units):
                        room[worker, q, u] = tanh(memory[n, t, u])
                    for u in range(units):
                        dh[worker, q, u] += by_hidden[n, t, u]
                    for u in range(units):
                        squashed, out = room[worker, q, u], gates[n, t, 3 * units + u]
                        slope = dh[worker, q, u]
                        z[worker, q, 3 * units + u] = slope * squashed * out * (one - out)
                        room[worker, q, u] = slope * out * (one - squashed * squashed)
                    for u in range(units):
                        dc[worker, q, u] += by_memory[n, t, u] + room[worker, q, u]
                    for u in range(units):
                        i, g = gates[n, t, u], gates[n, t, 2 * units + u]
                        z[worker, q, u] = dc[worker, q, u] * g * i * (one - i)
                        z[worker, q, 2 * units + u] = dc[worker, q, u] * i * (one - g * g)
                    for u in range(units):
                        f = gates[n, t, units + u]
                        slope = dc[worker, q, u]
                        z[worker, q, units + u] = slope * before[n, t, u] * f * (one - f)
                        dc[worker, q, u] = slope * f
                    for u in range(width):
                        slopes[n, t, u] = z[worker, q, u]
                for u0 in range(0, units, 32):
                    acc = np.zeros((8, 32), np.float32)
                    for k in range(width):
                        s0, s1 = z[worker, 0, k], z[worker, 1, k]
                        s2, s3 = z[worker, 2, k], z[worker, 3, k]
                        s4, s5 = z[worker, 4, k], z[worker, 5, k]
                        s6, s7 = z[worker, 6, k], z[worker, 7, k]
                        for u in range(32):
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
                        for u in range(32):
                            dh[worker, q, u0 + u] = acc[q, u]

    run.compile(void(_CUBE, _CUBE, _CUBE, _MATRIX, *[_CUBE] * 7))
    return run
