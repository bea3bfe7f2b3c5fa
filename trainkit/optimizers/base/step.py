"""One step of an optimizer over its weights: on arrays, or on tensors while a graph is traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from trainkit import ops
from trainkit.core import devices
from trainkit.core.dispatch import trace_state
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.variable import Variable
from trainkit.optimizers.base.clipping import clip_gradients
from trainkit.optimizers.base.slot_state import SlotState
from trainkit.optimizers.base.update_step import assign_steps, assigns

_F32 = np.dtype(np.float32)

if TYPE_CHECKING:
    from trainkit.optimizers.base.optimizer import Optimizer


def apply_step(optimizer: Optimizer, states: list[SlotState], grads: list[Tensor]) -> None:
    """Update the weights of `states` by `grads`, their averages, and the step count."""
    if trace_state.current_trace() is not None:
        with trace_state.silence():
            trace_step(optimizer, states, grads)
    else:
        run_step(optimizer, states, [g._array for g in grads])


def scalars_of(rates: Any, lr: Any) -> tuple[Any, ...]:
    """What a rule takes as its scalars: the rates, then the learning rate itself."""
    return (*rates, lr) if type(rates) is tuple else (rates, lr)


def rule_of(optimizer: Optimizer, of: Variable, update: Callable[..., Any]) -> Callable[..., Any]:
    """`update` after weight decay; scalars are what `rates` gave, then the learning rate."""

    def rule(
        xp: Any, weight: Any, grad: Any, scalars: tuple[Any, ...], *slots: Any
    ) -> tuple[Any, ...]:
        decay = optimizer.decay_of(of)
        if decay is not None:
            weight = weight - weight * (decay * scalars[-1])
        lr = scalars[0] if len(scalars) == 2 else scalars[:-1]
        new = update(xp, weight, grad, lr, *slots)
        return new if type(new) is tuple else (new,)

    return rule


# ------------------------------------------------------------------ eagerly


def run_step(optimizer: Optimizer, states: list[SlotState], grads: list[Any]) -> None:
    """The step on arrays; no graph may be traced."""
    done = int(optimizer._iterations._value._array)
    if optimizer.loss_scale_factor is not None:
        grads = [g / optimizer.loss_scale_factor for g in grads]
    period = optimizer.gradient_accumulation_steps
    if period is None:
        _update_weights(optimizer, states, grads, done)
    elif (done + 1) % period == 0:
        means = [_mean_with_kept(s, g, period) for s, g in zip(states, grads, strict=True)]
        for slot in optimizer._states.accumulated():
            slot._writable()[...] = 0
        _update_weights(optimizer, states, means, done // period)
    else:
        for state, g in zip(states, grads, strict=True):
            kept = state.slots["accumulated_gradient"]._writable()
            kept += g
    _constrain(states)
    if optimizer.use_ema:
        _run_averages(optimizer, done)
    count = optimizer._iterations._writable()
    count[()] = done + 1  # in a tenth of the time of adding in place


def _mean_with_kept(state: SlotState, grad: Any, period: int) -> Any:
    return (grad + state.slots["accumulated_gradient"]._value._array) / period


def _update_weights(
    optimizer: Optimizer, states: list[SlotState], grads: list[Any], done: int
) -> None:
    if optimizer._limits:
        grads = clip_gradients(devices.XP_OF[type(grads[0])], grads, optimizer._limits)
    if assigns(optimizer):
        assign_steps(optimizer, states, grads)
        return
    lr, step = current_rate(optimizer), np.float32(done + 1)
    counters = _run_counters(optimizer, lr, step) if optimizer.counters else ()
    scalars = scalars_of(optimizer.rates(np, lr, step, *counters), lr)
    optimizer._programs.plan_of(states, len(scalars)).update(grads, scalars)


def _run_counters(optimizer: Optimizer, lr: Any, step: Any) -> tuple[Any, ...]:
    variables = optimizer._counter_variables()
    values = optimizer.count(np, lr, step, *[np.float32(v._value._array) for v in variables])
    for variable, value in zip(variables, values, strict=True):
        variable._store(value)
    return values


def current_rate(optimizer: Optimizer) -> Any:
    """The learning rate as a NumPy float32 scalar."""
    rate = optimizer._learning_rate
    if type(rate) is Variable:
        array = rate._value._array
        if type(array) is np.ndarray and array.dtype is _F32:
            return array[()]
    else:
        with trace_state.silence():
            rate = optimizer.learning_rate
    if isinstance(rate, Variable):
        rate = rate._value
    array = devices.to_numpy(rate._array) if isinstance(rate, Tensor) else rate
    return np.float32(array)


def _constrain(states: list[SlotState]) -> None:
    for state in states:
        weight = state.weight
        if weight.constraint is not None:
            with trace_state.silence():
                weight.assign(weight.constraint(weight.value()))


def _run_averages(optimizer: Optimizer, done: int) -> None:
    counted = done // (optimizer.gradient_accumulation_steps or 1)
    period = optimizer.ema_overwrite_frequency
    overwrite = period is not None and (counted + 1) % period == 0
    for state in optimizer._states.averaged():
        average = state.slots["average"]
        momentum = state.dtype.type(counted != 0) * optimizer.ema_momentum
        weight = state.weight._value._array.astype(state.dtype, copy=False)
        average._store(momentum * average._value._array + (1 - momentum) * weight)
        del weight
        if overwrite:
            state.weight._store(average._value._array.astype(state.weight.dtype.dtype))


# ------------------------------------------------------------------ in a graph


def trace_step(
    optimizer: Optimizer, states: list[SlotState], grads: list[Any], finite: Any = None
) -> None:
    """The same step as assignments in the graph being traced.

    Args:
        optimizer: whose step it is.
        states: of the weights.
        grads: symbolic tensors.
        finite: scalar bool tensor; where it is False nothing changes. `None` for always.
    """
    done = optimizer._iterations.value()
    if optimizer.loss_scale_factor is not None:
        grads = [g / optimizer.loss_scale_factor for g in grads]
    grads = [ops.cast(g, str(s.dtype)) for g, s in zip(grads, states, strict=True)]
    period, active, counted = optimizer.gradient_accumulation_steps, finite, done
    if period is not None:
        last = ops.equal((done + 1) % period, 0)
        grads = _trace_sums(optimizer, states, grads, last, finite)
        grads = [total / period for total in grads]
        active = last if finite is None else ops.logical_and(finite, last)
        counted = done // period
    _trace_weights(optimizer, states, grads, counted, active)
    _constrain(states)
    if optimizer.use_ema:
        _trace_averages(optimizer, counted, finite)
    _assign_where(finite, optimizer._iterations, done + 1, done)


def _assign_where(condition: Any, variable: Variable, new: Any, old: Any) -> None:
    """Assign `new`, or `old` where there is a condition that does not hold."""
    variable.assign(new if condition is None else ops.where(condition, new, old))


def _trace_sums(
    optimizer: Optimizer, states: list[SlotState], grads: list[Any], last: Any, finite: Any
) -> list[Any]:
    """The accumulated gradients with those of this step; all begin anew after the last one."""
    new = {id(s.slots["accumulated_gradient"]): g for s, g in zip(states, grads, strict=True)}
    sums = {}
    for slot in optimizer._states.accumulated():
        before = slot.value()
        total = sums[id(slot)] = before + new[id(slot)] if id(slot) in new else before
        _assign_where(finite, slot, ops.where(last, ops.zeros_like(total), total), before)
    return [sums[id(s.slots["accumulated_gradient"])] for s in states]


def _trace_weights(
    optimizer: Optimizer, states: list[SlotState], grads: list[Any], counted: Any, active: Any
) -> None:
    if optimizer._limits:
        grads = clip_gradients(ops, grads, optimizer._limits)
    if assigns(optimizer):
        assign_steps(optimizer, states, grads, active)
        return
    lr = ops.cast(convert_to_tensor(optimizer.learning_rate), "float32")
    step = ops.cast(counted + 1, "float32")
    variables = optimizer._counter_variables()
    old = [v.value() for v in variables]
    counters = optimizer.count(ops, lr, step, *old)
    for variable, before, after in zip(variables, old, counters, strict=True):
        _assign_where(active, variable, after, before)
    scalars = scalars_of(optimizer.rates(ops, lr, step, *counters), lr)
    for state, grad in zip(states, grads, strict=True):
        dtype = str(state.dtype)
        old = [
            ops.cast(state.weight.value(), dtype),
            *[state.slots[n].value() for n in state.names],
        ]
        new = state.rule(ops, old[0], grad, tuple(ops.cast(x, dtype) for x in scalars), *old[1:])
        if active is not None:
            new = [ops.where(active, a, b) for a, b in zip(new, old, strict=True)]
        state.weight.assign(ops.cast(new[0], state.weight.dtype))
        for name, value in zip(state.names, new[1:], strict=True):
            state.slots[name].assign(value)


def _trace_averages(optimizer: Optimizer, counted: Any, finite: Any) -> None:
    period = optimizer.ema_overwrite_frequency
    for state in optimizer._states.averaged():
        dtype, slot = str(state.dtype), state.slots["average"]
        momentum = ops.cast(ops.not_equal(counted, 0), dtype) * optimizer.ema_momentum
        weight, before = ops.cast(state.weight.value(), dtype), slot.value()
        average = momentum * before + (1 - momentum) * weight
        _assign_where(finite, slot, average, before)
        if period is not None:
            overwrite = ops.equal((counted + 1) % period, 0)
            if finite is not None:
                overwrite = ops.logical_and(overwrite, finite)
            chosen = ops.where(overwrite, average, weight)
            state.weight.assign(ops.cast(chosen, state.weight.dtype))
