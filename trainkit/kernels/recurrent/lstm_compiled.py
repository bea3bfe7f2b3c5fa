"""LSTM over whole sequences: each worker takes some samples through all steps, without a pause.

What a worker keeps from step to step lies in arrays that the caller gives: LLVM is promised that
arrays which are given do not overlap, but not that those made inside do not, and then it would make
no vectors of the loops over units.
"""

from __future__ import annotations

import numpy as np

from trainkit.kernels.elementwise.vector_math import sigmoid, tanh
from trainkit.kernels.jit.builders import CUBE, MATRIX, VECTOR, by_parts
from trainkit.kernels.jit.local_arrays import keep_alive
from trainkit.kernels.jit.options import inlined
from trainkit.kernels.matmul.matmul_compiled import add_rows, packed_size, packed_weights
from trainkit.kernels.threads.parallel_for import chunk_range


@inlined
def take_before(room, states, first, worker, q, n, t):
    """Put the state of sample n before step t, `first` before all, into a row of `room`."""
    if t:
        for u in range(room.shape[2]):
            room[worker, q, u] = states[n, t - 1, u]
    else:
        for u in range(room.shape[2]):
            room[worker, q, u] = first[n, u]


@by_parts(CUBE, MATRIX, *[CUBE] * 6, apart=True)
def lstm(part, parts, projected, kernel, hidden, memory, gates, state, cell, z):
    """Hidden states, memory and gates of all steps.

    Without a gradient memory and gates are read by nobody, and to write them takes a tenth of the
    time: they may be (workers, 1, ...), whose rows each step writes over. `state` and `cell`,
    (workers, samples, units), hold the first h and c, the samples being a multiple of 8; `z`,
    (workers, samples, 4 units), is room.
    """
    units = state.shape[2]
    width = 4 * units
    batch, steps, samples = projected.shape[0], projected.shape[1], state.shape[1]
    strips = np.empty(packed_size(units, width, batch, steps), np.float32)
    lying = kernel.ctypes.data, width
    weights = packed_weights(lying, units, width, batch, steps, strips.ctypes.data)
    is_whole = gates.shape[0] == batch and gates.shape[1] == steps
    first_worker, last_worker = chunk_range(part, parts, state.shape[0], 1)
    for number in range(first_worker, last_worker):
        worker = np.int64(number)
        own_samples = min(samples, batch - worker * samples)
        before, sums = (state[worker].ctypes.data, units), (z[worker].ctypes.data, width)
        for t in range(steps):
            inputs = projected[worker * samples, t].ctypes.data, steps * width
            add_rows(before, weights, inputs, sums, own_samples, units, width)
            for q in range(own_samples):
                n = worker * samples + q
                row, step = (n, t) if is_whole else (worker, 0)
                for u in range(units):
                    i = sigmoid(z[worker, q, u])
                    f = sigmoid(z[worker, q, units + u])
                    g = tanh(z[worker, q, 2 * units + u])
                    o = sigmoid(z[worker, q, 3 * units + u])
                    c = f * cell[worker, q, u] + i * g
                    h = o * tanh(c)
                    cell[worker, q, u] = c
                    state[worker, q, u] = h
                    memory[row, step, u] = c
                    hidden[n, t, u] = h
                    gates[row, step, u] = i
                    gates[row, step, units + u] = f
                    gates[row, step, 2 * units + u] = g
                    gates[row, step, 3 * units + u] = o
    keep_alive(strips)


@by_parts(CUBE, CUBE, MATRIX, MATRIX, *[CUBE] * 7, VECTOR, apart=True)
def lstm_gradient(
    part, parts, by_hidden, by_memory, first, turned, memory, gates, grads, dh, dc, z, room, none
):
    """Gradients of `lstm`.

    `by_memory` may have no samples: then nothing comes back through c but what is in `dc`. `first`
    is c before the first step, `turned` the recurrent kernel with its axes swapped. `dh` and `dc`,
    (workers, samples, units), are zeros, in the end gradients by the first h and c; `z`, four
    times as wide, and `room` are room; `none` are as many zeros as units.
    """
    units = dh.shape[2]
    width = 4 * units
    batch, steps, samples = gates.shape[0], gates.shape[1], dh.shape[1]
    one = np.float32(1)
    strips = np.empty(packed_size(width, units, batch, steps), np.float32)
    lying = turned.ctypes.data, units
    weights = packed_weights(lying, width, units, batch, steps, strips.ctypes.data)
    first_worker, last_worker = chunk_range(part, parts, dh.shape[0], 1)
    for number in range(first_worker, last_worker):
        worker = np.int64(number)
        own_samples = min(samples, batch - worker * samples)
        back, grad = (dh[worker].ctypes.data, units), (z[worker].ctypes.data, width)
        for q in range(own_samples):
            n = worker * samples + q
            for u in range(units):
                dh[worker, q, u] = by_hidden[n, steps - 1, u]
        for after in range(steps):
            t = steps - 1 - after
            for q in range(own_samples):
                n = worker * samples + q
                if by_memory.shape[0]:
                    for u in range(units):
                        dc[worker, q, u] += by_memory[n, t, u]
                take_before(room, memory, first, worker, q, n, t)
                for u in range(units):
                    i, f = gates[n, t, u], gates[n, t, units + u]
                    g, o = gates[n, t, 2 * units + u], gates[n, t, 3 * units + u]
                    squashed, by_h = tanh(memory[n, t, u]), dh[worker, q, u]
                    by_c = dc[worker, q, u] + by_h * o * (one - squashed * squashed)
                    by_i = by_c * g * i * (one - i)
                    by_f = by_c * room[worker, q, u] * f * (one - f)
                    by_g = by_c * i * (one - g * g)
                    by_o = by_h * squashed * o * (one - o)
                    dc[worker, q, u] = by_c * f
                    z[worker, q, u] = by_i
                    z[worker, q, units + u] = by_f
                    z[worker, q, 2 * units + u] = by_g
                    z[worker, q, 3 * units + u] = by_o
                for u in range(width):
                    grads[n, t, u] = z[worker, q, u]
            start, apart = none.ctypes.data, 0
            if t:
                start = by_hidden[worker * samples, t - 1].ctypes.data
                apart = steps * units
            add_rows(grad, weights, (start, apart), back, own_samples, width, units)
    keep_alive(strips)
