"""Which programs update which weights, found out once for steps over the same weights."""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import Any

from trainkit.core.tensor import Tensor
from trainkit.optimizers.rule_loop import HotProgram
from trainkit.optimizers.rule_program import NotElementwise, RuleProgram
from trainkit.optimizers.weight_state import WeightState


class StepPlan:
    """What a step need not find out again when the next one is over the same weights.

    Args:
        states: of the weights, in the order of their gradients.
        programs: that of each weight, `None` where there is none.
    """

    def __init__(self, states: list[WeightState], programs: list[HotProgram | None]) -> None:
        self.states = states
        groups: dict[Any, list[int]] = {}
        # A weight that comes again starts from what it has become.
        once = len(set(map(id, states))) == len(states)
        for i, program in enumerate(programs):
            groups.setdefault(program if once and program is not None else i, []).append(i)
        self._groups = [(programs[members[0]], members) for members in groups.values()]

    def is_over(self, states: list[WeightState]) -> bool:
        """Whether the plan is one for `states`."""
        mine = self.states
        return states is mine or (len(states) == len(mine) and all(map(is_, states, mine)))

    def fits(self, grads: Sequence[Any], weights: Sequence[Any]) -> bool:
        """Whether these are its weights, with gradients that need no further look."""
        if not len(self.states) == len(grads) == len(weights):
            return False
        for state, grad, weight in zip(self.states, grads, weights):  # noqa: B905 - looked at above
            if weight is not state.weight or type(grad) is not Tensor:
                return False
            array = grad._array
            if array.dtype is not state.dtype or array.shape != weight._value._array.shape:
                return False
        return True

    def update(self, grads: Sequence[Any], scalars: Sequence[Any]) -> None:
        """Update weights and slots with the arrays `grads`."""
        for program, places in self._groups:
            members = []
            for i in places:
                state = self.states[i]
                buffers = None if program is None else state.buffers(grads[i])
                if buffers is None:
                    state.update_plainly(grads[i], scalars)
                else:
                    members.append(buffers)
            if program is not None and members:
                program.run_all(members, scalars)


class Programs:
    """The programs of one optimizer, by rule and dtype; `None` for rules that have none.

    Attributes:
        plan: of the last step, `None` before the first.
    """

    def __init__(self) -> None:
        self._programs: dict[Any, HotProgram | None] = {}
        self.plan: StepPlan | None = None

    def of(self, state: WeightState, n_scalars: int) -> HotProgram | None:
        """The program of a weight's rule, made when it is first asked for."""
        if state.key in self._programs:
            return self._programs[state.key]
        try:
            program = RuleProgram(state.rule, len(state.names), n_scalars, state.dtype)
        except NotElementwise:
            self._programs[state.key] = None
            return None
        made = self._programs[state.key] = HotProgram(program)
        return made

    def plan_of(self, states: list[WeightState], n_scalars: int) -> StepPlan:
        """The plan of a step over `states`: that of the last one, if these are the same."""
        if self.plan is None or not self.plan.is_over(states):
            programs = [self.of(s, n_scalars) if s.is_in_place else None for s in states]
            self.plan = StepPlan(states, programs)
        return self.plan

    def forget(self) -> None:
        """Drop all programs: a setting that they hold as a number has changed."""
        self._programs.clear()
        self.plan = None
