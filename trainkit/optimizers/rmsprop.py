"""RMSprop: steps scaled by a running mean of the squared gradient."""

from __future__ import annotations

from typing import Any, Unpack

from trainkit.optimizers.adam import check_shares
from trainkit.optimizers.base.optimizer import Optimizer
from trainkit.optimizers.base.options import OptimizerOptions


class RMSprop(Optimizer):
    """RMSprop.

    v = rho * v + (1 - rho) * g**2
    w = w - lr * g / sqrt(v + epsilon)
    centered: v less the square of a running mean of g is used below the root;
    momentum: the step goes into a velocity, which is then taken off the weight.
    Source: Hinton 2012, "Neural networks for machine learning", lecture 6e; centered: Graves 2013,
    arXiv:1308.0850.

    Args:
        rho: how much of the mean stays at each step, in [0, 1).
        momentum: how much of the last step goes into this one, in [0, 1); 0 keeps no velocity.
        epsilon: added below the root.
        centered: divide by the deviation from the mean gradient.

    Raises:
        ValueError: `rho` or `momentum` is out of range.

    Example:
        >>> w = tk.Variable(1.0)
        >>> tk.optimizers.RMSprop(learning_rate=0.1).apply([tk.constant(5.0)], [w])
        >>> round(float(w), 4)
        0.6838
    """

    settings = ("rho", "momentum", "epsilon", "centered")
    slot_groups = (("velocity",), ("momentum",), ("average_gradient",))

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: float = 0.9,
        momentum: float = 0.0,
        epsilon: float = 1e-7,
        centered: bool = False,
        **options: Unpack[OptimizerOptions],
    ) -> None:
        super().__init__(learning_rate, **options)
        check_shares("RMSprop", rho=rho, momentum=momentum)
        self.rho = rho
        self.momentum = momentum
        self.epsilon = epsilon
        self.centered = centered
        extra = (("momentum", momentum), ("average_gradient", centered))
        self.slots = ("velocity", *[slot for slot, enabled in extra if enabled])

    def update(self, xp: Any, weight: Any, grad: Any, lr: Any, v: Any, *more: Any) -> Any:
        v = self.rho * v + (1 - self.rho) * (grad * grad)
        below, new = v, [v]
        if self.centered:
            mean = self.rho * more[-1] + (1 - self.rho) * grad
            below = v - mean * mean
        step = lr * grad / xp.sqrt(below + self.epsilon)
        if self.momentum:
            step = self.momentum * more[0] + step
            new.append(step)
        if self.centered:
            new.append(mean)
        return weight - step, *new
