"""Metrics of numbers: mean errors, correlation, explained variance."""

from __future__ import annotations

import warnings
from typing import Any

from trainkit import ops
from trainkit.core.dispatch.trace_state import THREAD
from trainkit.core.errors import ShapeError
from trainkit.core.tensor import Tensor
from trainkit.core.values.type_aliases import DTypeLike
from trainkit.losses import regression as losses
from trainkit.losses.alignment import aligned, weights_like
from trainkit.metrics.means import FunctionMean, Mean, MeanMetricWrapper
from trainkit.metrics.metric import Metric, add_to, unrecorded
from trainkit.ops.neural.normalization import EPSILON

"""What keeps quotients finite."""


def cosine_similarity(y_true: Any, y_pred: Any, axis: int = -1) -> Tensor:
    """Cosine of the angle between y_true and y_pred along `axis`; 0 where either is 0.

    Args:
        y_true: vectors.
        y_pred: vectors of the same shape.
        axis: axis of the vectors.

    Returns:
        A float tensor without `axis`, in [-1, 1].

    Raises:
        ShapeError: the shapes do not fit.
    """
    return ops.negative(losses.cosine_similarity(y_true, y_pred, axis))


def _centre(x: Any, axis: Any) -> Any:
    return x - ops.mean(x, axis=axis, keepdims=True)


def pearson_correlation(y_true: Any, y_pred: Any, axis: int = -1) -> Tensor:
    """Covariance of y_true and y_pred along `axis`, divided by both deviations.

    Args:
        y_true: numbers.
        y_pred: numbers of the same shape.
        axis: axis of the samples.

    Returns:
        A float tensor without `axis`, in [-1, 1].

    Raises:
        ShapeError: the shapes do not fit.

    Example:
        >>> tk.metrics.pearson_correlation([[1.0, 2.0, 3.0]], [[2.0, 4.0, 6.0]]).numpy().round(4)
        array([1.], dtype=float32)
    """
    y_true, y_pred = aligned("pearson_correlation", y_true, y_pred)
    return cosine_similarity(_centre(y_true, axis), _centre(y_pred, axis), axis)


def concordance_correlation(y_true: Any, y_pred: Any, axis: int = -1) -> Tensor:
    """Agreement of y_true and y_pred along `axis`: correlation, less for other scale or place.

    2 * cov / (var(y_true) + var(y_pred) + (mean(y_true) - mean(y_pred))**2 + 1e-7)
    Source: Lin 1989, "A concordance correlation coefficient to evaluate reproducibility".

    Args:
        y_true: numbers.
        y_pred: numbers of the same shape.
        axis: axis of the samples.

    Returns:
        A float tensor without `axis`, in [-1, 1].

    Raises:
        ShapeError: the shapes do not fit.

    Example:
        >>> x = tk.constant([[1.0, 2.0, 3.0]])
        >>> tk.metrics.concordance_correlation(x, x).numpy().round(4)
        array([1.], dtype=float32)
    """
    y_true, y_pred = aligned("concordance_correlation", y_true, y_pred)
    a: Any = _centre(y_true, axis)
    b: Any = _centre(y_pred, axis)
    gap: Any = ops.mean(y_true, axis=axis) - ops.mean(y_pred, axis=axis)
    spread = ops.mean(a * a, axis=axis) + ops.mean(b * b, axis=axis)
    return 2.0 * ops.mean(a * b, axis=axis) / (spread + gap * gap + EPSILON)


class MeanSquaredError(FunctionMean):
    """Mean of (y_true - y_pred)**2.

    Example:
        >>> metric = tk.metrics.MeanSquaredError()
        >>> metric.update_state([[0.0, 1.0]], [[2.0, 1.0]])
        >>> float(metric.result())
        2.0
    """

    function = staticmethod(losses.mean_squared_error)


class MeanAbsoluteError(FunctionMean):
    """Mean of |y_true - y_pred|.

    Example:
        >>> metric = tk.metrics.MeanAbsoluteError()
        >>> metric.update_state([[0.0, 1.0]], [[1.0, 1.0]])
        >>> float(metric.result())
        0.5
    """

    function = staticmethod(losses.mean_absolute_error)


class MeanAbsolutePercentageError(FunctionMean):
    """Mean of |y_true - y_pred| / |y_true|, in percent.

    Example:
        >>> metric = tk.metrics.MeanAbsolutePercentageError()
        >>> metric.update_state([[2.0, 4.0]], [[1.0, 4.0]])
        >>> float(metric.result())
        25.0
    """

    function = staticmethod(losses.mean_absolute_percentage_error)


class MeanSquaredLogarithmicError(FunctionMean):
    """Mean of (log(y_true + 1) - log(y_pred + 1))**2.

    Example:
        >>> metric = tk.metrics.MeanSquaredLogarithmicError()
        >>> metric.update_state([[0.0, 1.0]], [[1.0, 1.0]])
        >>> round(float(metric.result()), 4)
        0.2402
    """

    function = staticmethod(losses.mean_squared_logarithmic_error)


class LogCoshError(MeanMetricWrapper):
    """Mean of log(cosh(y_pred - y_true)).

    Example:
        >>> metric = tk.metrics.LogCoshError()
        >>> metric.update_state([[0.0, 0.0]], [[0.0, 2.0]])
        >>> round(float(metric.result()), 4)
        0.6625
    """

    def __init__(self, name: str | None = "logcosh", dtype: DTypeLike | None = None) -> None:
        super().__init__(losses.log_cosh, name, dtype)


class CosineSimilarity(MeanMetricWrapper):
    """Mean cosine of the angle between targets and predictions; see `cosine_similarity`.

    Args:
        axis: axis of the vectors.

    Example:
        >>> metric = tk.metrics.CosineSimilarity()
        >>> metric.update_state([[1.0, 0.0], [0.0, 1.0]], [[2.0, 0.0], [3.0, 0.0]])
        >>> float(metric.result())
        0.5
    """

    def __init__(
        self, name: str | None = "cosine_similarity", dtype: DTypeLike | None = None, axis: int = -1
    ) -> None:
        super().__init__(cosine_similarity, name, dtype, axis=axis)


class PearsonCorrelation(MeanMetricWrapper):
    """Mean over samples of the correlation along `axis`; see `pearson_correlation`.

    Args:
        axis: axis along which values are compared.

    Example:
        >>> metric = tk.metrics.PearsonCorrelation(axis=-1)
        >>> metric.update_state([[1.0, 2.0, 3.0]], [[6.0, 4.0, 2.0]])
        >>> round(float(metric.result()), 4)
        -1.0
    """

    def __init__(
        self,
        name: str | None = "pearson_correlation",
        dtype: DTypeLike | None = None,
        axis: int = -1,
    ) -> None:
        super().__init__(pearson_correlation, name, dtype, axis=axis)


class ConcordanceCorrelation(MeanMetricWrapper):
    """Mean over samples of the agreement along `axis`; see `concordance_correlation`.

    Args:
        axis: axis along which values are compared.

    Example:
        >>> metric = tk.metrics.ConcordanceCorrelation(axis=-1)
        >>> metric.update_state([[1.0, 2.0, 3.0]], [[2.0, 3.0, 4.0]])
        >>> round(float(metric.result()), 4)
        0.5714
    """

    def __init__(
        self,
        name: str | None = "concordance_correlation",
        dtype: DTypeLike | None = None,
        axis: int = -1,
    ) -> None:
        super().__init__(concordance_correlation, name, dtype, axis=axis)


class RootMeanSquaredError(Mean):
    """Root of the mean of (y_true - y_pred)**2.

    Example:
        >>> metric = tk.metrics.RootMeanSquaredError()
        >>> metric.update_state([[0.0, 0.0]], [[2.0, 2.0]])
        >>> float(metric.result())
        2.0
    """

    def __init__(
        self, name: str | None = "root_mean_squared_error", dtype: DTypeLike | None = None
    ) -> None:
        super().__init__(name, dtype)

    @unrecorded
    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Add a batch of targets and predictions of one shape."""
        y_true, y_pred = aligned(self.name, y_true, y_pred)
        self._add(ops.square(ops.subtract(y_pred, y_true)), sample_weight)

    @unrecorded
    def result(self) -> Tensor:
        return ops.sqrt(super().result())


class R2Score(Metric):
    """Share of the variance of y_true that y_pred explains: 1 - residual / total.

    Args:
        class_aggregation: how the scores of several outputs become one: `"uniform_average"`,
            `"variance_weighted_average"`, or `None` for one score per output.
        num_regressors: with more than 0 the score is corrected for so many variables.

    Raises:
        ValueError: an argument is none of these.

    Example:
        >>> metric = tk.metrics.R2Score()
        >>> metric.update_state([[1.0], [2.0], [3.0]], [[1.0], [2.0], [2.0]])
        >>> float(metric.result())
        0.5
    """

    def __init__(
        self,
        class_aggregation: str | None = "uniform_average",
        num_regressors: int = 0,
        name: str | None = "r2_score",
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(dtype, name)
        aggregations = (None, "uniform_average", "variance_weighted_average")
        if class_aggregation not in aggregations:
            raise ValueError(
                f"R2Score: class_aggregation must be one of {aggregations}, got "
                f"{class_aggregation!r}"
            )
        if num_regressors < 0:
            raise ValueError(f"R2Score: num_regressors must be at least 0, got {num_regressors!r}")
        self.class_aggregation = class_aggregation
        self.num_regressors = num_regressors
        self.num_samples = self.add_variable(dtype="int32", name="num_samples")
        self._outputs: int | None = None

    def _build(self, outputs: int) -> None:
        self._outputs = outputs
        self.squared_sum = self.add_variable((outputs,), name="squared_sum")
        self.sum = self.add_variable((outputs,), name="sum")
        self.total_mse = self.add_variable((outputs,), name="residual")
        self.count = self.add_variable((outputs,), name="count")

    def _validate(self, y_true: Any, y_pred: Any) -> tuple[Any, Any]:
        y_true, y_pred = aligned(self.name, y_true, y_pred)
        if len(y_pred.shape) != 2 or y_pred.shape[1] is None:
            raise ShapeError(
                f"{self.name}: targets and predictions must be (batch, outputs), got shape "
                f"{tuple(y_pred.shape)}"
            )
        if self._outputs is None:
            self._build(int(y_pred.shape[1]))
        if y_pred.shape[1] != self._outputs:
            raise ShapeError(
                f"{self.name}: this batch has {y_pred.shape[1]} outputs, those before had "
                f"{self._outputs}"
            )
        return ops.cast(y_true, self._dtype), ops.cast(y_pred, self._dtype)

    @unrecorded
    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Add a batch of targets and predictions (batch, outputs), with weights (batch,).

        Raises:
            ShapeError: the shapes do not fit, or are not those of the first batch.
        """
        y_true, y_pred = self._validate(y_true, y_pred)
        ones: Any = ops.ones_like(y_true)
        weights: Any = ones
        if sample_weight is not None:
            sample_weights = ops.cast(sample_weight, self._dtype)
            weights = weights_like(self.name, y_true, sample_weights)[1] * ones
        add_to(self.sum, ops.sum(weights * y_true, axis=0))
        add_to(self.squared_sum, ops.sum(weights * y_true * y_true, axis=0))
        add_to(self.total_mse, ops.sum(weights * ops.square(y_true - y_pred), axis=0))
        add_to(self.count, ops.sum(weights, axis=0))
        counts = ops.any(ops.not_equal(weights, 0.0), axis=-1)  # for at least one output
        add_to(self.num_samples, ops.sum(ops.cast(counts, "int32")))

    @unrecorded
    def result(self) -> Any:
        if self._outputs is None:
            return ops.zeros((), self._dtype)
        total_sum: Any = self.sum.value()
        total: Any = self.squared_sum.value() - total_sum * (total_sum / self.count.value())
        raw: Any = 1.0 - self.total_mse.value() / total
        raw = ops.where(ops.isinf(raw), 0.0, raw)
        if self.class_aggregation == "uniform_average":
            raw = ops.mean(raw)
        elif self.class_aggregation == "variance_weighted_average":
            raw = ops.sum(total * raw) / ops.sum(total)
        return self._correct(raw) if self.num_regressors else raw

    def _correct(self, score: Any) -> Any:
        """The score corrected for the number of regressors, where there are samples enough."""
        free = self.num_samples.value() - self.num_regressors - 1
        if not THREAD.traces and int(free) <= 0:
            if int(self.num_samples) == 0:
                return score
            warnings.warn(
                f"{self.name}: {int(self.num_samples)} samples are too few for "
                f"{self.num_regressors} "
                "regressors; the score is not corrected",
                stacklevel=2,
            )
            return score
        enough = ops.greater(free, 0)
        divisor = ops.cast(ops.where(enough, free, 1), self._dtype)
        samples = ops.cast(self.num_samples.value(), self._dtype)
        corrected = 1.0 - (1.0 - score) * (samples - 1.0) / divisor
        return ops.where(enough, corrected, score)

    def get_config(self) -> dict[str, Any]:
        own = {"class_aggregation": self.class_aggregation, "num_regressors": self.num_regressors}
        return super().get_config() | own
