"""LSTM over whole sequences: each worker takes some samples through all steps, without a pause.

What a worker keeps from step to step lies in arrays that the caller gives: LLVM is promised that
arrays which are given do not overlap, but not that those made inside do not, and then it would make
no vectors of the loops over units.

What has a number for each step may be of 16-bit floats: it is read and rounded where it lies, and
all between is float32.
"""

from __future__ import annotations

import numpy as np

from trainkit.kernels.elementwise.vector_math import sigmoid, tanh
from trainkit.kernels.jit.builders import CUBE, MATRIX, VECTOR, by_parts
from trainkit.kernels.jit.elements import FLOAT16_CUBE, HALF_CUBE, as_element, as_float
from trainkit.kernels.jit.local_arrays import keep_alive
from trainkit.kernels.jit.options import inlined
from trainkit.kernels.matmul.matmul_compiled import add_rows, packed_size, packed_weights
from trainkit.kernels.threads.parallel_for import chunk_range


@inlined
def take_before(room, states, first, worker, q, n, t):
    """Put the state of sample n before step t, `first` before all, into a row of `room`."""
    if t:
        for u in range(room.shape[2]):
            room[worker, q, u] = as_float(states[n, t - 1, u])
    else:
        for u in range(room.shape[2]):
            room[worker, q, u] = first[n, u]


@inlined
def widen_step(target, source, first, worker, samples, t):
    """Put what is known of step t of the first samples from `first` on into a row for each."""
    for q in range(samples):
        for u in range(target.shape[2]):
            target[worker, q, u] = as_float(source[first + q, t, u])


def _lstm(part, parts, projected, kernel, hidden, memory, gates, state, cell, z):
    """Hidden states, memory and gates of all steps.

    Without a gradient memory and gates are read by nobody: they may have no samples. `state` and
    `cell`, (workers, samples, units), hold the first h and c, the samples being a multiple of 8;
    `z`, (workers, samples, 4 units), is room.
    """
    units = state.shape[2]
    width = 4 * units
    batch, steps, samples = projected.shape[0], projected.shape[1], state.shape[1]
    strips = np.empty(packed_size(units, width, batch, steps), np.float32)
    lying = kernel.ctypes.data, width
    weights = packed_weights(lying, units, width, batch, steps, strips.ctypes.data)
    is_trained = gates.shape[0] > 0
    first_worker, last_worker = chunk_range(part, parts, state.shape[0], 1)
    for number in range(first_worker, last_worker):
        worker = np.int64(number)
        own_samples = min(samples, batch - worker * samples)
        before, sums = (state[worker].ctypes.data, units), (z[worker].ctypes.data, width)
        for t in range(steps):
            inputs = sums
            if projected.itemsize == 4:
                inputs = projected[worker * samples, t].ctypes.data, steps * width
            else:
                widen_step(z, projected, worker * samples, worker, own_samples, t)
            add_rows(before, weights, inputs, sums, own_samples, units, width)
            for q in range(own_samples):
                n = worker * samples + q
                for u in range(units):
                    i = sigmoid(z[worker, q, u])
                    f = sigmoid(z[worker, q, units + u])
                    g = tanh(z[worker, q, 2 * units + u])
                    o = sigmoid(z[worker, q, 3 * units + u])
                    c = f * cell[worker, q, u] + i * g
                    h = o * tanh(c)
                    cell[worker, q, u] = c
                    state[worker, q, u] = h
                    hidden[n, t, u] = as_element(h, hidden)
                    if is_trained:
                        memory[n, t, u] = as_element(c, memory)
                        gates[n, t, u] = as_element(i, gates)
                        gates[n, t, units + u] = as_element(f, gates)
                        gates[n, t, 2 * units + u] = as_element(g, gates)
                        gates[n, t, 3 * units + u] = as_element(o, gates)
    keep_alive(strips)


def _lstm_gradient(
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
                dh[worker, q, u] = as_float(by_hidden[n, steps - 1, u])
        for after in range(steps):
            t = steps - 1 - after
            for q in range(own_samples):
                n = worker * samples + q
                if by_memory.shape[0]:
                    for u in range(units):
                        dc[worker, q, u] += as_float(by_memory[n, t, u])
                take_before(room, memory, first, worker, q, n, t)
                for u in range(units):
                    i, f = as_float(gates[n, t, u]), as_float(gates[n, t, units + u])
                    g = as_float(gates[n, t, 2 * units + u])
                    o = as_float(gates[n, t, 3 * units + u])
                    squashed, by_h = tanh(as_float(memory[n, t, u])), dh[worker, q, u]
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
                    grads[n, t, u] = as_element(z[worker, q, u], grads)
            start = none.ctypes.data, 0
            if t and by_hidden.itemsize == 4:
                start = by_hidden[worker * samples, t - 1].ctypes.data, steps * units
            elif t:
                widen_step(dh, by_hidden, worker * samples, worker, own_samples, t - 1)
                start = back
            add_rows(grad, weights, start, back, own_samples, width, units)
    keep_alive(strips)


def _builders(states):
    """The builders of both for states of one type of elements."""
    return (
        by_parts(states, MATRIX, *[states] * 3, *[CUBE] * 3, apart=True)(_lstm),
        by_parts(states, states, MATRIX, MATRIX, *[states] * 3, *[CUBE] * 4, VECTOR, apart=True)(
            _lstm_gradient
        ),
    )


lstm, lstm_gradient = _builders(CUBE)
lstm_bfloat16, lstm_gradient_bfloat16 = _builders(HALF_CUBE)
lstm_float16, lstm_gradient_float16 = _builders(FLOAT16_CUBE)
