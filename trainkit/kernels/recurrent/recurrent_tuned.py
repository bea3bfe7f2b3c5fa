"""When compiled LSTM and GRU pay, and how arrays are laid out for them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from trainkit.core.cpu.cost_model import PRODUCT_NANOSECONDS, THIRD_CACHE
from trainkit.core.dtypes import bfloat16, widen_halves
from trainkit.kernels.elementwise.half_casts_tuned import run_in_float32
from trainkit.kernels.jit import kernel_family, target
from trainkit.kernels.jit.kernel_family import owned
from trainkit.kernels.matmul import half_columns_tuned, half_product_tuned
from trainkit.kernels.matmul.product_tuned import pooled_product
from trainkit.kernels.recurrent.recurrent_reference import before, rows
from trainkit.kernels.reductions.reductions_tuned import leading_sum
from trainkit.kernels.threads.thread_pool import shared

Array = Any

_F32, _F16 = np.dtype(np.float32), np.dtype(np.float16)
_SUFFIXES = {_F32: "", bfloat16.dtype: "_bfloat16", _F16: "_float16"}
"""How the names of kernels end for states of these types."""
_BITS = {bfloat16.dtype: np.dtype(np.uint16), _F16: np.dtype(np.int16)}
"""As what kernels take arrays of 16-bit floats."""


def _families(name: str, file: str) -> dict[Any, kernel_family.Family]:
    return {
        dtype: kernel_family.Family(name + suffix, f"recurrent.{file}", name + suffix)
        for dtype, suffix in _SUFFIXES.items()
    }


LSTM, LSTM_GRADIENT = (_families(name, "lstm_compiled") for name in ("lstm", "lstm_gradient"))
GRU, GRU_GRADIENT = (_families(name, "gru_compiled") for name in ("gru", "gru_gradient"))
"""By the type of what there is for each step."""
GRU_BEFORE, GRU_BEFORE_GRADIENT = (
    {_F32: kernel_family.Family(name, "recurrent.gru_compiled", name)}
    for name in ("gru_reset_before", "gru_reset_before_gradient")
)
"""Where the reset gate multiplies before the state's product."""

LARGEST_KERNEL_BYTES = THIRD_CACHE // 2
"""The recurrent kernel is read at each step, so it has to stay in a cache."""
SAMPLES = 8
"""How many samples a worker takes, a multiple of 8. More of them gain a tenth at most."""


def has_kernel(dtype: Any) -> bool:
    """Whether LSTM, and GRU that resets after the product, read and write arrays of a type."""
    return dtype in _SUFFIXES and (dtype is not _F16 or target.converts_float16())


def _find_kernel(
    families: dict[Any, kernel_family.Family], steps: int, batch: int, kernel: Array, *arrays: Array
) -> Any:
    """The kernel `run(...)` of arrays, or `None`; 16-bit floats of fewer axes become float32."""
    dtype = kernel.dtype
    family = families.get(dtype) if has_kernel(dtype) else None
    if family is None or kernel.size * _F32.itemsize > LARGEST_KERNEL_BYTES:
        return None
    if any(a.dtype is not dtype or not a.size for a in (kernel, *arrays)):
        return None
    products = batch * steps * kernel.size
    seconds = steps * kernel_family.STEP_SECONDS + kernel_family.PRODUCT_SECONDS * products
    run = family.find((), seconds)
    if run is None:
        return None
    pool, parts = shared(PRODUCT_NANOSECONDS * products)
    run = functools.partial(run, pool, min(parts, -(-batch // SAMPLES)))
    return run if dtype is _F32 else functools.partial(_run_on_bits, run)


def _run_on_bits(run: Any, *arrays: Array) -> None:
    run(*(a.view(_BITS[a.dtype]) if a.dtype in _BITS else a for a in arrays))


def _as_float32(x: Array) -> Array:
    """An array of fewer axes than there are for states, as kernels read it."""
    return owned(widen_halves(x))


def _room(batch: int, *sizes: int) -> list[Array]:
    """Zeros (workers, samples, size) for each size."""
    return [np.zeros((-(-batch // SAMPLES), SAMPLES, size), np.float32) for size in sizes]


def _by_worker(states: Array) -> Array:
    """States (batch, units) in such an array, zeros where there are no more samples."""
    (result,) = _room(*states.shape)
    result.reshape(-1, states.shape[1])[: len(states)] = states
    return result


def _join(by_worker: Array, batch: int, dtype: Any) -> Array:
    """The opposite of `_by_worker`."""
    return by_worker.reshape(-1, by_worker.shape[-1])[:batch].astype(dtype)


def _transposed_product(x: Array, grads: Array) -> Array:
    """The product of the rows of both, summed over all steps."""
    y = half_product_tuned.product(x.T, grads)
    return run_in_float32(lambda x, g: pooled_product(x.T, g), x, grads) if y is None else y


def _sums(grads: Array) -> Array:
    """The sums over samples and steps."""
    y = half_columns_tuned.column_sums(rows(grads))
    return run_in_float32(lambda g: leading_sum(g, 2), grads) if y is None else y


# ------------------------------------------------------------------ LSTM


def lstm(
    projected: Array, h: Array, c: Array, kernel: Array, hidden_alone: bool = False
) -> tuple[Any, ...] | None:
    """(hidden, memory, gates) of all steps, or `None` where the plain version is to do it.

    With `hidden_alone` the last two are `None`.
    """
    batch, steps, _ = projected.shape
    run = _find_kernel(LSTM, steps, batch, kernel, projected, h, c)
    if run is None:
        return None
    units = kernel.shape[0]
    dtype = projected.dtype
    hidden = np.empty((batch, steps, units), dtype)
    state, cell = _by_worker(h), _by_worker(c)
    lasting = (0, 0) if hidden_alone else (batch, steps)
    memory, gates = (np.empty((*lasting, size), dtype) for size in (units, 4 * units))
    (z,) = _room(batch, 4 * units)
    run(owned(projected), _as_float32(kernel), hidden, memory, gates, state, cell, z)
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
    dtype = gates.dtype
    if by_memory is None:
        by_memory = np.empty((0, steps, units), dtype)
    grads = np.empty(gates.shape, dtype)
    dh, dc, z, room = _room(batch, units, units, 4 * units, units)
    states = map(owned, (by_hidden, by_memory))
    lasting = map(owned, (memory, gates))
    matrices = map(_as_float32, (c, kernel.T))
    run(*states, *matrices, *lasting, grads, dh, dc, z, room, np.zeros(units, np.float32))
    by_kernel = _transposed_product(rows(before(np, h, hidden)), rows(grads))
    return grads, _join(dh, batch, dtype), _join(dc, batch, dtype), by_kernel


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
    run = _find_kernel(GRU if reset_after else GRU_BEFORE, steps, batch, kernel, *operands)
    if run is None:
        return None
    units, dtype = kernel.shape[0], projected.dtype
    hidden = np.empty((batch, steps, units), dtype)
    state = _by_worker(h)
    lasting = (0, 0) if hidden_alone else (batch, steps)
    gates = np.empty((*lasting, 4 * units), dtype)
    z, reset_states = _room(batch, 3 * units, units)
    if reset_after:
        offsets = np.zeros(3 * units, np.float32) if bias is None else _as_float32(bias)
        run(owned(projected), _as_float32(kernel), offsets, hidden, gates, state, z)
    else:
        run(owned(projected), owned(kernel), hidden, gates, state, z, reset_states)
    return hidden, None if hidden_alone else gates


def gru_gradient(
    by_hidden: Array, h: Array, kernel: Array, hidden: Array, gates: Array, reset_after: bool
) -> tuple[Array, ...] | None:
    """Gradients by projected inputs, first h, recurrent kernel and its bias, or `None`."""
    batch, steps, units = hidden.shape
    families = GRU_GRADIENT if reset_after else GRU_BEFORE_GRADIENT
    run = _find_kernel(families, steps, batch, kernel, by_hidden, h, hidden, gates)
    if run is None:
        return None
    dtype = hidden.dtype
    grads = np.empty((batch, steps, 3 * units), dtype)
    dh, z, room, by_shares = _room(batch, units, 3 * units, units, units)
    matrices = map(_as_float32, (h, kernel.T))
    arrays = owned(by_hidden), *matrices, owned(hidden), owned(gates)
    earlier, by_gates = rows(before(np, h, hidden)), rows(grads)[:, : 2 * units]
    if reset_after:
        shares = np.empty(hidden.shape, dtype)
        run(*arrays, grads, shares, dh, z, room)
        by_new = _transposed_product(earlier, rows(shares))
        by_bias = np.concatenate([_sums(grads)[: 2 * units], _sums(shares)])
    else:
        run(*arrays, grads, dh, z, room, by_shares, np.zeros(units, np.float32))
        by_new = pooled_product(rows(gates)[:, 3 * units :].T, rows(grads)[:, 2 * units :])
        by_bias = np.zeros(3 * units, np.float32)
    by_kernel = np.concatenate([_transposed_product(earlier, by_gates), by_new], axis=1)
    return grads, _join(dh, batch, dtype), by_kernel, by_bias
