"""What `repr` says of objects that are made from settings: the call that makes one like it."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import Any

from trainkit.core.values.python_signatures import signature_of

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60


def value_text(value: Any) -> str:
    """A setting on one line: a function by its name, what is long shortened."""
    name = getattr(value, "__name__", None)
    if callable(value) and isinstance(name, str):
        return name
    return " ".join(_SHORT.repr(value).split())


def call_text(kind: type, settings: Mapping[str, Any]) -> str:
    """Text such as `EarlyStopping(patience=3)`, without arguments that are at their defaults.

    Args:
        kind: the class.
        settings: values by the names of its constructor's arguments.
    """
    try:
        parameters = signature_of(kind.__init__).parameters  # type: ignore[misc]
    except (TypeError, ValueError):
        parameters = {}  # type: ignore[assignment]
    texts = []
    for name, value in settings.items():
        default = parameters[name].default if name in parameters else None
        if value is not default and not _are_equal(value, default):
            texts.append(f"{name}={value_text(value)}")
    return f"{kind.__name__}({', '.join(texts)})"


def _are_equal(a: Any, b: Any) -> bool:
    try:
        return type(a) is type(b) and bool(a == b)
    except Exception:  # arrays have no truth
        return False


def config_text(owner: Any) -> str:
    """`call_text` of an object with `get_config`; its class and address if that fails."""
    try:
        return call_text(type(owner), owner.get_config())
    except Exception:  # a user's class without one: what is asked of `repr` is a text
        return object.__repr__(owner)


def attributes_text(owner: Any) -> str:
    """`call_text` of an object whose arguments are kept as the attributes of their names."""
    try:
        names = list(signature_of(type(owner).__init__).parameters)[1:]
    except (TypeError, ValueError):
        names = []
    attributes = vars(owner)
    return call_text(type(owner), {name: attributes[name] for name in names if name in attributes})
