"""One step of an optimizer over its weights: on arrays, or on tensors while a graph is traced."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from trainkit import ops
from trainkit.core import devices
from trainkit.core.dispatch import trace_state
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.variable import Variable
from trainkit.graph.ir.copied_calls import CopiedCalls
from trainkit.graph.ir.graph import Graph
from trainkit.ops.math.update_weights import update_weights
from trainkit.optimizers.base.accumulated_gradients import run_sums, trace_sums
from trainkit.optimizers.base.clipping import clip_gradients
from trainkit.optimizers.base.flat_update import WIDE
from trainkit.optimizers.base.slot_state import SlotState
from trainkit.optimizers.base.update_step import assign_steps, assigns
from trainkit.optimizers.base.weight_update import WeightUpdate

_F32 = np.dtype(np.float32)

_FEWEST_WEIGHTS = 8
"""Fewer weights, unless they are large, stay operations, which are fused with those before them: a
node of its own takes 10 us more for the 4 weights of a small perceptron."""

if TYPE_CHECKING:
    from trainkit.optimizers.base.optimizer import Optimizer


def apply_step(
    optimizer: Optimizer, states: list[SlotState], grads: list[Tensor], last: Any = None
) -> None:
    """Update the weights of `states` by `grads`, their averages, and the step count.

    Args:
        optimizer: whose step it is.
        states: of the weights.
        grads: their gradients.
        last: with gradient accumulation, where these are means over a period already: whether it
            ends with this step, a scalar bool tensor.
    """
    if trace_state.current_trace() is not None:
        with trace_state.silence():
            trace_step(optimizer, states, grads, last=last)
    else:
        run_step(optimizer, states, [g._array for g in grads], last)


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


def run_step(
    optimizer: Optimizer, states: list[SlotState], grads: list[Any], last: Any = None
) -> None:
    """The step on arrays; no graph may be traced. See `apply_step`."""
    step_count = int(optimizer._iterations._value._array)
    # first of all: bounds of gradients are meant for those of the loss itself
    if last is None and optimizer.loss_scale_factor is not None:
        grads = [g / optimizer.loss_scale_factor for g in grads]
    period = optimizer.gradient_accumulation_steps
    if period is None:
        _update_weights(optimizer, states, grads, step_count)
    else:
        means = run_sums(optimizer, states, grads, step_count) if last is None else grads
        if means is not None:
            _update_weights(optimizer, states, means, step_count // period)
    # before the averages, which are of the weights as they are used
    _constrain(states)
    if optimizer.use_ema:
        _run_averages(optimizer, step_count)
    # last of all: after an error the step has not been counted
    count = optimizer._iterations._writable()
    count[()] = step_count + 1  # in a tenth of the time of adding in place


def _update_weights(
    optimizer: Optimizer, states: list[SlotState], grads: list[Any], step_count: int
) -> None:
    if optimizer._limits:
        grads = clip_gradients(devices.XP_OF[type(grads[0])], grads, optimizer._limits)
    if assigns(optimizer):
        assign_steps(optimizer, states, grads)
        return
    lr, step = current_rate(optimizer), np.float32(step_count + 1)
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
        # the usual case, which needs no call and no copy from a GPU
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


def _run_averages(optimizer: Optimizer, step_count: int) -> None:
    counted = step_count // (optimizer.gradient_accumulation_steps or 1)
    period = optimizer.ema_overwrite_frequency
    overwrite = period is not None and (counted + 1) % period == 0
    for state in optimizer._states.averaged():
        average = state.slots["average"]
        # 0 in the first step, so the average begins as the weight and not as what it was made with
        momentum = state.dtype.type(counted != 0) * optimizer.ema_momentum
        weight = state.weight._value._array.astype(state.dtype, copy=False)
        average._store(momentum * average._value._array + (1 - momentum) * weight)
        # maybe the variable's own array: a further holder would keep `_store` from writing there
        del weight
        if overwrite:
            state.weight._store(average._value._array.astype(state.weight.dtype.dtype))


# ------------------------------------------------------------------ in a graph


def trace_step(
    optimizer: Optimizer,
    states: list[SlotState],
    grads: list[Any],
    finite: Any = None,
    last: Any = None,
) -> None:
    """The same step as assignments in the graph being traced.

    Args:
        optimizer: whose step it is.
        states: of the weights.
        grads: symbolic tensors.
        finite: scalar bool tensor; where it is False nothing changes. `None` for always.
        last: see `apply_step`.
    """
    step_count = optimizer._iterations.value()
    period, active, counted = optimizer.gradient_accumulation_steps, finite, step_count
    if last is None:
        grads = own_floats(optimizer, states, grads)
    if period is not None:
        if last is None:
            grads, last = trace_sums(optimizer, states, grads, step_count, finite)
        active = last if finite is None else ops.logical_and(finite, last)
        # rates and corrections go by updates, of which a period of calls makes one
        counted = step_count // period
    _trace_weights(optimizer, states, grads, counted, active)
    _constrain(states)
    if optimizer.use_ema:
        _trace_averages(optimizer, counted, finite)
    _assign_where(finite, optimizer._iterations, step_count + 1, step_count)


def own_floats(optimizer: Optimizer, states: list[SlotState], grads: list[Any]) -> list[Any]:
    """Gradients of the loss without its factor, in the dtypes of the slots.

    Args:
        optimizer: has the factor.
        states: of the weights.
        grads: tensors.
    """
    if optimizer.loss_scale_factor is not None:
        grads = [g / optimizer.loss_scale_factor for g in grads]
    return [ops.cast(g, str(s.dtype)) for g, s in zip(grads, states, strict=True)]


def _assign_where(condition: Any, variable: Variable, new: Any, old: Any) -> None:
    """Assign `new`, or `old` where there is a condition that does not hold."""
    variable.assign(new if condition is None else ops.where(condition, new, old))


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
    # a rule is traced for one weight of each kind, and its nodes are copied for the others
    calls = CopiedCalls(trace_state.current_trace())
    # casts for each dtype, not for each weight: a step has hundreds of these
    rates = {dtype: tuple(ops.cast(x, dtype) for x in scalars) for dtype in _dtypes_of(states)}
    members = _trace_joint_update(optimizer, states, grads, rates, active)
    for state, grad in zip(states, grads, strict=True):
        if state in members:
            continue
        dtype = str(state.dtype)
        weight = ops.cast(state.weight.value(), dtype)
        slots = [state.slots[n].value() for n in state.names]
        update = functools.partial(_update, state, rates[dtype], active)
        # element by element the shape makes no difference, so one trace serves all weights
        shape = None if optimizer._programs.sees_elements_alone(state) else tuple(weight.shape)
        new = calls.results(update, [weight, grad, *slots], (state.key, shape))
        state.weight.assign(ops.cast(new[0], state.weight.dtype))
        for name, value in zip(state.names, new[1:], strict=True):
            state.slots[name].assign(value)


def _trace_joint_update(
    optimizer: Optimizer,
    states: list[SlotState],
    grads: list[Any],
    rates: dict[str, tuple[Any, ...]],
    active: Any,
) -> set[SlotState]:
    """Trace the step of all weights with an update program as one node for each program.

    Branches and bodies of loops keep an operation for each step of a rule: gradients go through
    them in their own way, and values go from round to round there. So do weights that averages or
    constraints read on: such a node would need copies of them, which fused operations do not. A
    gradient of unknown size may turn out to be wrong, which has to be seen before anything changes.

    Returns:
        The states of these weights.
    """
    graph = trace_state.current_trace()
    # a weight that comes again starts from what it has become
    once = len(set(map(id, states))) == len(states)
    if type(graph) is not Graph or graph.outer is not None or not once:
        return set()
    groups: dict[Any, list[tuple[SlotState, Any]]] = {}
    for state, grad in zip(states, grads, strict=True):
        is_read_on = optimizer.use_ema or state.weight.constraint is not None
        is_sized = state.weight._shape is None and grad.shape.is_fully_defined()
        if state.is_in_place and is_sized and not is_read_on:
            program = optimizer._programs.of(state, len(rates[str(state.dtype)]))
            if program is not None:
                # one rule and dtype, whatever the shapes
                groups.setdefault(program, []).append((state, grad))
    joined: set[SlotState] = set()
    for program, members in groups.items():
        elements = sum(math.prod(state.weight.shape) for state, _ in members)
        rule = WeightUpdate(type(optimizer).__name__, program, active is not None)
        is_small = len(members) < _FEWEST_WEIGHTS and elements < WIDE
        if is_small or not rule.has_operations:
            continue
        numbers = list(rates[str(members[0][0].dtype)])
        inputs = numbers if active is None else [*numbers, active]
        for state, grad in members:
            # as `update_weights` takes them; results come in this order without the gradients
            inputs += [state.weight.value(), grad, *[slot.value() for slot in state.held]]
        results = iter(update_weights(*inputs, rule=rule))
        for state, _ in members:
            for variable in (state.weight, *state.held):
                variable.assign(next(results))
        joined.update(state for state, _ in members)
    return joined


def _dtypes_of(states: list[SlotState]) -> dict[str, None]:
    """The types that rules compute in, in the order of the weights."""
    return dict.fromkeys(str(state.dtype) for state in states)


def _update(
    state: SlotState, rates: tuple[Any, ...], active: Any, weight: Any, grad: Any, *slots: Any
) -> Sequence[Any]:
    """What becomes of a weight and its slots; they stay where `active` does not hold."""
    new = state.rule(ops, weight, grad, rates, *slots)
    if active is None:
        return new
    return [ops.where(active, a, b) for a, b in zip(new, (weight, *slots), strict=True)]


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
