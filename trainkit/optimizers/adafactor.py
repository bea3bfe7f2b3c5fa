"""Adafactor: Adam's scale from row and column means, for little memory."""

from __future__ import annotations

from typing import Any, Unpack

from trainkit.core.variable import Variable
from trainkit.optimizers.base.optimizer import Optimizer
from trainkit.optimizers.base.options import OptimizerOptions


class Adafactor(Optimizer):
    """Adafactor: what it keeps for a matrix is one number per row and one per column.

    s = g**2 + epsilon_1, b = 1 - t**beta_2_decay
    matrix: r = b * r + (1 - b) * row means of s;  c likewise of columns;  v = r * c / mean(r)
    vector: v = b * v + (1 - b) * s
    u = g / sqrt(v);  u = u / max(1, rms(u) / clip_threshold)
    w = w - max(epsilon_2, rms(w)) * min(lr, 1 / sqrt(t)) * u
    Source: Shazeer and Stern 2018, arXiv:1804.04235, algorithms 4 and 5.

    Args:
        learning_rate: largest relative size of a step.
        beta_2_decay: b approaches 1 with this power of t, below 0.
        epsilon_1: added to squared gradients.
        epsilon_2: least scale of a weight, so that zeros can move.
        clip_threshold: largest root mean square of a step, before its scale.
        relative_step: keep the learning rate below 1 / sqrt(t). Steps are bounded by that in either
            case.

    Raises:
        ValueError: `beta_2_decay` is positive, or `clip_threshold` 0 or less.

    Example:
        >>> w = tk.Variable(tk.ones((4, 4)))
        >>> tk.optimizers.Adafactor(learning_rate=0.1).apply([tk.ones((4, 4))], [w])
        >>> bool(tk.reduce_all(w < 1.0))
        True
    """

    settings = ("beta_2_decay", "epsilon_1", "epsilon_2", "clip_threshold", "relative_step")

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_2_decay: float = -0.8,
        epsilon_1: float = 1e-30,
        epsilon_2: float = 1e-3,
        clip_threshold: float = 1.0,
        relative_step: bool = True,
        **options: Unpack[OptimizerOptions],
    ) -> None:
        super().__init__(learning_rate, **options)
        self.beta_2_decay = beta_2_decay
        self.epsilon_1 = epsilon_1
        self.epsilon_2 = epsilon_2
        self.clip_threshold = clip_threshold
        self.relative_step = relative_step

    def slots_of(self, weight: Variable) -> tuple[str, ...]:
        return ("r", "c") if len(weight.shape) >= 2 else ("v",)

    def initial_slot(self, slot: str, weight: Variable, xp: Any, dtype: Any) -> Any:
        shape = tuple(weight.shape)
        return xp.zeros({"r": shape[:-1], "c": shape[:-2] + shape[-1:], "v": shape}[slot], dtype)

    def rates(self, xp: Any, lr: Any, step: Any) -> Any:
        bound = xp.minimum(lr, 1 / xp.sqrt(step))
        return bound, 1 - xp.power(step, self.beta_2_decay)

    def update(self, xp: Any, weight: Any, grad: Any, lr: Any, *slots: Any) -> Any:
        rate, beta_2 = lr
        squares = xp.square(grad) + self.epsilon_1
        if len(slots) == 2:
            r = beta_2 * slots[0] + (1 - beta_2) * xp.mean(squares, axis=-1)
            c = beta_2 * slots[1] + (1 - beta_2) * xp.mean(squares, axis=-2)
            rows = r / xp.mean(r, axis=-1, keepdims=True)
            v, slots = xp.expand_dims(rows, -1) * xp.expand_dims(c, -2), (r, c)
        else:
            v = beta_2 * slots[0] + (1 - beta_2) * squares
            slots = (v,)
        step = grad / xp.sqrt(v)
        step = step / xp.maximum(_rms(xp, step) / self.clip_threshold, 1.0)
        scale = xp.maximum(_rms(xp, weight), self.epsilon_2) * rate
        return weight - scale * step, *slots


def _rms(xp: Any, x: Any) -> Any:
    return xp.sqrt(xp.mean(xp.square(x)))
