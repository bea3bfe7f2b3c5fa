"""How Keras calls operations in the configs of functional models: class, settings, arguments."""

from __future__ import annotations

from typing import Any

from trainkit.layers.base.operation_configs.classes import CLASSES
from trainkit.layers.base.operation_configs.keras_rules import (
    RULES,
    RULES_OF_ARGUMENTS,
    Specs,
    Written,
    same,
)

_RENAMED = {"reshape": {"shape": "newshape"}}
_SILENT = {"argmax": {"dtype": "int32"}, "argmin": {"dtype": "int32"}}
_LISTED = ("concatenate", "stack")


def as_keras(primitive: str, settings: dict[str, Any], specs: Specs | None) -> Written | None:
    """How Keras calls an operation; `None` for one that it calls otherwise, or has not.

    Args:
        primitive: the name of the operation.
        settings: its settings by keyword.
        specs: of its arguments; `None` for an operation that has not been called.
    """
    if primitive in RULES_OF_ARGUMENTS:
        written = None if specs is None else RULES_OF_ARGUMENTS[primitive](settings, specs)
    elif primitive in RULES:
        written = RULES[primitive](settings)
    else:
        written = _named(primitive, settings)
    if written is None:
        return None
    # A setting that JSON can't hold, such as a slice, has no form in Keras's config; the operation
    # is then written as one of this package, which marks such values.
    listed = {name: _list(value) for name, value in written.settings.items()}
    return written._replace(settings=listed) if _is_plain(list(listed.values())) else None


def _named(primitive: str, settings: dict[str, Any]) -> Written | None:
    """An operation whose class in Keras takes the same settings."""
    if primitive not in CLASSES:
        return None
    module, kind = CLASSES[primitive]
    if primitive == "get_item":
        key = _key(settings["key"])
        return None if key is None else Written(module, kind, {}, lambda args: (*args, key))
    silent = _SILENT.get(primitive, {})
    # Keras's class does not take these; with its own value it gives the same, with others not.
    if any(settings.get(name, value) != value for name, value in silent.items()):
        return None
    renamed = _RENAMED.get(primitive, {})
    config = {renamed.get(n, n): value for n, value in settings.items() if n not in silent}
    return Written(
        module, kind, config, (lambda args: (list(args),)) if primitive in _LISTED else same
    )


def _list(value: Any) -> Any:
    return [_list(item) for item in value] if isinstance(value, tuple) else value


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(_is_plain(item) for item in value)
    return value is None or isinstance(value, bool | int | float | str)


def _key(key: Any) -> list[Any] | None:
    """The positions of `get_item` as Keras has them; `None` if some are of another kind."""
    positions: list[Any] = []
    for item in key if isinstance(key, tuple) else (key,):
        # A slice is held as a tuple, as slices can't be keys before Python 3.12.
        if isinstance(item, tuple) and len(item) == 3 and _is_plain(list(item)):
            positions.append(slice(*item))
        elif item in (None, Ellipsis) or (isinstance(item, int) and not isinstance(item, bool)):
            positions.append(item)
        elif item == "...":
            positions.append(Ellipsis)
        else:
            return None
    return positions
