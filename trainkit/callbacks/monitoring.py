"""What callbacks such as `EarlyStopping` watch, and which way is better."""

from __future__ import annotations

import difflib
from typing import Any

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
    """`mode`, one of `"auto"`, `"min"`, `"max"`.

    Raises:
        ValueError: it is another.
    """
    if mode not in ("auto", "min", "max"):
        raise ValueError(f"{owner}: mode must be 'auto', 'min' or 'max', got {mode!r}")
    return mode


def more_is_better(monitor: str, mode: str) -> bool:
    """Whether a larger value of the metric `monitor` is an improvement."""
    if mode != "auto":
        return mode == "max"
    name = monitor.removeprefix("val_")
    return any(name.endswith(word) for word in _MORE_IS_BETTER)


def require_validation(monitor: str, params: dict[str, Any], owner: str) -> None:
    """Raise `ValueError` if `monitor` is one of the validation and there is none."""
    if monitor.startswith("val_") and not params.get("validation", True):
        raise ValueError(
            f"{owner} watches {monitor!r}, but fit has no validation data; give validation_data or "
            f"validation_split, or set monitor={monitor.removeprefix('val_')!r}"
        )


def monitored(monitor: str, logs: dict[str, Any] | None, owner: str) -> float | None:
    """The value of `monitor`; `None` when this epoch had no validation.

    Raises:
        ValueError: there is no such metric; the text lists those there are.
    """
    logs = logs or {}
    if monitor in logs:
        return float(logs[monitor])
    if monitor.startswith("val_") and monitor.removeprefix("val_") in logs:
        if not any(name.startswith("val_") for name in logs):
            return None
    near = difflib.get_close_matches(monitor, logs, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(
        f"{owner}: there is no metric {monitor!r} to watch; there are "
        f"{', '.join(sorted(logs))}{hint}"
    )
