"""One step of an optimizer over its weights: on arrays, or on tensors while a graph is traced.

What a step does is said once, in `make_step`. How numbers are read and written, and how the
weights of a rule are updated together, differs between arrays (`ArrayMedium`) and graphs
(`traced_step.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from trainkit import ops
from trainkit.core import devices
from trainkit.core.dispatch import trace_state
from trainkit.core.errors import UnimplementedError
from trainkit.core.tensor import Tensor, wrap
from trainkit.core.variable import Variable
from trainkit.optimizers.base import averages
from trainkit.optimizers.base.accumulated_gradients import PeriodMeans, add_gradients
from trainkit.optimizers.base.clipping import ClipLimits, clip_gradients
from trainkit.optimizers.base.joined_gradients import joined
from trainkit.optimizers.base.keras_step import assign_steps, assigns
from trainkit.optimizers.base.slot_state import SlotState
from trainkit.optimizers.base.traced_step import TENSORS, TensorMedium

if TYPE_CHECKING:
    from trainkit.collectives.replica import Replica
    from trainkit.optimizers.base.optimizer import Optimizer
    from trainkit.optimizers.base.step_plan import Programs


_F32 = np.dtype(np.float32)


class ArrayMedium:
    """Arrays; a condition is `True`, `False`, or `None` where there is none, as it is known.

    Attributes:
        xp: module of functions of scalars.
    """

    xp = np

    def step_count(self, optimizer: Optimizer) -> int:
        """How many steps were made before this one."""
        return int(optimizer._iterations._value._array)

    def learning_rate(self, optimizer: Optimizer) -> Any:
        """The learning rate, a float32 scalar."""
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

    def float32(self, x: Any) -> Any:
        """A scalar as a float32."""
        return np.float32(x)

    def cast(self, x: Any, dtype: Any) -> Any:
        """`x` in a NumPy dtype."""
        return x.astype(dtype, copy=False)

    def read(self, variable: Variable) -> Any:
        """The value of a variable."""
        return variable._value._array

    def assign_where(self, condition: Any, variable: Variable, value: Any) -> None:
        """Set a variable, unless there is a condition that does not hold."""
        if condition is False:
            return
        if type(value) is int:  # a count: in a tenth of the time of adding in place
            variable._writable()[()] = value
        else:
            variable._store(value)

    def both(self, condition: Any, value: Any) -> bool:
        """The condition that a value is true, too."""
        return condition is not False and bool(value)

    def clip(self, grads: list[Any], limits: ClipLimits, active: Any) -> list[Any]:
        """Gradients within bounds."""
        return clip_gradients(devices.XP_OF[type(grads[0])], grads, limits)

    def own_gradients(
        self, optimizer: Optimizer, states: list[SlotState], grads: list[Any]
    ) -> list[Any]:
        """Gradients of the loss without its factor."""
        factor = optimizer.loss_scale_factor
        return grads if factor is None else [g / factor for g in grads]

    def is_multiple(self, count: int, period: int) -> bool:
        """Whether a count is a multiple of `period`."""
        return count % period == 0

    def is_any(self, x: Any) -> bool:
        """Whether an element is not 0."""
        return bool(x.any())

    def add_to_sum(self, slot: Variable, grad: Any, is_last: bool, finite: None) -> Any:
        """Add a gradient, if there is one; in the last step give the sum, and begin anew."""
        if not is_last:
            if grad is not None:
                accumulated = slot._writable()
                accumulated += grad
            return None
        total = slot._value._array.copy() if grad is None else grad + slot._value._array
        slot._writable()[...] = 0
        return total

    def means_at_once(self, *step: Any) -> list[Any]:
        """None: arrays are added up one by one."""
        return []

    def joined_sums(self, sums: list[Any], replica: Replica, is_last: bool) -> list[Any]:
        """Sums added up over all replicas."""
        return [x._array for x in joined([wrap(x) for x in sums], replica, weight=1.0)]

    def update(
        self,
        programs: Programs,
        states: list[SlotState],
        grads: list[Any],
        scalars: tuple[Any, ...],
        active: Any,
    ) -> None:
        """Update weights and slots by their rules, those of one rule by one call."""
        programs.plan_of(states, len(scalars)).update(grads, scalars)


ARRAYS = ArrayMedium()
Medium = ArrayMedium | TensorMedium


def apply_step(
    optimizer: Optimizer,
    states: list[SlotState],
    grads: list[Tensor],
    means: PeriodMeans | None = None,
) -> None:
    """Update the weights of `states` by `grads`, their averages, and the step count.

    Args:
        optimizer: whose step it is.
        states: of the weights.
        grads: their gradients.
        means: with gradient accumulation, where `grads` are means over a period already: what
            `add_gradients` gave for these weights.

    Raises:
        UnimplementedError: a graph of version 1 is being built, where no session would run it.
    """
    trace = trace_state.current_trace()
    if getattr(trace, "is_built_by_hand", False):
        raise UnimplementedError(
            f"{optimizer.name}: optimizers of Keras make no step in a graph of version 1; take one "
            "of tk.compat.v1.train, such as AdamOptimizer(0.001).minimize(loss), and run the "
            "operation that it gives in a session, or train in a tk.function"
        )
    if trace is not None:
        with trace_state.silence():
            make_step(TENSORS, optimizer, states, grads, means=means)
    else:
        make_step(ARRAYS, optimizer, states, [g._array for g in grads], means=means)


def make_step(
    on: Medium,
    optimizer: Optimizer,
    states: list[SlotState],
    grads: list[Any],
    finite: Any = None,
    means: PeriodMeans | None = None,
) -> None:
    """The step on arrays while no graph is traced, or on tensors of a graph.

    Args:
        on: `ARRAYS` or `TENSORS`.
        optimizer: whose step it is.
        states: of the weights.
        grads: arrays, or symbolic tensors.
        finite: in a graph, a scalar bool tensor; where it is False nothing changes. `None` for
            always.
        means: see `apply_step`.
    """
    step_count = on.step_count(optimizer)
    period, active, counted = optimizer.gradient_accumulation_steps, finite, step_count
    conditions: list[Any] = []
    # first of all: bounds of gradients are meant for those of the loss itself
    if means is None:
        grads = on.own_gradients(optimizer, states, grads)
    if period is not None:
        if means is None:
            means = add_gradients(on, optimizer, states, grads, step_count, finite)
            if means.is_last is not False:
                states, grads = means.states, means.grads
        conditions = means.conditions
        active = on.both(finite, means.is_last)
        # rates and corrections go by updates, of which a period of calls makes one
        counted = step_count // period
    if active is not False:
        _update_weights(on, optimizer, states, grads, conditions, counted, active)
    if optimizer.use_ema:
        _update_averages(on, optimizer, states, counted, finite)
    # after the averages, as in Keras: those that have replaced weights are constrained as well
    for i, state in enumerate(states):
        if state.weight.constraint is not None:
            _constrain(on, state.weight, conditions[i] if conditions else None, finite)
    # last of all: after an error the step has not been counted
    on.assign_where(finite, optimizer._iterations, step_count + 1)


def _constrain(on: Medium, weight: Variable, condition: Any, finite: Any) -> None:
    if condition is not None:
        finite = on.both(finite, condition)
    with trace_state.silence():
        value = weight.constraint(weight.value())
        if finite is not None:
            value = ops.where(finite, value, weight.value())
        weight.assign(value)


def _update_weights(
    on: Medium,
    optimizer: Optimizer,
    states: list[SlotState],
    grads: list[Any],
    conditions: list[Any],
    counted: Any,
    active: Any,
) -> None:
    if optimizer._limits:
        grads = on.clip(grads, optimizer._limits, active)
    if assigns(optimizer):
        assign_steps(optimizer, states, grads, None if active is True else active, conditions)
        return
    lr, step = on.learning_rate(optimizer), on.float32(counted + 1)
    counters: tuple[Any, ...] = ()
    if optimizer.counters:
        variables = optimizer._counter_variables()
        counters = optimizer.count(on.xp, lr, step, *[on.float32(on.read(v)) for v in variables])
        for variable, value in zip(variables, counters, strict=True):
            on.assign_where(active, variable, value)
    rates = optimizer.rates(on.xp, lr, step, *counters)
    # what a rule takes as its scalars: the rates, then the learning rate itself
    scalars = (*rates, lr) if type(rates) is tuple else (rates, lr)
    if averages.count_of_scalars(optimizer):
        states = [averages.join_average(optimizer, state) for state in states]
        scalars = (*scalars, *_scalars_of_averages(on, optimizer, counted))
    programs = optimizer._programs
    if not any(condition is not None for condition in conditions):
        on.update(programs, states, grads, scalars, active)
        return
    certain = [i for i, condition in enumerate(conditions) if condition is None]
    parts = [(certain, active)] if certain else []
    parts += [([i], on.both(active, c)) for i, c in enumerate(conditions) if c is not None]
    for part, condition in parts:
        some, of = [grads[i] for i in part], [states[i] for i in part]
        on.update(programs, of, some, scalars, condition)


def _scalars_of_averages(on: Medium, optimizer: Optimizer, counted: Any) -> list[Any]:
    """Whether averages have begun, and whether they replace weights, if they ever do: 0 or 1."""
    scalars, period = [on.float32(on.xp.not_equal(counted, 0))], optimizer.ema_overwrite_frequency
    if period is not None:
        scalars.append(on.float32(on.is_multiple(counted + 1, period)))
    return scalars


def _update_averages(
    on: Medium, optimizer: Optimizer, states: list[SlotState], counted: Any, finite: Any
) -> None:
    """Move the averages that their weights' rules have left."""
    moved = set()
    if averages.count_of_scalars(optimizer):
        twins = [averages.join_average(optimizer, state) for state in states]
        moved = {id(state.weight) for state in twins if averages.SLOT in state.names}
    left = [s for s in optimizer._states.averaged() if id(s.weight) not in moved]
    if not left:
        return
    has_begun, *overwrites = _scalars_of_averages(on, optimizer, counted)
    alone = [averages.average_alone(optimizer, state) for state in left]
    weights = [on.cast(on.read(state.weight), state.dtype) for state in left]
    on.update(optimizer._average_programs, alone, weights, (has_begun,), finite)
    # who holds a variable's array keeps it from being written
    del weights
    if overwrites:
        condition = on.both(finite, on.xp.greater(overwrites[0], 0))
        for state in left:
            average = on.cast(on.read(state.slots[averages.SLOT]), state.weight.dtype.dtype)
            on.assign_where(condition, state.weight, average)


def rule_of(optimizer: Optimizer, of: Variable, update: Callable[..., Any]) -> Callable[..., Any]:
    """`update` after weight decay.

    Its scalars are what `rates` gave, then the learning rate; those of averages are not for it.
    """

    def rule(
        xp: Any, weight: Any, grad: Any, scalars: tuple[Any, ...], *slots: Any
    ) -> tuple[Any, ...]:
        extras = averages.count_of_scalars(optimizer)
        scalars = scalars[: len(scalars) - extras]
        decay = optimizer.decay_of(of)
        if decay is not None:
            weight = weight - weight * (decay * scalars[-1])
        lr = scalars[0] if len(scalars) == 2 else scalars[:-1]
        new = update(xp, weight, grad, lr, *slots)
        return new if type(new) is tuple else (new,)

    return rule
