"""Optimizers by name: `get`, `serialize`, `deserialize`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, overload

from trainkit.core.registry import custom_object
from trainkit.optimizers.base.optimizer import OPTIMIZERS, Optimizer
from trainkit.optimizers.loss_scale import LossScaleOptimizer
from trainkit.optimizers.multi import MultiOptimizer

T = TypeVar("T")


@overload
def get(identifier: None) -> None: ...
@overload
def get(identifier: str | Mapping[str, Any] | type[Optimizer]) -> Optimizer: ...
@overload
def get(identifier: T) -> T: ...
def get(identifier: Any) -> Any:
    """An optimizer by name or configuration.

    Args:
        identifier: a class name in capital or small letters (`"adam"`, `"RMSProp"`), what
            `serialize` gave, a class, an optimizer, or `None`.

    Returns:
        A new optimizer with the defaults or the configuration; an optimizer or `None` comes back as
        it is.

    Raises:
        ValueError: there is no such optimizer; lists those there are.
        TypeError: `identifier` is something else.

    Example:
        >>> type(tk.optimizers.get("adam")).__name__
        'Adam'
    """
    if isinstance(identifier, Optimizer):
        return identifier
    identifier = _in_known_letters(identifier)
    kind = OPTIMIZERS.find(identifier) if isinstance(identifier, str) else None
    # a name says nothing of the optimizer inside, without which they can't be made
    if kind is LossScaleOptimizer or kind is MultiOptimizer:
        raise ValueError(
            f"{kind.__name__} needs the optimizer it wraps, as in LossScaleOptimizer(Adam())"
        )
    optimizer = OPTIMIZERS.get(identifier)
    if optimizer is not None and not isinstance(optimizer, Optimizer):
        raise TypeError(
            f"an optimizer is a name, a configuration or an Optimizer, not {identifier!r}"
        )
    return optimizer


def _in_known_letters(name: Any) -> Any:
    """A name in small letters, if it is that of an optimizer here and of none of the user's."""
    # a user's own class may differ from ours in its letters alone
    if not isinstance(name, str) or name in OPTIMIZERS.named or custom_object(name) is not None:
        return name
    return name.lower() if name.lower() in OPTIMIZERS.named else name


def serialize(optimizer: Optimizer) -> dict[str, Any]:
    """An optimizer as plain data: `class_name` and `config`. Slots and step count are not in it.

    Args:
        optimizer: the optimizer.

    Example:
        >>> tk.optimizers.serialize(tk.optimizers.SGD(0.5))["class_name"]
        'SGD'
    """
    return OPTIMIZERS.serialize(optimizer)


def deserialize(config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> Optimizer:
    """The optimizer that `serialize` gave as plain data.

    Args:
        config: with `class_name` and `config`.
        custom_objects: further classes by name.

    Raises:
        ValueError: there is no optimizer of that name.

    Example:
        >>> config = tk.optimizers.serialize(tk.optimizers.SGD(0.5))
        >>> float(tk.optimizers.deserialize(config).learning_rate)
        0.5
    """
    name = config.get("class_name") if isinstance(config, dict) else None
    # classes of the caller come first, in whatever letters
    if name not in (custom_objects or {}) and _in_known_letters(name) != name:
        config = {**config, "class_name": _in_known_letters(name)}
    return OPTIMIZERS.deserialize(config, custom_objects)
