"""`keras.tree`: nested lists, tuples, deques and dicts, by the rules `nest.KERAS`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar, overload

from trainkit.core import nest
from trainkit.core.nest import KERAS
from trainkit.core.values.type_aliases import Leaf

K = TypeVar("K")
R = TypeVar("R")
LeafT = TypeVar("LeafT", bound="Leaf")


class MAP_TO_NONE:
    """What a function given to `traverse` returns to put `None` in a place.

    Returning `None` itself means that the place stays as it is.
    """


def is_nested(structure: Any) -> bool:
    """Whether `structure` is a list, tuple, deque or dict, of which others may be made.

    >>> is_nested([]), is_nested("text"), is_nested({1, 2})
    (True, False, False)
    """
    return KERAS.look(structure) is not None


def flatten(structure: Any) -> list[Any]:
    """All leaves, in order; plain dicts by their sorted keys, `OrderedDict`s as they are.

    >>> flatten({"b": [1, 2], "a": (3,)})
    [3, 1, 2]
    """
    return nest.flatten(structure, KERAS.look)


def flatten_with_path(structure: Any) -> list[tuple[tuple[Any, ...], Any]]:
    """Pairs (path, leaf) in the order of `flatten`; a path holds keys and positions.

    >>> flatten_with_path([{"foo": 42}])
    [((0, 'foo'), 42)]
    """
    return nest.flatten_with_path(structure, KERAS.look)


def _check_callable(func: Any, where: str) -> None:
    if not callable(func):
        raise TypeError(f"{where}: func must be callable, got {func!r}")


@overload
def map_structure(
    func: Callable[..., R], structure: list[LeafT], /, *structures: Any, none_is_leaf: bool = True
) -> list[R]: ...
@overload
def map_structure(
    func: Callable[..., R],
    structure: dict[K, LeafT],
    /,
    *structures: Any,
    none_is_leaf: bool = True,
) -> dict[K, R]: ...
@overload
def map_structure(
    func: Callable[..., R],
    structure: tuple[Leaf, ...],
    /,
    *structures: Any,
    none_is_leaf: bool = True,
) -> tuple[R, ...]: ...
@overload
def map_structure(
    func: Callable[..., R], structure: Leaf, /, *structures: Any, none_is_leaf: bool = True
) -> R: ...
@overload
def map_structure(func: Callable[..., Any], *structures: Any, none_is_leaf: bool = True) -> Any: ...
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

    def of_leaves(first: Any, *others: Any) -> Any:
        for other in others:
            if is_nested(other) or (first is None is not other and not none_is_leaf):
                raise ValueError(KERAS.error.format(first, other))
        return None if first is None and not none_is_leaf else func(first, *others)

    return nest.map_beside(of_leaves, structures[0], structures[1:], KERAS)


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
    return nest.map_beside(lambda _, *parts: func(*parts), shallow_structure, structures, KERAS)


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
    container = KERAS.look(structure)
    if replacement is None and container is not None:
        children = [_traverse(func, child, top_down) for child in container.children(structure)]
        structure = container.like(structure, children)
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
    return nest.pack(structure, list(flat_sequence), KERAS.look)


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
    map_structure(lambda *_: None, a, b)


def assert_same_paths(a: Any, b: Any) -> None:
    """Check that two structures have leaves at the same paths, whatever their containers are.

    Raises:
        ValueError: they differ; the paths are named.

    Example:
        >>> tk.keras.tree.assert_same_paths([1, {"a": 2}], (3, {"a": 4}))
    """
    of_a, of_b = ([path for path, _ in flatten_with_path(s)] for s in (a, b))
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


def map_shape_structure(func: Callable[[Any], Any], structure: Any) -> Any:
    """`map_structure` for which lists and tuples of ints and `None`s are leaves.

    >>> map_shape_structure(len, {"a": (None, 3), "b": [(1,), (2, 3)]})
    {'a': 2, 'b': [1, 2]}
    """
    _check_callable(func, "map_shape_structure")
    leaves = [func(leaf) for leaf in nest.flatten(structure, _above_shapes)]
    return nest.pack(structure, leaves, _above_shapes)


def _above_shapes(x: Any) -> nest.Container | None:
    is_shape = isinstance(x, list | tuple) and all(isinstance(n, int | None) for n in x)
    return None if is_shape else KERAS.look(x)
