"""`keras.quantizers.get`, `serialize` and `deserialize`."""

from __future__ import annotations

from typing import Any

from trainkit.core.registry import serialize_object
from trainkit.quantizers import abs_max, awq_config, gptq_config, quantization_config
from trainkit.quantizers.quantizer_family import QUANTIZERS

FILES = (abs_max, quantization_config, gptq_config, awq_config)
"""The modules whose classes make up the family."""


def serialize(initializer: Any) -> Any:
    """A quantizer or a quantization config as a dict that `deserialize` reads.

    Args:
        initializer: the object.
    """
    return serialize_object(initializer)


def deserialize(config: Any, custom_objects: dict[str, Any] | None = None) -> Any:
    """The object that `serialize` described.

    Args:
        config: what `serialize` gave.
        custom_objects: classes that it may name, by name.

    Raises:
        ValueError: the config names an unknown class.
    """
    return QUANTIZERS.deserialize(config, custom_objects)


def get(identifier: Any, **kwargs: Any) -> Any:
    """A quantizer or a quantization config.

    Args:
        identifier: its class or the name of it, its config, or itself.
        **kwargs: for the constructor, where a class is named.

    Returns:
        The object; `None` for `None`.

    Raises:
        ValueError: nothing goes by that name, or it is no such thing.
    """
    if identifier is None:
        return None
    if isinstance(identifier, dict):
        return deserialize(identifier)
    quantizer = QUANTIZERS.find(identifier) if isinstance(identifier, str) else identifier
    if isinstance(quantizer, type):
        return quantizer(**kwargs)
    if not callable(quantizer):
        raise ValueError(f"{identifier!r} is no quantizer: give a name, a class, or a config")
    return quantizer
