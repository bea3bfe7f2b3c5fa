"""LossScaleOptimizer: keeps small float16 gradients from vanishing by scaling the loss."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np

from trainkit import ops
from trainkit.core import abstract, devices, recorder
from trainkit.core.registry import deserialize_object, serialize_object
from trainkit.core.trackable import Trackable
from trainkit.core.variable import Variable
from trainkit.optimizers.gradient_pairs import checked_pairs, split_pairs, warn_of_missing
from trainkit.optimizers.optimizer import Optimizer
from trainkit.optimizers.step import _trace_step, apply_step


class LossScaleOptimizer(Optimizer):
    """Another optimizer, with a loss scale that adapts itself.

    Multiply the loss by `scale_loss` before taking gradients; here they are divided by the scale
    again. A step whose gradients are not all finite is left out and halves the scale; after
    `dynamic_growth_steps` good steps in a row the scale doubles.
    Source: Micikevicius et al. 2017, arXiv:1710.03740, section 3.2.

    Args:
        inner_optimizer: what updates the weights.
        initial_scale: the first scale, above 0.
        dynamic_growth_steps: good steps before the scale doubles.
        name: what it is called.

    Raises:
        TypeError: `inner_optimizer` is no optimizer, or one with a loss scale itself.
        ValueError: `initial_scale` or `dynamic_growth_steps` is out of range.
    """

    def __init__(
        self,
        inner_optimizer: Optimizer,
        initial_scale: float = 2.0**15,
        dynamic_growth_steps: int = 2000,
        name: str | None = None,
    ) -> None:
        if not isinstance(inner_optimizer, Optimizer) or isinstance(
            inner_optimizer, LossScaleOptimizer
        ):
            raise TypeError(f"LossScaleOptimizer wraps another optimizer, got {inner_optimizer!r}")
        if not initial_scale > 0:
            raise ValueError(
                f"LossScaleOptimizer: initial_scale must be above 0, got {initial_scale!r}"
            )
        if dynamic_growth_steps < 1:
            raise ValueError(
                "LossScaleOptimizer: dynamic_growth_steps must be at least 1, got "
                f"{dynamic_growth_steps!r}"
            )
        super().__init__(0.0, name=name or "loss_scale_optimizer")
        self.inner_optimizer = inner_optimizer
        self.initial_scale = initial_scale
        self.dynamic_growth_steps = dynamic_growth_steps
        with abstract.eagerly(), devices.device("/cpu:0"):
            self.dynamic_scale = Variable(
                np.float32(initial_scale), trainable=False, name="dynamic_scale"
            )
            self.step_counter = Variable(
                np.zeros((), np.int32), trainable=False, name="step_counter"
            )

    # ------------------------------------------------------------------ what the inner one does

    @property
    def learning_rate(self) -> Any:
        """The inner optimizer's rate."""
        return self.inner_optimizer.learning_rate

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        self.inner_optimizer.learning_rate = value

    @property
    def iterations(self) -> Any:
        """Steps that the inner optimizer made; those left out do not count."""
        return self.inner_optimizer.iterations

    @property
    def built(self) -> bool:
        """Whether the inner optimizer has slots."""
        return self.inner_optimizer.built

    @property
    def variables(self) -> list[Variable]:
        """Scale, counter, and the inner optimizer's variables."""
        return [self.step_counter, self.dynamic_scale, *self.inner_optimizer.variables]

    def parts(self) -> dict[str, Trackable]:
        """Scale, counter and the inner optimizer."""
        return {
            "inner_optimizer": self.inner_optimizer,
            "dynamic_scale": self.dynamic_scale,
            "step_counter": self.step_counter,
        }

    def slot_variables(self) -> list[tuple[str, Variable, Variable]]:
        """None of its own: the inner optimizer has them."""
        return []

    def build(self, variables: Iterable[Variable]) -> None:
        self._states.chosen = list(variables)
        self.inner_optimizer.build(self._states.chosen)

    def finalize_variable_values(self, var_list: Iterable[Variable]) -> None:
        self.inner_optimizer.finalize_variable_values(var_list)

    def exclude_from_weight_decay(
        self, var_list: Iterable[Variable] | None = None, var_names: Iterable[str] | None = None
    ) -> None:
        self.inner_optimizer.exclude_from_weight_decay(var_list, var_names)

    # ------------------------------------------------------------------ steps

    def scale_loss(self, loss: Any) -> Any:
        """The loss times the scale, and times the inner optimizer's `loss_scale_factor`."""
        scale = self.dynamic_scale.value()
        return self.inner_optimizer.scale_loss(loss) * ops.cast(scale, loss.dtype)

    def apply_gradients(self, grads_and_vars: Iterable[Any], name: str | None = None) -> Any:
        grads, weights = split_pairs(self.name, grads_and_vars)
        self._apply(grads, weights)
        return self.iterations

    def _apply(self, grads: Sequence[Any], weights: Sequence[Any]) -> None:
        kept, of, missing = checked_pairs(self.name, grads, weights)
        inner = self.inner_optimizer
        states = [inner.state_of(weight) for weight in of]
        if missing and self._states.is_news(missing):
            warn_of_missing(self.name, missing)
        with recorder.silence():
            scale = self.dynamic_scale.value()
            unscaled = [ops.cast(g, str(s.dtype)) for g, s in zip(kept, states, strict=True)]
            unscaled = [g / ops.cast(scale, g.dtype) for g in unscaled]
            finite = ops.all(ops.stack([ops.all(ops.isfinite(g)) for g in unscaled]))
            if recorder.current_trace() is not None:
                before = inner._iterations.value()
                _trace_step(inner, states, unscaled, finite)
                inner._iterations.assign(ops.where(finite, before + 1, before))
            elif bool(finite):
                apply_step(inner, states, unscaled)
            self._adapt(finite, scale)

    def _adapt(self, finite: Any, scale: Any) -> None:
        """The next scale and counter."""
        count = self.step_counter.value() + 1
        grown = ops.greater_equal(count, self.dynamic_growth_steps)
        after_good = ops.where(grown, scale * 2.0, scale)
        self.dynamic_scale.assign(ops.where(finite, after_good, scale * 0.5))
        zero = ops.zeros_like(count)
        self.step_counter.assign(ops.where(finite, ops.where(grown, zero, count), zero))

    # ------------------------------------------------------------------ configuration

    def get_config(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "inner_optimizer": serialize_object(self.inner_optimizer),
            "initial_scale": self.initial_scale,
            "dynamic_growth_steps": self.dynamic_growth_steps,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        config = dict(config)
        return cls(deserialize_object(config.pop("inner_optimizer")), **config)
