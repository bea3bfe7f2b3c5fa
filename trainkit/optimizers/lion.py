"""Lion: steps by sign."""

from __future__ import annotations

from typing import Any, Unpack

from trainkit.optimizers.adam import check_shares
from trainkit.optimizers.base.optimizer import Optimizer
from trainkit.optimizers.base.options import OptimizerOptions, is_number


class Lion(Optimizer):
    """Step by the sign of a blend of momentum and gradient.

    w = w - lr * sign(beta_1 * m + (1 - beta_1) * g);  m = beta_2 * m + (1 - beta_2) * g
    Source: Chen et al. 2023, arXiv:2302.06675, algorithm 2.

    Args:
        learning_rate: size of a step, which every weight moves; a tenth of Adam's is usual.
        beta_1: share of the momentum in the blend, above 0 and at most 1.
        beta_2: how much of the momentum stays at each step, in [0, 1).

    Raises:
        ValueError: a beta is out of range.

    Example:
        >>> w = tk.Variable(1.0)
        >>> tk.optimizers.Lion(learning_rate=0.1).apply([tk.constant(5.0)], [w])
        >>> round(float(w), 4)
        0.9
    """

    slots = ("momentum",)
    settings = ("beta_1", "beta_2")

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.99,
        **options: Unpack[OptimizerOptions],
    ) -> None:
        super().__init__(learning_rate, **options)
        if not (is_number(beta_1) and 0 < beta_1 <= 1):
            raise ValueError(
                f"Lion: beta_1 must be above 0 and at most 1, got {beta_1!r}; without it use SGD"
            )
        check_shares("Lion", beta_2=beta_2)
        self.beta_1 = beta_1
        self.beta_2 = beta_2

    def update(self, xp: Any, weight: Any, grad: Any, lr: Any, momentum: Any) -> Any:
        step = xp.sign(self.beta_1 * momentum + (1 - self.beta_1) * grad)
        momentum = self.beta_2 * momentum + (1 - self.beta_2) * grad
        return weight - lr * step, momentum
