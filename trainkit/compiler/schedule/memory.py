"""Places for the results that stay inside, in one piece of memory that is used over and over."""

from __future__ import annotations

from typing import Any

from trainkit.compiler.ir import Buffer, Loop, Step, View, results_of, sources_of
from trainkit.compiler.sizes import ALIGNMENT, UnknownSize


def places(order: list[Step], materialized: set[Buffer]) -> tuple[dict[Buffer, int], int]:
    """The offset of each temporary that needs memory, and how many bytes there are in all.

    A place is given away again once the last step that reads it is done: first to what fits into
    a gap best, at the end only where no gap is large enough.
    """
    first: dict[Buffer, int] = {}
    last: dict[Buffer, int] = {}
    for i, step in enumerate(order):
        for view in (*sources_of(step), *results_of(step)):
            if view.buffer.kind == "temporary" and view.buffer in materialized:
                first.setdefault(view.buffer, i)
                last[view.buffer] = i
    # Whether one size fits into the gap that another left can't be said for all sizes at once.
    if any(isinstance(buffer.size, UnknownSize) for buffer in first):
        return _places_of_unknown_sizes(first, last)
    offsets: dict[Buffer, int] = {}
    allocations: list[tuple[int, int, int]] = []  # start, end, last step
    total = 0
    for buffer, i in first.items():
        size = _align(buffer.size)
        # The step that reads a buffer last is still reading while it writes this one, so `>=`: the
        # memory is free from the next step on. `_gap` counts on the order by start.
        allocations = sorted(t for t in allocations if t[2] >= i)
        start = _gap(allocations, size)
        offsets[buffer] = start
        allocations.append((start, start + size, last[buffer]))
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
        size = _align(buffer.size)
        # As above, memory that step `i` reads is not free for what it writes.
        free += [(offset, mine) for end, offset, mine in busy if end < i]
        busy = [entry for entry in busy if entry[0] >= i]
        # Polynomials are equal where they are so for every size. "Large enough" would have to hold
        # for every size too, so nothing is cut to fit.
        start = next((entry for entry in free if entry[1] == size), None)
        if start is None:
            start, total = (total, size), total + size
        else:
            free.remove(start)
        offsets[buffer] = start[0]
        busy.append((last[buffer], *start))
    return offsets, total


def _align(size: int) -> int:
    if isinstance(size, UnknownSize):
        return size.rounded_up(ALIGNMENT)
    # An empty array takes a piece as well, so no two live at one address.
    return -(-max(size, 1) // ALIGNMENT) * ALIGNMENT


def _gap(allocations: list[tuple[int, int, int]], size: int) -> int:
    """Start of the smallest gap that holds `size` bytes, else the end of all."""
    best, start, end = -1, 0, 0
    for begin, finish, _ in allocations:
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
    pairs = []
    for i, step in enumerate(order):
        if isinstance(step, Loop):
            outputs_by_layout: dict[Any, list[Buffer]] = {}  # by layout and shape of the array
            for v in (m.out for m in step.members if m.out.buffer in outputs):
                # A caller takes over an input's memory as an array of its own, which a part of a
                # buffer can't be.
                if outputs[v.buffer].whole:
                    # With all of these alike, element i is read and then written at one address,
                    # and nothing that a later turn of the loop reads is touched.
                    key = (v.shape, v.strides, v.dtype, outputs[v.buffer].shape)
                    outputs_by_layout.setdefault(key, []).append(v.buffer)
            for v in _read_for_the_last_time(step, i, last):
                alike = outputs_by_layout.get((v.shape, v.strides, v.dtype, v.buffer.shape), ())
                pairs += [(buffer, v.buffer) for buffer in alike]
    return pairs


def _read_for_the_last_time(loop: Loop, step_index: int, last: dict[Buffer, int]) -> list[View]:
    """The inputs of `loop` that are read by one view alone, and nowhere later."""
    read: dict[Buffer, set[View]] = {}
    for view in sources_of(loop):
        if view.buffer.kind == "input" and last[view.buffer] == step_index:
            read.setdefault(view.buffer, set()).add(view)
    # Through two views, such as x[1:] and x[:-1], an element would be read after it is
    # overwritten.
    return [view for views in read.values() if len(views) == 1 for view in views if view.whole]
