"""Kullback-Leibler divergence of distributions."""

from __future__ import annotations

from trainkit import ops
from trainkit.core.tensor import Tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.losses.alignment import aligned
from trainkit.losses.loss import FunctionLoss
from trainkit.losses.registry import LOSSES
from trainkit.ops.neural.normalization import EPSILON


@LOSSES.add
def kl_divergence(y_true: TensorLike, y_pred: TensorLike) -> Tensor:
    """Sum of y_true * log(y_true / y_pred) over the last axis; both are kept in [1e-7, 1].

    Args:
        y_true: probabilities of one shape (..., classes).
        y_pred: likewise.

    Returns:
        A float tensor (...).

    Raises:
        ShapeError: the shapes do not fit.

    Example:
        >>> loss = tk.losses.kl_divergence([[0.5, 0.5]], [[0.25, 0.75]])
        >>> round(float(loss[0]), 4)
        0.1438
    """
    y_true, y_pred = aligned("kl_divergence", y_true, y_pred)
    y_true = ops.clip(y_true, EPSILON, 1.0)
    y_pred = ops.clip(y_pred, EPSILON, 1.0)
    return ops.sum(y_true * ops.log(y_true / y_pred), axis=-1)


class KLDivergence(FunctionLoss):
    """Kullback-Leibler divergence of distributions; see `kl_divergence`.

    Example:
        >>> loss = tk.losses.KLDivergence()
        >>> round(float(loss([[0.5, 0.5]], [[0.25, 0.75]])), 4)
        0.1438
    """

    function = staticmethod(kl_divergence)
