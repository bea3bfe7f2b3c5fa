"""Shares of samples that are predicted right."""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.core import dtypes
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import DTypeLike
from trainkit.losses.alignment import aligned, as_floats
from trainkit.metrics.means import FunctionMean, MeanMetricWrapper
from trainkit.metrics.registry import FUNCTIONS
from trainkit.ops.arrays.class_hits import check_classes, class_hits


@FUNCTIONS.add
def accuracy(y_true: Any, y_pred: Any) -> Tensor:
    """1 where y_true equals y_pred, else 0.

    Args:
        y_true: labels.
        y_pred: labels of the same shape; (batch,) fits (batch, 1).

    Returns:
        A float tensor of the common shape.

    Raises:
        ShapeError: the shapes do not fit.
    """
    y_true, y_pred = aligned("accuracy", y_true, y_pred)
    return ops.cast(ops.equal(y_true, y_pred), dtypes.floatx())


@FUNCTIONS.add
def binary_accuracy(y_true: Any, y_pred: Any, threshold: float = 0.5) -> Tensor:
    """1 where y_pred is on the side of `threshold` that y_true says, else 0.

    Args:
        y_true: labels 0 and 1.
        y_pred: probabilities of the same shape; (batch,) fits (batch, 1).
        threshold: predictions above it mean 1.

    Returns:
        A float tensor of the common shape.

    Raises:
        ShapeError: the shapes do not fit.

    Example:
        >>> tk.metrics.binary_accuracy([[1.0, 0.0]], [[0.75, 0.75]]).numpy()
        array([[1., 0.]], dtype=float32)
    """
    y_true, y_pred = aligned("binary_accuracy", y_true, y_pred)
    predicted_classes = ops.cast(ops.greater(y_pred, threshold), y_pred.dtype)
    return ops.cast(ops.equal(y_true, predicted_classes), dtypes.floatx())


@FUNCTIONS.add
def categorical_accuracy(y_true: Any, y_pred: Any) -> Tensor:
    """1 where the best score is that of the true class, else 0.

    Args:
        y_true: one-hot labels, (..., classes).
        y_pred: scores of the same shape.

    Returns:
        A float tensor (...).

    Raises:
        ShapeError: the shapes do not fit.

    Example:
        >>> tk.metrics.categorical_accuracy([[0, 1], [1, 0]], [[0.25, 0.75], [0.25, 0.75]]).numpy()
        array([1., 0.], dtype=float32)
    """
    y_true = y_true if isinstance(y_true, Tensor) else convert_to_tensor(y_true)
    y_pred = as_floats(y_pred)
    check_classes("categorical_accuracy", y_true, y_pred, 0)
    right = ops.equal(ops.argmax(y_true, axis=-1), ops.argmax(y_pred, axis=-1))
    return ops.cast(right, dtypes.floatx())


def class_numbers(y_true: Any, y_pred: Any) -> tuple[Tensor, Tensor]:
    """(class numbers as given, scores as floats); a last axis of size 1 goes."""
    y_true = y_true if isinstance(y_true, Tensor) else convert_to_tensor(y_true)
    y_pred = as_floats(y_pred)
    shape = y_true.shape
    if shape and shape[-1] == 1 and len(shape) == len(y_pred.shape):
        y_true = ops.squeeze(y_true, -1)
    return y_true, y_pred


@FUNCTIONS.add
def sparse_categorical_accuracy(y_true: Any, y_pred: Any) -> Tensor:
    """1 where the best score is that of the true class, else 0.

    Args:
        y_true: class numbers, (...) or (..., 1).
        y_pred: scores, (..., classes).

    Returns:
        A float tensor (...).

    Raises:
        ShapeError: the shapes do not fit.

    Example:
        >>> tk.metrics.sparse_categorical_accuracy([1, 0], [[0.25, 0.75], [0.25, 0.75]]).numpy()
        array([1., 0.], dtype=float32)
    """
    hits: Tensor = class_hits(*class_numbers(y_true, y_pred))
    return hits


class Accuracy(FunctionMean):
    """Share of predictions that equal the labels; see `accuracy`.

    Example:
        >>> metric = tk.metrics.Accuracy()
        >>> metric.update_state([1, 2, 3, 4], [1, 2, 0, 4])
        >>> float(metric.result())
        0.75
    """

    function = staticmethod(accuracy)


class BinaryAccuracy(MeanMetricWrapper):
    """Share of yes-or-no questions answered right; see `binary_accuracy`.

    Args:
        threshold: predictions above it mean 1, in [0, 1].

    Raises:
        ValueError: `threshold` is out of range.

    Example:
        >>> metric = tk.metrics.BinaryAccuracy(threshold=0.5)
        >>> metric.update_state([[1.0], [0.0]], [[0.75], [0.75]])
        >>> float(metric.result())
        0.5
    """

    def __init__(
        self,
        name: str | None = "binary_accuracy",
        dtype: DTypeLike | None = None,
        threshold: float = 0.5,
    ) -> None:
        if threshold is not None and not 0 <= threshold <= 1:
            raise ValueError(f"BinaryAccuracy: threshold must be in [0, 1], got {threshold!r}")
        super().__init__(binary_accuracy, name, dtype, threshold=threshold)


class CategoricalAccuracy(FunctionMean):
    """Share of samples whose best score is that of the one-hot label.

    Example:
        >>> metric = tk.metrics.CategoricalAccuracy()
        >>> metric.update_state([[0, 1], [1, 0]], [[0.25, 0.75], [0.25, 0.75]])
        >>> float(metric.result())
        0.5
    """

    function = staticmethod(categorical_accuracy)


class SparseCategoricalAccuracy(FunctionMean):
    """Share of samples whose best score is that of the class number.

    Example:
        >>> metric = tk.metrics.SparseCategoricalAccuracy()
        >>> metric.update_state([1, 0], [[0.25, 0.75], [0.25, 0.75]])
        >>> float(metric.result())
        0.5
    """

    function = staticmethod(sparse_categorical_accuracy)
