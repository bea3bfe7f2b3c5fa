"""The best of one rate while another keeps a bound, over many thresholds; area under a curve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainkit import ops
from trainkit.core import dtypes
from trainkit.core.errors import ShapeError
from trainkit.core.tensor import Tensor
from trainkit.core.values.type_aliases import DTypeLike
from trainkit.losses.alignment import aligned, weights_like
from trainkit.metrics.confusion import (
    ConfusionMetric,
    Counts,
    checked_thresholds,
    confusion_counts,
    even_thresholds,
)
from trainkit.metrics.metric import add_to, unrecorded


def _precision(c: Counts) -> Any:
    return ops.divide_no_nan(c.tp, c.tp + c.fp)


def _recall(c: Counts) -> Any:
    return ops.divide_no_nan(c.tp, c.tp + c.fn)


def _specificity(c: Counts) -> Any:
    return ops.divide_no_nan(c.tn, c.tn + c.fp)


class _BestUnderBound(ConfusionMetric):
    """The greatest `_wanted` over all thresholds at which `_bounded` is at least the bound.

    Subclasses name the argument that is the bound.
    """

    _advice_on_logits = "give it probabilities, as with ops.sigmoid(y_pred)"
    _bound_name = ""
    _wanted: Any = None
    _bounded: Any = None

    def __init__(
        self,
        bound: float,
        num_thresholds: int = 200,
        class_id: int | None = None,
        name: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        kind = type(self).__name__
        if not 0 <= bound <= 1:
            raise ValueError(f"{kind}: {self._bound_name} must be in [0, 1], got {bound!r}")
        if num_thresholds < 1:
            raise ValueError(f"{kind}: num_thresholds must be at least 1, got {num_thresholds!r}")
        threshold_list = even_thresholds(num_thresholds)
        super().__init__(("tp", "fp", "tn", "fn"), threshold_list, name, dtype, None, class_id)
        self.thresholds = threshold_list
        self.num_thresholds = num_thresholds
        self._bound = bound

    @property
    def value(self) -> float:
        """The bound."""
        return self._bound

    @unrecorded
    def result(self) -> Tensor:
        counts = self.counts()
        allowed = ops.greater_equal(type(self)._bounded(counts), self._bound)
        # All rates are 0 or more, so 0 also stands for "at no threshold".
        return ops.max(ops.where(allowed, type(self)._wanted(counts), 0.0))

    def get_config(self) -> dict[str, Any]:
        own = {"num_thresholds": self.num_thresholds, "class_id": self.class_id}
        return super().get_config() | own | {self._bound_name: self._bound}


class SensitivityAtSpecificity(_BestUnderBound):
    """Best sensitivity tp / (tp + fn) where the specificity tn / (tn + fp) is at least a bound.

    Args:
        specificity: the bound, in [0, 1].
        num_thresholds: how many thresholds are tried.
        class_id: the class to look at; all by default.

    Raises:
        ValueError: an argument is out of range.

    Example:
        >>> metric = tk.metrics.SensitivityAtSpecificity(specificity=0.5)
        >>> metric.update_state([0, 0, 1, 1], [0.1, 0.6, 0.3, 0.8])
        >>> float(metric.result())
        1.0
    """

    _bound_name = "specificity"
    _wanted = staticmethod(_recall)
    _bounded = staticmethod(_specificity)

    def __init__(
        self,
        specificity: float,
        num_thresholds: int = 200,
        class_id: int | None = None,
        name: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(specificity, num_thresholds, class_id, name, dtype)
        self.specificity = specificity


class SpecificityAtSensitivity(_BestUnderBound):
    """Best specificity tn / (tn + fp) where the sensitivity tp / (tp + fn) is at least a bound.

    Args:
        sensitivity: the bound, in [0, 1].
        num_thresholds: how many thresholds are tried.
        class_id: the class to look at; all by default.

    Raises:
        ValueError: an argument is out of range.

    Example:
        >>> metric = tk.metrics.SpecificityAtSensitivity(sensitivity=0.5)
        >>> metric.update_state([0, 0, 1, 1], [0.1, 0.6, 0.3, 0.8])
        >>> float(metric.result())
        1.0
    """

    _bound_name = "sensitivity"
    _wanted = staticmethod(_specificity)
    _bounded = staticmethod(_recall)

    def __init__(
        self,
        sensitivity: float,
        num_thresholds: int = 200,
        class_id: int | None = None,
        name: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(sensitivity, num_thresholds, class_id, name, dtype)
        self.sensitivity = sensitivity


class PrecisionAtRecall(_BestUnderBound):
    """Best precision tp / (tp + fp) where the recall tp / (tp + fn) is at least a bound.

    Args:
        recall: the bound, in [0, 1].
        num_thresholds: how many thresholds are tried.
        class_id: the class to look at; all by default.

    Raises:
        ValueError: an argument is out of range.

    Example:
        >>> metric = tk.metrics.PrecisionAtRecall(recall=0.5)
        >>> metric.update_state([0, 0, 1, 1], [0.1, 0.6, 0.3, 0.8])
        >>> float(metric.result())
        1.0
    """

    _bound_name = "recall"
    _wanted = staticmethod(_precision)
    _bounded = staticmethod(_recall)

    def __init__(
        self,
        recall: float,
        num_thresholds: int = 200,
        class_id: int | None = None,
        name: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(recall, num_thresholds, class_id, name, dtype)
        self.recall = recall


class RecallAtPrecision(_BestUnderBound):
    """Best recall tp / (tp + fn) where the precision tp / (tp + fp) is at least a bound.

    Args:
        precision: the bound, in [0, 1].
        num_thresholds: how many thresholds are tried.
        class_id: the class to look at; all by default.

    Raises:
        ValueError: an argument is out of range.

    Example:
        >>> metric = tk.metrics.RecallAtPrecision(precision=0.8)
        >>> metric.update_state([0, 0, 1, 1], [0.1, 0.6, 0.3, 0.8])
        >>> float(metric.result())
        0.5
    """

    _bound_name = "precision"
    _wanted = staticmethod(_recall)
    _bounded = staticmethod(_precision)

    def __init__(
        self,
        precision: float,
        num_thresholds: int = 200,
        class_id: int | None = None,
        name: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(precision, num_thresholds, class_id, name, dtype)
        self.precision = precision


CURVES = ("ROC", "PR", "PRGAIN")
SUMMATIONS = ("interpolation", "minoring", "majoring")


def _checked_choice(owner: str, name: str, value: str, choices: Sequence[str]) -> str:
    for choice in choices:
        if str(value).lower() == choice.lower():
            return choice
    raise ValueError(f"{owner}: {name} must be one of {', '.join(choices)}, got {value!r}")


class AUC(ConfusionMetric):
    """Area under a curve of two rates, by a sum over thresholds.

    Curves: `"ROC"`, recall over false positive rate; `"PR"`, precision over recall; `"PRGAIN"`,
    their gains over a constant guess. Between thresholds `"interpolation"` takes the mean height
    (for PR the interpolation of Davis and Goadrich 2006, "The relationship between precision-recall
    and ROC curves"), `"minoring"` the lower and `"majoring"` the higher one.

    Args:
        num_thresholds: how many thresholds, at least 2.
        curve: see above.
        summation_method: see above.
        thresholds: those between 0 and 1, in place of `num_thresholds` even ones.
        multi_label: the area of each column of the predictions, averaged.
        num_labels: how many columns there are, with `multi_label`; by default those of the first
            batch.
        label_weights: weight of each label in the average, or in the counts without `multi_label`.
        from_logits: whether the sigmoid of the predictions is still to be taken.

    Raises:
        ValueError: an argument is none of these.

    Example:
        >>> metric = tk.metrics.AUC(num_thresholds=3)
        >>> metric.update_state([0, 0, 1, 1], [0.0, 0.5, 0.25, 0.75])
        >>> float(metric.result())
        0.75
    """

    _advice_on_logits = "give the metric from_logits=True, or the last layer a sigmoid"

    def __init__(
        self,
        num_thresholds: int = 200,
        curve: str = "ROC",
        summation_method: str = "interpolation",
        name: str | None = None,
        dtype: DTypeLike | None = None,
        thresholds: Any = None,
        multi_label: bool = False,
        num_labels: int | None = None,
        label_weights: Any = None,
        from_logits: bool = False,
    ) -> None:
        self.curve = _checked_choice("AUC", "curve", curve, CURVES)
        self.summation_method = _checked_choice(
            "AUC", "summation_method", summation_method, SUMMATIONS
        )
        if num_labels and not multi_label:
            raise ValueError("AUC: num_labels needs multi_label=True")
        if thresholds is None and num_thresholds < 2:
            raise ValueError(f"AUC: num_thresholds must be at least 2, got {num_thresholds!r}")
        self._given = None if thresholds is None else tuple(thresholds)
        threshold_list = (
            even_thresholds(num_thresholds) if self._given is None else self._bounded_by_ends()
        )
        super().__init__((), threshold_list, name, dtype)
        self.thresholds = threshold_list
        self.num_thresholds = len(threshold_list)
        self.multi_label = multi_label
        self.num_labels = num_labels
        weights = None if label_weights is None else tuple(float(w) for w in label_weights)
        self.label_weights = weights
        self.from_logits = from_logits
        self._kept = ("tp", "tn", "fp", "fn")
        if not multi_label or num_labels:
            self._build(num_labels)

    def _bounded_by_ends(self) -> list[float]:
        inner = sorted(checked_thresholds("AUC", self._given or ()))
        return [0.0 - 1e-7, *inner, 1.0 + 1e-7]

    def _build(self, labels: int | None) -> None:
        shape = (self.num_thresholds,) if labels is None else (self.num_thresholds, labels)
        for long in ("true_positives", "false_positives", "true_negatives", "false_negatives"):
            setattr(self, long, self.add_variable(shape, name=long))

    def _check_labels(self, y_pred: Any) -> None:
        if len(y_pred.shape) != 2:
            raise ShapeError(
                f"{self.name}: with multi_label predictions must be (batch, labels), got "
                f"{tuple(y_pred.shape)}"
            )
        if self.num_labels is None:
            self.num_labels = int(y_pred.shape[1])
            self._build(self.num_labels)
        if self.num_labels != y_pred.shape[1]:
            raise ShapeError(
                f"{self.name}: predictions have {y_pred.shape[1]} labels, the metric has "
                f"{self.num_labels}"
            )

    @unrecorded
    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        y_true, y_pred = aligned(self.name, y_true, y_pred)
        y_pred = ops.cast(y_pred, dtypes.floatx())
        if self.from_logits:
            y_pred = ops.sigmoid(y_pred)
        else:
            self._check_scores(y_pred)
        if self.multi_label:
            self._check_labels(y_pred)
        elif self.label_weights is not None:
            sample_weight = self._weights_of_labels(self.label_weights, y_pred, sample_weight)
        new = confusion_counts(
            self.name, y_true, y_pred, self.thresholds, sample_weight, per_label=self.multi_label
        )
        for count in self._kept:
            add_to(self._variable(count), getattr(new, count))

    def _weights_of_labels(self, label_weights: Any, y_pred: Any, sample_weight: Any) -> Any:
        weights: Any = ops.ones_like(y_pred) * ops.cast(label_weights, y_pred.dtype)
        if sample_weight is None:
            return weights
        weights, sample_weights = weights_like(
            self.name, weights, ops.cast(sample_weight, y_pred.dtype)
        )
        return weights * sample_weights

    @unrecorded
    def result(self) -> Tensor:
        if self.multi_label and self.num_labels is None:
            return ops.zeros((), self._dtype)
        counts = self.counts()
        if self.curve == "PR" and self.summation_method == "interpolation":
            areas = _pr_areas(counts)
        else:
            areas = self._areas(*self._axes(counts))
        area = ops.sum(areas, axis=0)
        if not self.multi_label:
            return area
        if self.label_weights is None:
            return ops.mean(area)
        weights: Any = ops.cast(self.label_weights, self._dtype)
        return ops.divide_no_nan(ops.sum(area * weights), ops.sum(weights))

    def interpolate_pr_auc(self) -> Tensor:
        """The area under the precision-recall curve, or that of each label, by interpolation."""
        return ops.sum(_pr_areas(self.counts()), axis=0)

    def _axes(self, c: Counts) -> tuple[Any, Any]:
        if self.curve == "ROC":
            return ops.divide_no_nan(c.fp, c.fp + c.tn), _recall(c)
        if self.curve == "PR":
            return _recall(c), _precision(c)
        odds = ops.divide_no_nan(c.tp + c.fn, c.fp + c.tn)
        none = ops.equal(c.tp, 0.0)  # where both gains go to minus infinity
        recall_gain = ops.where(none, 0.0, 1.0 - ops.divide_no_nan(c.fn, c.tp) * odds)
        precision_gain = ops.where(none, 1.0, 1.0 - ops.divide_no_nan(c.fp, c.tp) * odds)
        return ops.maximum(recall_gain, 0.0), precision_gain

    def _areas(self, x: Any, y: Any) -> Any:
        if self.summation_method == "interpolation":
            height = (y[:-1] + y[1:]) / 2.0
        elif self.summation_method == "minoring":
            height = ops.minimum(y[:-1], y[1:])
        else:
            height = ops.maximum(y[:-1], y[1:])
        return (x[:-1] - x[1:]) * height

    def get_config(self) -> dict[str, Any]:
        own = {
            "num_thresholds": self.num_thresholds,
            "curve": self.curve,
            "summation_method": self.summation_method,
            "multi_label": self.multi_label,
            "num_labels": self.num_labels,
            "label_weights": None if self.label_weights is None else list(self.label_weights),
            "from_logits": self.from_logits,
        }
        if self._given is not None:
            own["thresholds"] = list(self._given)
        return super().get_config() | own


def _pr_areas(c: Counts) -> Any:
    """Areas under the precision-recall curve; between thresholds true positives grow evenly."""
    gained = c.tp[:-1] - c.tp[1:]
    positive = c.tp + c.fp
    slope = ops.divide_no_nan(gained, ops.maximum(positive[:-1] - positive[1:], 0.0))
    offset = c.tp[1:] - slope * positive[1:]
    both = ops.logical_and(ops.greater(positive[:-1], 0.0), ops.greater(positive[1:], 0.0))
    ratio = ops.divide_no_nan(positive[:-1], ops.maximum(positive[1:], 0.0))
    ratio = ops.where(both, ratio, 1.0)
    area = slope * (gained + offset * ops.log(ratio))
    return ops.divide_no_nan(area, ops.maximum(c.tp[1:] + c.fn[1:], 0.0))
