"""Bounds on every training, for trying a program out: so many epochs, so many steps."""

from __future__ import annotations

import warnings
from operator import index
from typing import Any

from trainkit.core.errors import InvalidArgumentError

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
    _BOUNDS["epochs"] = _check(max_epochs, "max_epochs")


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
    _BOUNDS["steps"] = _check(max_steps_per_epoch, "max_steps_per_epoch")


def _check(value: int | None, name: str) -> int | None:
    if value is not None and (not isinstance(value, int) or value < 1):
        raise ValueError(f"{name} must be a number from 1, or None, got {value!r}")
    return value


def whole(value: Any, name: str, minimum: int = 0) -> int:
    """`value` as an int, where it is a whole number.

    Args:
        value: an int, or what stands for one, such as 3.0 or a number of NumPy.
        name: of the argument.
        minimum: the smallest that is allowed.

    Raises:
        TypeError: it is no whole number.
        ValueError: it is less than `minimum`.
    """
    try:
        number = int(value) if isinstance(value, float) and value.is_integer() else index(value)
    except TypeError:
        hint = f"; give the number {value.strip()}" if _is_count(value) else ""
        raise TypeError(
            f"{name} must be a whole number, got {value!r} ({type(value).__name__}){hint}"
        ) from None
    if number < minimum:
        raise InvalidArgumentError(f"{name} must be at least {minimum}, got {value!r}")
    return number


def check_counts(**counts: Any) -> None:
    """Refuse arguments, by their names, that are neither `None` nor whole numbers."""
    for name, value in counts.items():
        if value is not None:
            whole(value, name)


def _is_count(value: Any) -> bool:
    return isinstance(value, str) and value.strip().isdecimal()


def epochs(count: Any) -> int:
    """`count`, or the bound with a warning."""
    count = whole(count, "epochs")
    bound = _BOUNDS["epochs"]
    return count if bound is None or count <= bound else _warn(bound, "epochs")


def steps(count: Any, name: str = "steps") -> int | None:
    """`count`, or the bound with a warning; 0, as small data gives after a division, is none."""
    count = (whole(count, name) if count is not None else None) or None
    bound = _BOUNDS["steps"]
    if bound is None or (count is not None and count <= bound):
        return count
    return _warn(bound, "steps_per_epoch")


def _warn(bound: int, name: str) -> int:
    warnings.warn(f"keras.config limits {name} to {bound}", stacklevel=6)
    return bound
