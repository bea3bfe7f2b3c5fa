"""The arguments that all optimizers share, checked in one place."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypedDict

import numpy as np

from trainkit.core.names import near_names
from trainkit.optimizers.base.clipping import ClipLimits


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
            gradient. In it a step without a gradient of a weight counts as one of zeros; a weight
            without any in all of these steps stays as it is.
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


def _positive_int(owner: str, name: str, value: Any, minimum: int) -> None:
    if value is not None and (
        not isinstance(value, int) or isinstance(value, bool) or value < minimum
    ):
        raise ValueError(
            f"{owner}: {name} must be an int of at least {minimum} or None, got {value!r}"
        )


def checked_options(
    owner: str, arguments: dict[str, Any], settings: tuple[str, ...] = ()
) -> dict[str, Any]:
    """All shared options with their defaults filled in.

    Args:
        owner: class name, for error texts.
        arguments: what the user passed.
        settings: names of the class's own arguments, for error texts.

    Raises:
        TypeError: an argument that no optimizer has.
        ValueError: a value out of range.
    """
    if arguments.pop("decay", None) is not None:
        warnings.warn(
            f"{owner}: decay is no argument of optimizers any more and has no effect; give "
            "learning_rate a schedule, such as schedules.InverseTimeDecay",
            stacklevel=4,
        )
    unknown = sorted(set(arguments) - set(DEFAULTS))
    if unknown:
        names = [*DEFAULTS, "learning_rate", *settings]
        near = [name for one in unknown for name in near_names(one, names, 1)]
        hint = f"did you mean {' and '.join(near)}? Besides" if near else "besides"
        raise TypeError(
            f"{owner} got unexpected argument {', '.join(map(repr, unknown))}; {hint} its own "
            f"settings it takes {', '.join(DEFAULTS)}"
        )
    options = DEFAULTS | arguments
    # for its checks alone: the optimizer makes its own when all options are right
    ClipLimits(options["clipnorm"], options["clipvalue"], options["global_clipnorm"])
    if not isinstance(options["use_ema"], bool | np.bool_ | int):
        raise ValueError(f"{owner}: use_ema must be True or False, got {options['use_ema']!r}")
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


# ------------------------------------------------------------------ settings of classes

_AT_LEAST_0 = (
    *("epsilon", "epsilon_1", "epsilon_2", "initial_accumulator_value", "warmup_steps", "beta"),
    *("l1_regularization_strength", "l2_regularization_strength", "adam_lr_ratio"),
    "l2_shrinkage_regularization_strength",
)
_AT_MOST_0 = ("learning_rate_power", "beta_2_decay")
_ABOVE_0 = ("clip_threshold", "rms_rate")
_NUMBERS = ("muon_a", "muon_b", "muon_c")
_FLAGS = ("nesterov", "centered", "amsgrad", "relative_step", "exclude_embeddings")


def _rules() -> Iterator[tuple[str, str, Callable[[Any], Any]]]:
    """(setting, what it must be, whether a number is)."""
    yield from ((name, "a number of at least 0", lambda x: x >= 0) for name in _AT_LEAST_0)
    yield from ((name, "a number of at most 0", lambda x: x <= 0) for name in _AT_MOST_0)
    yield from ((name, "a number above 0", lambda x: x > 0) for name in _ABOVE_0)
    yield from ((name, "a number", np.isfinite) for name in _NUMBERS)
    yield "ns_steps", "a whole number of at least 1", lambda x: x >= 1 and x == int(x)
    yield "adam_weight_decay", "a number of at least 0 or None", lambda x: x >= 0


# by name alone: a setting means the same in all optimizers that have it
RULES = {name: (text, fits) for name, text, fits in _rules()}
_MAY_BE_NONE = ("rms_rate", "adam_weight_decay")


def check_setting(owner: str, name: str, value: Any) -> None:
    """Raise `ValueError` for a value that a setting of trainkit's optimizers can't have."""
    if name in _FLAGS:
        if not isinstance(value, bool | np.bool_ | int):
            raise ValueError(f"{owner}: {name} must be True or False, got {value!r}")
    elif name in RULES and not (value is None and name in _MAY_BE_NONE):
        text, fits = RULES[name]
        if not (is_number(value) and fits(value)):
            raise ValueError(f"{owner}: {name} must be {text}, got {value!r}")
