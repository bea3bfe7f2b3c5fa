"""Muon: the momentum of a matrix is made orthogonal; other weights take Adam's step."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from trainkit import ops
from trainkit.core.tensor import convert_to_tensor
from trainkit.core.variable import Variable
from trainkit.optimizers.adam import check_shares
from trainkit.optimizers.base.optimizer import Optimizer


class Muon(Optimizer):
    """Momentum made orthogonal by a Newton-Schulz iteration, for the matrices of hidden layers.

    m = momentum * m + g;  u = g + momentum * m with nesterov, else m
    u = u / |u|, then `ns_steps` times u = a * u + (b * s + c * s @ s) @ u with s = u @ u.T
    w = w - lr * rms_rate * sqrt(max(rows, columns)) * u
    Sources: Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks"; the
    factor: Liu et al. 2025, arXiv:2502.16982.

    Weights that are no matrices, embeddings, and what `exclude_layers` names take an AdamW step.

    Args:
        adam_beta_1, adam_beta_2: Adam's, for the other weights, in [0, 1).
        adam_weight_decay: weight decay of the other weights; `None` for none.
        epsilon: Adam's.
        weight_decay: weight decay of the matrices; `None` for none.
        exclude_layers: regular expressions; weights in whose path one is found take Adam's step.
        exclude_embeddings: give weights with "embedding" in their path Adam's step.
        muon_a, muon_b, muon_c: a, b and c of the iteration.
        adam_lr_ratio: Adam's learning rate as a multiple of `learning_rate`.
        momentum: how much of m stays at each step, in [0, 1).
        ns_steps: number of iterations.
        nesterov: look ahead along the momentum.
        rms_rate: root mean square of a step, in units of the learning rate; `None` leaves out
            that factor and the root.

    Raises:
        ValueError: a share is out of range.

    Example:
        >>> w = tk.Variable(tk.ones((4, 4)))
        >>> tk.optimizers.Muon(learning_rate=0.1).apply([tk.ones((4, 4))], [w])
        >>> bool(tk.reduce_all(w < 1.0))
        True
    """

    settings = (
        "adam_beta_1", "adam_beta_2", "adam_weight_decay", "epsilon", "exclude_layers",
        "exclude_embeddings", "muon_a", "muon_b", "muon_c", "adam_lr_ratio", "momentum", "ns_steps",
        "nesterov", "rms_rate",
    )  # fmt: skip

    def __init__(
        self,
        learning_rate: Any = 0.001,
        adam_beta_1: float = 0.9,
        adam_beta_2: float = 0.999,
        adam_weight_decay: float | None = 0.004,
        epsilon: float = 1e-7,
        weight_decay: float | None = 0.004,
        *,
        exclude_layers: Sequence[str] | None = None,
        exclude_embeddings: bool = True,
        muon_a: float = 3.4445,
        muon_b: float = -4.7750,
        muon_c: float = 2.0315,
        adam_lr_ratio: float = 1,
        momentum: float = 0.95,
        ns_steps: int = 5,
        nesterov: bool = True,
        rms_rate: float | None = 0.2,
        **options: Any,
    ) -> None:
        super().__init__(learning_rate, weight_decay=weight_decay, **options)
        check_shares("Muon", adam_beta_1=adam_beta_1, adam_beta_2=adam_beta_2, momentum=momentum)
        self.adam_beta_1, self.adam_beta_2, self.epsilon = adam_beta_1, adam_beta_2, epsilon
        self.adam_weight_decay, self.adam_lr_ratio = adam_weight_decay, adam_lr_ratio
        self.exclude_layers = tuple(exclude_layers or ())
        self.exclude_embeddings = exclude_embeddings
        self.muon_a, self.muon_b, self.muon_c = muon_a, muon_b, muon_c
        self.momentum, self.ns_steps, self.nesterov = momentum, ns_steps, nesterov
        self.rms_rate = rms_rate

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"exclude_layers": list(self.exclude_layers)}

    def takes_adam(self, weight: Variable) -> bool:
        """Whether `weight` takes Adam's step."""
        if len(weight.shape) != 2 or (
            self.exclude_embeddings and "embedding" in weight.path.lower()
        ):
            return True
        return any(re.search(pattern, weight.path) for pattern in self.exclude_layers)

    def slots_of(self, weight: Variable) -> tuple[str, ...]:
        return ("momentum", "velocity") if self.takes_adam(weight) else ("momentum",)

    def update_of(self, weight: Variable) -> Callable[..., Any]:
        return self._adam_update if self.takes_adam(weight) else self.update

    def decay_of(self, weight: Variable) -> float | None:
        if self.takes_adam(weight):
            return self.adam_weight_decay if not self._states.excludes(weight) else None
        return super().decay_of(weight)

    def rates(self, xp: Any, lr: Any, step: Any) -> Any:
        root = xp.sqrt(1 - xp.power(self.adam_beta_2, step))
        return lr, lr * self.adam_lr_ratio * root / (1 - xp.power(self.adam_beta_1, step))

    def _adam_update(self, xp: Any, weight: Any, grad: Any, lr: Any, m: Any, v: Any) -> Any:
        m = m + (1 - self.adam_beta_1) * (grad - m)
        v = v + (1 - self.adam_beta_2) * (grad * grad - v)
        return weight - lr[1] * m / (xp.sqrt(v) + self.epsilon), m, v

    def update(self, xp: Any, weight: Any, grad: Any, lr: Any, m: Any) -> Any:
        m = self.momentum * m + grad
        direction = grad + self.momentum * m if self.nesterov else m
        return weight - self.lr_adjust(lr[0] * self._orthogonal(xp, direction, self.ns_steps)), m

    def lr_adjust(self, x: Any) -> Any:
        """A step in the size that Adam's have: x * rms_rate * sqrt(max(rows, columns)).

        Without `rms_rate` it stays as it is.
        """
        return x if self.rms_rate is None else x * (math.sqrt(max(x.shape)) * self.rms_rate)

    def zeropower_via_newtonschulz5(self, x: Any, steps: int) -> Any:
        """A matrix made orthogonal by `steps` rounds of the Newton-Schulz iteration."""
        return self._orthogonal(ops, convert_to_tensor(x), steps)

    def _orthogonal(self, xp: Any, x: Any, steps: int) -> Any:
        tall = x.shape[0] > x.shape[1]
        x = xp.transpose(x) if tall else x
        x = x / (xp.sqrt(xp.sum(xp.square(x))) + 1e-7)
        for _ in range(steps):
            s = xp.matmul(x, xp.transpose(x))
            x = self.muon_a * x + xp.matmul(self.muon_b * s + self.muon_c * xp.matmul(s, s), x)
        return xp.transpose(x) if tall else x
