"""The arguments of a layer as its attributes, names and configs turned into objects."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from trainkit import activations, constraints, initializers, regularizers
from trainkit.core.errors import InvalidArgumentError
from trainkit.ops.convolutional.window_arguments import image_data_format

_GET: dict[str, Callable[[Any], Any]] = {
    "initializer": initializers.get,
    "regularizer": regularizers.get,
    "constraint": constraints.get,
    "activation": activations.get,
}
# What else stands in `locals()`: `__class__` comes with super(), and the others go to
# Layer.__init__, which has its own way with them.
_NOT_KEPT = {"self", "kwargs", "__class__", "activity_regularizer", "name", "dtype", "trainable"}


def keep(layer: Any, arguments: dict[str, Any]) -> None:
    """Set each argument of a layer's `__init__` as the attribute of its name.

    An argument whose name ends in initializer, regularizer, constraint or activation is read by the
    `get` of its family.

    Args:
        layer: the layer.
        arguments: `locals()` at the start of its `__init__`.

    Raises:
        ValueError, TypeError: an argument is the name of nothing.
    """
    for name, value in arguments.items():
        if name in _NOT_KEPT:
            continue
        get = _GET.get(name.rpartition("_")[2])
        setattr(layer, name, value if get is None else get(value))


def weight_of(layer: Any, name: str, shape: Any, family: str | None = None, **settings: Any) -> Any:
    """A weight with the initializer, regularizer and constraint among a layer's arguments.

    Args:
        layer: the layer, which gets the weight.
        name: of the weight.
        shape: of the weight.
        family: what those arguments are called after; `name` by default.
        **settings: further ones of `add_weight`, also in place of the arguments.
    """
    family = family or name
    arguments = {
        "initializer": getattr(layer, f"{family}_initializer"),
        "regularizer": getattr(layer, f"{family}_regularizer", None),
        "constraint": getattr(layer, f"{family}_constraint", None),
    }
    return layer.add_weight(name, shape, **{**arguments, **settings})


def one_of(layer: Any, name: str, value: Any, allowed: tuple[Any, ...]) -> Any:
    """`value` if it is among `allowed`.

    Raises:
        InvalidArgumentError: it is not.
    """
    if value not in allowed:
        listed = ", ".join(map(repr, allowed))
        raise InvalidArgumentError(
            f"{_label(layer)}: {name} must be one of {listed}, got {value!r}"
        )
    return value


def whole(layer: Any, name: str, value: Any, minimum: int = 1, maximum: float = math.inf) -> int:
    """`value` as an int of at least `minimum`, and at most `maximum`.

    Raises:
        InvalidArgumentError: it is none.
    """
    # NumPy's integers are meant, too; True has an `__index__` and is a mistake.
    is_int = hasattr(value, "__index__") and not isinstance(value, bool)
    if not is_int or not minimum <= value <= maximum:
        bounds = f"of {minimum} or more" if maximum == math.inf else f"from {minimum} to {maximum}"
        raise InvalidArgumentError(
            f"{_label(layer)}: {name} must be an int {bounds}, got {value!r}"
        )
    return int(value)


def an_int(layer: Any, name: str, value: Any) -> int:
    """`value`, which is an int.

    Raises:
        TypeError: it is none.
    """
    if not hasattr(value, "__index__") or isinstance(value, bool):
        raise TypeError(f"{_label(layer)}: {name} must be an int, got {value!r}")
    return int(value)


def sizes(layer: Any, name: str, value: Any, rank: int, minimum: int = 1) -> tuple[int, ...]:
    """`value`, an int or one int for each of `rank` axes, as a tuple.

    Raises:
        InvalidArgumentError: it is neither, or an int is below `minimum`.
    """
    items = (value,) * rank if hasattr(value, "__index__") else tuple(value)
    if len(items) != rank:
        raise InvalidArgumentError(
            f"{_label(layer)}: {name} must be one int or {rank} of them, got {value!r}"
        )
    return tuple(whole(layer, name, n, minimum) for n in items)


def format_of(layer: Any, data_format: str | None) -> str:
    """The data format, that of `keras.config.image_data_format()` unless another is named.

    Raises:
        InvalidArgumentError: it is none.
    """
    name = image_data_format() if data_format is None else data_format
    result: str = one_of(layer, "data_format", name, ("channels_last", "channels_first"))
    return result


def a_float(layer: Any, name: str, value: Any) -> float:
    """`value` as a float.

    Raises:
        InvalidArgumentError: it is none.
    """
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InvalidArgumentError(
            f"{_label(layer)}: {name} must be a number, got {value!r}"
        ) from None


def share(layer: Any, name: str, value: Any) -> float:
    """`value` as a number in [0, 1].

    Raises:
        InvalidArgumentError: it is none.
    """
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidArgumentError(f"{_label(layer)}: {name} must lie in [0, 1], got {value!r}")
    return value


def _label(layer: Any) -> str:
    name = layer.__dict__.get("name")
    return f"{type(layer).__name__} {name!r}" if name else type(layer).__name__
