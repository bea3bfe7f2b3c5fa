"""`keras.legacy.saving`: objects as their class name and config, without module."""

import inspect as _inspect
from typing import Any

from trainkit.core.errors import ConfigError as _ConfigError
from trainkit.core.registry import CustomObjectScope as _CustomObjectScope
from trainkit.core.registry import custom_object as _custom_object
from trainkit.core.registry import registered_name as _registered_name


def serialize_keras_object(instance: Any) -> Any:
    """An object as a dict of its class name and its config; a function as its name.

    Args:
        instance: an object with `get_config`, a function, a class, or `None`.

    Raises:
        ValueError: it is none of these.
    """
    if instance is None:
        return None
    if hasattr(instance, "get_config") and not isinstance(instance, type):
        name = _registered_name(type(instance)) or type(instance).__name__
        config = {key: _nested(value) for key, value in instance.get_config().items()}
        return {"class_name": name, "config": config}
    if hasattr(instance, "__name__"):
        return _registered_name(instance) or instance.__name__
    raise _ConfigError(f"{instance!r} can't be serialized: it has neither get_config nor a name")


_INNER = "__passive_serialization__"  # Keras's mark of an object inside the config of another


def _nested(value: Any) -> Any:
    """A setting of an object: objects in it as configs with a mark, functions as their names."""
    described = hasattr(value, "get_config") or hasattr(value, "__name__")
    if isinstance(value, str) or not described:
        return value
    config = serialize_keras_object(value)
    return {**config, _INNER: True} if isinstance(config, dict) else config


def deserialize_keras_object(
    identifier: Any,
    module_objects: dict[str, Any] | None = None,
    custom_objects: dict[str, Any] | None = None,
    printable_module_name: str = "object",
) -> Any:
    """The object that `serialize_keras_object` described.

    Args:
        identifier: a dict of class name and config, a name, a function, or `None`; the last two
            are given back. A class is called without arguments where its name is given alone.
        module_objects: classes and functions by name, looked at last.
        custom_objects: the same, looked at first.
        printable_module_name: what error texts call the object.

    Raises:
        ValueError: nothing goes by the name, or `identifier` is none of these.
    """
    if identifier is None or _inspect.isfunction(identifier):
        return identifier
    with _CustomObjectScope(custom_objects):
        if isinstance(identifier, str):
            member = _resolve_name(identifier, module_objects, printable_module_name)
            return member() if isinstance(member, type) else member
        if not isinstance(identifier, dict) or not {"class_name", "config"} <= set(identifier):
            raise _ConfigError(
                f"{identifier!r} is no config of a {printable_module_name}: it needs 'class_name' "
                "and 'config'"
            )
        kind = _resolve_name(identifier["class_name"], module_objects, printable_module_name)
        config = identifier["config"]
        if isinstance(config, dict):
            config = {key: _read(key, value, module_objects) for key, value in config.items()}
        return kind.from_config(config) if hasattr(kind, "from_config") else kind(**config)


def _resolve_name(name: str, module_objects: dict[str, Any] | None, kind: str) -> Any:
    member = _custom_object(name)
    member = (module_objects or {}).get(name) if member is None else member
    if member is None:
        raise _ConfigError(
            f"{name!r} is no known {kind}; give it in module_objects or custom_objects"
        )
    return member


def _read(key: str, value: Any, module_objects: dict[str, Any] | None) -> Any:
    """A setting: marked configs become objects, and names of functions, but for `name`, these."""
    if isinstance(value, dict) and _INNER in value:
        return deserialize_keras_object(value, module_objects, None, "setting")
    if key == "name" or not isinstance(value, str):
        return value
    custom = _custom_object(value)
    custom = (module_objects or {}).get(value) if custom is None else custom
    return custom if _inspect.isfunction(custom) else value
