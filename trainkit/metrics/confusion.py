"""True and false, positive and negative: counts at thresholds, and what follows from them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from trainkit import ops
from trainkit.core import dtypes
from trainkit.core.dispatch.trace_state import THREAD
from trainkit.core.errors import ShapeError
from trainkit.core.tensor import Tensor
from trainkit.core.values.docstrings import describe_arguments
from trainkit.core.values.type_aliases import DTypeLike
from trainkit.core.variable import Variable
from trainkit.losses.alignment import aligned, weights_like
from trainkit.metrics.metric import Metric, add_to, unrecorded

_NEVER = -1e10
"""The score of classes that are not among the top k, below every threshold."""

_ROUNDING = 1e-3
"""How far from [0, 1] scores may lie that are probabilities."""


class Counts(NamedTuple):
    """Weights of true positives, false positives, true negatives and false negatives.

    Each has the shape (thresholds,), or (thresholds, labels).
    """

    tp: Any
    fp: Any
    tn: Any
    fn: Any


def checked_thresholds(owner: str, thresholds: Any, default: float = 0.5) -> list[float]:
    """Thresholds as floats.

    Raises:
        ValueError: one is not in [0, 1].
    """
    if thresholds is None:
        return [default]
    values = list(thresholds) if isinstance(thresholds, list | tuple) else [thresholds]
    outside = [t for t in values if not (isinstance(t, int | float | np.number) and 0 <= t <= 1)]
    if outside:
        raise ValueError(f"{owner}: thresholds must be in [0, 1], got {outside}")
    return [float(t) for t in values]


def listed(thresholds: Any) -> Any:
    """Several thresholds as a plain list, one or `None` as it is."""
    return list(thresholds) if isinstance(thresholds, list | tuple) else thresholds


def even_thresholds(count: int) -> list[float]:
    """`count` thresholds from just below 0 to just above 1, evenly apart.

    Raises:
        ValueError: `count` is below 1.
    """
    if count < 1:
        raise ValueError(f"num_thresholds must be at least 1, got {count!r}")
    if count == 1:
        return [0.5]
    inner = [(i + 1) / (count - 1) for i in range(count - 2)]
    return [0.0 - 1e-7, *inner, 1.0 + 1e-7]


def _are_even(thresholds: Sequence[float]) -> bool:
    """Whether these are three or more, evenly apart from 0 to 1."""
    count = len(thresholds)
    return count > 2 and all(
        math.isclose(t, i / (count - 1), rel_tol=1e-5, abs_tol=2e-7)
        for i, t in enumerate(thresholds)
    )


def confusion_counts(
    name: str,
    y_true: Any,
    y_pred: Any,
    thresholds: Sequence[float],
    sample_weight: Any = None,
    *,
    per_label: bool = False,
) -> Counts:
    """Counts for predictions above each threshold.

    Each prediction is put between two thresholds once; sums over the gaps give all counts.

    Args:
        name: for error texts.
        y_true: labels; all but 0 count as true.
        y_pred: scores of the same shape; NaN is above no threshold. Thresholds that are evenly
            apart from 0 to 1 are bins of scores in [0, 1]: scores outside count as 0 and 1.
        thresholds: in any order.
        sample_weight: weights that fit `y_pred`.
        per_label: count the last axis apart.

    Raises:
        ShapeError: the shapes do not fit.
    """
    y_true, y_pred = aligned(name, y_true, y_pred)
    ones: Any = ops.ones_like(y_pred)
    weights: Any = ops.reshape(ones, (-1,))
    if sample_weight is not None:
        fitted, sample_weights = weights_like(name, ones, ops.cast(sample_weight, y_pred.dtype))
        weights = ops.reshape(fitted * sample_weights, (-1,))
    labels = int(y_pred.shape[-1]) if per_label else 1
    order = sorted(range(len(thresholds)), key=lambda i: thresholds[i])
    bounds = ops.cast([thresholds[i] for i in order], y_pred.dtype)
    scores = ops.reshape(y_pred, (-1,))
    if _are_even([thresholds[i] for i in order]):
        scores = ops.clip(scores, 0.0, 1.0)
    segments = ops.cast(ops.searchsorted(bounds, scores, side="left"), "int32")
    segments = ops.where(ops.isnan(scores), 0, segments)
    if per_label:
        number = ops.cast(ops.cumsum(ones, axis=-1), "int32") - 1
        segments = segments * labels + ops.reshape(number, (-1,))
    true = ops.reshape(ops.cast(ops.not_equal(y_true, 0), y_pred.dtype), (-1,))
    both = ops.stack([true * weights, (1.0 - true) * weights], axis=-1)
    size = (len(thresholds) + 1) * labels
    sums = ops.segment_sum(both, segments, num_segments=size)
    table = ops.reshape(sums, (len(thresholds) + 1, labels, 2))
    below = ops.cumsum(table, axis=0)[:-1]
    above = ops.flip(ops.cumsum(ops.flip(table, axis=0), axis=0), axis=0)[1:]
    if order != list(range(len(order))):
        back = sorted(range(len(order)), key=lambda i: order[i])
        below, above = ops.take(below, back, axis=0), ops.take(above, back, axis=0)
    if not per_label:
        below, above = below[:, 0], above[:, 0]
    return Counts(tp=above[..., 0], fp=above[..., 1], tn=below[..., 1], fn=below[..., 0])


def _only_top_k(y_pred: Any, k: int) -> Any:
    """Scores of the k best classes; the others count as never positive."""
    classes = ops.top_k(y_pred, k).indices
    mask: Any = ops.sum(ops.one_hot(classes, int(y_pred.shape[-1]), axis=-1), axis=-2)
    mask = ops.cast(mask, y_pred.dtype)
    return y_pred * mask + _NEVER * (1.0 - mask)


class ConfusionMetric(Metric):
    """What metrics from counts have in common: thresholds, top k, one class of several.

    Args:
        counts: names of the counts that are needed: of `"tp"`, `"fp"`, `"tn"`, `"fn"`.
        thresholds: in [0, 1].
        name: what the metric is called.
        dtype: dtype of state and result.
        top_k: only the k best classes of each sample count as positive.
        class_id: the class to look at; all by default.
    """

    _untracked = frozenset({"thresholds", "init_thresholds"})  # lists of numbers are no parts
    _advice_on_logits = "give it probabilities, as with ops.sigmoid(y_pred), or thresholds=0"

    def __init__(
        self,
        counts: Sequence[str],
        thresholds: Sequence[float],
        name: str | None,
        dtype: DTypeLike | None,
        top_k: int | None = None,
        class_id: int | None = None,
    ) -> None:
        super().__init__(dtype, name)
        self.top_k = top_k
        self.class_id = class_id
        self._thresholds = tuple(thresholds)
        self._kept = tuple(counts)
        for count in counts:
            long = _LONG_NAMES[count]
            setattr(self, long, self.add_variable((len(thresholds),), name=long))

    def _variable(self, count: str) -> Variable:
        variable: Variable = getattr(self, _LONG_NAMES[count])
        return variable

    def counts(self) -> Counts:
        """The counts so far; `None` for those that are not kept."""
        read = {c: self._variable(c).value() if c in self._kept else None for c in Counts._fields}
        return Counts(**read)

    @unrecorded
    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Add a batch.

        Args:
            y_true: labels; all but 0 count as true.
            y_pred: scores in [0, 1], of the same shape; (batch,) fits (batch, 1).
            sample_weight: one weight per sample, (batch,), or per score.

        Raises:
            ShapeError: the shapes do not fit.
        """
        y_true, y_pred = aligned(self.name, y_true, y_pred)
        y_pred = ops.cast(y_pred, dtypes.floatx())
        if self.top_k is not None:
            y_pred = _only_top_k(y_pred, self.top_k)
        elif self._thresholds != (0.0,):  # which parts logits by their sign
            self._check_scores(y_pred)
        if self.class_id is not None:
            self._check_class(y_pred)
            y_true, y_pred = y_true[..., self.class_id, None], y_pred[..., self.class_id, None]
        new = confusion_counts(self.name, y_true, y_pred, self._thresholds, sample_weight)
        for count in self._kept:
            add_to(self._variable(count), getattr(new, count))

    def _check_scores(self, y_pred: Any) -> None:
        """Warn of the first scores with values, if thresholds in [0, 1] do not part them."""
        if self.__dict__.get("_scores_seen") or type(y_pred) is not Tensor or THREAD.traces:
            return
        self.__dict__["_scores_seen"] = True
        scores = y_pred.numpy()
        if not scores.size or not (scores.min() < -_ROUNDING or scores.max() > 1 + _ROUNDING):
            return
        warnings.warn(
            f"{type(self).__name__} {self.name!r} compares scores with thresholds in [0, 1], and "
            f"they go from {scores.min():.3g} to {scores.max():.3g}: {self._advice_on_logits}",
            stacklevel=4,
        )

    def _check_class(self, y_pred: Any) -> None:
        classes = y_pred.shape[-1] if len(y_pred.shape) > 1 else None
        if len(y_pred.shape) < 2:
            raise ShapeError(
                f"{self.name}: class_id={self.class_id} needs scores (batch, classes), got "
                f"{tuple(y_pred.shape)}"
            )
        if classes is not None and not -classes <= self.class_id < classes:
            raise ShapeError(
                f"{self.name}: class_id={self.class_id} is not among the {classes} classes of "
                f"scores {tuple(y_pred.shape)}"
            )


_LONG_NAMES = {
    "tp": "true_positives",
    "fp": "false_positives",
    "tn": "true_negatives",
    "fn": "false_negatives",
}


class _OneCount(ConfusionMetric):
    """One of the four counts.

    Args:
        thresholds: a float or several, in [0, 1]; 0.5 by default.
        name: what the metric is called; by default its class name in snake case.
        dtype: dtype of state and result.

    Raises:
        ValueError: a threshold is out of range.
    """

    _count = ""

    @property
    def accumulator(self) -> Variable:
        """The count, one number for each threshold."""
        return self._variable(self._count)

    def __init__(
        self, thresholds: Any = None, name: str | None = None, dtype: DTypeLike | None = None
    ) -> None:
        self.init_thresholds = listed(thresholds)
        threshold_list = checked_thresholds(type(self).__name__, thresholds)
        super().__init__((self._count,), threshold_list, name, dtype)
        self.thresholds = threshold_list

    @unrecorded
    def result(self) -> Tensor:
        total: Any = self._variable(self._count).value()
        return total[0] if len(self._thresholds) == 1 else total

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"thresholds": listed(self.init_thresholds)}


class TruePositives(_OneCount):
    """Weight of true labels that are predicted as such; see the arguments of its base.

    Example:
        >>> metric = tk.metrics.TruePositives()
        >>> metric.update_state([1, 1, 0], [0.25, 0.75, 0.25])
        >>> float(metric.result())
        1.0
    """

    _count = "tp"


class FalsePositives(_OneCount):
    """Weight of false labels that are predicted as true.

    Example:
        >>> metric = tk.metrics.FalsePositives()
        >>> metric.update_state([1, 1, 0], [0.25, 0.75, 0.75])
        >>> float(metric.result())
        1.0
    """

    _count = "fp"


class TrueNegatives(_OneCount):
    """Weight of false labels that are predicted as such.

    Example:
        >>> metric = tk.metrics.TrueNegatives()
        >>> metric.update_state([1, 1, 0], [0.25, 0.75, 0.25])
        >>> float(metric.result())
        1.0
    """

    _count = "tn"


class FalseNegatives(_OneCount):
    """Weight of true labels that are predicted as false.

    Example:
        >>> metric = tk.metrics.FalseNegatives()
        >>> metric.update_state([1, 1, 0], [0.25, 0.75, 0.75])
        >>> float(metric.result())
        1.0
    """

    _count = "fn"


class _Ratio(ConfusionMetric):
    """tp / (tp + another count).

    Args:
        thresholds: a float or several, in [0, 1]; 0.5 by default, with `top_k` none.
        top_k: only the k best classes of each sample count as positive.
        class_id: the class to look at; all by default.
        name: what the metric is called; by default its class name in snake case.
        dtype: dtype of state and result.

    Raises:
        ValueError: a threshold is out of range.
    """

    _other = ""

    def __init__(
        self,
        thresholds: Any = None,
        top_k: int | None = None,
        class_id: int | None = None,
        name: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        self.init_thresholds = listed(thresholds)
        default = 0.5 if top_k is None else _NEVER / 2
        threshold_list = checked_thresholds(type(self).__name__, thresholds, default)
        super().__init__(("tp", self._other), threshold_list, name, dtype, top_k, class_id)
        self.thresholds = threshold_list

    @unrecorded
    def result(self) -> Tensor:
        tp: Any = self._variable("tp").value()
        share = ops.divide_no_nan(tp, tp + self._variable(self._other).value())
        return share[0] if len(self._thresholds) == 1 else share

    def get_config(self) -> dict[str, Any]:
        own = {
            "thresholds": listed(self.init_thresholds),
            "top_k": self.top_k,
            "class_id": self.class_id,
        }
        return super().get_config() | own


class Precision(_Ratio):
    """Share of what is predicted as true that is true: tp / (tp + fp); 0 where nothing is.

    Args:
        top_k: count only the so many best scores of each row as true.
        class_id: count only this column.

    Example:
        >>> metric = tk.metrics.Precision()
        >>> metric.update_state([0, 1, 1, 1], [0.75, 0.25, 0.75, 0.75])
        >>> round(float(metric.result()), 4)
        0.6667
    """

    _other = "fp"


class Recall(_Ratio):
    """Share of what is true that is predicted as such: tp / (tp + fn); 0 where nothing is.

    Args:
        top_k: count only the so many best scores of each row as true.
        class_id: count only this column.

    Example:
        >>> metric = tk.metrics.Recall()
        >>> metric.update_state([0, 1, 1, 1], [0.75, 0.25, 0.75, 0.75])
        >>> round(float(metric.result()), 4)
        0.6667
    """

    _other = "fn"


describe_arguments(
    globals(),
    """
    thresholds: number or numbers in [0, 1] above which a prediction counts as true; by
        default 0.5, or 0 with `top_k`.
    name: what it is called.
    dtype: element type of the state; by default the default float.
    """,
)
