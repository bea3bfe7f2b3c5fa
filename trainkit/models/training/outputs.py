"""Nests beside nests: targets, weights, losses and metrics as a model's outputs are nested."""

from __future__ import annotations

from typing import Any

from trainkit.core import nest

Path = tuple[Any, ...]


def paths(x: Any) -> list[Path]:
    """Where the leaves of `x` are, in the order of `nest.flatten`.

    >>> paths({"b": [1, 2], "a": 3})
    [('a',), ('b', 0), ('b', 1)]
    """
    return [path for path, _ in nest.flatten_with_path(x, _above_records)]


def _above_records(x: Any) -> nest.Container | None:
    return nest.container(x) if isinstance(x, dict | list | tuple) else None


def at(x: Any, path: Path) -> Any:
    """What `x` holds at `path`; `None` where a dict lacks the key or a part is `None`."""
    for key in path:
        if x is None:
            return None
        x = x.get(key) if isinstance(x, dict) else x[key]
    return x


def described(x: Any) -> str:
    """The nest with `*` for its leaves."""
    if isinstance(x, dict):
        return "{" + ", ".join(f"{key!r}: {described(x[key])}" for key in x) + "}"
    if isinstance(x, tuple):
        return "(" + ", ".join(map(described, x)) + ("," if len(x) == 1 else "") + ")"
    return "[" + ", ".join(map(described, x)) + "]" if isinstance(x, list) else "*"


def keys_of(y_pred: Any, names: list[str] | None) -> list[str] | None:
    """A name for each output that is no nest itself: the keys of a dict, or `names`."""
    if isinstance(y_pred, dict) and not any(nest.is_nested(y) for y in y_pred.values()):
        return [str(key) for key in nest.sorted_keys(y_pred)]
    return names


def aligned(value: Any, like: Any, names: list[str] | None, label: str) -> Any:
    """Targets or sample weights nested as the outputs `like` are; `None` where there are none.

    A dict may leave keys out. Tuples and lists are alike (what comes back has the types of `like`,
    as a loss of a whole nest may want to see), a flat list with as many items as there
    are outputs will do, and so will a dict by `names` for a list of outputs.

    Raises:
        ValueError: neither fits; the text shows both nests.
    """
    structure = _align(value, like, names)
    if structure is _UNLIKE:
        raise ValueError(
            f"{label} are not nested as the outputs are\n  {label}: {described(value)}\n"
            f"  outputs: {described(like)}"
            + (f"\n  names of the outputs: {', '.join(names)}" if names else "")
        )
    return structure


_UNLIKE = object()


def _align(value: Any, like: Any, names: list[str] | None) -> Any:
    if value is None:
        return None
    if not nest.is_nested(like):
        return _only(value)
    if isinstance(value, dict) and isinstance(like, dict):
        if set(value) <= set(like):
            keys = nest.sorted_keys(like)
            return _like(like, [_align(value.get(key), like[key], None) for key in keys])
    elif isinstance(value, dict):
        if names is not None and set(value) <= set(names) and len(names) == len(like):
            parts = [_align(value.get(n), y, None) for n, y in zip(names, like, strict=True)]
            return _like(like, parts)
    elif isinstance(value, list | tuple) and isinstance(like, list | tuple):
        if len(value) == len(like):
            parts = [_align(v, y, None) for v, y in zip(value, like, strict=True)]
            structure = _like(like, parts)
            if structure is not _UNLIKE:
                return structure
    return _flat(value, like)


def _only(value: Any) -> Any:
    leaves = nest.flatten(value)
    return leaves[0] if len(leaves) == 1 else _UNLIKE


def _flat(value: Any, like: Any) -> Any:
    leaves = nest.flatten(value)
    fits = len(leaves) == len(paths(like)) and not isinstance(value, dict)
    return nest.pack(like, leaves) if fits else _UNLIKE


def _like(model: Any, parts: list[Any]) -> Any:
    """`parts`, in the order of `nest.flatten`, in a container of the type of `model`."""
    return _UNLIKE if any(part is _UNLIKE for part in parts) else rebuilt(model, parts)


def rebuilt(model: Any, parts: list[Any]) -> Any:
    """`model` with other items, in the order in which a nest is flattened."""
    kind = nest.container(model)
    return parts if kind is None else kind.like(model, parts)


def unknown_key(container: str, key: Any, path: Path, keys: Any) -> KeyError:
    """The error for a part of `container` that the outputs do not have."""
    where = "".join(f"[{part!r}]" for part in (*path, key))
    return KeyError(f"{container}{where}: the outputs have no such part; there they are {keys}")
