"""Adam and AdamW: steps scaled by running means of the gradient and of its square."""

from __future__ import annotations

from typing import Any, Unpack

from trainkit.optimizers.base.optimizer import Optimizer
from trainkit.optimizers.base.options import OptimizerOptions, is_number


class Adam(Optimizer):
    """Adam.

    m = m + (1 - beta_1) * (g - m);  v = v + (1 - beta_2) * (g**2 - v)
    w = w - lr * sqrt(1 - beta_2**t) / (1 - beta_1**t) * m / (sqrt(v) + epsilon)
    with amsgrad, v below the root is the greatest v so far.
    Source: Kingma and Ba 2014, arXiv:1412.6980, the form before section 2.1; amsgrad: Reddi et al.
    2018, "On the convergence of Adam and beyond".

    Args:
        beta_1: how much of m stays at each step, in [0, 1).
        beta_2: how much of v stays at each step, in [0, 1).
        epsilon: added to the root, so that nothing is divided by 0 (the paper's epsilon hat).
        amsgrad: never let the scale of a weight fall again.

    Raises:
        ValueError: a beta is out of range.

    Example:
        >>> w = tk.Variable(1.0)
        >>> optimizer = tk.optimizers.Adam(learning_rate=0.1)
        >>> optimizer.apply_gradients([(tk.constant(5.0), w)])
        <tf.Variable 'iteration' shape=() dtype=int64, numpy=1>
        >>> round(float(w), 4)
        0.9
        >>> int(optimizer.iterations)
        1
    """

    settings = ("beta_1", "beta_2", "epsilon", "amsgrad")
    slot_groups = (("momentum", "velocity"), ("velocity_hat",))

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        **options: Unpack[OptimizerOptions],
    ) -> None:
        super().__init__(learning_rate, **options)
        check_shares(type(self).__name__, beta_1=beta_1, beta_2=beta_2)
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.amsgrad = amsgrad
        self.slots = (
            ("momentum", "velocity", "velocity_hat") if amsgrad else ("momentum", "velocity")
        )

    def rates(self, xp: Any, lr: Any, step: Any) -> Any:
        return lr * xp.sqrt(1 - xp.power(self.beta_2, step)) / (1 - xp.power(self.beta_1, step))

    def update(self, xp: Any, weight: Any, grad: Any, lr: Any, m: Any, v: Any, *v_max: Any) -> Any:
        m = m + (1 - self.beta_1) * (grad - m)
        v = v + (1 - self.beta_2) * (grad * grad - v)
        if not v_max:
            return weight - lr * m / (xp.sqrt(v) + self.epsilon), m, v
        v_hat = xp.maximum(v_max[0], v)
        return weight - lr * m / (xp.sqrt(v_hat) + self.epsilon), m, v, v_hat


class AdamW(Adam):
    """Adam with weight decay apart from the gradient.

    w = w - lr * weight_decay * w, then Adam's step.
    Source: Loshchilov and Hutter 2017, arXiv:1711.05101.

    Args:
        weight_decay: share of each weight, times the learning rate, taken off at each step.
        beta_1, beta_2, epsilon, amsgrad: see `Adam`.

    Raises:
        ValueError: `weight_decay` is `None`, or a beta is out of range.

    Example:
        >>> w = tk.Variable(1.0)
        >>> tk.optimizers.AdamW(learning_rate=0.1, weight_decay=0.5).apply([tk.constant(5.0)], [w])
        >>> round(float(w), 4)
        0.85
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        weight_decay: float = 0.004,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        **options: Any,
    ) -> None:
        if weight_decay is None:
            raise ValueError("AdamW: weight_decay must be a number; use Adam to do without")
        super().__init__(
            learning_rate, beta_1, beta_2, epsilon, amsgrad, weight_decay=weight_decay, **options
        )


def check_shares(owner: str, **shares: float) -> None:
    """Raise ValueError unless all `shares` are in [0, 1)."""
    for name, value in shares.items():
        if not (is_number(value) and 0 <= value < 1):
            raise ValueError(f"{owner}: {name} must be in [0, 1), got {value!r}")
