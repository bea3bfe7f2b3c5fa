"""Shares of samples that are predicted right."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core import dtypes, shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import COMPOSITE, LEADING_AXES, Absent
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.losses.alignment import aligned, as_floats
from trainkit.metrics.means import MeanMetricWrapper


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
    chosen = ops.cast(ops.greater(y_pred, threshold), y_pred.dtype)
    return ops.cast(ops.equal(y_true, chosen), dtypes.floatx())


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


def check_classes(
    name: str, y_true: Any, y_pred: Any, fewer: int, other: tuple[Any, ...] = (None,)
) -> None:
    """Raise unless y_true has the shape of y_pred less the last `fewer` axes.

    Sizes that are among `other` fit all.
    """
    a, b = tuple(y_true.shape), tuple(y_pred.shape)
    b = b[: len(b) - fewer]
    pairs = list(zip(a, b, strict=False))
    if len(a) != len(b) or not all(m == n or m in other or n in other for m, n in pairs):
        family = "SparseCategorical" if fewer == 0 else "Categorical"
        kind = "one-hot labels" if fewer == 0 else "class numbers"
        raise ShapeError(
            f"{name}: the shapes of {kind} and scores do not fit.\n  y_true  "
            f"{tuple(y_true.shape)}\n"
            f"  y_pred  {tuple(y_pred.shape)}\nThe metrics named {family}... take the other kind."
        )


def class_numbers(y_true: Any, y_pred: Any) -> tuple[Tensor, Tensor]:
    """(class numbers as given, scores as floats); a last axis of size 1 goes."""
    y_true = y_true if isinstance(y_true, Tensor) else convert_to_tensor(y_true)
    y_pred = as_floats(y_pred)
    shape = y_true.shape
    if shape and shape[-1] == 1 and len(shape) == len(y_pred.shape):
        y_true = ops.squeeze(y_true, -1)
    return y_true, y_pred


def _hits_rule(labels: Spec, scores: Spec) -> Spec:
    check_classes("sparse_categorical_accuracy", labels, scores, 1, (None, 1))
    return Spec(shapes.broadcast_dims(labels.shape, scores.shape[:-1]), dtypes.floatx())


@primitive(
    _hits_rule,
    name="sparse_categorical_hits",
    semantics=COMPOSITE,
    no_gradient=Absent("counts of hits are flat"),
    lowering=Absent("positions of maxima are found in order"),
    export=Absent("a saved graph predicts, it has no metrics"),
)
def _hits(xp: ArrayModule, labels: Array, scores: Array) -> Array:
    """1 where the first of the best scores is that of the class `labels`, else 0."""
    if labels.shape != scores.shape[:-1] and labels.ndim != scores.ndim - 1:
        raise ValueError("the labels do not fit")  # the shape rule has the words
    best = scores.argmax(axis=-1).astype(np.int32, copy=False)
    hits = labels.astype(np.int32, copy=False) == best
    return hits.astype(dtypes.as_dtype(dtypes.floatx()).dtype)


_hits.declare(batch=LEADING_AXES, stackable=True)


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
    hits: Tensor = _hits(*class_numbers(y_true, y_pred))
    return hits


class Accuracy(MeanMetricWrapper):
    """Share of predictions that equal the labels; see `accuracy`.

    Args:
        name: what it is called.
        dtype: element type of the state; by default the default float.

    Example:
        >>> metric = tk.metrics.Accuracy()
        >>> metric.update_state([1, 2, 3, 4], [1, 2, 0, 4])
        >>> float(metric.result())
        0.75
    """

    def __init__(self, name: str | None = "accuracy", dtype: Any = None) -> None:
        super().__init__(accuracy, name, dtype)


class BinaryAccuracy(MeanMetricWrapper):
    """Share of yes-or-no questions answered right; see `binary_accuracy`.

    Args:
        name: what the metric is called.
        dtype: dtype of state and result.
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
        self, name: str | None = "binary_accuracy", dtype: Any = None, threshold: float = 0.5
    ) -> None:
        if threshold is not None and not 0 <= threshold <= 1:
            raise ValueError(f"BinaryAccuracy: threshold must be in [0, 1], got {threshold!r}")
        super().__init__(binary_accuracy, name, dtype, threshold=threshold)


class CategoricalAccuracy(MeanMetricWrapper):
    """Share of samples whose best score is that of the one-hot label.

    Args:
        name: what it is called.
        dtype: element type of the state; by default the default float.

    Example:
        >>> metric = tk.metrics.CategoricalAccuracy()
        >>> metric.update_state([[0, 1], [1, 0]], [[0.25, 0.75], [0.25, 0.75]])
        >>> float(metric.result())
        0.5
    """

    def __init__(self, name: str | None = "categorical_accuracy", dtype: Any = None) -> None:
        super().__init__(categorical_accuracy, name, dtype)


class SparseCategoricalAccuracy(MeanMetricWrapper):
    """Share of samples whose best score is that of the class number.

    Args:
        name: what it is called.
        dtype: element type of the state; by default the default float.

    Example:
        >>> metric = tk.metrics.SparseCategoricalAccuracy()
        >>> metric.update_state([1, 0], [[0.25, 0.75], [0.25, 0.75]])
        >>> float(metric.result())
        0.5
    """

    def __init__(self, name: str | None = "sparse_categorical_accuracy", dtype: Any = None) -> None:
        super().__init__(sparse_categorical_accuracy, name, dtype)
