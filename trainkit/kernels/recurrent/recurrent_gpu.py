"""LSTM and GRU over whole sequences on a GPU: a product and a kernel for each step.

The functions are those of `recurrent_reference`, and give `None` where it is to do the work. A GRU
whose reset gate comes before the product takes two of each for a step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.kernels.cuda.element_types import computed_in, ready
from trainkit.kernels.cuda.raw_kernel import THREADS
from trainkit.kernels.matmul.matmul_gpu import matmul
from trainkit.kernels.recurrent import recurrent_cuda as cuda
from trainkit.kernels.recurrent.recurrent_reference import before, rows

Array = Any

_STEP = np.dtype(
    [("apart", np.int64), *((name, np.int32) for name in ("batch", "steps", "units", "step"))],
    align=True,
)


class _Sequence:
    """Launches kernels for the steps of states (batch, steps, units).

    Args:
        first: the state before the first step, (batch, units).
        states: those after each step.
    """

    def __init__(self, first: Array, states: Array) -> None:
        self._first, self._states = first, states
        self.batch, self.steps, self.units = states.shape
        self._blocks = -(-self.batch * self.units // THREADS)

    def earlier(self, step: int) -> Array:
        """The state before a step."""
        return self._states[:, step - 1] if step else self._first

    def __call__(self, kernel: Any, step: int, *arrays: Array | None) -> None:
        apart = self.steps * self.units if step else self.units
        sizes = np.array((apart, self.batch, self.steps, self.units, step), _STEP)
        kernel(self._blocks, (*arrays, sizes))


def _fits(*arrays: Array | None) -> bool:
    """Whether there are elements, of one dtype."""
    present = [a for a in arrays if a is not None]
    return all(a.dtype == present[0].dtype and a.size for a in present)


def _pack(xp: Any, *arrays: Array | None) -> list[Any]:
    return [None if a is None else xp.ascontiguousarray(a) for a in arrays]


# ------------------------------------------------------------------ LSTM


def lstm(xp: Any, projected: Array, h: Array, c: Array, kernel: Array) -> tuple[Array, ...] | None:
    """(hidden, memory, gates) of all steps, or `None`."""
    if not _fits(projected, h, c, kernel):
        return None
    kernels = ready(xp, projected.dtype, cuda.LSTM)
    if kernels is None:
        return None
    batch, steps, width = projected.shape
    projected, h = _pack(xp, projected, h)
    hidden, memory = (xp.empty((batch, steps, width // 4), projected.dtype) for _ in range(2))
    gates, product = xp.empty_like(projected), xp.empty((batch, width), projected.dtype)
    state = c.astype(computed_in(c.dtype), order="C")  # a copy, which the steps write over
    launch = _Sequence(h, hidden)
    for t in range(steps):
        matmul(xp, launch.earlier(t), kernel, out=product)
        launch(kernels[0], t, product, projected, state, hidden, memory, gates)
    return hidden, memory, gates


def lstm_gradient(
    xp: Any,
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
    if not _fits(by_hidden, by_memory, h, c, kernel, hidden, memory, gates):
        return None
    kernels = ready(xp, gates.dtype, cuda.LSTM_BACK)
    if kernels is None:
        return None
    packed_arrays = _pack(xp, by_hidden, by_memory, c, memory, gates)
    by_hidden, by_memory, c, memory, gates = packed_arrays
    grads, by_next = xp.empty_like(gates), xp.empty(h.shape, gates.dtype)
    by_state = xp.empty(h.shape, computed_in(gates.dtype))
    launch = _Sequence(c, memory)
    for t in reversed(range(launch.steps)):
        following = None if t == launch.steps - 1 else by_next
        earlier = launch.earlier(t)
        arrays = (by_hidden, by_memory, following, earlier, memory, gates, by_state, grads)
        launch(kernels[0], t, *arrays)
        matmul(xp, grads[:, t], kernel.T, out=by_next)
    by_kernel = matmul(xp, rows(before(xp, h, hidden)).T, rows(grads))
    return grads, by_next, by_state.astype(gates.dtype, copy=False), by_kernel


# ------------------------------------------------------------------ GRU


def gru(
    xp: Any, projected: Array, h: Array, kernel: Array, bias: Array | None, reset_after: bool
) -> tuple[Array, Array] | None:
    """(hidden, gates) of all steps, or `None`."""
    if not _fits(projected, h, kernel, bias):
        return None
    names = (cuda.GRU,) if reset_after else (cuda.GATES, cuda.FRESH)
    kernels = ready(xp, projected.dtype, *names)
    if kernels is None:
        return None
    batch, steps, width = projected.shape
    units = width // 3
    projected, h, bias = _pack(xp, projected, h, bias)
    hidden = xp.empty((batch, steps, units), projected.dtype)
    gates = xp.empty((batch, steps, 4 * units), projected.dtype)
    launch = _Sequence(h, hidden)
    product = xp.empty((batch, width if reset_after else 2 * units), projected.dtype)
    candidate_product = None if reset_after else xp.empty((batch, units), projected.dtype)
    for t in range(steps):
        earlier = launch.earlier(t)
        if reset_after:
            matmul(xp, earlier, kernel, out=product)
            launch(kernels[0], t, product, projected, bias, earlier, hidden, gates)
            continue
        matmul(xp, earlier, kernel[:, : 2 * units], out=product)
        launch(kernels[0], t, product, projected, earlier, gates)
        matmul(xp, gates[:, t, 3 * units :], kernel[:, 2 * units :], out=candidate_product)
        launch(kernels[1], t, candidate_product, projected, earlier, hidden, gates)
    return hidden, gates


def gru_gradient(
    xp: Any,
    by_hidden: Array,
    h: Array,
    kernel: Array,
    hidden: Array,
    gates: Array,
    reset_after: bool,
) -> tuple[Array, ...] | None:
    """Gradients by projected inputs, first h, recurrent kernel and its bias, or `None`."""
    if not _fits(by_hidden, h, kernel, hidden, gates):
        return None
    names = (cuda.GRU_BACK,) if reset_after else (cuda.FRESH_BACK, cuda.GATES_BACK)
    kernels = ready(xp, gates.dtype, *names)
    if kernels is None:
        return None
    by_hidden, h, hidden, gates = _pack(xp, by_hidden, h, hidden, gates)
    gradient_function = _after_gradient if reset_after else _before_gradient
    return gradient_function(xp, kernels, _Sequence(h, hidden), by_hidden, h, kernel, hidden, gates)


def _room(xp: Any, launch: _Sequence, dtype: Any) -> tuple[Array, Array, Array]:
    """For the gradients by the projected inputs, and what goes to the step before in two parts."""
    shape = (launch.batch, launch.units)
    grads = xp.empty((launch.batch, launch.steps, 3 * launch.units), dtype)
    return grads, xp.empty(shape, dtype), xp.empty(shape, computed_in(dtype))


def _after_gradient(
    xp: Any,
    kernels: list[Any],
    launch: _Sequence,
    by_hidden: Array,
    h: Array,
    kernel: Array,
    hidden: Array,
    gates: Array,
) -> tuple[Array, ...]:
    grads, by_next, carry = _room(xp, launch, gates.dtype)
    inner = xp.empty_like(grads)
    for t in reversed(range(launch.steps)):
        following = None if t == launch.steps - 1 else by_next
        earlier = launch.earlier(t)
        launch(kernels[0], t, by_hidden, following, earlier, gates, carry, grads, inner)
        matmul(xp, inner[:, t], kernel.T, out=by_next)
    by_kernel = matmul(xp, rows(before(xp, h, hidden)).T, rows(inner))
    by_bias = rows(inner).sum(axis=0, dtype=carry.dtype).astype(gates.dtype, copy=False)
    return grads, (carry + by_next).astype(gates.dtype, copy=False), by_kernel, by_bias


def _before_gradient(
    xp: Any,
    kernels: list[Any],
    launch: _Sequence,
    by_hidden: Array,
    h: Array,
    kernel: Array,
    hidden: Array,
    gates: Array,
) -> tuple[Array, ...]:
    """No bias takes part, so its gradient is 0."""
    grads, by_next, carry = _room(xp, launch, gates.dtype)
    by_share, both = xp.empty_like(by_next), 2 * launch.units
    for t in reversed(range(launch.steps)):
        following = None if t == launch.steps - 1 else by_next
        earlier = launch.earlier(t)
        launch(kernels[0], t, by_hidden, following, earlier, gates, carry, grads)
        matmul(xp, grads[:, t, both:], kernel[:, both:].T, out=by_share)
        launch(kernels[1], t, by_share, earlier, gates, carry, grads)
        matmul(xp, grads[:, t, :both], kernel[:, :both].T, out=by_next)
    flat, by_kernel = rows(grads), xp.empty(kernel.shape, gates.dtype)
    earlier = rows(before(xp, h, hidden)).T
    by_kernel[:, :both] = matmul(xp, earlier, flat[:, :both])
    by_kernel[:, both:] = matmul(xp, rows(gates)[:, 3 * launch.units :].T, flat[:, both:])
    by_h = (carry + by_next).astype(gates.dtype, copy=False)
    return grads, by_h, by_kernel, xp.zeros(3 * launch.units, gates.dtype)
