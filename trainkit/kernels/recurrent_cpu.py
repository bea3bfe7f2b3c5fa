"""When a compiled LSTM pays, and how arrays are laid out for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.kernels import registry
from trainkit.kernels.registry import owned

Array = Any

_F32 = np.dtype(np.float32)
LSTM = registry.Family("lstm", "recurrent", "lstm")
LSTM_GRADIENT = registry.Family("lstm_gradient", "recurrent", "lstm_gradient")

LARGEST_KERNEL_BYTES = 1 << 19
"""The recurrent kernel is read at each step, so it has to stay in the cache of a core."""
SAMPLES = 8
"""How many samples a worker takes."""
STEP_SECONDS = 3e-5
"""What the calls of NumPy take for one step, whatever its size."""


def _found(family: registry.Family, steps: int, batch: int, kernel: Array, *arrays: Array) -> Any:
    units = kernel.shape[0]
    if units % 32 or kernel.nbytes > LARGEST_KERNEL_BYTES:
        return None
    if any(a.dtype is not _F32 or not a.size for a in (kernel, *arrays)):
        return None
    flops = 2 * batch * steps * kernel.size
    seconds = steps * STEP_SECONDS + flops / registry.FLOPS_PER_SECOND
    return family.find((units,), seconds)


def lstm(projected: Array, h: Array, c: Array, kernel: Array) -> tuple[Array, ...] | None:
    """(hidden, memory, gates) of all steps, or `None` where the plain version is to do it."""
    batch, steps, _ = projected.shape
    run = _found(LSTM, steps, batch, kernel, projected, h, c)
    if run is None:
        return None
    units = kernel.shape[0]
    hidden = np.empty((batch, steps, units), np.float32)
    memory, gates = np.empty_like(hidden), np.empty(projected.shape, np.float32)
    state, cell = _by_worker(h), _by_worker(c)
    z = np.empty((*state.shape[:2], 4 * units), np.float32)
    run(owned(projected), owned(kernel), hidden, memory, gates, state, cell, z)
    return hidden, memory, gates


def _by_worker(states: Array) -> Array:
    """States (batch, units) as (workers, 8, units), zeros where there are no more samples."""
    batch, units = states.shape
    result = np.zeros((-(-batch // SAMPLES), SAMPLES, units), np.float32)
    result.reshape(-1, units)[:batch] = states
    return result


def lstm_gradient(
    by_hidden: Array,
    by_memory: Array,
    h: Array,
    c: Array,
    kernel: Array,
    hidden: Array,
    memory: Array,
    gates: Array,
) -> tuple[Array, ...] | None:
    """Gradients by projected inputs, first h and c, and recurrent kernel, or `None`."""
    batch, steps, units = hidden.shape
    run = _found(LSTM_GRADIENT, steps, batch, kernel, by_hidden, by_memory, c, memory, gates)
    if run is None:
        return None
    slopes = np.empty(gates.shape, np.float32)
    workers = -(-batch // SAMPLES)
    dh, dc, room, z = (
        np.zeros((workers, SAMPLES, size), np.float32) for size in (units, units, units, 4 * units)
    )
    before = np.concatenate([c[:, None], memory[:, :-1]], axis=1)
    arrays = (by_hidden, by_memory, before, kernel.T, memory, gates)
    run(*map(owned, arrays), slopes, dh, dc, z, room)
    earlier = np.concatenate([h[:, None], hidden[:, :-1]], axis=1)
    by_kernel = earlier.reshape(-1, units).T @ slopes.reshape(-1, 4 * units)
    by_h, by_c = (part.reshape(-1, units)[:batch].copy() for part in (dh, dc))
    return slopes, by_h, by_c, by_kernel
