"""F scores: the harmonic mean of precision and recall."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainkit import ops
from trainkit.core.errors import ShapeError
from trainkit.core.tensor import Tensor
from trainkit.core.values.type_aliases import DTypeLike
from trainkit.losses.alignment import aligned, weights_like
from trainkit.metrics.metric import Metric, add_to, unrecorded

AVERAGES = (None, "micro", "macro", "weighted")


class FBetaScore(Metric):
    """(1 + beta**2) * precision * recall / (beta**2 * precision + recall), of each class.

    Args:
        average: `None` for one score per class; `"micro"` counts all classes together; `"macro"` is
            the mean over classes; `"weighted"` that mean weighted by how often each class is true.
        beta: how many times recall weighs as much as precision, above 0.
        threshold: scores above it are positive; by default the best score of each sample is.

    Raises:
        ValueError: an argument is none of these or out of range.

    Example:
        >>> metric = tk.metrics.FBetaScore(average="macro", beta=2.0, threshold=0.5)
        >>> metric.update_state([[1, 1], [0, 1]], [[0.75, 0.25], [0.75, 0.75]])
        >>> round(float(metric.result()), 4)
        0.6944
    """

    def __init__(
        self,
        average: str | None = None,
        beta: float = 1.0,
        threshold: float | None = None,
        name: str | None = "fbeta_score",
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(dtype, name)
        kind = type(self).__name__
        if average not in AVERAGES:
            raise ValueError(f"{kind}: average must be one of {AVERAGES}, got {average!r}")
        if not isinstance(beta, float) or not beta > 0:
            raise ValueError(f"{kind}: beta must be a float above 0, got {beta!r}")
        if threshold is not None and not (isinstance(threshold, float) and 0 < threshold <= 1):
            raise ValueError(f"{kind}: threshold must be a float in (0, 1], got {threshold!r}")
        self.average = average
        self.beta = beta
        self.threshold = threshold
        self.axis = None if average == "micro" else 0  # over which counts are added up
        self._classes: int | None = None

    def _build(self, y_true_shape: Sequence[Any], y_pred_shape: Sequence[Any]) -> None:
        shapes = tuple(y_true_shape), tuple(y_pred_shape)
        if any(len(shape) != 2 or shape[1] is None for shape in shapes):
            raise ShapeError(
                f"{self.name}: labels and scores must be (batch, classes) with a known number of "
                f"classes.\n  y_true  {shapes[0]}\n  y_pred  {shapes[1]}"
            )
        self._classes = classes = int(y_pred_shape[1])
        shape = () if self.average == "micro" else (classes,)
        self.true_positives = self.add_variable(shape, name="true_positives")
        self.false_positives = self.add_variable(shape, name="false_positives")
        self.false_negatives = self.add_variable(shape, name="false_negatives")
        self.intermediate_weights = self.add_variable(shape, name="intermediate_weights")

    def _validate(self, y_true: Any, y_pred: Any) -> tuple[Any, Any]:
        y_true, y_pred = aligned(self.name, y_true, y_pred)
        if self._classes is None:
            self._build(y_true.shape, y_pred.shape)
        if y_pred.shape[1] != self._classes:
            raise ShapeError(
                f"{self.name}: this batch has {y_pred.shape[1]} classes, those before had "
                f"{self._classes}"
            )
        return ops.cast(y_true, self._dtype), ops.cast(y_pred, self._dtype)

    def _positive(self, y_pred: Any) -> Any:
        if self.threshold is not None:
            return ops.cast(ops.greater(y_pred, self.threshold), self._dtype)
        best = ops.equal(y_pred, ops.max(y_pred, axis=-1, keepdims=True))
        some = ops.greater(ops.absolute(y_pred), 1e-9)
        return ops.cast(ops.logical_and(best, some), self._dtype)

    @unrecorded
    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Add a batch of one-hot or multi-hot labels and scores, both (batch, classes).

        Raises:
            ShapeError: the shapes do not fit, or are not those of the first batch.
        """
        y_true, y_pred = self._validate(y_true, y_pred)
        positive = self._positive(y_pred)
        weights: Any = ops.ones_like(y_true)
        if sample_weight is not None:
            sample_weights = ops.cast(sample_weight, self._dtype)
            weights = weights * weights_like(self.name, y_true, sample_weights)[1]
        axis = None if self.average == "micro" else 0
        add_to(self.true_positives, ops.sum(weights * positive * y_true, axis=axis))
        add_to(self.false_positives, ops.sum(weights * positive * (1.0 - y_true), axis=axis))
        add_to(self.false_negatives, ops.sum(weights * (1.0 - positive) * y_true, axis=axis))
        add_to(self.intermediate_weights, ops.sum(weights * y_true, axis=axis))

    @unrecorded
    def result(self) -> Tensor:
        if self._classes is None:
            return ops.zeros((), self._dtype)
        tp: Any = self.true_positives.value()
        precision: Any = ops.divide_no_nan(tp, tp + self.false_positives.value())
        recall: Any = ops.divide_no_nan(tp, tp + self.false_negatives.value())
        square = self.beta * self.beta
        scores: Any = ops.divide_no_nan(precision * recall, square * precision + recall)
        scores = scores * (1.0 + square)
        if self.average == "weighted":
            often: Any = self.intermediate_weights.value()
            return ops.sum(scores * ops.divide_no_nan(often, ops.sum(often)))
        return ops.mean(scores) if self.average is not None else scores

    def get_config(self) -> dict[str, Any]:
        own = {"average": self.average, "beta": self.beta, "threshold": self.threshold}
        return super().get_config() | own


class F1Score(FBetaScore):
    """2 * precision * recall / (precision + recall), of each class; see `FBetaScore`.

    Args:
        average: see `FBetaScore`.
        threshold: see `FBetaScore`.

    Raises:
        ValueError: an argument is none of these or out of range.

    Example:
        >>> metric = tk.metrics.F1Score(threshold=0.5)
        >>> metric.update_state([[1, 1], [0, 1]], [[0.75, 0.25], [0.75, 0.75]])
        >>> metric.result().numpy().round(4)
        array([0.6667, 0.6667], dtype=float32)
    """

    def __init__(
        self,
        average: str | None = None,
        threshold: float | None = None,
        name: str | None = "f1_score",
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(average, 1.0, threshold, name, dtype)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["beta"]
        return config
