"""Classes and functions by name: what `get("relu")`, `serialize` and `from_config` are made of.

Each family of objects (initializers, layers, losses ...) is one `Family`. Classes of users join by
`register_keras_serializable`, or for a while by `CustomObjectScope`.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

FAMILIES: dict[str, Family] = {}
"""All families by their plural, such as `"layers"`."""

REGISTERED: dict[str, Any] = {}
"""What `register_keras_serializable` was given, by `"package>name"`."""


class _Scopes(threading.local):
    def __init__(self) -> None:
        self.objects: list[dict[str, Any]] = []


_SCOPES = _Scopes()
_GLOBAL_CUSTOM: dict[str, Any] = {}


def snake_case(name: str) -> str:
    """A class name as Keras writes it in lower case.

    >>> snake_case("Conv2DTranspose"), snake_case("ReLU")
    ('conv2d_transpose', 're_lu')
    """
    plain = re.sub(r"\W+", "", name)
    return re.sub(r"(?<=[^_])(?=[A-Z][a-z])|(?<=[a-z])(?=[A-Z])", "_", plain).lower()


def register_keras_serializable(
    package: str = "Custom", name: str | None = None
) -> Callable[[T], T]:
    """Make a decorator that lets a class or function be found by name when a config is read.

    Args:
        package: a prefix that keeps names of different projects apart.
        name: the name; by default that of the class or function.

    Raises:
        ValueError: a class without `get_config` is decorated.
    """

    def register(target: T) -> T:
        own: Any = target
        if isinstance(own, type) and not hasattr(own, "get_config"):
            raise ValueError(f"{own.__name__} can't be registered: it has no get_config method")
        REGISTERED[f"{package}>{name or own.__name__}"] = own
        return target

    return register


def registered_name(target: Any) -> str | None:
    """The name under which `target` was registered, or `None`."""
    return next((name for name, known in REGISTERED.items() if known is target), None)


class CustomObjectScope:
    """Context in which configs may name the given classes and functions.

    Args:
        custom_objects: them by name.
    """

    def __init__(self, custom_objects: dict[str, Any] | None) -> None:
        self.custom_objects = dict(custom_objects or {})

    def __enter__(self) -> CustomObjectScope:
        _SCOPES.objects.append(self.custom_objects)
        return self

    def __exit__(self, *exc: object) -> None:
        _SCOPES.objects.pop()


def get_custom_objects() -> dict[str, Any]:
    """The classes and functions that every config may name; add to it to register more."""
    return _GLOBAL_CUSTOM


def custom_object(name: str) -> Any:
    """What users registered as `name` (innermost scope first), or `None`."""
    for objects in reversed(_SCOPES.objects):
        if name in objects:
            return objects[name]
    if name in _GLOBAL_CUSTOM:
        return _GLOBAL_CUSTOM[name]
    return REGISTERED.get(name)


def registered_as(name: str) -> Any:
    """What users registered as `name` in one package, whichever it is; `None` if in several."""
    matches = [known for full, known in REGISTERED.items() if full.split(">", 1)[1] == name]
    return matches[0] if len(matches) == 1 else None


class Family:
    """The named objects of one kind.

    Args:
        plural: such as `"initializers"`; also the last word of their Keras module.
        singular: what error texts call one of them.
    """

    def __init__(self, plural: str, singular: str) -> None:
        self.plural = plural
        self.singular = singular
        self.named: dict[str, Any] = {}
        FAMILIES[plural] = self

    def add(self, target: T, *aliases: str) -> T:
        """Let the class or function be found by its name, also in snake case, and `aliases`."""
        own: Any = target
        for name in (own.__name__, snake_case(own.__name__), *aliases):
            self.named.setdefault(name, own)
        return target

    def find(self, name: str) -> Any:
        """The class or function called `name`.

        Raises:
            ValueError: there is none; the text lists those that come near.
        """
        found = custom_object(name)
        if found is None:
            found = self.named.get(name)
        if found is None:
            found = registered_as(name)
        if found is None:
            raise ValueError(self._unknown(name))
        return found

    def _unknown(self, name: str) -> str:
        import difflib

        known = sorted({k for k in self.named if k == k.lower()})
        near = difflib.get_close_matches(str(name).lower(), known, n=3, cutoff=0.5)
        hint = (
            f"did you mean {' or '.join(map(repr, near))}?"
            if near
            else f"known are {', '.join(known)}"
        )
        return f"{name!r} is no {self.singular}; {hint}"

    def get(self, identifier: Any) -> Any:
        """An object from its name, config, class, or itself.

        Raises:
            ValueError: nothing goes by that name.
            TypeError: `identifier` is neither of these, nor callable.
        """
        if identifier is None:
            return None
        if isinstance(identifier, str):
            identifier = self.find(identifier)
        elif isinstance(identifier, dict):
            return self.deserialize(identifier)
        if isinstance(identifier, type):
            return identifier()
        if callable(identifier):
            return identifier
        raise TypeError(
            f"{identifier!r} can't be read as {self._article()} {self.singular}: give a name, "
            "a config, or a callable"
        )

    def _article(self) -> str:
        return "an" if self.singular[0] in "aeiou" else "a"

    def serialize(self, target: Any) -> Any:
        """`target` as a dict that `deserialize` reads; a function of the family as its name."""
        return serialize_object(target)

    def deserialize(self, config: Any, custom_objects: dict[str, Any] | None = None) -> Any:
        """The object that `serialize` described.

        Raises:
            ValueError: the config names an unknown class.
        """
        with CustomObjectScope(custom_objects):
            if isinstance(config, str):
                found = self.find(config)
                return found() if isinstance(found, type) else found
            if not isinstance(config, dict) or "class_name" not in config:
                raise ValueError(
                    f"{config!r} is no config of a {self.singular}: it needs 'class_name' and "
                    "'config'"
                )
            target = self.find(_name_in(config))
            return _made(target, config)


def _name_in(config: dict[str, Any]) -> str:
    name = config.get("registered_name")
    if name and custom_object(name) is not None:
        return str(name)
    if config["class_name"] == "function":
        return str(config["config"])
    return str(config["class_name"])


def _made(target: Any, config: dict[str, Any]) -> Any:
    if not isinstance(target, type):
        return target
    settings = config.get("config") or {}
    from_config = getattr(target, "from_config", None)
    return from_config(dict(settings)) if from_config else target(**settings)


def serialize_object(target: Any) -> Any:
    """A class instance, function, or plain value as something JSON can hold.

    Raises:
        TypeError: `target` is an object without `get_config`.
    """
    if target is None or isinstance(target, bool | int | float | str):
        return target
    if isinstance(target, list | tuple):
        return [serialize_object(item) for item in target]
    if isinstance(target, dict):
        return {key: serialize_object(value) for key, value in target.items()}
    if hasattr(target, "get_config") and not isinstance(target, type):
        return _serialized_instance(target)
    if hasattr(target, "tolist"):
        return target.tolist()
    if hasattr(target, "as_numpy_dtype") and hasattr(target, "name"):
        return target.name
    if hasattr(target, "__name__"):
        return _serialized_function(target)
    raise TypeError(
        f"{target!r} can't be put into a config: give its class a get_config method and from_config"
    )


def _serialized_instance(target: Any) -> dict[str, Any]:
    kind = type(target)
    plural = _family_of(kind)
    return {
        "module": f"keras.{plural}" if plural else kind.__module__,
        "class_name": kind.__name__,
        "config": target.get_config(),
        "registered_name": registered_name(kind) or (None if plural else kind.__name__),
    }


def _serialized_function(target: Any) -> Any:
    name = registered_name(target)
    if name is None and any(target in family.named.values() for family in FAMILIES.values()):
        return target.__name__
    return {
        "module": "builtins",
        "class_name": "function",
        "config": name or target.__name__,
        "registered_name": name or target.__name__,
    }


def _family_of(kind: type) -> str | None:
    """The plural of the family that lists `kind`."""
    for plural, family in FAMILIES.items():
        if family.named.get(kind.__name__) is kind:
            return plural
    return None


def deserialize_object(config: Any, custom_objects: dict[str, Any] | None = None) -> Any:
    """What `serialize_object` described; values that describe no object stay as they are.

    Raises:
        ValueError: a config names a class that nobody registered.
    """
    if isinstance(config, list | tuple):
        return type(config)(deserialize_object(item, custom_objects) for item in config)
    if not isinstance(config, dict):
        return config
    if "class_name" not in config:
        return {key: deserialize_object(value, custom_objects) for key, value in config.items()}
    with CustomObjectScope(custom_objects):
        found = custom_object(_name_in(config))
        if found is not None:
            return _made(found, config)
    plural = str(config.get("module", "")).split(".")
    for part in reversed(plural):
        if part in FAMILIES and config["class_name"] in FAMILIES[part].named:
            return FAMILIES[part].deserialize(config, custom_objects)
    for family in FAMILIES.values():
        if config["class_name"] in family.named:
            return family.deserialize(config, custom_objects)
    found = registered_as(config["class_name"])
    if found is not None:
        return _made(found, config)
    raise ValueError(
        f"the config names the class {config['class_name']!r}, which nobody registered; pass it in "
        "custom_objects, or decorate it with register_keras_serializable()"
    )
