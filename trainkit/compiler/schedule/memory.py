"""Places for the results that stay inside, in one piece of memory that is used over and over."""

from __future__ import annotations

from typing import Any

from trainkit.compiler.ir import (
    Buffer,
    Loop,
    Step,
    View,
    results_of,
    sources_of,
)
from trainkit.compiler.sizes import ALIGNMENT, UnknownSize


def places(order: list[Step], held: set[Buffer]) -> tuple[dict[Buffer, int], int]:
    """The offset of each temporary that needs memory, and how many bytes there are in all.

    A place is given away again once the last step that reads it is done: first to what fits into
    a gap best, at the end only where no gap is large enough.
    """
    first: dict[Buffer, int] = {}
    last: dict[Buffer, int] = {}
    for i, step in enumerate(order):
        for view in (*sources_of(step), *results_of(step)):
            if view.buffer.kind == "temporary" and view.buffer in held:
                first.setdefault(view.buffer, i)
                last[view.buffer] = i
    if any(isinstance(buffer.size, UnknownSize) for buffer in first):
        return _places_of_unknown_sizes(first, last)
    offsets: dict[Buffer, int] = {}
    taken: list[tuple[int, int, int]] = []  # start, end, last step
    total = 0
    for buffer, i in first.items():
        size = _aligned(buffer.size)
        taken = sorted(t for t in taken if t[2] >= i)
        start = _gap(taken, size)
        offsets[buffer] = start
        taken.append((start, start + size, last[buffer]))
        total = max(total, start + size)
    return offsets, total


def _places_of_unknown_sizes(
    first: dict[Buffer, int], last: dict[Buffer, int]
) -> tuple[dict[Buffer, int], int]:
    """As `places` where sizes are not known: a place is given again to what has the same size."""
    offsets: dict[Buffer, int] = {}
    busy: list[tuple[int, int, int]] = []  # last step, offset, size
    free: list[tuple[int, int]] = []
    total = 0
    for buffer, i in first.items():
        size = _aligned(buffer.size)
        free += [(offset, mine) for end, offset, mine in busy if end < i]
        busy = [entry for entry in busy if entry[0] >= i]
        start = next((entry for entry in free if entry[1] == size), None)
        if start is None:
            start, total = (total, size), total + size
        else:
            free.remove(start)
        offsets[buffer] = start[0]
        busy.append((last[buffer], *start))
    return offsets, total


def _aligned(size: int) -> int:
    if isinstance(size, UnknownSize):
        return size.rounded_up(ALIGNMENT)
    return -(-max(size, 1) // ALIGNMENT) * ALIGNMENT


def _gap(taken: list[tuple[int, int, int]], size: int) -> int:
    """Start of the smallest gap that holds `size` bytes, else the end of all."""
    best, start, end = -1, 0, 0
    for begin, finish, _ in taken:
        room = begin - end
        if room >= size and (best < 0 or room < best):
            best, start = room, end
        end = max(end, finish)
    return start if best >= 0 else end


def reusable_inputs(order: list[Step], outputs: dict[Buffer, View]) -> list[tuple[Buffer, Buffer]]:
    """Pairs of an output and an input into whose memory it may be written.

    That is so where the loop that makes the output is the last step to read the input, and reads
    the very element that it then writes. As arrays the two have one shape, too.
    """
    last: dict[Buffer, int] = {}
    for i, step in enumerate(order):
        for view in sources_of(step):
            last[view.buffer] = i
    found = []
    for i, step in enumerate(order):
        if isinstance(step, Loop):
            made: dict[Any, list[Buffer]] = {}  # by layout and shape of the array
            for v in (m.out for m in step.members if m.out.buffer in outputs):
                if outputs[v.buffer].whole:
                    key = (v.shape, v.strides, v.dtype, outputs[v.buffer].shape)
                    made.setdefault(key, []).append(v.buffer)
            for v in _read_for_the_last_time(step, i, last):
                alike = made.get((v.shape, v.strides, v.dtype, v.buffer.shape), ())
                found += [(buffer, v.buffer) for buffer in alike]
    return found


def _read_for_the_last_time(loop: Loop, place: int, last: dict[Buffer, int]) -> list[View]:
    """The inputs of `loop` that are read by one view alone, and nowhere later."""
    read: dict[Buffer, set[View]] = {}
    for view in sources_of(loop):
        if view.buffer.kind == "input" and last[view.buffer] == place:
            read.setdefault(view.buffer, set()).add(view)
    return [view for views in read.values() if len(views) == 1 for view in views if view.whole]
