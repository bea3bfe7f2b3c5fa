"""`tk.nest`: nested lists, tuples and dicts."""

from typing import Any

from trainkit.core.nest import flatten as _flatten
from trainkit.core.nest import is_nested as is_nested
from trainkit.core.nest import map_structure as _map_structure
from trainkit.core.nest import pack


def flatten(structure: Any, expand_composites: bool = False) -> list[Any]:
    """All leaves in order; dicts by their sorted keys."""
    return _flatten(structure)


def map_structure(func: Any, *structure: Any, **kwargs: Any) -> Any:
    """The structure with `func` applied to each leaf, or to the leaves of several ones together.

    Raises:
        TypeError: an unknown keyword argument, or no structure.
        ValueError: the structures differ.
    """
    unknown = set(kwargs) - {"check_types", "expand_composites"}
    if unknown or not structure:
        raise TypeError(f"map_structure: unknown arguments {sorted(unknown)}, or no structure")
    return _map_structure(func, *structure)


def pack_sequence_as(structure: Any, flat_sequence: Any, expand_composites: bool = False) -> Any:
    """`structure` with its leaves replaced."""
    return pack(structure, list(flat_sequence))


def assert_same_structure(nest1: Any, nest2: Any, check_types: bool = True) -> None:
    """Raise `ValueError` unless both nests have one structure."""
    _map_structure(lambda a, b: None, nest1, nest2)
