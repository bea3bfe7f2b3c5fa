"""Values as TensorFlow's `print` shows them."""

from __future__ import annotations

import pprint
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from trainkit.core import nest


def array_text(x: Any, summarize: int = 3) -> str:
    """A tensor's value as TensorFlow's `print` shows it: rows in brackets, texts in quotes.

    Args:
        x: array.
        summarize: how many first and last items of each axis are shown; -1 shows all.
    """
    array = _quoted_texts(np.asarray(x))
    # As in TensorFlow, an empty tensor of two or more axes shows none of its rows, but dots.
    return _rows_text(array, array.size if summarize < 0 else min(summarize, array.size), 0)


def structure_text(part: Any, hole: Any, texts: Iterator[str]) -> str:
    """A text as it is, another structure as `pprint` shows it, with `texts` in its holes.

    Args:
        part: nest of Python values.
        hole: what stands for a tensor in it.
        texts: of the tensors, in the order of traversal; as many as there are holes are taken.
    """
    if isinstance(part, str):
        return part
    markers: list[_Marker] = []

    def marked(x: Any) -> Any:
        if x is not hole:
            return x
        markers.append(_Marker(len(markers)))
        return markers[-1]

    template = pprint.pformat(nest.map_structure(marked, part))
    values = [next(texts) for _ in markers]
    return _MARKED.sub(lambda match: values[ord(match[1]) - _FIRST_MARK], template)


_FIRST_MARK = 0x100000
"""The first of the characters, for private use, that number the tensors of a structure."""
_MARKED = re.compile("\0\0\0(.)")


class _Marker:
    """The place of a tensor in a structure: four columns wide, as TensorFlow's `'{}'`."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __repr__(self) -> str:
        return "\0\0\0" + chr(_FIRST_MARK + self.number)


def is_single_text(x: Any) -> bool:
    """Whether `x` is the array of a string tensor without axes."""
    return isinstance(x, np.ndarray) and x.ndim == 0 and x.dtype.kind in "OS"


def _quoted_texts(x: Any) -> Any:
    """The texts of an array in quotation marks; numbers as they are."""
    if x.dtype.kind not in "OS":
        return x
    quoted = np.empty(x.shape, object)
    for index, item in np.ndenumerate(x):
        quoted[index] = b'"' + item + b'"'
    return quoted


def _number_text(x: Any) -> str:
    if isinstance(x, bytes):
        return x.decode(errors="replace")
    if isinstance(x, bool | np.bool_):
        return "1" if x else "0"
    if isinstance(x, int | np.integer):
        return str(int(x))
    if isinstance(x, complex | np.complexfloating):
        return f"({_number_text(x.real)},{_number_text(x.imag)})"
    # As many digits as any number of the type has for certain, or all that it takes to read it.
    is_double, value = x.dtype == np.float64, float(x)
    short = f"{value:{'.15g' if is_double else '.6g'}}"
    restored = float(short) if is_double else float(np.float32(short))
    return short if restored == value else f"{value:{'.17g' if is_double else '.9g'}}"


def _rows_text(x: Any, ends: int, depth: int) -> str:
    """The items of an array, of which `ends` are shown at either end of each axis.

    Args:
        x: array.
        ends: 0 or more.
        depth: how many brackets are open before the array's own.
    """
    if x.ndim == 0:
        return _number_text(x[()]) if ends else "..."
    count = len(x)
    rows = list(x) if count <= 2 * ends else [*x[:ends], *x[count - ends :]]
    items = [_rows_text(np.asarray(row), ends, depth + 1) for row in rows]
    # A row lies below the first, behind as many brackets; blank lines part those of more axes.
    joint = " " if x.ndim == 1 else "\n" * (x.ndim - 1) + " " * (depth + 1)
    if count > 2 * ends:
        items.insert(ends, "..." if ends else joint + "...")
    return "[" + joint.join(items) + "]"
