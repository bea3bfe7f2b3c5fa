"""Sizes that come from the rows of a replica: how a draw tells noise for a batch from all else.

`normal((tk.shape(x)[0], 8))` in a step is meant to have a row for each row of the batch,
`normal((16, 8))` is not, and both may ask for as many numbers. So where a replica knows its rows,
the shape of a tensor with as many says where its first size comes from.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

_PACKAGE = __name__.split(".")[0] + "."
_SYMBOLS = _PACKAGE + "core.symbolic_tensor"  # its `__getattribute__` stands between

COUNTED: list[int] = []
"""The rows of each replica that any thread is in and that knows them: empty almost always."""


class BatchSize(int):
    """The number of rows that a tensor of a replica has; a multiple of it is one, too."""

    __slots__ = ()

    def __mul__(self, other: Any) -> Any:
        product = int.__mul__(self, other)
        return BatchSize(product) if type(product) is int else product

    __rmul__ = __mul__


class _RowCounts(threading.local):
    def __init__(self) -> None:
        self.stack: list[int] = []


_THREAD = _RowCounts()


def enter(rows: int) -> None:
    """Begin to mark the shapes of tensors with so many rows, in this thread."""
    _THREAD.stack.append(rows)
    COUNTED.append(rows)


def leave(rows: int) -> None:
    """End what `enter` began."""
    _THREAD.stack.remove(rows)
    COUNTED.remove(rows)


def _is_users(frame: Any) -> bool:
    """Whether a frame is of code beside the package; what AutoGraph calls counts as such."""
    module = frame.f_globals.get("__name__", "")
    return not module.startswith(_PACKAGE) or module.startswith(f"{_PACKAGE}graph.autograph")


def of_batch(shape: Any) -> Any:
    """`shape` with a `BatchSize`, if it is that of the rows of this thread's replica.

    Two batches that are joined, as real and made images are, have one as well.
    """
    stack = _THREAD.stack
    sizes = tuple(shape) if stack and shape.rank else ()
    if not sizes or sizes[0] not in (stack[-1], 2 * stack[-1]):
        return shape
    return tuple.__new__(type(shape), (BatchSize(sizes[0]), *sizes[1:]))


def marked(shape: Any, frame: Any = None) -> Any:
    """`of_batch(shape)` for the user's code.

    Code of the package gets plain sizes: it computes with them, and says itself which draws are by
    rows.

    Args:
        shape: a `TensorShape`.
        frame: which code asks for it; by default what calls the property of a tensor.
    """
    if not _THREAD.stack:
        return shape
    if frame is None:
        frame = sys._getframe(2)
        while frame.f_globals.get("__name__") == _SYMBOLS:
            frame = frame.f_back
    return of_batch(shape) if _is_users(frame) else shape


def unmarked(shape: Any) -> Any:
    """`shape` without a `BatchSize`: that of a weight, whatever its sizes."""
    if not shape.rank or type(shape[0]) is not BatchSize:
        return shape
    sizes = tuple(shape)
    return tuple.__new__(type(shape), (int(sizes[0]), *sizes[1:]))
