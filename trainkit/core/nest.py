"""Map over and flatten nested lists, tuples and dicts.

Dicts are walked in the order of their sorted keys, as TensorFlow does; named tuples and dict
subclasses keep their type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_SEQUENCES, _NESTS = (list, tuple), (list, tuple, dict)


def is_nested(x: Any) -> bool:
    """Whether `x` is a list, tuple or dict."""
    return isinstance(x, list | tuple | dict)


def sorted_keys(x: dict[Any, Any]) -> list[Any]:
    """The keys in the order in which a dict is walked."""
    try:
        return sorted(x)
    except TypeError:
        return sorted(x, key=str)


def flatten(x: Any) -> list[Any]:
    """All leaves of `x`, in order.

    >>> flatten({"b": [1, 2], "a": (3,)})
    [3, 1, 2]
    """
    if isinstance(x, dict):
        return [leaf for key in sorted_keys(x) for leaf in flatten(x[key])]
    if not isinstance(x, _SEQUENCES):
        return [x]
    leaves: list[Any] = []
    for item in x:
        if isinstance(item, _NESTS):
            leaves += flatten(item)
        else:
            leaves.append(item)
    return leaves


def like(x: Any, items: list[Any]) -> Any:
    """A list, tuple or named tuple of the kind of `x` that holds `items`."""
    if hasattr(x, "_fields"):
        return type(x)(*items)
    return tuple(items) if isinstance(x, tuple) else list(items)


def map_structure(fn: Callable[..., Any], x: Any, *others: Any) -> Any:
    """The structure of `x` with `fn` applied to each leaf, together with those of `others`.

    Raises:
        ValueError: the structures differ.

    >>> map_structure(lambda a: a + 1, {"a": [1, 2]})
    {'a': [2, 3]}
    """
    if isinstance(x, dict):
        for other in others:
            if not isinstance(other, dict) or set(other) != set(x):
                raise ValueError(f"structures differ: {x!r} and {other!r}")
        return {k: map_structure(fn, v, *(o[k] for o in others)) for k, v in x.items()}
    if isinstance(x, list | tuple):
        for other in others:
            if not isinstance(other, list | tuple) or len(other) != len(x):
                raise ValueError(f"structures differ: {x!r} and {other!r}")
        parts = [map_structure(fn, *items) for items in zip(x, *others, strict=True)]
        return like(x, parts)
    return fn(x, *others)


def pack(structure: Any, leaves: list[Any]) -> Any:
    """`structure` with its leaves replaced by `leaves`, in the order of `flatten`.

    Raises:
        ValueError: the number of leaves differs.

    >>> pack({"b": 0, "a": (0,)}, [1, 2])
    {'b': 2, 'a': (1,)}
    """
    if type(structure) is list and not any(isinstance(item, _NESTS) for item in structure):
        count = len(structure)
        if count == len(leaves):
            return leaves[:]
    else:
        count = len(flatten(structure))
    if count != len(leaves):
        raise ValueError(f"the structure has {count} leaves, {len(leaves)} were given")
    return _pack(structure, iter(leaves))


def _pack(structure: Any, leaves: Any) -> Any:
    if isinstance(structure, dict):
        packed = {key: _pack(structure[key], leaves) for key in sorted_keys(structure)}
        return {key: packed[key] for key in structure}
    if isinstance(structure, list | tuple):
        return like(structure, [_pack(item, leaves) for item in structure])
    return next(leaves)
