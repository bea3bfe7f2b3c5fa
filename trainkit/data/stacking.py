"""Operations on a stack of elements that give the stack of what they give on each.

Element-wise operations do so by themselves. Here are those that move, name or reduce axes: what
they have to be told for a stack, whose first axis counts elements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.core.tensor import PRIMITIVES

Settings = dict[str, Any]


class NotVectorizable(Exception):
    """The function has to be called element by element."""


def _shifted(axis: Any, rank: int) -> Any:
    """Axes of an element as axes of a stack."""
    if axis is None:
        return tuple(range(1, rank + 1))
    if isinstance(axis, int):
        return axis % rank + 1
    return tuple(a % rank + 1 for a in axis)


def _one_axis(axis: Any, rank: int) -> int:
    """One axis of an element as an axis of a stack."""
    if axis is None:
        raise NotVectorizable("a position in the whole element")
    return int(axis) % rank + 1


def _trailing(axis: Any, rank: int) -> Any:
    """Axes to sum over: the last ones, whose numbers lie side by side in a stack too.

    Then they are added up in the same order.
    """
    shifted = _shifted(axis, rank)
    axes = (shifted,) if isinstance(shifted, int) else shifted
    if sorted(axes) != list(range(rank + 1 - len(axes), rank + 1)):
        raise NotVectorizable("a sum over other axes than the last")
    return shifted


def _tiled(repeats: Any, rank: int) -> tuple[int, ...]:
    """How often each axis of an element is repeated, one number per axis."""
    if len(repeats) > rank:
        raise NotVectorizable("tile that adds axes")
    return (*(1,) * (rank - len(repeats)), *repeats)


def _transposed(axes: Any, rank: int) -> tuple[int, ...]:
    order = range(rank)[::-1] if axes is None else axes
    return (0, *(a % rank + 1 for a in order))


# For each operation that moves or names axes: its settings for a stack of `n` elements, from those
# for one element with the given rank of the (first) input.
AXES: dict[str, Callable[[int, int, dict[str, Any]], dict[str, Any]]] = {
    "identity": lambda n, rank, s: s,
    "reshape": lambda n, rank, s: {"shape": (n, *s["shape"])},
    "expand_dims": lambda n, rank, s: {"axis": _shifted(s["axis"], rank + len(s["axis"]))},
    "squeeze": lambda n, rank, s: {"axis": _shifted(s["axis"], rank)},
    "transpose": lambda n, rank, s: {"axes": _transposed(s.get("axes"), rank)},
    "flip": lambda n, rank, s: {"axis": _shifted(s["axis"], rank)},
    "stack": lambda n, rank, s: {"axis": _shifted(s["axis"], rank + 1)},
    "concatenate": lambda n, rank, s: {"axis": _shifted(s["axis"], rank)},
    "one_hot": lambda n, rank, s: {**s, "axis": _shifted(s["axis"], rank + 1)},
    "pad": lambda n, rank, s: {**s, "pad_width": ((0, 0), *s["pad_width"])},
    "get_item": lambda n, rank, s: {"key": ((None, None, None), *s["key"])},
    "tile": lambda n, rank, s: {"repeats": (1, *_tiled(s["repeats"], rank))},
    "max": lambda n, rank, s: {**s, "axis": _shifted(s["axis"], rank)},
    "min": lambda n, rank, s: {**s, "axis": _shifted(s["axis"], rank)},
    "all": lambda n, rank, s: {**s, "axis": _shifted(s["axis"], rank)},
    "any": lambda n, rank, s: {**s, "axis": _shifted(s["axis"], rank)},
    "argmax": lambda n, rank, s: {**s, "axis": _one_axis(s["axis"], rank)},
    "argmin": lambda n, rank, s: {**s, "axis": _one_axis(s["axis"], rank)},
    "sum": lambda n, rank, s: {**s, "axis": _trailing(s["axis"], rank)},
    "mean": lambda n, rank, s: {**s, "axis": _trailing(s["axis"], rank)},
    "var": lambda n, rank, s: {**s, "axis": _trailing(s["axis"], rank)},
    "take": lambda n, rank, s: s,
}

SUMS = ("sum", "mean", "var")
"""Operations that add up numbers of an element."""


def taken_from_table(table: Any, settings: Settings) -> Callable[[Any], Any]:
    """`take` from a table that is the same for all elements, at a stack of positions.

    Raises:
        NotVectorizable: it picks along another axis than the first.
    """
    if settings["axis"] % max(table.ndim, 1):
        raise NotVectorizable("take along a later axis of a table")
    kernel = PRIMITIVES["take"].kernel
    return lambda picks: kernel(np, table, picks, **settings)


def taken(picks: Any, rank: int, settings: Settings) -> Callable[[Any], Any]:
    """`take` of the same positions from each element of a stack."""
    kernel = PRIMITIVES["take"].kernel
    more = {**settings, "axis": settings["axis"] % rank + 1}
    return lambda stack: kernel(np, stack, picks, **more)
