"""Shares of samples whose label is among the k best scores."""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.core import dtypes
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import DTypeLike
from trainkit.losses.alignment import as_floats
from trainkit.metrics.accuracy import class_numbers
from trainkit.metrics.means import MeanMetricWrapper
from trainkit.metrics.registry import FUNCTIONS
from trainkit.ops.arrays.class_hits import check_classes


@FUNCTIONS.add
def sparse_top_k_categorical_accuracy(
    y_true: Any, y_pred: Any, k: int = 5, from_sorted_ids: bool = False
) -> Tensor:
    """1 where fewer than k classes have a better score than the true one, else 0.

    Nothing is sorted; a tie counts for the label.

    Args:
        y_true: class numbers, (...) or (..., 1).
        y_pred: scores, (..., classes); with `from_sorted_ids` class numbers, best first.
        k: how many classes count.
        from_sorted_ids: whether `y_pred` holds class numbers.

    Returns:
        A float tensor (...).

    Raises:
        ShapeError: the shapes do not fit.

    Example:
        >>> scores = [[0.1, 0.3, 0.6], [0.1, 0.3, 0.6]]
        >>> tk.metrics.sparse_top_k_categorical_accuracy([1, 0], scores, k=2).numpy()
        array([1., 0.], dtype=float32)
    """
    y_true, y_pred = class_numbers(y_true, y_pred)
    check_classes("sparse_top_k_categorical_accuracy", y_true, y_pred, 1)
    if from_sorted_ids:
        matches = ops.equal(ops.expand_dims(ops.cast(y_true, y_pred.dtype), -1), y_pred[..., :k])
        return ops.cast(ops.any(matches, axis=-1), dtypes.floatx())
    labels = ops.expand_dims(ops.cast(y_true, "int64"), -1)
    of_label = ops.take_along_axis(y_pred, labels, axis=-1)
    better = ops.sum(ops.cast(ops.greater(y_pred, of_label), "float32"), axis=-1)
    among = ops.logical_and(ops.less(better, float(k)), ops.isfinite(ops.squeeze(of_label, -1)))
    return ops.cast(among, dtypes.floatx())


@FUNCTIONS.add
def top_k_categorical_accuracy(y_true: Any, y_pred: Any, k: int = 5) -> Tensor:
    """1 where fewer than k classes have a better score than the true one, else 0.

    Args:
        y_true: one-hot labels, (..., classes).
        y_pred: scores of the same shape.
        k: how many classes count.

    Returns:
        A float tensor (...).

    Raises:
        ShapeError: the shapes do not fit.

    Example:
        >>> scores = [[0.1, 0.3, 0.6], [0.1, 0.3, 0.6]]
        >>> tk.metrics.top_k_categorical_accuracy([[0, 1, 0], [1, 0, 0]], scores, k=2).numpy()
        array([1., 0.], dtype=float32)
    """
    y_true = y_true if isinstance(y_true, Tensor) else convert_to_tensor(y_true)
    y_pred = as_floats(y_pred)
    check_classes("top_k_categorical_accuracy", y_true, y_pred, 0)
    return sparse_top_k_categorical_accuracy(ops.argmax(y_true, axis=-1), y_pred, k)


def _check_k(name: str, k: int) -> None:
    if not isinstance(k, int) or k < 1:
        raise ValueError(f"{name}: k must be an int of at least 1, got {k!r}")


class TopKCategoricalAccuracy(MeanMetricWrapper):
    """Share of samples whose one-hot label is among the k best scores.

    Args:
        k: how many classes count, at least 1.

    Raises:
        ValueError: `k` is below 1.

    Example:
        >>> metric = tk.metrics.TopKCategoricalAccuracy(k=2)
        >>> metric.update_state([[0, 1, 0], [1, 0, 0]], [[0.1, 0.3, 0.6], [0.1, 0.3, 0.6]])
        >>> float(metric.result())
        0.5
    """

    def __init__(
        self,
        k: int = 5,
        name: str | None = "top_k_categorical_accuracy",
        dtype: DTypeLike | None = None,
    ) -> None:
        _check_k("TopKCategoricalAccuracy", k)
        super().__init__(top_k_categorical_accuracy, name, dtype, k=k)
        self.k = k


class SparseTopKCategoricalAccuracy(MeanMetricWrapper):
    """Share of samples whose class number is among the k best scores.

    Args:
        k: how many classes count, at least 1.
        from_sorted_ids: whether predictions are class numbers, best first, in place of scores.

    Raises:
        ValueError: `k` is below 1.

    Example:
        >>> metric = tk.metrics.SparseTopKCategoricalAccuracy(k=2)
        >>> metric.update_state([1, 0], [[0.1, 0.3, 0.6], [0.1, 0.3, 0.6]])
        >>> float(metric.result())
        0.5
    """

    def __init__(
        self,
        k: int = 5,
        name: str | None = "sparse_top_k_categorical_accuracy",
        dtype: DTypeLike | None = None,
        from_sorted_ids: bool = False,
    ) -> None:
        _check_k("SparseTopKCategoricalAccuracy", k)
        super().__init__(
            sparse_top_k_categorical_accuracy, name, dtype, k=k, from_sorted_ids=from_sorted_ids
        )
        self.k = k
        self.from_sorted_ids = from_sorted_ids
