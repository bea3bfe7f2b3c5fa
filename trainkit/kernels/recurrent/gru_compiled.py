"""GRU over whole sequences, each worker with some samples, as `lstm_compiled` does LSTM."""

from __future__ import annotations

import numpy as np

from trainkit.kernels.elementwise.vector_math import sigmoid, tanh
from trainkit.kernels.jit.builders import CUBE, MATRIX, VECTOR, by_parts
from trainkit.kernels.jit.local_arrays import keep_alive
from trainkit.kernels.matmul.matmul_compiled import add_rows, behind, packed_size, packed_weights
from trainkit.kernels.recurrent.lstm_compiled import take_before
from trainkit.kernels.threads.parallel_for import chunk_range


@by_parts(CUBE, MATRIX, VECTOR, *[CUBE] * 4, apart=True)
def gru(part, parts, projected, kernel, bias, hidden, gates, state, z):
    """A GRU whose reset gate multiplies after the product.

    `bias` is that of the state's product; `state`, (workers, samples, units), holds the first h,
    the samples being a multiple of 8; `z`, (workers, samples, 3 units), is room. Gates may be
    (workers, 1, 4 units), as those of `lstm`.
    """
    units = state.shape[2]
    width = 3 * units
    batch, steps, samples = projected.shape[0], projected.shape[1], state.shape[1]
    strips = np.empty(packed_size(units, width, batch, steps), np.float32)
    lying, offsets = (kernel.ctypes.data, width), (bias.ctypes.data, 0)
    weights = packed_weights(lying, units, width, batch, steps, strips.ctypes.data)
    is_whole = gates.shape[0] == batch and gates.shape[1] == steps
    first_worker, last_worker = chunk_range(part, parts, state.shape[0], 1)
    for number in range(first_worker, last_worker):
        worker = np.int64(number)
        own_samples = min(samples, batch - worker * samples)
        before, sums = (state[worker].ctypes.data, units), (z[worker].ctypes.data, width)
        for t in range(steps):
            add_rows(before, weights, offsets, sums, own_samples, units, width)
            for q in range(own_samples):
                n = worker * samples + q
                row, step = (n, t) if is_whole else (worker, 0)
                for u in range(units):
                    share = z[worker, q, 2 * units + u]
                    gates[row, step, 3 * units + u] = share
                    update = sigmoid(projected[n, t, u] + z[worker, q, u])
                    reset = sigmoid(projected[n, t, units + u] + z[worker, q, units + u])
                    new = tanh(projected[n, t, 2 * units + u] + reset * share)
                    h = new + update * (state[worker, q, u] - new)
                    state[worker, q, u] = h
                    hidden[n, t, u] = h
                    gates[row, step, u] = update
                    gates[row, step, units + u] = reset
                    gates[row, step, 2 * units + u] = new
    keep_alive(strips)


@by_parts(CUBE, MATRIX, *[CUBE] * 5, apart=True)
def gru_reset_before(part, parts, projected, kernel, hidden, gates, state, z, reset_states):
    """A GRU whose reset gate multiplies before the product.

    `reset_states`, (workers, samples, units), is room, too.
    """
    units = state.shape[2]
    width = 3 * units
    batch, steps, samples = projected.shape[0], projected.shape[1], state.shape[1]
    strips = np.empty(packed_size(units, 2 * units, batch, steps), np.float32)
    strips_of_new = np.empty(packed_size(units, units, batch, steps), np.float32)
    lying = kernel.ctypes.data, width
    weights = packed_weights(lying, units, 2 * units, batch, steps, strips.ctypes.data)
    lying = behind(lying, 2 * units)
    weights_of_new = packed_weights(lying, units, units, batch, steps, strips_of_new.ctypes.data)
    is_whole = gates.shape[0] == batch and gates.shape[1] == steps
    first_worker, last_worker = chunk_range(part, parts, state.shape[0], 1)
    for number in range(first_worker, last_worker):
        worker = np.int64(number)
        own_samples = min(samples, batch - worker * samples)
        before, sums = (state[worker].ctypes.data, units), (z[worker].ctypes.data, width)
        for t in range(steps):
            inputs = projected[worker * samples, t].ctypes.data, steps * width
            add_rows(before, weights, inputs, sums, own_samples, units, 2 * units)
            for q in range(own_samples):
                n = worker * samples + q
                row, step = (n, t) if is_whole else (worker, 0)
                for u in range(units):
                    update = sigmoid(z[worker, q, u])
                    reset = sigmoid(z[worker, q, units + u])
                    share = reset * state[worker, q, u]
                    z[worker, q, u] = update
                    reset_states[worker, q, u] = share
                    gates[row, step, u] = update
                    gates[row, step, units + u] = reset
                    gates[row, step, 3 * units + u] = share
            shares = reset_states[worker].ctypes.data, units
            of_new, new_sums = behind(inputs, 2 * units), behind(sums, 2 * units)
            add_rows(shares, weights_of_new, of_new, new_sums, own_samples, units, units)
            for q in range(own_samples):
                n = worker * samples + q
                row, step = (n, t) if is_whole else (worker, 0)
                for u in range(units):
                    new = tanh(z[worker, q, 2 * units + u])
                    h = new + z[worker, q, u] * (state[worker, q, u] - new)
                    state[worker, q, u] = h
                    hidden[n, t, u] = h
                    gates[row, step, 2 * units + u] = new
    keep_alive(strips)
    keep_alive(strips_of_new)


@by_parts(CUBE, MATRIX, MATRIX, *[CUBE] * 7, apart=True)
def gru_gradient(part, parts, by_hidden, first, turned, hidden, gates, grads, shares, dh, z, room):
    """Gradients of `gru`.

    `first` is h before the first step, `turned` the recurrent kernel with its axes swapped.
    `grads` are gradients by the projected inputs, `shares` by the state's share of the candidate.
    `dh`, (workers, samples, units), is in the end the gradient by the first h; `z`, three times as
    wide, and `room` are room.
    """
    units = dh.shape[2]
    width = 3 * units
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
        for after in range(steps):
            t = steps - 1 - after
            for q in range(own_samples):
                n = worker * samples + q
                take_before(room, hidden, first, worker, q, n, t)
                for u in range(units):
                    dh[worker, q, u] += by_hidden[n, t, u]
                for u in range(units):
                    update, reset = gates[n, t, u], gates[n, t, units + u]
                    new, share = gates[n, t, 2 * units + u], gates[n, t, 3 * units + u]
                    by_h, earlier = dh[worker, q, u], room[worker, q, u]
                    by_new = by_h * (one - update) * (one - new * new)
                    z[worker, q, u] = by_h * (earlier - new) * update * (one - update)
                    z[worker, q, units + u] = by_new * share * reset * (one - reset)
                    z[worker, q, 2 * units + u] = by_new * reset
                    room[worker, q, u] = by_new
                    dh[worker, q, u] = by_h * update
                for u in range(2 * units):
                    grads[n, t, u] = z[worker, q, u]
                for u in range(units):
                    grads[n, t, 2 * units + u] = room[worker, q, u]
                for u in range(units):
                    shares[n, t, u] = z[worker, q, 2 * units + u]
            add_rows(grad, weights, back, back, own_samples, width, units)
    keep_alive(strips)


@by_parts(CUBE, MATRIX, MATRIX, *[CUBE] * 7, VECTOR, apart=True)
def gru_reset_before_gradient(
    part, parts, by_hidden, first, turned, hidden, gates, grads, dh, z, room, by_shares, none
):
    """Gradients of `gru_reset_before`.

    `by_shares` is room, too; `none` are as many zeros as units.
    """
    units = dh.shape[2]
    width = 3 * units
    batch, steps, samples = gates.shape[0], gates.shape[1], dh.shape[1]
    one = np.float32(1)
    strips = np.empty(packed_size(2 * units, units, batch, steps), np.float32)
    strips_of_new = np.empty(packed_size(units, units, batch, steps), np.float32)
    lying, zeros = (turned.ctypes.data, units), (none.ctypes.data, 0)
    weights = packed_weights(lying, 2 * units, units, batch, steps, strips.ctypes.data)
    lying = behind(lying, 2 * units * units)
    weights_of_new = packed_weights(lying, units, units, batch, steps, strips_of_new.ctypes.data)
    first_worker, last_worker = chunk_range(part, parts, dh.shape[0], 1)
    for number in range(first_worker, last_worker):
        worker = np.int64(number)
        own_samples = min(samples, batch - worker * samples)
        back, grad = (dh[worker].ctypes.data, units), (z[worker].ctypes.data, width)
        for after in range(steps):
            t = steps - 1 - after
            for q in range(own_samples):
                n = worker * samples + q
                take_before(room, hidden, first, worker, q, n, t)
                for u in range(units):
                    dh[worker, q, u] += by_hidden[n, t, u]
                for u in range(units):
                    update, new = gates[n, t, u], gates[n, t, 2 * units + u]
                    by_h, earlier = dh[worker, q, u], room[worker, q, u]
                    z[worker, q, u] = by_h * (earlier - new) * update * (one - update)
                    z[worker, q, 2 * units + u] = by_h * (one - update) * (one - new * new)
                    dh[worker, q, u] = by_h * update
            by_new = behind(grad, 2 * units)
            by_share_rows = by_shares[worker].ctypes.data, units
            add_rows(by_new, weights_of_new, zeros, by_share_rows, own_samples, units, units)
            for q in range(own_samples):
                n = worker * samples + q
                for u in range(units):
                    reset, by_share = gates[n, t, units + u], by_shares[worker, q, u]
                    by_reset = by_share * room[worker, q, u]
                    z[worker, q, units + u] = by_reset * reset * (one - reset)
                    dh[worker, q, u] += by_share * reset
                for u in range(width):
                    grads[n, t, u] = z[worker, q, u]
            add_rows(grad, weights, back, back, own_samples, 2 * units, units)
    keep_alive(strips)
    keep_alive(strips_of_new)
