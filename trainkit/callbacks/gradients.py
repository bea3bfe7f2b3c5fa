"""Gradients and updates of single steps of `fit`, looked at now and then."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from trainkit import ops
from trainkit.callbacks.time_budget import TimeBudget

_DEARER_THAN_A_STEP = 4.0
"""A step that is looked at runs operation by operation, and its sums come on top."""

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
    gradients are those that the optimizer is handed.

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
        self.taken: list[Sample] = []

    def begin(self) -> None:
        """A training begins."""
        self.release()
        self.budget.begin()
        self._last_end = self._step_seconds = None

    def before_step(self, model: Any) -> None:
        """Get ready for a step, if there is time to look at it."""
        if self._step_seconds is None or model.optimizer is None:
            return
        if not self.budget.may_spend(_DEARER_THAN_A_STEP * self._step_seconds):
            return
        self._began_at = self._clock()
        optimizer = model.optimizer
        while hasattr(optimizer, "inner_optimizer"):
            optimizer = optimizer.inner_optimizer
        self._optimizer = optimizer
        optimizer.__dict__["_step"] = self._watched(optimizer)
        step = getattr(model.train_function, "step", None)
        if step is not None and hasattr(step, "eager_steps"):
            step.eager_steps = 1
            self._compiled = step

    def _watched(self, optimizer: Any) -> Any:
        """`_step`, through which all ways to apply gradients go, for one call."""

        def apply(grads: Any, weights: Any) -> None:
            self._restore_optimizer()
            before = [v.value() for v in weights]
            optimizer._step(grads, weights)
            self.taken = [
                _sample(v, old, g)
                for v, old, g in zip(weights, before, grads, strict=True)
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
        taken = self.taken
        self.release()
        return taken

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
        self._restore_optimizer()
        if self._compiled is not None:
            self._compiled.eager_steps = 0
        self._began_at = self._optimizer = self._compiled = None
        self.taken = []

    def _restore_optimizer(self) -> None:
        if self._optimizer is not None:
            self._optimizer.__dict__.pop("_step", None)


def _sample(variable: Any, before: Any, gradient: Any) -> Sample:
    change = _length(ops.subtract(variable.value(), before))
    ratio = change / max(_length(before), _SMALLEST)
    return Sample(variable.path, gradient, _length(gradient), ratio)


def _length(x: Any) -> float:
    return float(ops.sqrt(ops.sum(ops.square(ops.cast(x, "float32")))))
