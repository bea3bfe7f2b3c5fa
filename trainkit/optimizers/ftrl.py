"""Ftrl: follow the regularized leader."""

from __future__ import annotations

from typing import Any, Unpack

from trainkit.core.variable import Variable
from trainkit.optimizers.base.optimizer import Optimizer
from trainkit.optimizers.base.options import OptimizerOptions


class Ftrl(Optimizer):
    """Follow the regularized leader, with L1, L2 and shrinkage.

    g' = g + 2 * shrinkage * w;  a' = a + g**2
    z = z + g' - (a'**-p - a**-p) / lr * w
    w = (clip(z, -l1, l1) - z) / (a'**-p / lr + 2 * l2 + beta / lr), with p = learning_rate_power
    Source: McMahan et al. 2013, "Ad click prediction: a view from the trenches", algorithm 1.

    Args:
        learning_rate_power: p, at most 0; 0 keeps the learning rate fixed.
        initial_accumulator_value: a before the first step, at least 0.
        l1_regularization_strength: l1, at least 0.
        l2_regularization_strength: l2, at least 0.
        l2_shrinkage_regularization_strength: shrinkage, at least 0; weights shrink only where there
            is a gradient.
        beta: the paper's beta, at least 0.

    Raises:
        ValueError: a strength is negative, or `learning_rate_power` positive.

    Example:
        >>> w = tk.Variable(1.0)
        >>> tk.optimizers.Ftrl(learning_rate=0.1).apply([tk.constant(1.0)], [w])
        >>> bool(w < 1.0)
        True
    """

    slots = ("accumulator", "linear")
    settings = (
        "learning_rate_power",
        "initial_accumulator_value",
        "l1_regularization_strength",
        "l2_regularization_strength",
        "l2_shrinkage_regularization_strength",
        "beta",
    )

    def __init__(
        self,
        learning_rate: Any = 0.001,
        learning_rate_power: float = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        l2_shrinkage_regularization_strength: float = 0.0,
        beta: float = 0.0,
        **options: Unpack[OptimizerOptions],
    ) -> None:
        super().__init__(learning_rate, **options)
        self.learning_rate_power = learning_rate_power
        self.initial_accumulator_value = initial_accumulator_value
        self.l1_regularization_strength = l1_regularization_strength
        self.l2_regularization_strength = l2_regularization_strength
        self.l2_shrinkage_regularization_strength = l2_shrinkage_regularization_strength
        self.beta = beta

    def initial_slot(self, slot: str, weight: Variable, xp: Any, dtype: Any) -> Any:
        start = self.initial_accumulator_value if slot == "accumulator" else 0.0
        return xp.full(tuple(weight.shape), start, dtype)

    def update(self, xp: Any, weight: Any, grad: Any, lr: Any, total: Any, linear: Any) -> Any:
        l1, power = self.l1_regularization_strength, -self.learning_rate_power
        shrunk = grad + 2 * self.l2_shrinkage_regularization_strength * weight
        new_total = total + grad * grad
        height = xp.power(new_total, power)
        linear = linear + shrunk - (height - xp.power(total, power)) / lr * weight
        curvature = height / lr + (2 * self.l2_regularization_strength + self.beta / lr)
        thresholded = xp.minimum(xp.maximum(linear, -l1), l1) - linear
        return thresholded / curvature, new_total, linear
