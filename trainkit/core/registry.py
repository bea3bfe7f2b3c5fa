"""Classes and functions by name: what `get("relu")`, `serialize` and `from_config` are made of.

Each family of objects (initializers, layers, losses ...) has one `Registry`. Classes of users join
by `register_keras_serializable`, or for a while by `CustomObjectScope`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from trainkit.core.config_values import (
    UNKNOWN,
    SafeModeScope,
    config_scope,
    in_safe_mode,
    is_value,
    plain_value,
    value_of,
)
from trainkit.core.errors import ConfigError
from trainkit.core.names import near_names
from trainkit.core.names import snake_case as snake_case

T = TypeVar("T")

FAMILIES: dict[str, Registry] = {}
"""All families by their plural, such as `"layers"`."""

REGISTERED: dict[str, Any] = {}
"""What `register_keras_serializable` was given, by `"package>name"`."""


FOREIGN: list[Callable[[dict[str, Any]], Any]] = []
"""What reads configs of classes that no family has; each gives an object or `None`."""


class _Scopes(threading.local):
    def __init__(self) -> None:
        self.objects: list[dict[str, Any]] = []


_SCOPES = _Scopes()
_GLOBAL_CUSTOM: dict[str, Any] = {}
_INSIDE = {"schedules": "optimizers.schedules"}  # families whose Keras module is inside another


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
    return next((name for name, registered in REGISTERED.items() if registered is target), None)


class CustomObjectScope:
    """Context in which configs may name the given classes and functions.

    Args:
        custom_objects: them by name.

    Example:
        >>> with tk.utils.CustomObjectScope({"double": lambda x: 2 * x}):
        ...     layer = tk.layers.Activation("double")
    """

    def __init__(self, custom_objects: dict[str, Any] | None) -> None:
        self.custom_objects = dict(custom_objects or {})

    def __enter__(self) -> CustomObjectScope:
        _SCOPES.objects.append(self.custom_objects)
        return self

    def __exit__(self, *exc: object) -> None:
        _SCOPES.objects.pop()


def get_custom_objects() -> dict[str, Any]:
    """The classes and functions that every config may name; add to it to register more.

    Example:
        >>> isinstance(tk.utils.get_custom_objects(), dict)
        True
    """
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
    matches = [
        registered for full, registered in REGISTERED.items() if full.split(">", 1)[1] == name
    ]
    return matches[0] if len(matches) == 1 else None


class Registry:
    """The named objects of one kind.

    Args:
        plural: such as `"initializers"`; also the last word of their Keras module.
        singular: what error texts call one of them.
        aliases: more names of members, by the name that they have in Python.
        unlisted: names of public classes that `get` does not give, such as bases of others.
    """

    def __init__(
        self,
        plural: str,
        singular: str,
        aliases: Mapping[str, tuple[str, ...]] | None = None,
        unlisted: Collection[str] = (),
    ) -> None:
        self.plural = plural
        self.singular = singular
        self.aliases = aliases or {}
        self.unlisted = unlisted
        self.named: dict[str, Any] = {}
        FAMILIES[plural] = self

    def add(self, target: T, *aliases: str) -> T:
        """Let the class or function be found by its name, also in snake case, and `aliases`."""
        own: Any = target
        aliases += self.aliases.get(own.__name__, ())
        for name in (own.__name__, snake_case(own.__name__), *aliases):
            self.named.setdefault(name, own)
        return target

    def add_built_in(self, kind: type, *aliases: str) -> None:
        """Let a class be found if it is a public one of this package: for `__init_subclass__`.

        A class of a user takes no name of the family's, whatever it is called; it joins by
        `register_keras_serializable`.
        """
        name = kind.__name__
        if kind.__module__.startswith("trainkit.") and name[0] != "_" and name not in self.unlisted:
            self.add(kind, *aliases)

    def find(self, name: str) -> Any:
        """The class or function called `name`.

        Raises:
            ValueError: there is none; the text lists those that come near.
        """
        member = custom_object(name)
        if member is None:
            member = self.named.get(name)
        if member is None:
            member = registered_as(name)
        if member is None:
            raise ValueError(self._unknown(name))
        return member

    def _unknown(self, name: str) -> str:
        names = sorted({k for k in self.named if k == k.lower()})
        near = near_names(str(name).lower(), names, likeness=0.5)
        hint = (
            f"did you mean {' or '.join(map(repr, near))}?"
            if near
            else f"known are {', '.join(names)}"
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
        return serialize_setting(target)

    def deserialize(self, config: Any, custom_objects: dict[str, Any] | None = None) -> Any:
        """The object that `serialize` described.

        Raises:
            ValueError: the config names an unknown class.
        """
        with CustomObjectScope(custom_objects):
            if isinstance(config, str):
                member = self.find(config)
                return member() if isinstance(member, type) else member
            if not isinstance(config, dict) or "class_name" not in config:
                raise ConfigError(
                    f"{config!r} is no config of a {self.singular}: it needs 'class_name' and "
                    "'config'"
                )
            if is_value(config):
                return value_of(config, _read)
            return _object(config, self)


# ---------------------------------------------------------------------- shared objects


class _Shared(threading.local):
    def __init__(self) -> None:
        self.counts: dict[int, int] | None = None  # how often each object was described
        self.kept: list[Any] = []  # while they are alive no other objects have their ids
        self.twice: frozenset[int] = frozenset()
        self.objects: dict[Any, Any] | None = None  # those that were made, by their number


_SHARED = _Shared()


class ObjectSharingScope:
    """Context in which an object that is met twice is described, and made, as one."""

    def __enter__(self) -> ObjectSharingScope:
        self._before = (_SHARED.kept, _SHARED.objects)
        _SHARED.kept, _SHARED.objects = [], {}
        return self

    def __exit__(self, *exc: object) -> None:
        _SHARED.kept, _SHARED.objects = self._before


def _with_shared_marked(target: Any) -> Any:
    """The description of `target`, gone over twice: first to count, then to mark what is shared."""
    try:
        _SHARED.counts = {}
        _describe(target)
        _SHARED.twice = frozenset(key for key, count in _SHARED.counts.items() if count > 1)
        return _describe(target)
    finally:
        _SHARED.counts, _SHARED.twice = None, frozenset()


def _note_described(target: Any, config: dict[str, Any]) -> None:
    if _SHARED.counts is not None:
        _SHARED.counts[id(target)] = _SHARED.counts.get(id(target), 0) + 1
        _SHARED.kept.append(target)
        if id(target) in _SHARED.twice:
            config["shared_object_id"] = id(target)


# ---------------------------------------------------------------------- writing


def serialize_object(obj: Any) -> Any:
    """A class instance, function, or plain value as something JSON can hold.

    Args:
        obj: numbers, texts, `None`, bytes, slices, arrays, tensors, and lists, tuples and dicts
            of them; functions by their names; objects by their class and `get_config`.

    Raises:
        TypeError: `obj` is an object without `get_config`, or whose `get_config` gives no dict.

    Example:
        >>> tk.utils.serialize_keras_object(tk.layers.Dense(3))["class_name"]
        'Dense'
    """
    if _SHARED.objects is not None and _SHARED.counts is None:
        return _with_shared_marked(obj)
    return _describe(obj)


def serialize_setting(obj: Any) -> Any:
    """As `serialize_object`, but a function of a family by its name alone: `"relu"`.

    That is how the classes of this package write their settings. A program that gets a name back
    from a config of its own would have to know where to look it up.
    """
    name = getattr(obj, "__name__", None)
    if name and not isinstance(obj, type) and registered_name(obj) is None and _is_member(obj):
        return name
    return serialize_object(obj)


def _is_member(target: Any) -> bool:
    return any(target in family.named.values() for family in FAMILIES.values())


def _describe(target: Any) -> Any:
    plain = plain_value(target, _describe)
    if plain is not UNKNOWN:
        return plain
    if hasattr(target, "get_config") and not isinstance(target, type):
        return _serialized_instance(target)
    if hasattr(target, "__name__"):
        return _serialized_function(target)
    raise TypeError(
        f"{target!r} can't be put into a config: give its class a get_config method and from_config"
    )


def _serialized_instance(target: Any) -> dict[str, Any]:
    config = getattr(target, "written_config", target.get_config)()
    if not isinstance(config, dict):
        raise TypeError(f"get_config of {target!r} must give a dict, it gave {config!r}")
    described = {
        **_identity(target),
        "config": {key: _describe(value) for key, value in config.items()},
    }
    for name in ("build_config", "compile_config"):
        more = getattr(target, f"get_{name}", None)
        part = more() if callable(more) else None
        if part is not None:
            described[name] = {key: _describe(value) for key, value in part.items()}
    _note_described(target, described)
    return described


def _identity(target: Any) -> dict[str, Any]:
    """Where the class of `target` is found again: its module, its name, its registered name."""
    kind: Any = getattr(type(target), "plain_class", type(target))
    own = getattr(target, "_config_identity", None)
    if own is not None:
        return dict(zip(("module", "class_name", "registered_name"), own, strict=True))
    plural = _family_of(kind)
    module = f"keras.{_INSIDE.get(plural, plural)}" if plural else kind.__module__
    registered = registered_name(kind) or (None if plural else kind.__name__)
    return {
        "module": None if module == "__main__" else module,
        "class_name": kind.__name__,
        "registered_name": registered,
    }


def _serialized_function(target: Any) -> Any:
    name = registered_name(target)
    registered = name or ("function" if _is_member(target) else target.__name__)
    return {
        "module": "builtins",
        "class_name": "function",
        "config": name or target.__name__,
        "registered_name": registered,
    }


def _family_of(kind: type) -> str | None:
    """The plural of the family that lists `kind`."""
    for plural, family in FAMILIES.items():
        if family.named.get(kind.__name__) is kind:
            return plural
    return None


# ---------------------------------------------------------------------- reading


def deserialize_object(
    config: Any, custom_objects: dict[str, Any] | None = None, safe_mode: bool = True
) -> Any:
    """What `serialize_object` described; values that describe no object stay as they are.

    Args:
        config: the description.
        custom_objects: classes and functions that it may name, by name.
        safe_mode: whether lambdas, which are code, are refused; what an enclosing `SafeModeScope`
            says goes first.

    Raises:
        ConfigError: a config names a class that nobody registered, holds code, or can't be read.
            It is a `ValueError` and a `TypeError`.

    Example:
        >>> config = tk.utils.serialize_keras_object(tk.layers.Dense(3))
        >>> tk.utils.deserialize_keras_object(config).units
        3
    """
    mode = in_safe_mode()
    with CustomObjectScope(custom_objects), SafeModeScope(safe_mode if mode is None else mode):
        return _read(config)


def _read(config: Any) -> Any:
    if isinstance(config, list | tuple):
        return type(config)(_read(item) for item in config)
    if isinstance(config, str) and _SCOPES.objects:
        custom = next((o[config] for o in reversed(_SCOPES.objects) if config in o), None)
        return config if custom is None else custom
    if not isinstance(config, dict):
        return config
    if "class_name" not in config or "config" not in config:
        return {key: _read(value) for key, value in config.items()}
    return value_of(config, _read) if is_value(config) else _object(config, None)


def _object(config: dict[str, Any], family: Registry | None) -> Any:
    """The function, or the new object, that a config names."""
    name, inner = config["class_name"], config.get("config")
    if name == "function":
        if not isinstance(inner, str):
            raise ConfigError(f"the config of a function must be its name, got {inner!r}")
        return _target(config, inner, inner, family)
    if not isinstance(name, str) or not isinstance(inner, dict | None):
        raise ConfigError(f"the config of {name!r} must be a dict, got {inner!r}")
    for read in FOREIGN if family is None else ():
        foreign = read(config)
        if foreign is not None:
            return foreign
    number = config.get("shared_object_id")
    if number is not None and _SHARED.objects is not None and number in _SHARED.objects:
        return _SHARED.objects[number]
    target = _target(config, name, config.get("registered_name") or name, family)
    if not isinstance(target, type):
        return target
    instance = _instance(target, config)
    if number is not None and _SHARED.objects is not None:
        _SHARED.objects[number] = instance
    return instance


def _target(config: dict[str, Any], name: str, registered: Any, family: Registry | None) -> Any:
    """The class or function of this name: one of the user's, else one of this package."""
    custom = custom_object(registered) if isinstance(registered, str) else None
    if custom is None and registered != name and ">" not in str(registered):
        custom = custom_object(name)
    if custom is not None:
        return custom
    members = [each.named[name] for each in _families(config, family) if name in each.named]
    if config["class_name"] == "function":  # classes go by such names too
        members.sort(key=lambda target: isinstance(target, type))
    if members:
        _check_registered(config, name)
        return members[0]
    if family is not None:
        return family.find(name)
    custom = registered_as(name)
    if custom is not None:
        return custom
    kind = "function" if config["class_name"] == "function" else "class"
    raise ConfigError(
        f"the config names the {kind} {name!r}, which nobody registered; pass it in "
        "custom_objects, or decorate it with register_keras_serializable()"
    )


def _families(config: dict[str, Any], family: Registry | None) -> list[Registry]:
    """Where to look a name up: first in what the config calls its module."""
    if family is not None:
        others = FAMILIES.values() if config["class_name"] == "function" else ()
        return [family, *(each for each in others if each is not family)]
    module = config.get("module")
    if module is not None and str(module).split(".")[0] not in ("keras", "builtins", "trainkit"):
        return []
    named = [FAMILIES[part] for part in reversed(str(module).split(".")) if part in FAMILIES]
    return [*named, *(each for each in FAMILIES.values() if each not in named)]


def _check_registered(config: dict[str, Any], name: str) -> None:
    said = config.get("registered_name")
    if said and said not in (name, config["class_name"]):
        raise ConfigError(
            f"the config calls {name!r}, which is built in, by the registered name {said!r}; "
            "nobody has registered that"
        )


def _instance(kind: Any, config: dict[str, Any]) -> Any:
    settings = config.get("config") or {}
    from_config = getattr(kind, "from_config", None)
    if from_config is None:
        raise ConfigError(f"the class {kind.__name__} can't be read: it has no from_config method")
    with config_scope():
        return _make(kind, config, settings, from_config)


def _make(kind: Any, config: dict[str, Any], settings: Any, from_config: Any) -> Any:
    try:
        instance = from_config(dict(settings))
    except ConfigError:
        raise
    except TypeError as error:
        raise ConfigError(
            f"{kind.__name__} can't be made from its config: {error}. Objects that get_config "
            "gives arrive in from_config as dicts; from_config has to read these with "
            f"deserialize_keras_object. The config: {str(settings)[:500]}"
        ) from error
    build_config = config.get("build_config")
    if build_config and not getattr(instance, "built", True):
        instance.build_from_config(build_config)
    # its constructor may have built it, or a build_from_config of its own
    if build_config and getattr(instance, "built", False) and hasattr(instance, "_restore_built"):
        instance._restore_built(build_config)
    if config.get("compile_config"):
        instance.compile_from_config(config["compile_config"])
    return instance
