"""`get_config` by itself: the arguments of `__init__` and what became of them."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

from trainkit.core.registry import serialize_object

# These come from Layer.get_config in a form of their own.
_BASE = {"name", "trainable", "dtype", "activity_regularizer", "autocast", "weights"}


@cache
def _parameters(kind: Any) -> tuple[tuple[str, bool], ...]:
    """Name of each `__init__` parameter and whether this package wrote it, bases included."""
    found: dict[str, bool] = {}
    for base in kind.__mro__:
        init = base.__dict__.get("__init__")
        if init is None:
            continue
        parameters = list(inspect.signature(init).parameters.values())[1:]
        ours = base.__module__.startswith("trainkit.")
        for p in parameters:
            if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY):
                found.setdefault(p.name, ours)
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
    return tuple(found.items())


def arguments_of(target: Any, given: tuple[tuple[Any, ...], dict[str, Any]]) -> dict[str, Any]:
    """What to call the class of `target` with to get its like.

    Args:
        target: an object; the classes of this package keep each argument as the attribute of that
            name.
        given: the positional and keyword arguments that it was made with; these count for classes
            of users, whose attributes may mean something else.

    Raises:
        TypeError: an argument can't be put into a config.
    """
    try:
        bound: dict[str, Any] = (
            inspect.signature(type(target).__init__).bind(None, *given[0], **given[1]).arguments
        )
    except TypeError:
        bound = {}
    bound = {**bound, **bound.get("kwargs", {})}
    config: dict[str, Any] = {}
    kind: Any = type(target)
    for name, ours in _parameters(kind):
        if name in _BASE:
            continue
        if ours and hasattr(target, name):
            config[name] = serialize_object(getattr(target, name))
        elif name in bound:
            config[name] = serialize_object(bound[name])
    return config
