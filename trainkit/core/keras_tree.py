"""Keras's nests: what `keras.tree` does to lists, tuples, deques and dicts of all kinds.

They differ from TensorFlow's (`nest`) in that an `OrderedDict` is traversed in its own order, plain
dicts and `defaultdict`s in that of their sorted keys, deques are nests, and containers must be of
one type to match.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from typing import Any

from trainkit.core.nest import sorted_keys
from trainkit.core.trackable import Trackable

_SEQUENCES = (list, tuple, deque)
_DIFFERS = "the structures are not nested in the same way: {} beside {}"


class MAP_TO_NONE:
    """What a function given to `traverse` returns to put `None` in a place.

    Returning `None` itself means that the place stays as it is.
    """


def _keys(structure: Any) -> list[Any]:
    """The keys or positions of the children, in order."""
    if isinstance(structure, OrderedDict):
        return list(structure)
    if isinstance(structure, dict):
        return sorted_keys(structure)
    return list(range(len(structure)))


def _rebuilt(structure: Any, keys: list[Any], children: list[Any]) -> Any:
    """A container like `structure`, its keys in the order that they had, with new children."""
    if isinstance(structure, dict):
        child_of = dict(zip(keys, children, strict=True))
        items = [(key, child_of[key]) for key in structure]
        if isinstance(structure, defaultdict):
            return type(structure)(structure.default_factory, items)
        return type(structure)(items)
    if isinstance(structure, deque):
        return type(structure)(children, structure.maxlen)
    return (
        type(structure)(*children) if hasattr(structure, "_fields") else type(structure)(children)
    )


def is_nested(structure: Any) -> bool:
    """Whether `structure` is a list, tuple, deque or dict, of which others may be made.

    >>> is_nested([]), is_nested("text"), is_nested({1, 2})
    (True, False, False)
    """
    return isinstance(structure, (*_SEQUENCES, dict))


def _leaves_by_path(structure: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if not is_nested(structure):
        yield path, structure
        return
    for key in _keys(structure):
        yield from _leaves_by_path(structure[key], (*path, key))


def flatten(structure: Any) -> list[Any]:
    """All leaves, in order; plain dicts by their sorted keys, `OrderedDict`s as they are.

    >>> flatten({"b": [1, 2], "a": (3,)})
    [3, 1, 2]
    """
    return [leaf for _, leaf in _leaves_by_path(structure, ())]


def flatten_with_path(structure: Any) -> list[tuple[tuple[Any, ...], Any]]:
    """Pairs (path, leaf) in the order of `flatten`; a path holds keys and positions.

    >>> flatten_with_path([{"foo": 42}])
    [((0, 'foo'), 42)]
    """
    return list(_leaves_by_path(structure, ()))


def _same_kind(a: Any, b: Any) -> bool:
    """Whether two nests are of one kind, with the same keys or as many children."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys()
    return _kind(a) is _kind(b) and len(a) == len(b)


def _kind(x: Any) -> type:
    """The type of a nest; that of a plain one for the containers that objects keep."""
    if isinstance(x, Trackable):
        return list if isinstance(x, list) else tuple
    return type(x)


def _check_one(structures: tuple[Any, ...]) -> bool:
    """Whether all are nests of one kind, `False` if all are leaves.

    Raises:
        ValueError: some are and some are not, or they are of different kinds.
    """
    first, *others = structures
    if is_nested(first):
        for other in others:
            if not (is_nested(other) and _same_kind(first, other)):
                raise ValueError(_DIFFERS.format(repr(first), repr(other)))
        return True
    for other in others:
        if is_nested(other):
            raise ValueError(_DIFFERS.format(repr(first), repr(other)))
    return False


def _check_callable(func: Any, where: str) -> None:
    if not callable(func):
        raise TypeError(f"{where}: func must be callable, got {func!r}")


def map_structure(func: Callable[..., Any], *structures: Any, none_is_leaf: bool = True) -> Any:
    """The structure with `func` applied to each leaf, together with those of further structures.

    Args:
        func: takes a leaf of each structure.
        *structures: nests of one kind.
        none_is_leaf: whether `func` is called for `None`; otherwise `None` stays.

    Returns:
        A nest like the first.

    Raises:
        TypeError: `func` can't be called.
        ValueError: there are no structures, or they differ.

    >>> map_structure(lambda a, b: a + b, {"x": [1, 2]}, {"x": [10, 20]})
    {'x': [11, 22]}
    """
    _check_callable(func, "map_structure")
    if not structures:
        raise ValueError("map_structure: give at least one structure")
    return _map(func, structures, none_is_leaf)


def _map(func: Callable[..., Any], structures: tuple[Any, ...], none_is_leaf: bool) -> Any:
    first = structures[0]
    if first is None and not none_is_leaf:
        if any(other is not None for other in structures):
            raise ValueError(_DIFFERS.format(None, repr(structures[1:])))
        return None
    if not _check_one(structures):
        return func(*structures)
    keys = _keys(first)
    children = [_map(func, tuple(s[key] for s in structures), none_is_leaf) for key in keys]
    return _rebuilt(first, keys, children)


def map_structure_up_to(shallow_structure: Any, func: Callable[..., Any], *structures: Any) -> Any:
    """`shallow_structure` with its leaves replaced by `func` of what stands there in `structures`.

    Args:
        shallow_structure: the nest down to whose leaves the others are followed.
        func: takes what each of `structures` holds at a place, nests too.
        *structures: nests at least as deep.

    Raises:
        TypeError: `func` can't be called.
        ValueError: there are no structures, or one is shallower or of another kind.

    >>> map_structure_up_to([None, None], len, [[1, 1], [2]])
    [2, 1]
    """
    _check_callable(func, "map_structure_up_to")
    if not structures:
        raise ValueError("map_structure_up_to: give at least one structure")
    return _map_up_to(shallow_structure, func, structures)


def _map_up_to(shallow: Any, func: Callable[..., Any], structures: tuple[Any, ...]) -> Any:
    if not is_nested(shallow):
        return func(*structures)
    for other in structures:
        if not (is_nested(other) and _same_kind(shallow, other)):
            raise ValueError(_DIFFERS.format(repr(shallow), repr(other)))
    keys = _keys(shallow)
    children = [_map_up_to(shallow[key], func, tuple(s[key] for s in structures)) for key in keys]
    return _rebuilt(shallow, keys, children)


def traverse(func: Callable[[Any], Any], structure: Any, top_down: bool = True) -> Any:
    """Visit each nest and leaf; what `func` gives for one takes its place unless it is `None`.

    Args:
        func: takes a nest or leaf; `MAP_TO_NONE` puts `None` there.
        structure: the nest.
        top_down: whether a nest comes before its children, which are not visited when it is
            replaced; otherwise it comes after them, with those that were replaced.

    Returns:
        A nest with the replacements.

    Raises:
        TypeError: `func` can't be called.

    >>> traverse(lambda x: len(x) if isinstance(x, tuple) else None, [(1, 2), {"a": (3,)}])
    [2, {'a': 1}]
    """
    _check_callable(func, "traverse")
    return _traverse(func, structure, top_down)


def _traverse(func: Callable[[Any], Any], structure: Any, top_down: bool) -> Any:
    replacement = func(structure) if top_down else None
    if replacement is None and is_nested(structure):
        keys = _keys(structure)
        children = [_traverse(func, structure[key], top_down) for key in keys]
        structure = _rebuilt(structure, keys, children)
    if not top_down:
        replacement = func(structure)
    if replacement is None:
        return structure
    return None if replacement is MAP_TO_NONE else replacement


def pack_sequence_as(structure: Any, flat_sequence: Any) -> Any:
    """`structure` with its leaves replaced by those of `flat_sequence`, in the order of `flatten`.

    Raises:
        TypeError: `flat_sequence` can't be iterated.
        ValueError: it has another number of leaves.

    >>> pack_sequence_as({"b": 0, "a": (0,)}, [1, 2])
    {'b': 2, 'a': (1,)}
    """
    leaves, count = list(flat_sequence), len(flatten(structure))
    if len(leaves) != count:
        raise ValueError(f"the structure has {count} leaves, {len(leaves)} were given")
    live = iter(leaves)
    return _map(lambda _: next(live), (structure,), True)


def assert_same_structure(a: Any, b: Any, check_types: bool | None = None) -> None:
    """Check that two structures are nested in the same way, in containers of one kind.

    Dicts of all kinds are one kind, all others are one each.

    Args:
        a: a nest.
        b: another.
        check_types: without effect, deprecated; `assert_same_paths` compares loosely.

    Raises:
        ValueError: they differ.

    Example:
        >>> tk.keras.tree.assert_same_structure([1, {"a": 2}], [3, {"a": 4}])
    """
    if check_types is not None:
        warnings.warn(
            "assert_same_structure: check_types has no effect; leave it out, or use "
            "assert_same_paths, for which sequences of all kinds are one",
            DeprecationWarning,
            stacklevel=2,
        )
    _map(lambda *_: None, (a, b), True)


def assert_same_paths(a: Any, b: Any) -> None:
    """Check that two structures have leaves at the same paths, whatever their containers are.

    Raises:
        ValueError: they differ; the paths are named.

    Example:
        >>> tk.keras.tree.assert_same_paths([1, {"a": 2}], (3, {"a": 4}))
    """
    of_a, of_b = ([path for path, _ in _leaves_by_path(s, ())] for s in (a, b))
    only_a, only_b = [p for p in of_a if p not in of_b], [p for p in of_b if p not in of_a]
    if only_a or only_b:
        raise ValueError(
            f"the structures have other paths: the first alone has {only_a}, the second alone "
            f"{only_b}"
        )


def lists_to_tuples(structure: Any) -> Any:
    """The structure with tuples in place of lists.

    >>> lists_to_tuples({"a": [1, [2]]})
    {'a': (1, (2,))}
    """
    return traverse(lambda x: tuple(x) if isinstance(x, list) else None, structure, top_down=False)


def _is_shape(x: Any) -> bool:
    return isinstance(x, list | tuple) and all(isinstance(n, int | None) for n in x)


def map_shape_structure(func: Callable[[Any], Any], structure: Any) -> Any:
    """`map_structure` for which lists and tuples of ints and `None`s are leaves.

    >>> map_shape_structure(len, {"a": (None, 3), "b": [(1,), (2, 3)]})
    {'a': 2, 'b': [1, 2]}
    """
    _check_callable(func, "map_shape_structure")
    if _is_shape(structure) or not is_nested(structure):
        return func(structure)
    keys = _keys(structure)
    return _rebuilt(structure, keys, [map_shape_structure(func, structure[key]) for key in keys])
