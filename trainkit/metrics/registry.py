"""Metrics by name: `get`, `serialize`, `deserialize`."""

from __future__ import annotations

from typing import Any

from trainkit.core.registry import Registry
from trainkit.metrics import (
    accuracy,
    confusion,
    f_score,
    iou,
    means,
    probabilistic,
    regression,
    thresholds,
    top_k,
)

METRICS = Registry("metrics", "metric")
FUNCTIONS = Registry("metric_functions", "metric function")

_SHORT_NAMES = {
    "BinaryCrossentropy": ("bce", "BCE"),
    "KLDivergence": ("kld", "KLD"),
    "MeanAbsoluteError": ("mae", "MAE"),
    "MeanAbsolutePercentageError": ("mape", "MAPE"),
    "MeanSquaredError": ("mse", "MSE"),
    "MeanSquaredLogarithmicError": ("msle", "MSLE"),
    "LogCoshError": ("logcosh",),
    "RootMeanSquaredError": ("rmse", "RMSE"),
}

for _kind in (
    accuracy.Accuracy,
    accuracy.BinaryAccuracy,
    accuracy.CategoricalAccuracy,
    accuracy.SparseCategoricalAccuracy,
    confusion.FalseNegatives,
    confusion.FalsePositives,
    confusion.Precision,
    confusion.Recall,
    confusion.TrueNegatives,
    confusion.TruePositives,
    f_score.F1Score,
    f_score.FBetaScore,
    iou.BinaryIoU,
    iou.IoU,
    iou.MeanIoU,
    iou.OneHotIoU,
    iou.OneHotMeanIoU,
    means.Mean,
    means.MeanMetricWrapper,
    means.Sum,
    probabilistic.BinaryCrossentropy,
    probabilistic.CategoricalCrossentropy,
    probabilistic.CategoricalHinge,
    probabilistic.Hinge,
    probabilistic.KLDivergence,
    probabilistic.Poisson,
    probabilistic.SparseCategoricalCrossentropy,
    probabilistic.SquaredHinge,
    regression.ConcordanceCorrelation,
    regression.CosineSimilarity,
    regression.LogCoshError,
    regression.MeanAbsoluteError,
    regression.MeanAbsolutePercentageError,
    regression.MeanSquaredError,
    regression.MeanSquaredLogarithmicError,
    regression.PearsonCorrelation,
    regression.R2Score,
    regression.RootMeanSquaredError,
    thresholds.AUC,
    thresholds.PrecisionAtRecall,
    thresholds.RecallAtPrecision,
    thresholds.SensitivityAtSpecificity,
    thresholds.SpecificityAtSensitivity,
    top_k.SparseTopKCategoricalAccuracy,
    top_k.TopKCategoricalAccuracy,
):
    METRICS.add(_kind, *_SHORT_NAMES.get(_kind.__name__, ()))
for _function in (
    accuracy.accuracy,
    accuracy.binary_accuracy,
    accuracy.categorical_accuracy,
    accuracy.sparse_categorical_accuracy,
    top_k.sparse_top_k_categorical_accuracy,
    top_k.top_k_categorical_accuracy,
):
    FUNCTIONS.add(_function)


def get(identifier: Any) -> Any:
    """A metric by name or configuration.

    Args:
        identifier: a class name, also in snake case (`"AUC"`, `"binary_accuracy"`, `"mse"`), what
            `serialize` gave, a class, a metric, a function of targets and predictions, or `None`.

    Returns:
        A new metric; a metric, function or `None` comes back as it is.

    Raises:
        ValueError: there is no such metric; lists those there are.
        TypeError: `identifier` is something else.

    Example:
        >>> type(tk.metrics.get("accuracy")).__name__
        'Accuracy'
        >>> tk.metrics.get("Precision").name
        'precision'
    """
    return METRICS.get(identifier)


def serialize(metric: Any) -> Any:
    """A metric as plain data: `class_name` and `config`. The state is not in it.

    Args:
        metric: a metric, or a function.

    Example:
        >>> tk.metrics.serialize(tk.metrics.Recall())["class_name"]
        'Recall'
    """
    return METRICS.serialize(metric)


def deserialize(config: Any, custom_objects: dict[str, Any] | None = None) -> Any:
    """The metric that `serialize` gave as plain data.

    Args:
        config: with `class_name` and `config`.
        custom_objects: further classes by name.

    Raises:
        ValueError: there is no metric of that name.

    Example:
        >>> config = tk.metrics.serialize(tk.metrics.Precision(thresholds=0.25))
        >>> tk.metrics.deserialize(config).get_config()["thresholds"]
        0.25
    """
    return METRICS.deserialize(config, custom_objects)
