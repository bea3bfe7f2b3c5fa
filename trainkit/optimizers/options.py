"""The arguments that all optimizers share, checked in one place."""

from __future__ import annotations

import warnings
from typing import Any, TypedDict

import numpy as np

from trainkit.optimizers.clipping import ClipLimits


class OptimizerOptions(TypedDict, total=False):
    """Keyword arguments of every optimizer besides its own.

    Attributes:
        name: what the optimizer is called; by default its class name in lower case.
        weight_decay: share of each weight, times the learning rate, that is taken off before each
            update.
        clipnorm: each gradient is shrunk to at most this length.
        clipvalue: each element of a gradient is kept within minus and plus this.
        global_clipnorm: all gradients together are shrunk to at most this length.
        use_ema: keep an exponential moving average of each weight.
        ema_momentum: how much of the average stays at each step, in [0, 1].
        ema_overwrite_frequency: the weights become their averages each time this many steps are
            done; `None` leaves it to `finalize_variable_values`.
        loss_scale_factor: gradients are divided by this, as the loss was multiplied by it.
        gradient_accumulation_steps: the weights change once in this many steps, by the mean
            gradient.
        lr: another name for `learning_rate`.
    """

    name: str | None
    weight_decay: float | None
    clipnorm: float | None
    clipvalue: float | None
    global_clipnorm: float | None
    use_ema: bool
    ema_momentum: float
    ema_overwrite_frequency: int | None
    loss_scale_factor: float | None
    gradient_accumulation_steps: int | None
    lr: Any


DEFAULTS: dict[str, Any] = {
    "name": None,
    "weight_decay": None,
    "clipnorm": None,
    "clipvalue": None,
    "global_clipnorm": None,
    "use_ema": False,
    "ema_momentum": 0.99,
    "ema_overwrite_frequency": None,
    "loss_scale_factor": None,
    "gradient_accumulation_steps": None,
}


def is_number(value: Any) -> bool:
    """Whether `value` is a number of Python or NumPy, but no bool."""
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _positive_int(owner: str, name: str, value: Any, least: int) -> None:
    if value is not None and (
        not isinstance(value, int) or isinstance(value, bool) or value < least
    ):
        raise ValueError(
            f"{owner}: {name} must be an int of at least {least} or None, got {value!r}"
        )


def checked_options(owner: str, given: dict[str, Any]) -> dict[str, Any]:
    """All shared options with their defaults filled in.

    Args:
        owner: class name, for error texts.
        given: what the user passed.

    Raises:
        TypeError: an argument that no optimizer has.
        ValueError: a value out of range.
    """
    if given.pop("decay", None) is not None:
        warnings.warn(
            f"{owner}: decay is no argument of optimizers any more and has no effect; give "
            "learning_rate a schedule, such as schedules.InverseTimeDecay",
            stacklevel=4,
        )
    unknown = sorted(set(given) - set(DEFAULTS))
    if unknown:
        raise TypeError(
            f"{owner} got unexpected argument {', '.join(map(repr, unknown))}; besides its own "
            "settings it "
            f"takes {', '.join(DEFAULTS)}"
        )
    options = DEFAULTS | given
    ClipLimits(options["clipnorm"], options["clipvalue"], options["global_clipnorm"])
    momentum = options["ema_momentum"]
    if options["use_ema"] and not (is_number(momentum) and 0 <= momentum <= 1):
        raise ValueError(f"{owner}: ema_momentum must be in [0, 1], got {momentum!r}")
    _positive_int(owner, "ema_overwrite_frequency", options["ema_overwrite_frequency"], 1)
    _positive_int(owner, "gradient_accumulation_steps", options["gradient_accumulation_steps"], 2)
    scale = options["loss_scale_factor"]
    if scale is not None and not (is_number(scale) and scale > 0):
        raise ValueError(f"{owner}: loss_scale_factor must be above 0, got {scale!r}")
    decay = options["weight_decay"]
    if decay is not None and not (is_number(decay) and decay >= 0):
        raise ValueError(
            f"{owner}: weight_decay must be a number of at least 0 or None, got {decay!r}"
        )
    return options
