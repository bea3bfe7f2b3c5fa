"""LSTM and GRU over whole sequences, forward and backward, over `xp`.

The reference that tuned kernels are compared with, and what runs when there is none. The inputs'
share of the gates is given for all steps, (batch, steps, gates * units); 16-bit floats are the
caller's to widen.
Source: Hochreiter and Schmidhuber 1997, "Long short-term memory"; Cho et al. 2014, arXiv:1406.1078.
"""

from __future__ import annotations

from typing import Any

from trainkit.kernels.matmul.matmul_gpu import matmul

Array = Any


def before(xp: Any, first: Array, states: Array) -> Array:
    """The state before each step, (batch, steps, units)."""
    return xp.concatenate([first[:, None], states[:, :-1]], axis=1)


def rows(x: Array) -> Array:
    """All but the last axis as one."""
    return x.reshape(-1, x.shape[-1])


# ------------------------------------------------------------------ LSTM


def by_gate(x: Array) -> Array:
    """A view (steps, 4, batch, units) of four gates, (batch, steps, 4 units).

    The arrays of a step lie so: along the short rows of a gate NumPy takes four times as long.
    """
    batch, steps, width = x.shape
    return x.reshape(batch, steps, 4, width // 4).transpose(1, 2, 0, 3)


def lstm(xp: Any, projected: Array, h: Array, c: Array, kernel: Array) -> tuple[Array, ...]:
    """(hidden, memory, gates) of all steps; gates are i, f, g, o side by side."""
    batch, steps, width = projected.shape
    units = width // 4
    gates = xp.empty(projected.shape, projected.dtype)
    hidden = xp.empty((batch, steps, units), projected.dtype)
    memory = xp.empty_like(hidden)
    # sigma(x) = tanh(x / 2) / 2 + 1 / 2, so that all four gates take one tanh
    half = xp.full((4, batch, units), 0.5, projected.dtype)
    half[2] = 1
    shift = 1 - half
    products = xp.empty((batch, width), projected.dtype)
    z, state, cell = xp.empty_like(half), xp.empty_like(h), c.copy()
    (i, f, g, o), sums = z, products.reshape(batch, 4, units).swapaxes(0, 1)
    inputs, results = by_gate(projected), by_gate(gates)
    for t in range(steps):
        matmul(xp, h, kernel, out=products)
        xp.add(sums, inputs[t], out=z)
        xp.multiply(z, half, out=z)
        xp.tanh(z, out=z)
        xp.multiply(z, half, out=z)
        xp.add(z, shift, out=z)
        results[t] = z
        xp.multiply(cell, f, out=cell)
        xp.multiply(i, g, out=i)
        xp.add(cell, i, out=cell)
        xp.tanh(cell, out=state)
        h = xp.multiply(state, o, out=state)
        memory[:, t], hidden[:, t] = cell, h
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
) -> tuple[Array, Array, Array, Array]:
    """Gradients by the projected inputs, the first h and c, and the recurrent kernel.

    Without `by_memory` nothing comes back through c but from the step after.
    """
    batch, steps, units = hidden.shape
    grads = xp.empty(gates.shape, gates.dtype)
    turned = xp.ascontiguousarray(kernel.T)
    by_h, by_c = xp.zeros_like(h), xp.zeros_like(c)
    a, z, complements = (xp.empty((4, batch, units), gates.dtype) for _ in range(3))
    squashed, cell, share = (xp.empty_like(by_c) for _ in range(3))
    i, f, g, o = a
    cell[...] = memory[:, -1]
    gate_values, results = by_gate(gates), by_gate(grads)
    for t in range(steps - 1, -1, -1):
        a[...] = gate_values[t]
        xp.subtract(1, a, out=complements)  # times the gate its slope, but that of the tanh
        xp.multiply(g, g, out=complements[2])
        xp.subtract(1, complements[2], out=complements[2])
        xp.add(by_h, by_hidden[:, t], out=by_h)
        xp.tanh(cell, out=squashed)
        xp.multiply(by_h, squashed, out=z[3])
        xp.multiply(squashed, squashed, out=squashed)
        xp.subtract(1, squashed, out=squashed)
        xp.multiply(by_h, o, out=share)
        xp.multiply(share, squashed, out=share)
        xp.add(by_c, share, out=by_c)
        if by_memory is not None:
            xp.add(by_c, by_memory[:, t], out=by_c)
        xp.multiply(by_c, g, out=z[0])
        cell[...] = memory[:, t - 1] if t else c
        xp.multiply(by_c, cell, out=z[1])
        xp.multiply(by_c, i, out=z[2])
        xp.multiply(z[:2], a[:2], out=z[:2])
        xp.multiply(z[3], o, out=z[3])
        xp.multiply(z, complements, out=results[t])
        xp.multiply(by_c, f, out=by_c)
        matmul(xp, grads[:, t], turned, out=by_h)
    by_kernel = matmul(xp, rows(before(xp, h, hidden)).T, rows(grads))
    return grads, by_h, by_c, by_kernel


# ------------------------------------------------------------------ GRU


def gru(
    xp: Any, projected: Array, h: Array, kernel: Array, bias: Array | None, reset_after: bool
) -> tuple[Array, Array]:
    """(hidden, gates) of all steps; gates are z, r, the candidate and the state's share of it.

    With `reset_after` that share is a product, which r multiplies, else r times the state.
    """
    batch, steps, width = projected.shape
    units = width // 3
    hidden = xp.empty((batch, steps, units), projected.dtype)
    gates = xp.empty((batch, steps, 4 * units), projected.dtype)
    for t in range(steps):
        inner = matmul(xp, h, kernel if reset_after else kernel[:, : 2 * units])
        if bias is not None:
            inner += bias
        both = projected[:, t, : 2 * units] + inner[:, : 2 * units]
        both *= 0.5
        xp.tanh(both, out=both)
        both *= 0.5
        both += 0.5
        update, reset = both[:, :units], both[:, units:]
        share = inner[:, 2 * units :] if reset_after else reset * h
        recurrent_part = reset * share if reset_after else matmul(xp, share, kernel[:, 2 * units :])
        new = xp.tanh(projected[:, t, 2 * units :] + recurrent_part)
        h = new + update * (h - new)
        hidden[:, t] = h
        gates[:, t, : 2 * units] = both
        gates[:, t, 2 * units : 3 * units] = new
        gates[:, t, 3 * units :] = share
    return hidden, gates


def gru_gradient(
    xp: Any,
    by_hidden: Array,
    h: Array,
    kernel: Array,
    hidden: Array,
    gates: Array,
    reset_after: bool,
) -> tuple[Array, Array, Array, Array]:
    """Gradients by the projected inputs, the first h, the recurrent kernel and its bias."""
    gradient_function = _after_gradient if reset_after else _before_gradient
    gradients: tuple[Array, Array, Array, Array] = gradient_function(
        xp, by_hidden, h, kernel, hidden, gates
    )
    return gradients


def _after_gradient(
    xp: Any, by_hidden: Array, h: Array, kernel: Array, hidden: Array, gates: Array
) -> Any:
    batch, steps, units = hidden.shape
    grads = xp.empty((batch, steps, 3 * units), gates.dtype)
    inner = xp.empty_like(grads)
    turned = xp.ascontiguousarray(kernel.T)
    earlier = before(xp, h, hidden)
    by_h = xp.zeros_like(h)
    for t in range(steps - 1, -1, -1):
        z, r, new, share = (gates[:, t, n * units : (n + 1) * units] for n in range(4))
        by_h = by_h + by_hidden[:, t]
        by_new = by_h * (1 - z) * (1 - new * new)
        grads[:, t, :units] = by_h * (earlier[:, t] - new) * z * (1 - z)
        grads[:, t, units : 2 * units] = by_new * share * r * (1 - r)
        grads[:, t, 2 * units :] = by_new
        inner[:, t, : 2 * units] = grads[:, t, : 2 * units]
        inner[:, t, 2 * units :] = by_new * r
        by_h = by_h * z + matmul(xp, inner[:, t], turned)
    by_kernel = matmul(xp, rows(earlier).T, rows(inner))
    return grads, by_h, by_kernel, rows(inner).sum(axis=0)


def _before_gradient(
    xp: Any, by_hidden: Array, h: Array, kernel: Array, hidden: Array, gates: Array
) -> Any:
    """No bias takes part, so its gradient is 0."""
    batch, steps, units = hidden.shape
    grads = xp.empty((batch, steps, 3 * units), gates.dtype)
    by_gates, by_new = (
        xp.ascontiguousarray(part.T) for part in (kernel[:, : 2 * units], kernel[:, 2 * units :])
    )
    earlier = before(xp, h, hidden)
    by_h = xp.zeros_like(h)
    for t in range(steps - 1, -1, -1):
        z, r, new = (gates[:, t, n * units : (n + 1) * units] for n in range(3))
        by_h = by_h + by_hidden[:, t]
        grads[:, t, 2 * units :] = by_h * (1 - z) * (1 - new * new)
        by_share = matmul(xp, grads[:, t, 2 * units :], by_new)
        grads[:, t, :units] = by_h * (earlier[:, t] - new) * z * (1 - z)
        grads[:, t, units : 2 * units] = by_share * earlier[:, t] * r * (1 - r)
        by_h = by_h * z + by_share * r + matmul(xp, grads[:, t, : 2 * units], by_gates)
    flat = rows(grads)
    parts = [matmul(xp, rows(earlier).T, flat[:, : 2 * units])]
    parts.append(matmul(xp, rows(gates)[:, 3 * units :].T, flat[:, 2 * units :]))
    return grads, by_h, xp.concatenate(parts, axis=1), xp.zeros(3 * units, gates.dtype)
