"""Bounds on every training, for trying a program out: so many epochs, so many steps."""

from __future__ import annotations

import warnings

_BOUNDS: dict[str, int | None] = {"epochs": None, "steps": None}


def max_epochs() -> int | None:
    """How many epochs `fit` trains at most; `None` for any number.

    Example:
        >>> tk.keras.config.max_epochs()
    """
    return _BOUNDS["epochs"]


def set_max_epochs(max_epochs: int | None) -> None:
    """Let `fit` train so many epochs at most, whatever it is asked for.

    Args:
        max_epochs: a number from 1, or `None` for no bound.

    Raises:
        ValueError: it is none of these.

    Example:
        >>> tk.keras.config.set_max_epochs(2)
        >>> tk.keras.config.max_epochs()
        2
        >>> tk.keras.config.set_max_epochs(None)
    """
    _BOUNDS["epochs"] = _checked(max_epochs, "max_epochs")


def max_steps_per_epoch() -> int | None:
    """How many batches an epoch, an evaluation or a prediction takes at most.

    Example:
        >>> tk.keras.config.max_steps_per_epoch()
    """
    return _BOUNDS["steps"]


def set_max_steps_per_epoch(max_steps_per_epoch: int | None) -> None:
    """Let epochs, evaluations and predictions take so many batches at most.

    Args:
        max_steps_per_epoch: a number from 1, or `None` for no bound.

    Raises:
        ValueError: it is none of these.

    Example:
        >>> tk.keras.config.set_max_steps_per_epoch(2)
        >>> tk.keras.config.max_steps_per_epoch()
        2
        >>> tk.keras.config.set_max_steps_per_epoch(None)
    """
    _BOUNDS["steps"] = _checked(max_steps_per_epoch, "max_steps_per_epoch")


def _checked(value: int | None, name: str) -> int | None:
    if value is not None and (not isinstance(value, int) or value < 1):
        raise ValueError(f"{name} must be a number from 1, or None, got {value!r}")
    return value


def epochs(asked: int) -> int:
    """`asked`, or the bound with a warning."""
    bound = _BOUNDS["epochs"]
    return asked if bound is None or asked <= bound else _warned(bound, "epochs")


def steps(asked: int | None) -> int | None:
    """`asked`, or the bound with a warning."""
    bound = _BOUNDS["steps"]
    if bound is None or (asked is not None and asked <= bound):
        return asked
    return _warned(bound, "steps_per_epoch")


def _warned(bound: int, name: str) -> int:
    warnings.warn(f"keras.config limits {name} to {bound}", stacklevel=4)
    return bound
