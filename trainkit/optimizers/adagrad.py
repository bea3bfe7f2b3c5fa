"""Adagrad and Adadelta: steps scaled by the squared gradients so far."""

from __future__ import annotations

from typing import Any, Unpack

from trainkit.core.variable import Variable
from trainkit.optimizers.adam import check_shares
from trainkit.optimizers.base.optimizer import Optimizer
from trainkit.optimizers.base.options import OptimizerOptions


class Adagrad(Optimizer):
    """Adagrad: the more a weight has moved, the smaller its steps.

    a = a + g**2;  w = w - lr * g / sqrt(a + epsilon)
    Source: Duchi, Hazan and Singer 2011, "Adaptive subgradient methods for online learning".

    Args:
        initial_accumulator_value: a before the first step, at least 0.
        epsilon: added below the root.

    Raises:
        ValueError: `initial_accumulator_value` is negative.

    Example:
        >>> w = tk.Variable(1.0)
        >>> tk.optimizers.Adagrad(learning_rate=0.1).apply([tk.constant(1.0)], [w])
        >>> round(float(w), 4)
        0.9047
    """

    slots = ("accumulator",)
    settings = ("initial_accumulator_value", "epsilon")

    def __init__(
        self,
        learning_rate: Any = 0.001,
        initial_accumulator_value: float = 0.1,
        epsilon: float = 1e-7,
        **options: Unpack[OptimizerOptions],
    ) -> None:
        super().__init__(learning_rate, **options)
        self.initial_accumulator_value = initial_accumulator_value
        self.epsilon = epsilon

    def initial_slot(self, slot: str, weight: Variable, xp: Any, dtype: Any) -> Any:
        return xp.full(tuple(weight.shape), self.initial_accumulator_value, dtype)

    def update(self, xp: Any, weight: Any, grad: Any, lr: Any, total: Any) -> Any:
        total = total + grad * grad
        return weight - lr * grad / xp.sqrt(total + self.epsilon), total


class Adadelta(Optimizer):
    """Adadelta: steps in the unit of the weight, from running means of squared gradients and steps.

    a = rho * a + (1 - rho) * g**2;  d = g * sqrt(s + epsilon) / sqrt(a + epsilon)
    s = rho * s + (1 - rho) * d**2;  w = w - lr * d
    Source: Zeiler 2012, arXiv:1212.5701, algorithm 1, which has lr = 1.

    Args:
        learning_rate: factor of a step.
        rho: how much of the means stays at each step, in [0, 1).
        epsilon: added below the roots.

    Raises:
        ValueError: `rho` is out of range.

    Example:
        >>> w = tk.Variable(1.0)
        >>> tk.optimizers.Adadelta(learning_rate=1.0).apply([tk.constant(1.0)], [w])
        >>> bool(w < 1.0)
        True
    """

    slots = ("accumulated_grad", "accumulated_delta_var")
    settings = ("rho", "epsilon")

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: float = 0.95,
        epsilon: float = 1e-7,
        **options: Unpack[OptimizerOptions],
    ) -> None:
        super().__init__(learning_rate, **options)
        check_shares("Adadelta", rho=rho)
        self.rho = rho
        self.epsilon = epsilon

    def update(self, xp: Any, weight: Any, grad: Any, lr: Any, squares: Any, steps: Any) -> Any:
        squares = self.rho * squares + (1 - self.rho) * (grad * grad)
        delta = grad * xp.sqrt(steps + self.epsilon) / xp.sqrt(squares + self.epsilon)
        steps = self.rho * steps + (1 - self.rho) * (delta * delta)
        return weight - lr * delta, squares, steps
