"""Gradient accumulation: sums of the gradients of some steps, after which the weights change once.

Where several replicas train, each sums up its own gradients, and the sums are joined in the step in
which the weights change. So what a slot holds before is this replica's part; the whole is the sum
over all replicas, which checkpoints hold. Replicas that are threads of one process join the
gradients of each step: their checkpoints are written by one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trainkit import ops
from trainkit.collectives import replica as replicas
from trainkit.collectives.process_group import ProcessGroup
from trainkit.core import devices
from trainkit.core.devices import XP_OF
from trainkit.core.dispatch import eval_shape, trace_state
from trainkit.core.tensor import convert_to_tensor
from trainkit.core.variable import OVERWRITTEN, Variable, writable_arrays
from trainkit.ops.collective.all_reduce import all_reduce
from trainkit.optimizers.base.joined_gradients import joined, joined_gradients
from trainkit.optimizers.base.overwriting import is_overwritten
from trainkit.optimizers.base.slot_state import SlotState

if TYPE_CHECKING:
    from trainkit.optimizers.base.optimizer import Optimizer
    from trainkit.optimizers.base.step import Medium

SLOT = "accumulated_gradient"


class SumsInParts:
    """The sums of one optimizer, of which each replica has a part.

    Args:
        optimizer: whose sums they are; until now each replica has the whole.
        group: the replicas.
    """

    def __init__(self, optimizer: Optimizer, group: ProcessGroup) -> None:
        self._optimizer, self._group = optimizer, group
        self.release()

    def _slots(self) -> list[Variable]:
        states = self._optimizer._states.by_id.values()
        return [s.slots[SLOT] for s in states if SLOT in s.slots and not is_overwritten(s.weight)]

    def gather(self) -> None:
        """Give the whole to all replicas, which have to call it where a sum has begun."""
        period = self._optimizer.gradient_accumulation_steps
        # at the start of a period all sums are zero
        if period is None or not int(self._optimizer._iterations) % period:
            return
        for slot in self._slots():
            # a copy: it is added up in place, and someone may hold the slot's own array
            array = np.ascontiguousarray(devices.to_numpy(slot._value._array)).copy()
            self._group.all_reduce(array, label="the accumulated gradients")
            slot._take(devices.to_device(array, devices.device_of(slot._value._array)))

    def loaded(self, variables: set[int]) -> None:
        """Hear of variables, by their ids, to which all replicas gave values of a file."""
        # all replicas read the whole from the file, which would be added up as often
        if any(id(slot) in variables for slot in self._slots()):
            self.release()

    def release(self) -> None:
        """Let the first replica have the whole, which all of them have, and the others nothing."""
        if self._group.rank:
            for slot in self._slots():
                slot._take(devices.XP_OF[type(slot._value._array)].zeros_like(slot._value._array))


def gradients_for_step(
    optimizer: Optimizer, grads: Sequence[Any], weights: Sequence[Any]
) -> list[Any]:
    """What an optimizer steps along: gradients of all replicas, or of one if it sums them up first.

    Args:
        optimizer: makes its step with them next, and joins sums if it is the last of a period.
        grads: tensors of this replica, or `None`.
        weights: the variables.

    Returns:
        A tensor or `None` for each.
    """
    replica = replicas.among_others()
    if replica is None or replica.gradients_are_joined:
        return joined_gradients(optimizer, grads, weights)
    if optimizer.gradient_accumulation_steps is None:
        return joined_gradients(optimizer, grads, weights)
    if replica.group.is_of_one_process:  # outside of a step variables are those of one replica
        return joined_gradients(optimizer, grads, weights)
    # the optimizers inside sum up, each its own; they get gradients that are joined
    if not optimizer.sums_gradients_up:
        return joined_gradients(optimizer, grads, weights)
    # past `__setattr__`, which drops the programs as after a new setting
    attributes = optimizer.__dict__
    if attributes.get("sums_in_parts") is None:
        with eval_shape.eagerly():  # slots that are made now may come from a file, whole
            for grad, weight in zip(grads, weights, strict=True):
                if grad is not None and isinstance(weight, Variable):
                    optimizer.state_of(weight)
        attributes["sums_in_parts"] = SumsInParts(optimizer, replica.group)
    attributes["_to_join"] = replica
    with trace_state.silence():
        weighted_grads = [
            None if g is None else _weight(convert_to_tensor(g), replica.weight) for g in grads
        ]
        # the greatest of all replicas is no sum of parts, so it can't wait for the end of a period
        if OVERWRITTEN:
            at = [i for i, g in enumerate(grads) if g is not None and is_overwritten(weights[i])]
            for i, maximum in zip(at, all_reduce([grads[i] for i in at], "MAX"), strict=True):
                weighted_grads[i] = maximum
    return weighted_grads


def whole_gradients(
    optimizer: Optimizer, grads: Sequence[Any], weights: Sequence[Any]
) -> list[Any]:
    """Gradients of all replicas, where `gradients_for_step` gave parts of them, to be looked at.

    Args:
        optimizer: is about to make its step with `grads`; all replicas have to call this then.
        grads: what `gradients_for_step` gave.
        weights: the variables.

    Returns:
        A tensor or `None` for each.
    """
    results, replica = list(grads), optimizer.__dict__.get("_to_join")
    if replica is None:
        return results
    # those that a weight becomes are joined in each step already
    parts = [i for i, g in enumerate(grads) if g is not None and not is_overwritten(weights[i])]
    with trace_state.silence():
        # each replica's part was weighted when it came
        sums = joined([grads[i] for i in parts], replica, weight=1.0) if parts else []
    for i, total in zip(parts, sums, strict=True):
        results[i] = total
    return results


def _weight(grad: Any, weight: float) -> Any:
    if weight == 1.0:
        return grad
    return grad * weight if weight else ops.zeros_like(grad)  # no rows may give no numbers


class PeriodMeans(NamedTuple):
    """Means of gradients over a period of accumulation, by which its last step updates weights.

    Attributes:
        states: of the weights.
        grads: the mean for each: arrays, or symbolic tensors, which mean nothing in other steps.
        conditions: for each weight whether it has a mean at all, a scalar bool tensor of a graph;
            `None` for certainly.
        is_last: whether this step is the last of the period: a bool, or such a tensor.
    """

    states: list[SlotState]
    grads: list[Any]
    conditions: list[Any]
    is_last: Any


def add_gradients(
    on: Medium,
    optimizer: Optimizer,
    states: list[SlotState],
    grads: list[Any],
    step_count: Any,
    finite: Any = None,
) -> PeriodMeans:
    """Add gradients to their sums, which begin anew after the last step of a period.

    A weight without a gradient in the last step is updated, too, if it had some before: then this
    step counts as one whose gradient is 0. It had some if the sum is not 0, as a run knows that
    goes on in the middle of a period.

    Args:
        on: what numbers are, see `step.py`.
        optimizer: whose sums they are.
        states: of the weights.
        grads: arrays, or symbolic tensors.
        step_count: steps before this one.
        finite: in a graph a scalar bool tensor; where it is False nothing changes. `None` for
            always.

    Returns:
        The means; no weights at all where this step is known not to be the last.
    """
    period = optimizer.gradient_accumulation_steps
    assert period is not None
    # taken off in each step: a step that nobody prepared joins nothing
    replica = optimizer.__dict__.pop("_to_join", None)
    is_last = on.is_multiple(step_count + 1, period)
    pairs = [(state, True) for state in states] + [
        (state, False) for state in _states_without(optimizer, states)
    ]
    at_once = (
        [] if replica is not None else on.means_at_once(states, grads, is_last, finite, period)
    )
    added = [*grads, *[None] * (len(pairs) - len(grads))]
    sums = [
        on.add_to_sum(state.slots[SLOT], grad, is_last, finite)
        for (state, _), grad in list(zip(pairs, added, strict=True))[len(at_once) :]
    ]
    if is_last is False:
        return PeriodMeans([], [], [], False)
    if replica is not None:
        # in other steps of a period nothing is sent
        sums = on.joined_sums(sums, replica, is_last)
    n = len(at_once)
    means = PeriodMeans(states[:n], at_once, [None] * n, is_last)
    for (state, has_gradient), total in zip(pairs[n:], sums, strict=True):
        condition = None if has_gradient else on.is_any(total)
        if condition is not False:
            means.states.append(state)
            means.grads.append(total / period)
            means.conditions.append(None if condition is True else condition)
    return means


class PeriodRule:
    """What becomes of all sums of a step, as the `rule` of `update_weights`: one node of a graph.

    It takes a bool that says whether the step is the last of a period, one for whether it counts,
    if there is one, then for each weight its sum so far and its gradient. It gives for each weight
    the sum after the step, or the mean over the period, which only the last step reads.

    Args:
        period: what sums are divided by; `None` for sums, which begin anew after the last step.
        is_conditional: whether there is the second bool.
    """

    n_buffers = 2

    def __init__(self, period: int | None, is_conditional: bool) -> None:
        self._period = period
        self._is_conditional = is_conditional
        self.n_numbers = 1 + is_conditional

    def __repr__(self) -> str:
        return "<sums of a period>" if self._period is None else "<means of a period>"

    def _result(self, numbers: Sequence[Any], total: Any, grad: Any) -> Any:
        counts = all(numbers[1:])
        if self._period is not None:
            # nobody reads the other; the sum itself would seem to be held, and be copied
            return (total + grad) / self._period if counts and numbers[0] else grad
        if not counts:
            return total
        return XP_OF[type(total)].zeros_like(total) if numbers[0] else total + grad

    def results(self, xp: Any, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """The sum or mean of each weight.

        Args:
            xp: NumPy or CuPy.
            arrays: the bools, then the sum and the gradient of each weight.
        """
        numbers, totals = arrays[: self.n_numbers], arrays[self.n_numbers :: 2]
        grads = arrays[self.n_numbers + 1 :: 2]
        return tuple(self._result(numbers, *pair) for pair in zip(totals, grads, strict=True))

    def bound(self, buffers: Sequence[Variable | None]) -> Callable[..., list[Any]]:
        """The same, where sums are written to their variables.

        Args:
            buffers: the variable of each sum, `None` for one that is given and not written over.
        """

        def run(*arrays: Any) -> list[Any]:
            numbers, rest = arrays[: self.n_numbers], iter(arrays[self.n_numbers :])
            results = []
            for variable in buffers:
                total = None if variable is not None else next(rest)
                grad = next(rest)
                if variable is None:
                    results.append(self._result(numbers, total, grad))
                elif all(numbers[1:]):
                    total = writable_arrays([variable])[0]
                    if numbers[0]:
                        total[...] = 0
                    else:
                        np.add(total, grad, out=total)
            return results

        return run

    def as_operations(self, inputs: Sequence[Any]) -> list[Any]:
        """The same of symbols, by operations for each weight."""
        numbers, totals = inputs[: self.n_numbers], inputs[self.n_numbers :: 2]
        results = []
        for total, grad in zip(totals, inputs[self.n_numbers + 1 :: 2], strict=True):
            after = total + grad
            if self._period is not None:
                results.append(after / self._period)
                continue
            after = ops.where(numbers[0], ops.zeros_like(after), after)
            results.append(ops.where(numbers[1], after, total) if len(numbers) > 1 else after)
        return results


def _states_without(optimizer: Optimizer, states: Sequence[SlotState]) -> list[SlotState]:
    """The states that have a sum and are not among `states`."""
    present = set(map(id, states))
    return [
        state
        for state in optimizer._states.by_id.values()
        if id(state) not in present
        and SLOT in state.slots
        # `overwriting.py` keeps the greatest gradient there; a weight that was frozen stays
        and not is_overwritten(state.weight)
        and state.weight.trainable
    ]
