"""What callbacks such as `EarlyStopping` watch, and which way is better."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

from trainkit import ops
from trainkit.callbacks.callback import Callback, Logs
from trainkit.core.names import near_names, snake_case

# How names of metrics end of which more, and of which less is better.
_MORE_IS_BETTER = tuple(
    "acc accuracy auc correlation cosine_similarity f1_score fbeta_score iou precision r2_score "
    "recall sensitivity specificity true_negatives true_positives at_precision at_recall "
    "at_sensitivity at_specificity".split()
)
_LESS_IS_BETTER = tuple(
    "loss crossentropy error false_negatives false_positives hinge kld divergence logcosh mae mape "
    "mse msle perplexity poisson rmse".split()
)


class MetricMonitor(Callback):
    """A callback that watches a metric, and knows which way it improves.

    Args:
        monitor: name of the metric.
        mode: `"min"`, `"max"`, or `"auto"` by the name or class of the metric; another is a
            warning, and means `"auto"`.
    """

    _owner: ClassVar[str]
    """What errors and warnings call it: subclasses of users keep the name that the docs have."""

    def __init__(self, monitor: str, mode: str) -> None:
        super().__init__()
        if mode not in ("auto", "min", "max"):
            warnings.warn(
                f"{self._owner} mode {mode!r} is unknown: there are 'auto', which is taken, 'min' "
                "and 'max'",
                stacklevel=3,
            )
            mode = "auto"
        self.monitor, self.mode = monitor, mode

    @property
    def monitor_op(self) -> Any:
        """`ops.greater` if more is better, else `ops.less`."""
        return ops.greater if self._more_is_better() else ops.less

    def _more_is_better(self) -> bool:
        """Whether a larger value of the metric is an improvement.

        Of itself it is known by the name, or by the class of the metric of this name in the model.

        Raises:
            ValueError: neither tells, and `mode` is `"auto"`.
        """
        if self.mode != "auto":
            return self.mode == "max"
        name = self.monitor.removeprefix("val_")
        for text in (name, *_class_names(name, self.model)):
            if text.endswith(_MORE_IS_BETTER):
                return True
            if text.endswith(_LESS_IS_BETTER):
                return False
        raise ValueError(
            f"{self._owner}: nothing says whether more or less of the metric {self.monitor!r} is "
            "better; give mode='max' or mode='min'"
        )

    def _is_due(self, logs: Logs | None) -> bool:
        """Whether an epoch has the metric, if anything has: one of validation may come later."""
        if not self.monitor.startswith("val_") or not self.params.get("validation", False):
            return True
        return any(name.startswith("val_") for name in logs or {})

    def _monitored_value(self, logs: Logs | None) -> float | None:
        """The value of the metric; `None` when this epoch has none.

        A metric that is missing is a warning, which lists those there are; but an error if nothing
        says which way is better.

        Raises:
            ValueError: there is no such metric, and `mode` is `"auto"`.
        """
        logs, monitor = logs or {}, self.monitor
        if monitor in logs:
            return float(logs[monitor])
        validated = any(name.startswith("val_") for name in logs)
        text = (
            f"{self._owner}: there is no metric {monitor!r} to watch; there are "
            f"{', '.join(sorted(logs))}"
        )
        if monitor.startswith("val_") and monitor.removeprefix("val_") in logs and not validated:
            text += "; give fit validation_data or validation_split, and validate each epoch"
        else:
            near = near_names(monitor, logs, 1, 0.5)
            text += f"; did you mean {near[0]!r}?" if near else ""
            if self.mode == "auto":
                raise ValueError(text)
        warnings.warn(text, stacklevel=3)
        return None


def _class_names(name: str, model: Any) -> list[str]:
    """As what metrics that are called `name` are known."""
    groups = [getattr(m, "metrics", None) or [m] for m in getattr(model, "metrics", None) or []]
    return [snake_case(type(m).__name__) for group in groups for m in group if m.name == name]
