"""`tk.nest`: nested lists, tuples, dicts, and attrs classes; a dataclass is one value."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from trainkit.core import nest as _nest
from trainkit.tf.left_out import explain_unknown_names as _explain_unknown_names

if TYPE_CHECKING:
    from trainkit.core.values.type_aliases import Leaf

K = TypeVar("K")
R = TypeVar("R")
LeafT = TypeVar("LeafT", bound="Leaf")


def _container(x: Any) -> _nest.Container | None:
    return None if _nest.is_record(x) else _nest.container(x)


def is_nested(seq: Any) -> bool:
    """Whether it holds other values.

    Args:
        seq: any value.

    Example:
        >>> tk.nest.is_nested([1]), tk.nest.is_nested(1)
        (True, False)
    """
    return _container(seq) is not None


def flatten(structure: Any, expand_composites: bool = False) -> list[Any]:
    """All leaves in order; dicts by their sorted keys.

    Args:
        structure: nest.
        expand_composites: no value here is made of others.

    Example:
        >>> tk.nest.flatten({"b": [1, 2], "a": 3})
        [3, 1, 2]
    """
    return _nest.flatten(structure, _container)


@overload
def map_structure(
    func: Callable[..., R], structure: list[LeafT], /, *structures: Any, **kwargs: Any
) -> list[R]: ...
@overload
def map_structure(
    func: Callable[..., R], structure: dict[K, LeafT], /, *structures: Any, **kwargs: Any
) -> dict[K, R]: ...
@overload
def map_structure(
    func: Callable[..., R], structure: tuple[Leaf, ...], /, *structures: Any, **kwargs: Any
) -> tuple[R, ...]: ...
@overload
def map_structure(
    func: Callable[..., R], structure: Leaf, /, *structures: Any, **kwargs: Any
) -> R: ...
@overload
def map_structure(func: Callable[..., Any], *structures: Any, **kwargs: Any) -> Any: ...
def map_structure(func: Callable[..., Any], *structure: Any, **kwargs: Any) -> Any:
    """The structure with `func` applied to each leaf, or to the leaves of several ones together.

    Args:
        func: function of as many leaves as there are structures.
        *structure: the structures.
        **kwargs: `check_types`, as in `assert_same_structure`, and `expand_composites`.

    Raises:
        TypeError: `func` can't be called, or kinds of containers differ.
        ValueError: an unknown keyword argument, no structure, or the structures differ.

    Example:
        >>> tk.nest.map_structure(lambda x: x * 2, {"a": 1, "b": (2, 3)})
        {'a': 2, 'b': (4, 6)}
    """
    unknown = set(kwargs) - {"check_types", "expand_composites"}
    if unknown:
        raise ValueError(
            f"map_structure: unknown arguments {sorted(unknown)}; it takes check_types and "
            "expand_composites"
        )
    if not structure:
        raise ValueError("map_structure: give a structure after the function, or several")
    if not callable(func):
        raise TypeError(f"map_structure: {func!r} can't be called")
    for other in structure[1:]:
        assert_same_structure(structure[0], other, kwargs.get("check_types", True))
    rows = zip(*(_nest.flatten(x, _container) for x in structure), strict=True)
    return _nest.pack(structure[0], [func(*row) for row in rows], _container)


def pack_sequence_as(
    structure: Any, flat_sequence: Iterable[Any], expand_composites: bool = False
) -> Any:
    """`structure` with its leaves replaced.

    Args:
        structure: nest.
        flat_sequence: as many leaves as it has.
        expand_composites: no value here is made of others.

    Raises:
        TypeError: `flat_sequence` is none.
        ValueError: it has another number of items.

    Example:
        >>> tk.nest.pack_sequence_as({"a": 0, "b": [0, 0]}, [1, 2, 3])
        {'a': 1, 'b': [2, 3]}
    """
    if not isinstance(flat_sequence, Iterable):
        raise TypeError(f"pack_sequence_as: needs a list of leaves, given is {flat_sequence!r}")
    return _nest.pack(structure, list(flat_sequence), _container)


def assert_same_structure(
    nest1: Any, nest2: Any, check_types: bool = True, expand_composites: bool = False
) -> None:
    """Check that both nests have one structure.

    Args:
        nest1: a nest.
        nest2: another.
        check_types: kinds of containers and keys of dicts count too; mappings are of one kind.
        expand_composites: no value here is made of others.

    Raises:
        ValueError: numbers of items, keys or depths differ.
        TypeError: kinds of containers differ.

    Example:
        >>> tk.nest.assert_same_structure([1, {"a": 2}], [3, {"a": 4}])
    """
    text = f"the structures differ: {nest1!r} and {nest2!r}"
    if not _nest.same_counts(nest1, nest2, _container):
        raise ValueError(text)
    if check_types and not _nest.same_structure(nest1, nest2, _container):
        alike = _same_but_kinds(nest1, nest2)
        raise TypeError(f"{text}, in kinds of containers") if alike else ValueError(text)


def _same_but_kinds(a: Any, b: Any) -> bool:
    """Whether only kinds of containers differ, no keys."""
    mine, yours = _container(a), _container(b)
    if mine is None or yours is None:
        return True
    if mine.family is yours.family is dict and set(a) != set(b):
        return False
    pairs = zip(mine.children(a), yours.children(b), strict=True)
    return all(_same_but_kinds(x, y) for x, y in pairs)


_explain_unknown_names("nest", globals())
