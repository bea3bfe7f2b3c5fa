"""Configs: what `get_config` gives by itself, and layers from their configs."""

from __future__ import annotations

from functools import cache
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

from trainkit.core.config_values import described_lambda
from trainkit.core.registry import Registry, deserialize_object, serialize_object, serialize_setting
from trainkit.core.values.python_signatures import signature_of
from trainkit.layers.base.dtype_policy import policy_of
from trainkit.layers.quantized.quantization import read_config

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainkit.layers.base.layer import Layer

T = TypeVar("T")


LAYERS = Registry("layers", "layer")

# These come from Layer.get_config in a form of their own.
_BASE = {"name", "trainable", "dtype", "activity_regularizer", "autocast", "weights"}

# Arguments of this package's layers to start from; the attribute of that name is all weights.
_TO_START_FROM = {"variables"}

# Arguments of Keras's layers whose configs leave them out where they are `None`.
_IF_GIVEN = {"lora_rank", "lora_alpha", "gptq_unpacked_column_size"}


@cache
def _parameters(kind: Any) -> tuple[tuple[str, bool], ...]:
    """Name of each `__init__` parameter and whether this package wrote it, bases included."""
    is_ours: dict[str, bool] = {}
    for base in kind.__mro__:
        init = base.__dict__.get("__init__")
        if init is None:
            continue
        parameters = list(signature_of(init).parameters.values())[1:]
        ours = base.__module__.startswith("trainkit.")
        for p in parameters:
            if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY):
                # The nearest class that has the argument says what it means.
                is_ours.setdefault(p.name, ours)
        # A class without **kwargs hands nothing on, so arguments of its bases are not its own.
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
    return tuple(is_ours.items())


@cache
def accepted(kind: Any) -> frozenset[str]:
    """The names of the keyword arguments of a class, those that it hands on to its bases too."""
    return frozenset(name for name, _ in _parameters(kind))


@cache
def own_get_config(kind: Any) -> bool:
    """Whether a class outside of this package says itself what `get_config` gives."""
    first = next(base for base in kind.__mro__ if "get_config" in base.__dict__)
    return not first.__module__.startswith("trainkit.")


@cache
def _of_this_package(kind: Any) -> frozenset[str]:
    """The arguments of the first base of a class that is from this package."""
    return accepted(next(base for base in kind.__mro__ if base.__module__.startswith("trainkit.")))


@cache
def written_by_users(kind: Any) -> frozenset[str]:
    """The arguments that a class outside of this package gives and takes back as they are.

    Those that it hands on to a base from this package, under the base's name for them, are not
    among them: the base's `get_config` knows them.
    """
    if not own_get_config(kind):
        return frozenset()
    theirs = frozenset(name for name, ours in _parameters(kind) if not ours)
    return theirs - _of_this_package(kind)


def arguments_of(
    target: Any, init_arguments: tuple[tuple[Any, ...], dict[str, Any]]
) -> dict[str, Any]:
    """What to call the class of `target` with to get its like.

    Args:
        target: an object; the classes of this package keep each argument as the attribute of that
            name.
        init_arguments: the positional and keyword arguments that it was made with; these count for
            classes of users, whose attributes may mean something else, unless they have a
            `get_config` of their own.

    Raises:
        TypeError: an argument can't be put into a config.
    """
    try:
        bound: dict[str, Any] = (
            signature_of(type(target).__init__)
            .bind(None, *init_arguments[0], **init_arguments[1])
            .arguments
        )
    except TypeError:
        bound = {}
    # Arguments that went through **kwargs count by their own names.
    for name, parameter in signature_of(type(target).__init__).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            bound = {**bound, **bound.get(name, {})}
    config: dict[str, Any] = {}
    kind: Any = type(target)
    theirs = written_by_users(kind)
    inherited = _of_this_package(kind) if own_get_config(kind) else frozenset()
    for name, ours in _parameters(kind):
        if name in _BASE or name in theirs or (ours and name in _TO_START_FROM):
            continue
        # The attribute is what counts today, as it may have been set since; of a class of the
        # user's nobody knows what an attribute of that name means, so what it was called with
        # counts.
        if (ours or name in inherited) and hasattr(target, name):
            value = getattr(target, name)
            if value is not None or name not in _IF_GIVEN:
                config[name] = _plain(target, value)
        elif name in bound:
            config[name] = _plain(target, bound[name]) if ours else serialize_object(bound[name])
    return config


def _plain(target: Any, value: Any) -> Any:
    """A setting for a config: arrays as lists, lambdas of `Lambda` without a word."""
    if isinstance(value, np.ndarray) and type(target).__module__.startswith("trainkit."):
        return value.tolist()
    stores = getattr(type(target), "_stores_lambdas", False)
    if stores and isinstance(value, FunctionType) and value.__name__ == "<lambda>":
        return described_lambda(value, serialize_object)
    return serialize_setting(value)


def without_trainable(config: dict[str, Any]) -> dict[str, Any]:
    """The config of a layer without weights whose Keras class does not take `trainable`."""
    return {name: value for name, value in config.items() if name != "trainable" or not value}


def read_argument(key: str, value: Any) -> Any:
    """An argument from a config: a layer or policy where a dict describes one."""
    if key == "dtype":
        return policy_of(value) if isinstance(value, dict) else value
    if key == "quantization_config":
        return read_config(value)
    if isinstance(value, dict | list):
        return deserialize_object(value)
    return value


@overload
def get(identifier: None) -> None: ...
@overload
def get(identifier: str | Mapping[str, Any] | type[Layer]) -> Layer: ...
@overload
def get(identifier: T) -> T: ...
def get(identifier: Any) -> Any:
    """A layer from its config, class, name, or itself.

    Args:
        identifier: a name, a config, a class, or what is to be given back.

    Example:
        >>> type(tk.layers.get({"class_name": "Dense", "config": {"units": 3}})).__name__
        'Dense'
    """
    return LAYERS.get(identifier)


def serialize(layer: Any) -> dict[str, Any]:
    """A layer as a dict that `deserialize` reads.

    Args:
        layer: the layer.

    Example:
        >>> tk.layers.serialize(tk.layers.Dense(3))["config"]["units"]
        3
    """
    described: dict[str, Any] = serialize_object(layer)
    return described


def deserialize(
    config: str | Mapping[str, Any], custom_objects: dict[str, Any] | None = None
) -> Layer:
    """The layer that `serialize` described, with new weights.

    Args:
        config: what `serialize` gave, or a name.
        custom_objects: classes and functions by name, besides those that are registered.

    Raises:
        ValueError: the config names an unknown class.

    Example:
        >>> config = tk.layers.serialize(tk.layers.Dense(3))
        >>> tk.layers.deserialize(config).units
        3
    """
    return LAYERS.deserialize(config, custom_objects)
