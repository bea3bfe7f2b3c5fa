"""Hinge losses and the circle loss: what counts is a margin."""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.core.errors import ShapeError
from trainkit.core.masks import set_mask
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import DTypeLike, TensorLike
from trainkit.losses.alignment import aligned, as_floats
from trainkit.losses.loss import FunctionLoss, LossFunctionWrapper, of_class_numbers
from trainkit.losses.registry import LOSSES

_NOWHERE = -1e30
"""In place of minus infinity, whose slope is not a number."""


def _as_signs(y_true: Tensor) -> Tensor:
    """Labels 0 and 1 as -1 and 1; other labels stay."""
    binary = ops.all(ops.logical_or(ops.equal(y_true, 0), ops.equal(y_true, 1)))
    more = ops.cast(binary, y_true.dtype)
    return y_true * (1.0 + more) - more


@LOSSES.add
def hinge(y_true: TensorLike, y_pred: TensorLike) -> Tensor:
    """Mean of max(1 - y_true * y_pred, 0) over the last axis.

    Args:
        y_true: labels -1 and 1, or 0 and 1, (..., n).
        y_pred: scores of the same shape.

    Returns:
        A float tensor (...).

    Raises:
        ShapeError: the shapes do not fit.

    Example:
        >>> tk.losses.hinge([[1.0, -1.0]], [[0.5, 0.5]]).numpy()
        array([1.], dtype=float32)
    """
    y_true, y_pred = aligned("hinge", y_true, y_pred)
    return ops.mean(ops.maximum(1.0 - _as_signs(y_true) * y_pred, 0.0), axis=-1)


@LOSSES.add
def squared_hinge(y_true: TensorLike, y_pred: TensorLike) -> Tensor:
    """Mean of max(1 - y_true * y_pred, 0)**2 over the last axis.

    Args:
        y_true: labels -1 and 1, or 0 and 1, (..., n).
        y_pred: scores of the same shape.

    Returns:
        A float tensor (...).

    Raises:
        ShapeError: the shapes do not fit.

    Example:
        >>> tk.losses.squared_hinge([[1.0, -1.0]], [[0.5, 0.5]]).numpy()
        array([1.25], dtype=float32)
    """
    y_true, y_pred = aligned("squared_hinge", y_true, y_pred)
    return ops.mean(ops.square(ops.maximum(1.0 - _as_signs(y_true) * y_pred, 0.0)), axis=-1)


@LOSSES.add
def categorical_hinge(y_true: TensorLike, y_pred: TensorLike) -> Tensor:
    """max(neg - pos + 1, 0): pos the score of the true class, neg the best of the others.

    Args:
        y_true: one-hot labels, (..., classes).
        y_pred: scores of the same shape.

    Returns:
        A float tensor (...).

    Raises:
        ShapeError: the shapes do not fit.

    Example:
        >>> tk.losses.categorical_hinge([[0.0, 1.0]], [[0.25, 0.5]]).numpy()
        array([0.75], dtype=float32)
    """
    y_true, y_pred = aligned("categorical_hinge", y_true, y_pred)
    pos = ops.sum(y_true * y_pred, axis=-1)
    neg = ops.max((1.0 - y_true) * y_pred, axis=-1)
    return ops.maximum(neg - pos + 1.0, 0.0)


@of_class_numbers
@LOSSES.add
def circle(
    y_true: TensorLike,
    y_pred: TensorLike,
    ref_labels: Any = None,
    ref_embeddings: Any = None,
    remove_diagonal: bool = True,
    gamma: float = 80.0,
    margin: float = 0.4,
) -> Tensor:
    """Circle loss of embeddings: near those of the same label, far from all others.

    softplus(logsumexp over pairs of one label of gamma * (d + m) * (d - m)
             + logsumexp over the others of gamma * [1 + m - d]+ * (1 - m - d)),
    with d = max(1 - cosine, 0). Samples whose value is 0 do not count in a mean.
    Source: Sun et al. 2020, arXiv:2002.10857.

    Args:
        y_true: labels, (batch,) or (batch, 1).
        y_pred: embeddings of length 1, (batch, features).
        ref_labels: labels of what to compare with; by default the batch itself.
        ref_embeddings: embeddings of what to compare with.
        remove_diagonal: do not compare a sample with itself.
        gamma: scale.
        margin: m.

    Returns:
        One value per sample, (batch,).

    Raises:
        ShapeError: there is not one label per embedding.

    Example:
        >>> directions = tk.math.l2_normalize([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]], -1)
        >>> tk.losses.circle([0, 0, 1, 1], directions, gamma=1.0).shape
        TensorShape([4])
    """
    y_pred = as_floats(y_pred)
    labels = _flat_labels("circle", y_true, y_pred)
    others = y_pred if ref_embeddings is None else as_floats(ref_embeddings)
    other_labels = labels if ref_labels is None else _flat_labels("circle", ref_labels, others)
    alike = ops.equal(ops.expand_dims(labels, 1), ops.expand_dims(other_labels, 0))
    unlike = ops.logical_not(alike)
    if remove_diagonal:
        alike = ops.logical_and(
            alike, ops.not_equal(_numbers(labels)[:, None], _numbers(other_labels))
        )
    distance = ops.maximum(1.0 - ops.matmul(y_pred, ops.transpose(others)), 0.0)
    pull = gamma * (distance + margin) * (distance - margin)
    push = gamma * ops.maximum(1.0 + margin - distance, 0.0) * (1.0 - margin - distance)
    near = ops.logsumexp(ops.where(alike, pull, _NOWHERE), axis=1)
    negatives = ops.logsumexp(ops.where(unlike, push, _NOWHERE), axis=1)
    values = ops.softplus(near + negatives)
    set_mask(values, ops.greater(values, 0.0))
    return values


def _numbers(labels: Tensor) -> Tensor:
    """0, 1, 2, ... for the samples, however many there are."""
    return ops.cumsum(ops.ones_like(labels))


def _flat_labels(name: str, labels: Any, embeddings: Tensor) -> Tensor:
    labels = labels if isinstance(labels, Tensor) else convert_to_tensor(labels)
    if len(labels.shape) == 2 and labels.shape[1] == 1:
        labels = ops.squeeze(labels, 1)
    if (
        len(labels.shape) != 1
        or len(embeddings.shape) != 2
        or labels.shape[0] != embeddings.shape[0]
    ):
        raise ShapeError(
            f"{name}: embeddings are (batch, features) and labels (batch,), got "
            f"{tuple(embeddings.shape)} and "
            f"{tuple(labels.shape)}"
        )
    return ops.cast(labels, "int32")


class Hinge(FunctionLoss):
    """Margin of scores by sign; see `hinge`.

    Example:
        >>> float(tk.losses.Hinge()([[1.0, -1.0]], [[0.5, 0.5]]))
        1.0
    """

    function = staticmethod(hinge)


class SquaredHinge(FunctionLoss):
    """Squared margin of scores by sign; see `squared_hinge`.

    Example:
        >>> float(tk.losses.SquaredHinge()([[1.0, -1.0]], [[0.5, 0.5]]))
        1.25
    """

    function = staticmethod(squared_hinge)


class CategoricalHinge(FunctionLoss):
    """Margin of the true class over the best other; see `categorical_hinge`.

    Example:
        >>> float(tk.losses.CategoricalHinge()([[0.0, 1.0]], [[0.25, 0.5]]))
        0.75
    """

    function = staticmethod(categorical_hinge)


class Circle(LossFunctionWrapper):
    """Circle loss of embeddings; see `circle`.

    Args:
        gamma, margin, remove_diagonal: see `circle`.
        reduction, name, dtype: see `Loss`.

    Example:
        >>> labels = [0, 0, 1, 1]
        >>> directions = tk.math.l2_normalize([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]], -1)
        >>> loss = tk.losses.Circle(gamma=1.0)(labels, directions)
        >>> loss.shape, bool(loss > 0)
        (TensorShape([]), True)
    """

    def __init__(
        self,
        gamma: float = 80.0,
        margin: float = 0.4,
        remove_diagonal: bool = True,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = "circle",
        dtype: DTypeLike | None = None,
    ) -> None:
        self._wrap(circle, locals())
