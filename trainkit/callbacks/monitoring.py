"""What callbacks such as `EarlyStopping` watch, and which way is better."""

from __future__ import annotations

import warnings
from typing import Any

from trainkit.core.names import near_names

# Metrics of which more is better; all others, losses and errors, are better when less.
_MORE_IS_BETTER = (
    "acc",
    "accuracy",
    "auc",
    "cosine_similarity",
    "f1_score",
    "fbeta_score",
    "iou",
    "precision",
    "r2_score",
    "recall",
    "sensitivity",
    "specificity",
)


def checked_mode(mode: str, owner: str) -> str:
    """`mode`, one of `"auto"`, `"min"`, `"max"`; another is a warning and means `"auto"`."""
    if mode not in ("auto", "min", "max"):
        warnings.warn(
            f"{owner} mode {mode!r} is unknown: there are 'auto', which is taken, 'min' and 'max'",
            stacklevel=3,
        )
        return "auto"
    return mode


def more_is_better(monitor: str, mode: str) -> bool:
    """Whether a larger value of the metric `monitor` is an improvement."""
    if mode != "auto":
        return mode == "max"
    name = monitor.removeprefix("val_")
    return any(name.endswith(word) for word in _MORE_IS_BETTER)


def not_due(monitor: str, logs: dict[str, Any] | None, params: dict[str, Any]) -> bool:
    """Whether `monitor` is of the validation, which there is, but not in this epoch."""
    if not monitor.startswith("val_") or not params.get("validation", False):
        return False
    return not any(name.startswith("val_") for name in logs or {})


def monitored(monitor: str, mode: str, logs: dict[str, Any] | None, owner: str) -> float | None:
    """The value of `monitor`; `None` when this epoch has none.

    A metric that is missing is a warning, which lists those there are; but an error if nothing says
    which way is better.

    Raises:
        ValueError: there is no such metric, and `mode` is `"auto"`.
    """
    logs = logs or {}
    if monitor in logs:
        return float(logs[monitor])
    validated = any(name.startswith("val_") for name in logs)
    text = f"{owner}: there is no metric {monitor!r} to watch; there are {', '.join(sorted(logs))}"
    if monitor.startswith("val_") and monitor.removeprefix("val_") in logs and not validated:
        text += "; give fit validation_data or validation_split, and validate each epoch"
    else:
        near = near_names(monitor, logs, 1, 0.5)
        text += f"; did you mean {near[0]!r}?" if near else ""
        if mode == "auto":
            raise ValueError(text)
    warnings.warn(text, stacklevel=3)
    return None
