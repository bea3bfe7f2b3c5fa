"""GRU over whole sequences, each worker with some samples, as `lstm_compiled` does LSTM."""

from __future__ import annotations

import numpy as np

from trainkit.kernels.elementwise.vector_math import sigmoid, tanh
from trainkit.kernels.jit.builders import CUBE, MATRIX, VECTOR, by_parts
from trainkit.kernels.jit.elements import FLOAT16_CUBE, HALF_CUBE, as_element, as_float
from trainkit.kernels.jit.local_arrays import keep_alive
from trainkit.kernels.matmul.matmul_compiled import add_rows, behind, packed_size, packed_weights
from trainkit.kernels.recurrent.lstm_compiled import take_before
from trainkit.kernels.threads.parallel_for import chunk_range


def _gru(part, parts, projected, kernel, bias, hidden, gates, state, z):
    """A GRU whose reset gate multiplies after the product.

    `bias` is that of the state's product; `state`, (workers, samples, units), holds the first h,
    the samples being a multiple of 8; `z`, (workers, samples, 3 units), is room. Gates may
    have no samples, as those of `lstm`.
    """
    units = state.shape[2]
    width = 3 * units
    batch, steps, samples = projected.shape[0], projected.shape[1], state.shape[1]
    strips = np.empty(packed_size(units, width, batch, steps), np.float32)
    lying, offsets = (kernel.ctypes.data, width), (bias.ctypes.data, 0)
    weights = packed_weights(lying, units, width, batch, steps, strips.ctypes.data)
    is_trained = gates.shape[0] > 0
    first_worker, last_worker = chunk_range(part, parts, state.shape[0], 1)
    for number in range(first_worker, last_worker):
        worker = np.int64(number)
        own_samples = min(samples, batch - worker * samples)
        before, sums = (state[worker].ctypes.data, units), (z[worker].ctypes.data, width)
        for t in range(steps):
            add_rows(before, weights, offsets, sums, own_samples, units, width)
            for q in range(own_samples):
                n = worker * samples + q
                for u in range(units):
                    share = z[worker, q, 2 * units + u]
                    update = sigmoid(as_float(projected[n, t, u]) + z[worker, q, u])
                    of_reset = as_float(projected[n, t, units + u])
                    reset = sigmoid(of_reset + z[worker, q, units + u])
                    new = tanh(as_float(projected[n, t, 2 * units + u]) + reset * share)
                    h = new + update * (state[worker, q, u] - new)
                    state[worker, q, u] = h
                    hidden[n, t, u] = as_element(h, hidden)
                    if is_trained:
                        gates[n, t, u] = as_element(update, gates)
                        gates[n, t, units + u] = as_element(reset, gates)
                        gates[n, t, 2 * units + u] = as_element(new, gates)
                        gates[n, t, 3 * units + u] = as_element(share, gates)
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
    is_trained = gates.shape[0] > 0
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
                for u in range(units):
                    update = sigmoid(z[worker, q, u])
                    reset = sigmoid(z[worker, q, units + u])
                    share = reset * state[worker, q, u]
                    z[worker, q, u] = update
                    reset_states[worker, q, u] = share
                    if is_trained:
                        gates[n, t, u] = update
                        gates[n, t, units + u] = reset
                        gates[n, t, 3 * units + u] = share
            shares = reset_states[worker].ctypes.data, units
            of_new, new_sums = behind(inputs, 2 * units), behind(sums, 2 * units)
            add_rows(shares, weights_of_new, of_new, new_sums, own_samples, units, units)
            for q in range(own_samples):
                n = worker * samples + q
                for u in range(units):
                    new = tanh(z[worker, q, 2 * units + u])
                    h = new + z[worker, q, u] * (state[worker, q, u] - new)
                    state[worker, q, u] = h
                    hidden[n, t, u] = h
                    if is_trained:
                        gates[n, t, 2 * units + u] = new
    keep_alive(strips)
    keep_alive(strips_of_new)


def _gru_gradient(part, parts, by_hidden, first, turned, hidden, gates, grads, shares, dh, z, room):
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
                    dh[worker, q, u] += as_float(by_hidden[n, t, u])
                for u in range(units):
                    update = as_float(gates[n, t, u])
                    reset = as_float(gates[n, t, units + u])
                    new = as_float(gates[n, t, 2 * units + u])
                    share = as_float(gates[n, t, 3 * units + u])
                    by_h, earlier = dh[worker, q, u], room[worker, q, u]
                    by_new = by_h * (one - update) * (one - new * new)
                    z[worker, q, u] = by_h * (earlier - new) * update * (one - update)
                    z[worker, q, units + u] = by_new * share * reset * (one - reset)
                    z[worker, q, 2 * units + u] = by_new * reset
                    room[worker, q, u] = by_new
                    dh[worker, q, u] = by_h * update
                for u in range(2 * units):
                    grads[n, t, u] = as_element(z[worker, q, u], grads)
                for u in range(units):
                    grads[n, t, 2 * units + u] = as_element(room[worker, q, u], grads)
                for u in range(units):
                    shares[n, t, u] = as_element(z[worker, q, 2 * units + u], shares)
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


def _builders(states):
    """The builders of `gru` and its gradients for states of one type of elements."""
    return (
        by_parts(states, MATRIX, VECTOR, states, states, CUBE, CUBE, apart=True)(_gru),
        by_parts(states, MATRIX, MATRIX, *[states] * 4, *[CUBE] * 3, apart=True)(_gru_gradient),
    )


gru, gru_gradient = _builders(CUBE)
gru_bfloat16, gru_gradient_bfloat16 = _builders(HALF_CUBE)
gru_float16, gru_gradient_float16 = _builders(FLOAT16_CUBE)
