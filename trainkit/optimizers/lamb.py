"""Lamb: Adam's direction, as long as the weight says."""

from __future__ import annotations

from typing import Any

from trainkit.optimizers.adam_variants import _TwoBetas


class Lamb(_TwoBetas):
    """Lamb, for large batches: a weight's step is in proportion to its length.

    m, v as in Adam;  u = m / (1 - beta_1**t) / (sqrt(v / (1 - beta_2**t)) + epsilon)
    w = w - lr * r * u, r = |w| / |u|, or 1 where either is 0
    Source: You et al. 2019, arXiv:1904.00962, algorithm 2.

    Args:
        beta_1: how much of m stays at each step, in [0, 1).
        beta_2: how much of v stays at each step, in [0, 1).
        epsilon: added to the root, so that nothing is divided by 0.

    Raises:
        ValueError: a beta is out of range.

    Example:
        >>> w = tk.Variable([1.0, 1.0])
        >>> tk.optimizers.Lamb(learning_rate=0.1).apply([tk.constant([1.0, 1.0])], [w])
        >>> w.numpy().round(4)
        array([0.9, 0.9], dtype=float32)
    """

    slots = ("momentum", "velocity")

    def rates(self, xp: Any, lr: Any, step: Any) -> Any:
        return lr, 1 - xp.power(self.beta_1, step), 1 - xp.power(self.beta_2, step)

    def update(self, xp: Any, weight: Any, grad: Any, lr: Any, m: Any, v: Any) -> Any:
        lr, unbiased_m, unbiased_v = lr
        m = m + (1 - self.beta_1) * (grad - m)
        v = v + (1 - self.beta_2) * (grad * grad - v)
        step = m / unbiased_m / (xp.sqrt(v / unbiased_v) + self.epsilon)
        length, step_length = _length(xp, weight), _length(xp, step)
        both = xp.minimum(length, step_length) > 0
        ratio = xp.where(
            both, length / xp.where(both, step_length, xp.ones_like(length)), xp.ones_like(length)
        )
        return weight - (lr * ratio) * step, m, v


def _length(xp: Any, x: Any) -> Any:
    return xp.sqrt(xp.sum(xp.square(x)))
