"""Adamax and Nadam."""

from __future__ import annotations

from typing import Any, Unpack

from trainkit.optimizers.adam import check_shares
from trainkit.optimizers.base.optimizer import Optimizer
from trainkit.optimizers.base.options import OptimizerOptions


class _TwoBetas(Optimizer):
    """What Adam's variants have in common: their settings."""

    settings = ("beta_1", "beta_2", "epsilon")

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        **options: Unpack[OptimizerOptions],
    ) -> None:
        super().__init__(learning_rate, **options)
        check_shares(type(self).__name__, beta_1=beta_1, beta_2=beta_2)
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon


class Adamax(_TwoBetas):
    """Adam with the greatest gradient of late in place of the root of the mean square.

    m = m + (1 - beta_1) * (g - m);  u = max(beta_2 * u, abs(g))
    w = w - lr / (1 - beta_1**t) * m / (u + epsilon)
    Source: Kingma and Ba 2014, arXiv:1412.6980, algorithm 2.

    Args:
        beta_1: how much of m stays at each step, in [0, 1).
        beta_2: how much of u stays at each step, in [0, 1).
        epsilon: added to u, so that nothing is divided by 0.

    Raises:
        ValueError: a beta is out of range.

    Example:
        >>> w = tk.Variable(1.0)
        >>> tk.optimizers.Adamax(learning_rate=0.1).apply([tk.constant(5.0)], [w])
        >>> round(float(w), 4)
        0.9
    """

    slots = ("momentum", "norm")

    def rates(self, xp: Any, lr: Any, step: Any) -> Any:
        return lr / (1 - xp.power(self.beta_1, step))

    def update(self, xp: Any, weight: Any, grad: Any, lr: Any, m: Any, u: Any) -> Any:
        m = m + (1 - self.beta_1) * (grad - m)
        u = xp.maximum(self.beta_2 * u, xp.abs(grad))
        return weight - lr * m / (u + self.epsilon), m, u


class Nadam(_TwoBetas):
    """Adam with Nesterov's look ahead.

    m and v as in Adam; mu(t) = beta_1 * (1 - 0.96**t / 2), p the product of mu(1) to mu(t)
    m_hat = mu(t+1) * m / (1 - p * mu(t+1)) + (1 - mu(t)) * g / (1 - p);  v_hat = v / (1 -
    beta_2**t)
    w = w - lr * m_hat / (sqrt(v_hat) + epsilon)
    Source: Dozat 2016, "Incorporating Nesterov momentum into Adam".

    Args:
        beta_1: how much of m stays at each step, in [0, 1).
        beta_2: how much of v stays at each step, in [0, 1).
        epsilon: added to the root, so that nothing is divided by 0.

    Raises:
        ValueError: a beta is out of range.

    Example:
        >>> w = tk.Variable(1.0)
        >>> tk.optimizers.Nadam(learning_rate=0.1).apply([tk.constant(5.0)], [w])
        >>> bool(w < 1.0)
        True
    """

    slots = ("momentum", "velocity")
    counters = (("u_product", 1.0),)

    def _mu(self, xp: Any, step: Any) -> Any:
        return self.beta_1 * (1 - 0.5 * xp.power(0.96, step))

    def count(self, xp: Any, lr: Any, step: Any, product: Any) -> Any:
        return (product * self._mu(xp, step),)

    def rates(self, xp: Any, lr: Any, step: Any, product: Any) -> Any:
        ahead = self._mu(xp, step + 1)
        of_m = lr * ahead / (1 - product * ahead)
        of_grad = lr * (1 - self._mu(xp, step)) / (1 - product)
        return of_m, of_grad, 1 - xp.power(self.beta_2, step)

    def update(self, xp: Any, weight: Any, grad: Any, lr: Any, m: Any, v: Any) -> Any:
        of_m, of_grad, unbiased = lr
        m = m + (1 - self.beta_1) * (grad - m)
        v = v + (1 - self.beta_2) * (grad * grad - v)
        step = (of_m * m + of_grad * grad) / (xp.sqrt(v / unbiased) + self.epsilon)
        return weight - step, m, v
