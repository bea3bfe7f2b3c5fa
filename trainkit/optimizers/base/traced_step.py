"""Steps while a graph is traced: tensors, and one node for all weights of a rule."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from trainkit import ops
from trainkit.core.dispatch import trace_state
from trainkit.core.tensor import convert_to_tensor
from trainkit.core.variable import Variable
from trainkit.graph.ir.copied_calls import CopiedCalls
from trainkit.graph.ir.graph import Graph
from trainkit.kernels.threads.thread_pool import FEWEST_COPIED
from trainkit.ops.math.update_weights import update_weights
from trainkit.optimizers.base.accumulated_gradients import SLOT as SUM
from trainkit.optimizers.base.accumulated_gradients import PeriodRule
from trainkit.optimizers.base.clipping import ClipLimits, ClippingRule, clip_gradients
from trainkit.optimizers.base.joined_gradients import joined
from trainkit.optimizers.base.slot_state import SlotState
from trainkit.optimizers.base.weight_update import (
    WeightUpdate,
    has_operations,
    update_by_operations,
)

if TYPE_CHECKING:
    from trainkit.collectives.replica import Replica
    from trainkit.optimizers.base.optimizer import Optimizer
    from trainkit.optimizers.base.step_plan import Programs

_F32 = np.dtype(np.float32)

_FEWEST_WEIGHTS = 8
"""Fewer weights, unless they are large, stay operations, which are fused with those before them: a
node of its own takes 10 us more for the 4 weights of a small perceptron."""


class TensorMedium:
    """Symbolic tensors; a condition is a scalar bool tensor, or `None` where there is none.

    Assignments go into the graph. The methods are those of `ArrayMedium` in `step.py`.
    """

    xp = ops

    def step_count(self, optimizer: Optimizer) -> Any:
        """How many steps were made before this one."""
        return optimizer._iterations.value()

    def learning_rate(self, optimizer: Optimizer) -> Any:
        """The learning rate, a float32 scalar."""
        return ops.cast(convert_to_tensor(optimizer.learning_rate), "float32")

    def float32(self, x: Any) -> Any:
        """A scalar as a float32."""
        return ops.cast(x, "float32")

    def cast(self, x: Any, dtype: Any) -> Any:
        """`x` in a NumPy dtype."""
        return ops.cast(x, str(dtype))

    def read(self, variable: Variable) -> Any:
        """The value of a variable."""
        return variable.value()

    def assign_where(self, condition: Any, variable: Variable, value: Any) -> None:
        """Set a variable to `value`, or to what it has where a condition does not hold."""
        if condition is not None:
            value = ops.where(condition, value, variable.value())
        variable.assign(value)

    def both(self, condition: Any, value: Any) -> Any:
        """The condition that a value is true, too."""
        return value if condition is None else ops.logical_and(condition, value)

    def clip(self, grads: list[Any], limits: ClipLimits, active: Any) -> list[Any]:
        """Gradients within bounds, by one node; where a step does not count they stay."""
        if not _is_outermost():
            return clip_gradients(ops, grads, limits)
        rule = ClippingRule(limits, active is not None)
        return list(update_weights(*[] if active is None else [active], *grads, rule=rule))

    def own_gradients(
        self, optimizer: Optimizer, states: list[SlotState], grads: list[Any]
    ) -> list[Any]:
        """Gradients of the loss without its factor, in the dtypes of the slots."""
        if optimizer.loss_scale_factor is not None:
            grads = [g / optimizer.loss_scale_factor for g in grads]
        return [ops.cast(g, str(s.dtype)) for g, s in zip(grads, states, strict=True)]

    def is_multiple(self, count: Any, period: int) -> Any:
        """Whether a count is a multiple of `period`."""
        return ops.equal(count % period, 0)

    def is_any(self, x: Any) -> Any:
        """Whether an element is not 0."""
        return ops.any(ops.not_equal(x, 0))

    def add_to_sum(self, slot: Variable, grad: Any, is_last: Any, finite: Any) -> Any:
        """Add a gradient, if there is one, and give the sum; after the last step begin anew."""
        total = slot.value() if grad is None else slot.value() + grad
        self.assign_where(finite, slot, ops.where(is_last, ops.zeros_like(total), total))
        return total

    def means_at_once(
        self, states: list[SlotState], grads: list[Any], is_last: Any, finite: Any, period: int
    ) -> list[Any]:
        """Add gradients to their sums by one node, and give the means over a period by another.

        There are none where that can't be: in branches and bodies of loops, for gradients of
        unknown sizes, and where a weight comes twice.
        """
        is_sized = all(
            grad.shape.is_fully_defined() and tuple(grad.shape) == tuple(state.weight.shape)
            for state, grad in zip(states, grads, strict=True)
        )
        once = len(set(map(id, states))) == len(states)
        if not once or not is_sized or not states or not _is_outermost():
            return []
        sums = [state.slots[SUM] for state in states]
        inputs = [is_last] if finite is None else [is_last, finite]
        for total, grad in zip(sums, grads, strict=True):
            inputs += [total.value(), grad]
        means = update_weights(*inputs, rule=PeriodRule(period, finite is not None))
        totals = update_weights(*inputs, rule=PeriodRule(None, finite is not None))
        trace_state.current_trace().assign_results(sums, totals)
        return list(means)

    def joined_sums(self, sums: list[Any], replica: Replica, is_last: Any) -> list[Any]:
        """Sums added up over all replicas in the last step."""
        return joined(sums, replica, weight=1.0, active=is_last)

    def update(
        self,
        programs: Programs,
        states: list[SlotState],
        grads: list[Any],
        scalars: tuple[Any, ...],
        active: Any,
    ) -> None:
        """Update weights and slots by their rules, those of one rule by one node."""
        # a rule is traced for one weight of each kind, and its nodes are copied for the others
        calls = CopiedCalls(trace_state.current_trace())
        # casts for each dtype, not for each weight: a step has hundreds of these
        dtypes = dict.fromkeys(str(state.dtype) for state in states)
        rates = {dtype: tuple(ops.cast(x, dtype) for x in scalars) for dtype in dtypes}
        members = _trace_joint_update(programs, states, grads, rates, active)
        for state, grad in zip(states, grads, strict=True):
            if state in members:
                continue
            dtype = str(state.dtype)
            weight = ops.cast(state.weight.value(), dtype)
            slots = [state.slots[n].value() for n in state.names]
            flat = programs.of(state, len(scalars))
            rule: Any = state.rule
            if flat is not None and has_operations(flat.program):
                rule = flat.program
            update = functools.partial(update_by_operations, rule, rates[dtype], active)
            # element by element the shape makes no difference, so one trace serves all weights
            shape = tuple(weight.shape) if flat is None else None
            new = calls.results(update, [weight, grad, *slots], (state.key, shape))
            state.weight.assign(ops.cast(new[0], state.weight.dtype))
            for name, value in zip(state.names, new[1:], strict=True):
                state.slots[name].assign(value)


TENSORS = TensorMedium()


def _is_outermost() -> bool:
    """Whether what is traced is a graph, and no branch or body of a loop."""
    graph = trace_state.current_trace()
    return type(graph) is Graph and graph.outer is None


def _trace_joint_update(
    programs: Programs,
    states: list[SlotState],
    grads: list[Any],
    rates: dict[str, tuple[Any, ...]],
    active: Any,
) -> set[SlotState]:
    """Trace the step of all weights with an update program as one node for each program.

    Branches and bodies of loops keep an operation for each step of a rule: gradients go through
    them in their own way, and values go from round to round there. A gradient of unknown size may
    turn out to be wrong, which has to be seen before anything changes.

    Returns:
        The states of these weights.
    """
    # a weight that comes again starts from what it has become
    once = len(set(map(id, states))) == len(states)
    graph = trace_state.current_trace()
    if not once or not _is_outermost():
        return set()
    groups: dict[Any, list[tuple[SlotState, Any]]] = {}
    for state, grad in zip(states, grads, strict=True):
        is_sized = state.weight._shape is None and grad.shape.is_fully_defined()
        if state.is_in_place and is_sized:
            program = programs.of(state, len(rates[str(state.dtype)]))
            if program is not None:
                # one rule and dtype, whatever the shapes
                groups.setdefault(program, []).append((state, grad))
    joined: set[SlotState] = set()
    for program, members in groups.items():
        elements = sum(math.prod(state.weight.shape) for state, _ in members)
        rule = WeightUpdate(programs.owner, program, active is not None)
        is_small = len(members) < _FEWEST_WEIGHTS and elements < FEWEST_COPIED
        if is_small or not has_operations(program.program):
            continue
        numbers = list(rates[str(members[0][0].dtype)])
        inputs = numbers if active is None else [*numbers, active]
        for state, grad in members:
            # as `update_weights` takes them; results come in this order without the gradients
            inputs += [state.weight.value(), grad, *[slot.value() for slot in state.held]]
        variables = [v for state, _ in members for v in (state.weight, *state.held)]
        graph.assign_results(variables, update_weights(*inputs, rule=rule))
        joined.update(state for state, _ in members)
    return joined
