"""Gradients and updates of single steps of `fit`, looked at now and then."""

from __future__ import annotations

import math
import time
from typing import Any, NamedTuple

import numpy as np

from trainkit import ops
from trainkit.callbacks.callback import Callback, Logs
from trainkit.callbacks.time_budget import TimeBudget
from trainkit.collectives import replica as replicas
from trainkit.collectives.process_group import ProcessGroup
from trainkit.core.dispatch import trace_state
from trainkit.optimizers.base.accumulated_gradients import whole_gradients

_DEARER_THAN_A_STEP = 4.0
"""A step that is looked at runs operation by operation, and its sums come on top."""

_MOST_STEPS_AHEAD = 100
"""So often at least processes ask the first one again; times of steps change."""

_QUESTION = "which steps TensorBoard(write_gradients=True), which all ranks need, looks at, a plan"

_SMALLEST = 1e-12


class Sample(NamedTuple):
    """A weight in one step.

    Attributes:
        path: of the weight.
        gradient: the gradient that the optimizer was given.
        norm: the length of the gradient.
        ratio: the length of the update by that of the weight before it.
    """

    path: str
    gradient: Any
    norm: float
    ratio: float


class GradientSampler:
    """Takes the gradients of some steps, so rarely that a share of the time is not passed.

    A step that is looked at runs eagerly, which gives the same numbers as the compiled one; the
    gradients are those that the optimizer is handed, and of all replicas where there are several.

    Where processes train together, all of them have a sampler. Sums over processes go off in
    another order in eager steps, so all look at the same ones: the clock of the first process
    decides, and tells the others for how many steps that holds. It alone takes the gradients.
    Virtual replicas make their update eagerly in every step, so nothing changes for these.

    Args:
        share: of the time of training.
        clock: gives seconds.
    """

    def __init__(self, share: float, clock: Any = time.perf_counter) -> None:
        self.budget, self._clock = TimeBudget(share, clock), clock
        self._step_seconds: float | None = None
        self._last_end: float | None = None
        self._began_at: float | None = None
        self._optimizer: Any = None
        self._compiled: Any = None
        self._group = ProcessGroup()
        self._steps_ahead = 0
        self._has_part = self._makes_eager = True
        self.taken: list[Sample] = []

    def begin(self, model: Any) -> None:
        """A training of `model` begins; all processes that train it have to call this."""
        self.release()
        strategy = model.distribute_strategy
        self._makes_eager = strategy.virtual is None
        together = self._makes_eager and not strategy.is_of_one_process
        self._group = strategy.group if together else ProcessGroup()
        self._has_part = together or strategy.rank == 0
        self._steps_ahead = 0
        self.budget.begin()
        self._last_end = self._step_seconds = None

    def before_step(self, model: Any) -> None:
        """Get ready for a step, if it is to be looked at."""
        if not self._has_part or model.optimizer is None or not self._is_chosen():
            return
        self._began_at = self._clock()
        optimizer = model.optimizer
        while hasattr(optimizer, "inner_optimizer"):
            optimizer = optimizer.inner_optimizer
        self._optimizer = optimizer
        optimizer.__dict__["_step"] = self._watched(optimizer)
        step = getattr(model.train_function, "step", None)
        if step is not None and hasattr(step, "eager_steps") and self._makes_eager:
            step.eager_steps = 1
            self._compiled = step

    def _is_chosen(self) -> bool:
        """Whether to look at the step that comes, as all processes know it."""
        if self._group.size == 1:
            return self._wait() == 0.0
        self._steps_ahead -= 1
        if self._steps_ahead > 0:
            return False
        plan = np.zeros(2, np.int64)
        if self._group.rank == 0:
            plan[:] = self._plan()
        self._group.broadcast(plan, label=_QUESTION)
        self._steps_ahead = int(plan[1])
        return bool(plan[0])

    def _plan(self) -> tuple[bool, int]:
        """Whether to look at the step that comes, and after how many steps to ask again."""
        wait = self._wait()
        if wait is None or wait == 0.0:
            return wait == 0.0, 1
        steps = wait / max(self._step_seconds or 0.0, 1e-9)
        return False, max(math.ceil(min(steps, _MOST_STEPS_AHEAD)), 1)

    def _wait(self) -> float | None:
        """Seconds until there is time to look at a step; `None` while that is not known."""
        if self._step_seconds is None:
            return None
        return self.budget.seconds_until(_DEARER_THAN_A_STEP * self._step_seconds)

    def _watched(self, optimizer: Any) -> Any:
        """`_step`, through which all ways to apply gradients go, for one call in each replica."""
        step, ranks = type(optimizer)._step, set()

        def apply(grads: Any, weights: Any) -> None:
            replica = replicas.among_others()
            rank = 0 if replica is None else replica.rank
            if rank in ranks or trace_state.current_trace() is not None:
                step(optimizer, grads, weights)
                return
            ranks.add(rank)
            whole_grads = whole_gradients(optimizer, grads, weights)
            before = [] if rank else [v.value() for v in weights]
            step(optimizer, grads, weights)
            if not rank:
                self.taken = [
                    _sample(v, old, g)
                    for v, old, g in zip(weights, before, whole_grads, strict=True)
                    if g is not None
                ]

        return apply

    def after_step(self) -> list[Sample]:
        """What was seen of the step, empty if it was not looked at."""
        now = self._clock()
        if self._began_at is None:
            if self._last_end is not None:
                self._step_seconds = now - self._last_end
            self._last_end = now
            return []
        samples = self.taken
        self.release()
        return samples

    def written(self, began_at: float) -> None:
        """Say that what was seen has been written; the step began at `began_at`."""
        usual = self._step_seconds or 0.0
        self.budget.note(max(self._clock() - began_at - usual, 0.0))
        self._last_end = None

    @property
    def began_at(self) -> float | None:
        """When the step began that is looked at, `None` for another."""
        return self._began_at

    def release(self) -> None:
        """Let the optimizer and the step be as they were."""
        if self._optimizer is not None:
            self._optimizer.__dict__.pop("_step", None)
        if self._compiled is not None:
            self._compiled.eager_steps = 0
        self._began_at = self._optimizer = self._compiled = None
        self.taken = []


class LooksAlong(Callback):
    """Looks at the steps that the first process looks at, in place of its `TensorBoard`."""

    reads_batch_logs = False
    only_rank_0 = True  # like what it stands for, so that all processes agree on what they call
    _untracked = Callback._untracked | {"sampler"}

    def __init__(self, sampler: GradientSampler) -> None:
        super().__init__()
        self.sampler = sampler

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.sampler.begin(self.model)

    def on_train_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        self.sampler.before_step(self.model)

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        self.sampler.after_step()

    def on_train_end(self, logs: Logs | None = None) -> None:
        self.sampler.release()


def _sample(variable: Any, before: Any, gradient: Any) -> Sample:
    change = _length(ops.subtract(variable.value(), before))
    ratio = change / max(_length(before), _SMALLEST)
    return Sample(variable.path, gradient, _length(gradient), ratio)


def _length(x: Any) -> float:
    return float(ops.sqrt(ops.sum(ops.square(ops.cast(x, "float32")))))
