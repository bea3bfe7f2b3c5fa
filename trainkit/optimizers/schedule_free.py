"""ScheduleFreeAdamW: averaging in place of a learning rate schedule."""

from __future__ import annotations

from typing import Any, Unpack

from trainkit.core.variable import Variable
from trainkit.optimizers.adam import check_shares
from trainkit.optimizers.base.optimizer import Optimizer
from trainkit.optimizers.base.options import OptimizerOptions


class ScheduleFreeAdamW(Optimizer):
    """Adam's steps on a sequence z, whose mean is x; the weights lie between them, at y.

    v = v + (1 - beta_2) * (g**2 - v);  rate = lr * min(1, t / warmup_steps)
    x = (y - (1 - beta_1) * z) / beta_1;  z = z - rate * g / (sqrt(v / (1 - beta_2**t)) + epsilon)
    x = (1 - 1/t) * x + z / t;  y = (1 - beta_1) * z + beta_1 * x
    Source: Defazio et al. 2024, arXiv:2405.15682, algorithm 1, as Keras has it: every step has the
    same share in the mean, and x is found from y, so that weight decay changes y.

    Args:
        beta_1: where y lies between z, at 0, and x, at 1; in (0, 1).
        beta_2: how much of v stays at each step, in [0, 1).
        epsilon: added to the root, so that nothing is divided by 0.
        warmup_steps: steps over which the learning rate grows from 0.

    Raises:
        ValueError: a beta is out of range, or `warmup_steps` is negative.

    Example:
        >>> w = tk.Variable(1.0)
        >>> tk.optimizers.ScheduleFreeAdamW(learning_rate=0.1).apply([tk.constant(5.0)], [w])
        >>> bool(w < 1.0)
        True
    """

    slots = ("momentum", "velocity")
    settings = ("beta_1", "beta_2", "epsilon", "warmup_steps")

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
        if beta_1 == 0:
            raise ValueError("ScheduleFreeAdamW: beta_1 must be above 0, got 0; use RMSprop")
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.warmup_steps = warmup_steps

    def initial_slot(self, slot: str, weight: Variable, xp: Any, dtype: Any) -> Any:
        if slot == "velocity":
            return super().initial_slot(slot, weight, xp, dtype)
        return weight._value._array.astype(dtype)

    def rates(self, xp: Any, lr: Any, step: Any) -> Any:
        if self.warmup_steps:
            lr = lr * xp.minimum(step / self.warmup_steps, 1.0)
        return lr, 1 - xp.power(self.beta_2, step), 1 / step

    def update(self, xp: Any, weight: Any, grad: Any, lr: Any, z: Any, v: Any) -> Any:
        rate, unbiased, share = lr
        v = v + (1 - self.beta_2) * (grad * grad - v)
        x = (weight - (1 - self.beta_1) * z) / self.beta_1
        z = z - rate * grad / (xp.sqrt(v / unbiased) + self.epsilon)
        x = (1 - share) * x + share * z
        return (1 - self.beta_1) * z + self.beta_1 * x, z, v
