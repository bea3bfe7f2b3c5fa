"""Metrics by name: `get`, `serialize`, `deserialize`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from trainkit.core.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trainkit.metrics.metric import Metric

T = TypeVar("T")


METRICS = Registry(
    "metrics",
    "metric",
    {
        "BinaryCrossentropy": ("bce", "BCE"),
        "KLDivergence": ("kld", "KLD"),
        "MeanAbsoluteError": ("mae", "MAE"),
        "MeanAbsolutePercentageError": ("mape", "MAPE"),
        "MeanSquaredError": ("mse", "MSE"),
        "MeanSquaredLogarithmicError": ("msle", "MSLE"),
        "LogCoshError": ("logcosh",),
        "RootMeanSquaredError": ("rmse", "RMSE"),
    },
    unlisted={"CompiledMetrics", "ConfusionMetric", "FunctionMean", "MeanScore"},
)
FUNCTIONS = Registry("metric_functions", "metric function")


@overload
def get(identifier: None) -> None: ...
@overload
def get(identifier: str | Mapping[str, Any] | type[Metric]) -> Metric: ...
@overload
def get(identifier: T) -> T: ...
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
        >>> type(tk.metrics.get("precision")).__name__
        'Precision'
    """
    return METRICS.get(identifier)


def serialize(metric: Callable[..., Any]) -> Any:
    """A metric as plain data: `class_name` and `config`. The state is not in it.

    Args:
        metric: a metric, or a function.

    Example:
        >>> tk.metrics.serialize(tk.metrics.Recall())["class_name"]
        'Recall'
    """
    return METRICS.serialize(metric)


def deserialize(
    config: str | Mapping[str, Any], custom_objects: dict[str, Any] | None = None
) -> Metric:
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
