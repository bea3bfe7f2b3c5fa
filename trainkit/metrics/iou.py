"""Intersection over union of predicted and true regions."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core.errors import ShapeError
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.docstrings import describe_arguments
from trainkit.core.values.type_aliases import DTypeLike
from trainkit.losses.alignment import aligned, as_floats
from trainkit.metrics.metric import Metric, add_to, unrecorded


class _ConfusionMatrix(Metric):
    """A matrix (classes, classes) of counts: rows are true classes, columns predicted ones.

    As in Keras the counts are integers unless `dtype` says otherwise, and weights lose their
    fraction.
    """

    _untracked = frozenset({"target_class_ids"})  # a list of numbers is no part

    def __init__(
        self,
        num_classes: int,
        name: str | None,
        dtype: DTypeLike | None,
        ignore_class: int | None,
        sparse_y_true: bool,
        sparse_y_pred: bool,
        axis: int,
    ) -> None:
        super().__init__(dtype or "int64", name)
        if not isinstance(num_classes, int) or num_classes < 1:
            raise ValueError(
                f"{type(self).__name__}: num_classes must be an int of at least 1, got "
                f"{num_classes!r}"
            )
        self.num_classes = num_classes
        self.ignore_class = ignore_class
        self.sparse_y_true = sparse_y_true
        self.sparse_y_pred = sparse_y_pred
        self.axis = axis
        shape = (num_classes, num_classes)
        self.total_cm = self.add_variable(shape, dtype=self._dtype, name="total_confusion_matrix")

    @unrecorded
    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Add a batch.

        Args:
            y_true: class numbers, or scores along `axis` if not `sparse_y_true`. What is not in
                [0, classes) does not count.
            y_pred: likewise, of the same shape once both are class numbers.
            sample_weight: weights like the class numbers.

        Raises:
            ShapeError: there are not as many labels, predictions and weights.
        """
        true = self._numbers(y_true, self.sparse_y_true)
        pred = self._numbers(y_pred, self.sparse_y_pred)
        self._check_size("y_pred", true, pred)
        ones: Any = ops.cast(ops.ones_like(true), self._dtype)
        weights: Any = ones
        if sample_weight is not None:
            self._warn_of_fractions(sample_weight)
            weights = ops.reshape(ops.cast(sample_weight, self._dtype), (-1,))
            if tuple(weights.shape) != (1,):
                self._check_size("sample_weight", true, weights)
            weights = weights * ones
        counts = ops.logical_and(self._in_range(true), self._in_range(pred))
        if self.ignore_class is not None:
            counts = ops.logical_and(counts, ops.not_equal(true, self.ignore_class))
        weights = ops.where(counts, weights, ops.zeros_like(weights))
        true = ops.where(counts, true, ops.zeros_like(true))
        pred = ops.where(counts, pred, ops.zeros_like(pred))
        cells = true * self.num_classes + pred
        sums = ops.segment_sum(weights, cells, num_segments=self.num_classes**2)
        add_to(self.total_cm, ops.reshape(sums, (self.num_classes, self.num_classes)))

    def _numbers(self, labels: Any, sparse: bool) -> Any:
        labels = labels if isinstance(labels, Tensor) else convert_to_tensor(labels)
        numbers = labels if sparse else ops.argmax(labels, axis=self.axis)
        return ops.cast(ops.reshape(numbers, (-1,)), "int32")

    def _check_size(self, argument: str, true: Any, other: Any) -> None:
        a, b = true.shape[0], other.shape[0]
        if a is not None and b is not None and a != b:
            raise ShapeError(f"{self.name}: there are {a} labels and {b} values of {argument}")

    def _in_range(self, numbers: Any) -> Any:
        low = ops.greater_equal(numbers, 0)
        return ops.logical_and(low, ops.less(numbers, self.num_classes))

    def _warn_of_fractions(self, sample_weight: Any) -> None:
        dtype = str(getattr(sample_weight, "dtype", ""))
        if "float" in dtype and "int" in self._dtype:
            warnings.warn(
                f"{self.name}: sample_weight is {dtype} and the counts are {self._dtype}: a weight "
                "of type float loses its fraction by casting. Use integer weights, or give the "
                "metric a dtype.",
                stacklevel=4,
            )

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {
            "num_classes": self.num_classes,
            "ignore_class": self.ignore_class,
            "sparse_y_true": self.sparse_y_true,
            "sparse_y_pred": self.sparse_y_pred,
            "axis": self.axis,
        }


class IoU(_ConfusionMatrix):
    """Mean over chosen classes of tp / (tp + fp + fn); classes that never occur do not count.

    Raises:
        ValueError: a chosen class is not in [0, num_classes).

    Example:
        >>> metric = tk.metrics.IoU(num_classes=2, target_class_ids=[0])
        >>> metric.update_state([0, 0, 1, 1], [0, 1, 0, 1])
        >>> round(float(metric.result()), 4)
        0.3333
    """

    def __init__(
        self,
        num_classes: int,
        target_class_ids: Sequence[int],
        name: str | None = None,
        dtype: DTypeLike | None = None,
        ignore_class: int | None = None,
        sparse_y_true: bool = True,
        sparse_y_pred: bool = True,
        axis: int = -1,
    ) -> None:
        super().__init__(num_classes, name, dtype, ignore_class, sparse_y_true, sparse_y_pred, axis)
        class_ids = [int(i) for i in target_class_ids]
        if not class_ids or min(class_ids) < 0 or max(class_ids) >= num_classes:
            raise ValueError(
                f"{type(self).__name__}: target_class_ids must be in [0, {num_classes}), got "
                f"{class_ids}"
            )
        self.target_class_ids = class_ids

    @unrecorded
    def result(self) -> Tensor:
        table: Any = as_floats(self.total_cm.value())
        diagonal: Any = ops.sum(table * ops.eye(self.num_classes, dtype=table.dtype), axis=0)
        union: Any = ops.sum(table, axis=0) + ops.sum(table, axis=1) - diagonal
        class_ids = np.asarray(self.target_class_ids)
        diagonal, union = ops.take(diagonal, class_ids, axis=0), ops.take(union, class_ids, axis=0)
        occur = ops.sum(ops.cast(ops.greater(union, 0.0), union.dtype))
        mean: Tensor = ops.divide_no_nan(ops.sum(ops.divide_no_nan(diagonal, union)), occur)
        return mean

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"target_class_ids": list(self.target_class_ids)}


class MeanIoU(IoU):
    """Mean over all classes of tp / (tp + fp + fn); see `IoU`.

    Example:
        >>> metric = tk.metrics.MeanIoU(num_classes=2)
        >>> metric.update_state([0, 0, 1, 1], [0, 1, 0, 1])
        >>> round(float(metric.result()), 4)
        0.3333
    """

    def __init__(
        self,
        num_classes: int,
        name: str | None = None,
        dtype: DTypeLike | None = None,
        ignore_class: int | None = None,
        sparse_y_true: bool = True,
        sparse_y_pred: bool = True,
        axis: int = -1,
    ) -> None:
        super().__init__(
            num_classes,
            range(num_classes),
            name,
            dtype,
            ignore_class,
            sparse_y_true,
            sparse_y_pred,
            axis,
        )

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["target_class_ids"]
        return config


class BinaryIoU(IoU):
    """IoU of two classes, 0 and 1, from probabilities of class 1.

    Args:
        target_class_ids: the classes that count: `(0, 1)`, `(0,)` or `(1,)`.
        threshold: predictions of at least this mean class 1, in [0, 1].

    Raises:
        ValueError: an argument is out of range.

    Example:
        >>> metric = tk.metrics.BinaryIoU(target_class_ids=[0, 1], threshold=0.5)
        >>> metric.update_state([0, 1, 1, 1], [0.25, 0.75, 0.25, 0.75])
        >>> round(float(metric.result()), 4)
        0.5833
    """

    def __init__(
        self,
        target_class_ids: Sequence[int] = (0, 1),
        threshold: float = 0.5,
        name: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(2, target_class_ids, name, dtype)
        if not 0 <= threshold <= 1:
            raise ValueError(f"BinaryIoU: threshold must be in [0, 1], got {threshold!r}")
        self.threshold = threshold

    @unrecorded
    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        y_true, y_pred = aligned(self.name, y_true, y_pred)
        predicted_classes = ops.cast(ops.greater_equal(y_pred, self.threshold), "int32")
        super().update_state(y_true, predicted_classes, sample_weight)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        own = {"target_class_ids": list(self.target_class_ids), "threshold": self.threshold}
        return {"name": config["name"], "dtype": config["dtype"]} | own


class OneHotIoU(IoU):
    """IoU of one-hot labels; see `IoU`.

    Raises:
        ValueError: a chosen class is not in [0, num_classes).

    Example:
        >>> metric = tk.metrics.OneHotIoU(num_classes=2, target_class_ids=[0])
        >>> metric.update_state([[1, 0], [0, 1]], [[0.75, 0.25], [0.75, 0.25]])
        >>> float(metric.result())
        0.5
    """

    def __init__(
        self,
        num_classes: int,
        target_class_ids: Sequence[int],
        name: str | None = None,
        dtype: DTypeLike | None = None,
        ignore_class: int | None = None,
        sparse_y_pred: bool = False,
        axis: int = -1,
    ) -> None:
        super().__init__(
            num_classes, target_class_ids, name, dtype, ignore_class, False, sparse_y_pred, axis
        )

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["sparse_y_true"]
        return config


class OneHotMeanIoU(MeanIoU):
    """Mean IoU of all classes from one-hot labels; see `MeanIoU`.

    Example:
        >>> metric = tk.metrics.OneHotMeanIoU(num_classes=2)
        >>> metric.update_state([[1, 0], [0, 1]], [[0.75, 0.25], [0.75, 0.25]])
        >>> float(metric.result())
        0.25
    """

    def __init__(
        self,
        num_classes: int,
        name: str | None = None,
        dtype: DTypeLike | None = None,
        ignore_class: int | None = None,
        sparse_y_pred: bool = False,
        axis: int = -1,
    ) -> None:
        super().__init__(num_classes, name, dtype, ignore_class, False, sparse_y_pred, axis)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["sparse_y_true"]
        return config


describe_arguments(
    globals(),
    """
    num_classes: how many classes there are.
    dtype: dtype of the counts: integers, so that weights lose their fraction, unless one is
        given.
    ignore_class: labels of this class do not count.
    sparse_y_pred: predictions are class numbers; otherwise scores along `axis`.
    axis: axis of the classes.
    target_class_ids: the classes that count.
    sparse_y_true: labels are class numbers; otherwise scores along `axis`.
    """,
)
