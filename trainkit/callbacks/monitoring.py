"""What callbacks such as `EarlyStopping` watch, and which way is better."""

from __future__ import annotations

import warnings
from typing import Any

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


def checked_mode(mode: str, owner: str) -> str:
    """`mode`, one of `"auto"`, `"min"`, `"max"`; another is a warning and means `"auto"`."""
    if mode not in ("auto", "min", "max"):
        warnings.warn(
            f"{owner} mode {mode!r} is unknown: there are 'auto', which is taken, 'min' and 'max'",
            stacklevel=3,
        )
        return "auto"
    return mode


def more_is_better(monitor: str, mode: str, model: Any, owner: str) -> bool:
    """Whether a larger value of the metric `monitor` is an improvement.

    Of itself it is known by the name, or by the class of the metric of this name in `model`.

    Raises:
        ValueError: neither tells, and `mode` is `"auto"`.
    """
    if mode != "auto":
        return mode == "max"
    name = monitor.removeprefix("val_")
    for text in (name, *_class_names(name, model)):
        if text.endswith(_MORE_IS_BETTER):
            return True
        if text.endswith(_LESS_IS_BETTER):
            return False
    raise ValueError(
        f"{owner}: nothing says whether more or less of the metric {monitor!r} is better; give "
        "mode='max' or mode='min'"
    )


def _class_names(name: str, model: Any) -> list[str]:
    """As what metrics that are called `name` are known."""
    groups = [getattr(m, "metrics", None) or [m] for m in getattr(model, "metrics", None) or []]
    return [snake_case(type(m).__name__) for group in groups for m in group if m.name == name]


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
