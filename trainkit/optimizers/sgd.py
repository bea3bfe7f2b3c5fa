"""Gradient descent, plain, with momentum, and with Nesterov's look ahead."""

from __future__ import annotations

from typing import Any, Unpack

from trainkit.optimizers.base.optimizer import Optimizer
from trainkit.optimizers.base.options import OptimizerOptions, is_number


class SGD(Optimizer):
    """Gradient descent.

    plain:    w = w - lr * g
    momentum: velocity = momentum * velocity - lr * g;  w = w + velocity
    nesterov: velocity likewise;  w = w + momentum * velocity - lr * g
    Source: Sutskever et al. 2013, "On the importance of initialization and momentum in deep
    learning".

    Args:
        momentum: how much of the last step goes into this one, in [0, 1]; 0 keeps no velocity.
        nesterov: take the gradient's step from where momentum alone would lead.

    Raises:
        ValueError: `momentum` is out of range.

    Example:
        >>> w = tk.Variable(1.0)
        >>> optimizer = tk.optimizers.SGD(learning_rate=0.5, momentum=0.9)
        >>> for _ in range(2):
        ...     with tk.GradientTape() as tape:
        ...         loss = w * w
        ...     optimizer.apply_gradients([(tape.gradient(loss, w), w)])
        <tf.Variable 'iteration' shape=() dtype=int64, numpy=1>
        <tf.Variable 'iteration' shape=() dtype=int64, numpy=2>
        >>> round(float(w), 4)
        -0.9
    """

    settings = ("momentum", "nesterov")

    def __init__(
        self,
        learning_rate: Any = 0.01,
        momentum: float = 0.0,
        nesterov: bool = False,
        **options: Unpack[OptimizerOptions],
    ) -> None:
        super().__init__(learning_rate, **options)
        if not (is_number(momentum) and 0 <= momentum <= 1):
            raise ValueError(f"SGD: momentum must be in [0, 1], got {momentum!r}")
        self.momentum = momentum
        self.nesterov = nesterov
        self.slots = ("momentum",) if momentum else ()

    def update(self, xp: Any, weight: Any, grad: Any, lr: Any, *slots: Any) -> Any:
        if not slots:
            return weight - lr * grad
        velocity = self.momentum * slots[0] - lr * grad
        if self.nesterov:
            return weight + (self.momentum * velocity - lr * grad), velocity
        return weight + velocity, velocity
