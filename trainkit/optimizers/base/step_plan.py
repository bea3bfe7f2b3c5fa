"""Which programs update which weights, found out once for steps over the same weights."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from operator import is_
from typing import TYPE_CHECKING, Any

import numpy as np

from trainkit.compiler.flat import FlatProgram
from trainkit.compiler.ir import Unsupported
from trainkit.core.tensor import Tensor
from trainkit.core.variable import WATCHERS, tell_watchers, writable_arrays
from trainkit.kernels.jit import kernel_family
from trainkit.optimizers.base.flat_update import FlatUpdate
from trainkit.optimizers.base.slot_state import SlotState

if TYPE_CHECKING:  # imports what writes the kernels of GPUs
    from trainkit.optimizers.base.update_cuda import RuleKernel

_TENSORS = frozenset((Tensor,))
_ARRAYS = {np.ndarray}


class StepPlan:
    """What a step need not find out again when the next one is over the same weights.

    Args:
        states: of the weights, in the order of their gradients.
        programs: that of each weight, `None` where there is none.
    """

    def __init__(
        self, states: list[SlotState], programs: list[FlatUpdate | RuleKernel | None]
    ) -> None:
        self.states = states
        self._weights = [state.weight for state in states]
        self._dtypes = [state.dtype for state in states]
        self._shapes = [state.weight._value._array.shape for state in states]
        # a variable whose shape may change has `_shape`: then each step has to look at it
        self._is_fixed = all(weight._shape is None for weight in self._weights)
        groups: dict[Any, list[int]] = {}
        # A weight that comes again starts from what it has become.
        once = len(set(map(id, states))) == len(states)
        for i, program in enumerate(programs):
            # weights of all sizes share a call; alone in its group is one without a program, or
            # that comes again
            # the dtype of a rule is not that of a half-precision weight
            key = (program, states[i].is_in_place) if once and program is not None else i
            groups.setdefault(key, []).append(i)
        self._groups = [
            _group(programs[indices[0]], [(i, states[i]) for i in indices])
            for indices in groups.values()
        ]

    def is_over(self, states: list[SlotState]) -> bool:
        """Whether the plan is one for `states`."""
        mine = self.states
        return states is mine or (len(states) == len(mine) and all(map(is_, states, mine)))

    def arrays(self, grads: Sequence[Any], weights: Sequence[Any]) -> list[Any] | None:
        """The arrays of `grads` if these are its weights and all fit, so that no look is needed."""
        if not self._is_fixed or not len(self.states) == len(grads) == len(weights):
            return None
        if not all(map(is_, weights, self._weights)) or not _TENSORS.issuperset(map(type, grads)):
            return None
        arrays = [grad._array for grad in grads]
        # NumPy has one object for each native dtype; an equal one only takes the long way
        for array, dtype, shape in zip(arrays, self._dtypes, self._shapes):  # noqa: B905 - as above
            if array.dtype is not dtype or array.shape != shape:
                return None
        return arrays

    def update(self, grads: Sequence[Any], scalars: Sequence[Any]) -> None:
        """Update weights and slots with the arrays `grads`."""
        for group in self._groups:
            group.update(grads, scalars)
        if WATCHERS:  # there are none without kept weights: a call less
            tell_watchers(self._weights)


def _group(program: Any, members: list[tuple[int, SlotState]]) -> _Group | _GpuGroup:
    on_gpu = program is not None and not isinstance(program, FlatUpdate)
    return _GpuGroup(program, members) if on_gpu else _Group(program, members)


class _GpuGroup:
    """Weights of one program on a GPU.

    Args:
        kernel: the program's.
        members: place of the gradient and state of each.
    """

    def __init__(self, kernel: RuleKernel, members: list[tuple[int, SlotState]]) -> None:
        self._kernel = kernel
        self._members = members

    def update(self, grads: Sequence[Any], scalars: Sequence[Any]) -> None:
        """Update weights and slots with the arrays `grads`."""
        from trainkit.optimizers.base.update_cuda import gpu_buffers

        member_buffers = [(i, state, gpu_buffers(state, grads[i])) for i, state in self._members]
        buffers = [arrays for _, _, arrays in member_buffers if arrays is not None]
        is_updated = not buffers or self._kernel.update(buffers, scalars)
        del buffers
        for i, state, arrays in member_buffers:
            if arrays is None or not is_updated:
                state.update_plainly(grads[i], scalars, self._kernel.program)


class _Group:
    """Weights of one program on the CPU.

    Args:
        program: theirs, `None` where there is none.
        members: place of the gradient and state of each.
    """

    def __init__(self, program: FlatUpdate | None, members: list[tuple[int, SlotState]]) -> None:
        self._program = program
        self._members = members
        self._indices = [i for i, _ in members]
        # the variables of all weights one behind the other, as many for each
        self._variables = [v for _, state in members for v in (state.weight, *state.held)]
        self._total = sum(state.weight._value._array.size for _, state in members)
        self._is_in_place = program is not None and all(s.is_in_place for _, s in members)

    def update(self, grads: Sequence[Any], scalars: Sequence[Any]) -> None:
        """Update weights and slots with the arrays `grads`."""
        if not self._is_in_place or not self._update_together(grads, scalars):
            self._update_each(grads, scalars)

    def _update_together(self, grads: Sequence[Any], scalars: Sequence[Any]) -> bool:
        """Update all in one call; `False`, with nothing changed, where that can't be."""
        program = self._program
        assert program is not None
        arrays, own_grads = writable_arrays(self._variables), [grads[i] for i in self._indices]
        if set(map(type, own_grads)) != _ARRAYS:
            # of operations on arrays without axes NumPy gives scalars
            own_grads = [np.asarray(g) if isinstance(g, np.generic) else g for g in own_grads]
        buffers = interleave(arrays, own_grads, program.n_buffers - 1)
        return program.run(buffers, len(own_grads), self._total, scalars)

    def _update_each(self, grads: Sequence[Any], scalars: Sequence[Any]) -> None:
        members = []
        program = None if self._program is None else self._program.program
        for i, state in self._members:
            buffers = state.buffers(grads[i]) if self._is_in_place else None
            if buffers is None:
                state.update_plainly(grads[i], scalars, program)
            else:
                members.append(buffers)
        if self._program is not None and members:
            self._program.run_all(members, scalars)


def interleave(written: Sequence[Any], grads: Sequence[Any], n: int) -> list[Any]:
    """The arrays of weights as an update takes them: weight, gradient and slots of each in turn.

    Args:
        written: for each weight its array and those of its slots.
        grads: the gradients.
        n: how many arrays `written` has for each weight.
    """
    # filled by strides: a loop of Python over hundreds of weights would take longer than updating
    # small ones
    buffers: list[Any] = [None] * (len(written) + len(grads))
    buffers[:: n + 1], buffers[1 :: n + 1] = written[::n], grads
    for i in range(1, n):
        buffers[i + 1 :: n + 1] = written[i::n]
    return buffers


class Programs:
    """The programs of one optimizer, by rule and dtype; `None` for rules that have none.

    Args:
        owner: the optimizer's class, in listings of graphs.

    Attributes:
        plan: of the last step, `None` before the first.
    """

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self._programs: dict[Any, FlatUpdate | None] = {}
        self._kernels: dict[Any, RuleKernel | None] = {}
        self.plan: StepPlan | None = None

    def of(self, state: SlotState, n_scalars: int) -> FlatUpdate | None:
        """The program of a weight's rule, made when it is first asked for."""
        if state.key in self._programs:
            return self._programs[state.key]
        try:
            program = FlatProgram(state.rule, len(state.names), n_scalars, state.dtype)
        except Unsupported:
            # noted, so that the rule is not traced in vain at each step
            self._programs[state.key] = None
            return None
        update = self._programs[state.key] = FlatUpdate(program)
        return update

    def flat_updates(self) -> list[FlatUpdate]:
        """Those that were made for the CPU."""
        return [update for update in self._programs.values() if update is not None]

    def plan_of(self, states: list[SlotState], n_scalars: int) -> StepPlan:
        """The plan of a step over `states`: that of the last one, if these are the same."""
        if self.plan is None or not self.plan.is_over(states):
            programs = [self._program_for(s, n_scalars) for s in states]
            self.plan = StepPlan(states, programs)
        return self.plan

    def _program_for(self, state: SlotState, n_scalars: int) -> FlatUpdate | RuleKernel | None:
        on_gpu = state.is_on_gpu and kernel_family.mode() != "off"
        kernel = self.on_gpu(state, n_scalars) if on_gpu else None
        return self.of(state, n_scalars) if kernel is None else kernel

    def on_gpu(self, state: SlotState, n_scalars: int) -> RuleKernel | None:
        """The kernel of a weight's rule on a GPU, made when it is first asked for."""
        if state.key not in self._kernels:
            from trainkit.optimizers.base.update_cuda import RuleKernel

            kernel = None
            with contextlib.suppress(Unsupported):
                rule = FlatProgram(state.rule, len(state.names), n_scalars, state.dtype)
                kernel = RuleKernel(rule)
            self._kernels[state.key] = kernel
        return self._kernels[state.key]

    def forget(self) -> None:
        """Drop all programs: a setting that they hold as a number has changed."""
        self._programs.clear()
        self._kernels.clear()
        self.plan = None
