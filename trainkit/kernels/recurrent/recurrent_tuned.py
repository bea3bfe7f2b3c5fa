"""When compiled LSTM and GRU pay, and how arrays are laid out for them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from trainkit.kernels.jit import kernel_family
from trainkit.kernels.jit.kernel_family import owned
from trainkit.kernels.matmul.product_tuned import pooled_product
from trainkit.kernels.recurrent.recurrent_reference import before, rows
from trainkit.kernels.reductions.reductions_tuned import leading_sum
from trainkit.kernels.threads.thread_pool import PRODUCT_NANOSECONDS, shared

Array = Any

_F32 = np.dtype(np.float32)
LSTM = kernel_family.Family("lstm", "recurrent.lstm_compiled", "lstm")
LSTM_GRADIENT = kernel_family.Family("lstm_gradient", "recurrent.lstm_compiled", "lstm_gradient")
GRU = {
    True: kernel_family.Family("gru", "recurrent.gru_compiled", "gru"),
    False: kernel_family.Family("gru_reset_before", "recurrent.gru_compiled", "gru_reset_before"),
}
"""By whether the reset gate multiplies after the state's product."""
GRU_GRADIENT = {
    True: kernel_family.Family("gru_gradient", "recurrent.gru_compiled", "gru_gradient"),
    False: kernel_family.Family(
        "gru_reset_before_gradient", "recurrent.gru_compiled", "gru_reset_before_gradient"
    ),
}

LARGEST_KERNEL_BYTES = 1 << 22
"""The recurrent kernel is read at each step, so it has to stay in a cache."""
SAMPLES = 8
"""How many samples a worker takes, a multiple of 8. More of them gain a tenth at most."""
STEP_SECONDS = 3e-5
"""What the calls of NumPy take for one step, whatever its size."""


def _find_kernel(
    family: kernel_family.Family, steps: int, batch: int, kernel: Array, *arrays: Array
) -> Any:
    """The kernel `run(...)` with its pool and parts, or `None`."""
    if kernel.nbytes > LARGEST_KERNEL_BYTES:
        return None
    if any(a.dtype is not _F32 or not a.size for a in (kernel, *arrays)):
        return None
    products = batch * steps * kernel.size
    seconds = steps * STEP_SECONDS + kernel_family.PRODUCT_SECONDS * products
    run = family.find((), seconds)
    if run is None:
        return None
    pool, parts = shared(PRODUCT_NANOSECONDS * products)
    return functools.partial(run, pool, min(parts, -(-batch // SAMPLES)))


def _room(batch: int, *sizes: int) -> list[Array]:
    """Zeros (workers, samples, size) for each size."""
    return [np.zeros((-(-batch // SAMPLES), SAMPLES, size), np.float32) for size in sizes]


def _by_worker(states: Array) -> Array:
    """States (batch, units) in such an array, zeros where there are no more samples."""
    (result,) = _room(*states.shape)
    result.reshape(-1, states.shape[1])[: len(states)] = states
    return result


def _join(by_worker: Array, batch: int) -> Array:
    """The opposite of `_by_worker`."""
    return by_worker.reshape(-1, by_worker.shape[-1])[:batch].copy()


# ------------------------------------------------------------------ LSTM


def lstm(
    projected: Array, h: Array, c: Array, kernel: Array, hidden_alone: bool = False
) -> tuple[Any, ...] | None:
    """(hidden, memory, gates) of all steps, or `None` where the plain version is to do it.

    With `hidden_alone` the last two are `None`: each step writes them over those of the one before.
    """
    batch, steps, _ = projected.shape
    run = _find_kernel(LSTM, steps, batch, kernel, projected, h, c)
    if run is None:
        return None
    units = kernel.shape[0]
    hidden = np.empty((batch, steps, units), np.float32)
    state, cell = _by_worker(h), _by_worker(c)
    lasting = (len(state), 1) if hidden_alone else (batch, steps)
    memory, gates = (np.empty((*lasting, size), np.float32) for size in (units, 4 * units))
    (z,) = _room(batch, 4 * units)
    run(owned(projected), owned(kernel), hidden, memory, gates, state, cell, z)
    return (hidden, None, None) if hidden_alone else (hidden, memory, gates)


def lstm_gradient(
    by_hidden: Array,
    by_memory: Array | None,
    h: Array,
    c: Array,
    kernel: Array,
    hidden: Array,
    memory: Array,
    gates: Array,
) -> tuple[Array, ...] | None:
    """Gradients by projected inputs, first h and c, and recurrent kernel, or `None`."""
    batch, steps, units = hidden.shape
    operands = (by_hidden, c, memory, gates, *(() if by_memory is None else (by_memory,)))
    run = _find_kernel(LSTM_GRADIENT, steps, batch, kernel, *operands)
    if run is None:
        return None
    if by_memory is None:
        by_memory = np.empty((0, steps, units), np.float32)
    grads = np.empty(gates.shape, np.float32)
    dh, dc, z, room = _room(batch, units, units, 4 * units, units)
    arrays = (by_hidden, by_memory, c, kernel.T, memory, gates)
    run(*map(owned, arrays), grads, dh, dc, z, room, np.zeros(units, np.float32))
    by_kernel = pooled_product(rows(before(np, h, hidden)).T, rows(grads))
    return grads, _join(dh, batch), _join(dc, batch), by_kernel


# ------------------------------------------------------------------ GRU


def gru(
    projected: Array,
    h: Array,
    kernel: Array,
    bias: Array | None,
    reset_after: bool,
    hidden_alone: bool = False,
) -> tuple[Any, ...] | None:
    """(hidden, gates) of all steps, or `None` where the plain version is to do it.

    With `hidden_alone` the gates are `None`, as for `lstm`.
    """
    batch, steps, _ = projected.shape
    operands = (projected, h) if bias is None else (projected, h, bias)
    run = _find_kernel(GRU[reset_after], steps, batch, kernel, *operands)
    if run is None:
        return None
    units = kernel.shape[0]
    hidden = np.empty((batch, steps, units), np.float32)
    state = _by_worker(h)
    lasting = (len(state), 1) if hidden_alone else (batch, steps)
    gates = np.empty((*lasting, 4 * units), np.float32)
    z, reset_states = _room(batch, 3 * units, units)
    if reset_after:
        offsets = np.zeros(3 * units, np.float32) if bias is None else owned(bias)
        run(owned(projected), owned(kernel), offsets, hidden, gates, state, z)
    else:
        run(owned(projected), owned(kernel), hidden, gates, state, z, reset_states)
    return hidden, None if hidden_alone else gates


def gru_gradient(
    by_hidden: Array, h: Array, kernel: Array, hidden: Array, gates: Array, reset_after: bool
) -> tuple[Array, ...] | None:
    """Gradients by projected inputs, first h, recurrent kernel and its bias, or `None`."""
    batch, steps, units = hidden.shape
    run = _find_kernel(GRU_GRADIENT[reset_after], steps, batch, kernel, by_hidden, h, hidden, gates)
    if run is None:
        return None
    grads = np.empty((batch, steps, 3 * units), np.float32)
    dh, z, room, by_shares = _room(batch, units, 3 * units, units, units)
    arrays = tuple(map(owned, (by_hidden, h, kernel.T, hidden, gates)))
    earlier, by_gates = rows(before(np, h, hidden)), rows(grads)[:, : 2 * units]
    if reset_after:
        shares = np.empty(hidden.shape, np.float32)
        run(*arrays, grads, shares, dh, z, room)
        by_new = pooled_product(earlier.T, rows(shares))
        by_bias = np.concatenate([leading_sum(grads, 2)[: 2 * units], leading_sum(shares, 2)])
    else:
        run(*arrays, grads, dh, z, room, by_shares, np.zeros(units, np.float32))
        by_new = pooled_product(rows(gates)[:, 3 * units :].T, rows(grads)[:, 2 * units :])
        by_bias = np.zeros(3 * units, np.float32)
    by_kernel = np.concatenate([pooled_product(earlier.T, by_gates), by_new], axis=1)
    return grads, _join(dh, batch), by_kernel, by_bias
