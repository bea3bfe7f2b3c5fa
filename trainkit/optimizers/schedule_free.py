"""ScheduleFreeAdamW: averaging in place of a learning rate schedule."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from trainkit import ops
from trainkit.core import recorder
from trainkit.core.variable import Variable
from trainkit.optimizers.adam import check_shares
from trainkit.optimizers.optimizer import Optimizer
from trainkit.optimizers.options import OptimizerOptions


class ScheduleFreeAdamW(Optimizer):
    """AdamW on a sequence z, whose weighted mean x is the result; the weights lie between, at y.

    rate = lr * min(1, t / warmup_steps) * sqrt(1 - beta_2**t)
    v = v + (1 - beta_2) * (g**2 - v);  z = z - rate * (g / (sqrt(v) + epsilon) + weight_decay * y)
    c = rate**2 / sum of all rate**2 so far;  x = (1 - c) * x + c * z;  y = (1 - beta_1) * z +
    beta_1 * x
    Source: Defazio et al. 2024, arXiv:2405.15682, algorithm 1.

    While training the weights are y. `finalize_variable_values` makes them x, which is what to
    evaluate and keep; `fit` calls it at the end.

    Args:
        learning_rate: size of a step.
        beta_1: where y lies between z, at 0, and x, at 1; in [0, 1).
        beta_2: how much of v stays at each step, in [0, 1).
        epsilon: added to the root, so that nothing is divided by 0.
        warmup_steps: steps over which the learning rate grows from 0.
        **options: see `OptimizerOptions`.

    Raises:
        ValueError: a beta is out of range, or `warmup_steps` is negative.
    """

    slots = ("momentum", "velocity", "x")
    settings = ("beta_1", "beta_2", "epsilon", "warmup_steps")
    counters = (("weight_sum", 0.0),)

    def __init__(
        self,
        learning_rate: Any = 0.0025,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-8,
        warmup_steps: int = 0,
        **options: Unpack[OptimizerOptions],
    ) -> None:
        super().__init__(learning_rate, **options)
        check_shares("ScheduleFreeAdamW", beta_1=beta_1, beta_2=beta_2)
        if warmup_steps < 0:
            raise ValueError(
                f"ScheduleFreeAdamW: warmup_steps must be at least 0, got {warmup_steps!r}"
            )
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.warmup_steps = warmup_steps

    def initial_slot(self, slot: str, weight: Variable, xp: Any, dtype: Any) -> Any:
        if slot == "velocity":
            return super().initial_slot(slot, weight, xp, dtype)
        return weight._value._array.astype(dtype)

    def decay_of(self, weight: Variable) -> float | None:
        return None  # taken off z, in `update`

    def _rate(self, xp: Any, lr: Any, step: Any) -> Any:
        if self.warmup_steps:
            lr = lr * xp.minimum(step / self.warmup_steps, 1.0)
        return lr * xp.sqrt(1 - xp.power(self.beta_2, step))

    def count(self, xp: Any, lr: Any, step: Any, weight_sum: Any) -> Any:
        return (weight_sum + xp.square(self._rate(xp, lr, step)),)

    def rates(self, xp: Any, lr: Any, step: Any, weight_sum: Any) -> Any:
        rate = self._rate(xp, lr, step)
        return rate, xp.square(rate) / xp.maximum(weight_sum, 1e-30)

    def update_of(self, weight: Variable) -> Any:
        plain = not self.weight_decay or self._states.excludes(weight)
        return self.update if plain else self._decayed_update

    def update(self, xp: Any, weight: Any, grad: Any, lr: Any, z: Any, v: Any, x: Any) -> Any:
        return self._blend(xp, weight, grad, lr, z, v, x, 0.0)

    def _decayed_update(
        self, xp: Any, weight: Any, grad: Any, lr: Any, z: Any, v: Any, x: Any
    ) -> Any:
        return self._blend(xp, weight, grad, lr, z, v, x, self.weight_decay)

    def _blend(
        self, xp: Any, weight: Any, grad: Any, lr: Any, z: Any, v: Any, x: Any, decay: Any
    ) -> Any:
        rate, share = lr
        v = v + (1 - self.beta_2) * (grad * grad - v)
        step = grad / (xp.sqrt(v) + self.epsilon)
        z = z - rate * (step + decay * weight if decay else step)
        x = x + share * (z - x)
        return z + self.beta_1 * (x - z), z, v, x

    def finalize_variable_values(self, var_list: Iterable[Variable]) -> None:
        """Set the weights to x, the mean that is to be evaluated and kept."""
        with recorder.silence():
            for weight in var_list:
                weight.assign(ops.cast(self.state_of(weight).slots["x"].value(), weight.dtype))
