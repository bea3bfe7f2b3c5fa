"""Loops over large arrays are given to several threads, each of which does a part of every loop.

Loops that don't write what another one of them touches need not wait for one another, so they are
done at one go: each thread does its part of the first, then of the second, and so on, or where they
share no array a range of all of them: pieces of a hundred weights' updates, a few kilobytes each,
took nearly twice as long as whole ones. An element is computed by the same instructions wherever it
stands, so the results are the same bits.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence

from trainkit.compiler.ir import Buffer, Loop, Step, View, results_of, sources_of
from trainkit.core.cpu.cost_model import BYTE_NANOSECONDS, PART_NANOSECONDS, THIRD_CACHE

FEWEST_BYTES = THIRD_CACHE
"""What loops must read and write for several threads to pay. The weights of small models stay in
the cache of one core, and sharing them out to two made their steps slower."""
PART_BYTES = int(PART_NANOSECONDS / BYTE_NANOSECONDS)
"""About what a thread takes at a time."""


class _Spans:
    """Ranges of bytes, those that overlap or touch as one, in order."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, start: int, end: int) -> None:
        """With the bytes from `start` to `end` in it, too."""
        # Spans never overlap, so starts and ends are both in order, and those from `first` up to
        # `after` are just the ones that the new span touches.
        first = bisect_left(self._ends, start)
        after = bisect_right(self._starts, end)
        if first < after:
            start, end = min(start, self._starts[first]), max(end, self._ends[after - 1])
        self._starts[first:after] = [start]
        self._ends[first:after] = [end]

    def meet(self, start: int, end: int) -> bool:
        """Whether some byte from `start` to `end` is in it."""
        # Spans before this one end too early; those after it begin later still.
        i = bisect_right(self._ends, start)
        return i < len(self._starts) and self._starts[i] < end

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._starts, self._ends, strict=True)


class _Memory:
    """What steps touch: arrays of their own, and bytes of the memory that temporaries share."""

    def __init__(self, offsets: dict[Buffer, int]) -> None:
        self._places = offsets
        self._arrays: set[Buffer] = set()
        self._spans = _Spans()

    def add(self, buffers: Iterable[Buffer]) -> _Memory:
        """With `buffers` in it, too."""
        for buffer in buffers:
            start = self._places.get(buffer)
            if start is None:
                self._arrays.add(buffer)
            else:
                # Temporaries may lie in one another's memory at different times. It is bytes that
                # have to be compared here, as two buffers can be one place.
                self._spans.add(start, start + max(buffer.size, 1))
        return self

    def join(self, other: _Memory) -> None:
        """Take in what `other` holds."""
        self._arrays |= other._arrays
        for span in other._spans:
            self._spans.add(*span)

    def meets(self, other: _Memory) -> bool:
        """Whether some of it is in `other`, too; fastest when `other` holds more."""
        if not self._arrays.isdisjoint(other._arrays):
            return True
        return any(other._spans.meet(*span) for span in self._spans)


class ParallelLoops:
    """Loops that are done at one go.

    Attributes:
        loops: in order.
        sizes: bytes that each of them reads and writes.
        apart: whether no array, but single numbers, is touched by two of them. Then a part of the
            work is a range of all elements, as if the loops' arrays stood behind one another;
            else a part of each loop, so that what one has read is in a cache for the next.
    """

    def __init__(self, offsets: dict[Buffer, int]) -> None:
        self.loops: list[Loop] = []
        self.sizes: list[int] = []
        self.apart = True
        self._touched: set[Buffer] = set()
        self._read = _Memory(offsets)
        self._written = _Memory(offsets)

    @property
    def bytes(self) -> int:
        """What all of them read and write."""
        return sum(self.sizes)

    def take(self, loop: Loop, read: _Memory, written: _Memory, touched: Collection[View]) -> None:
        """Have one loop more, which touches these views."""
        self.loops.append(loop)
        self.sizes.append(sum(v.size * v.dtype.itemsize for v in touched))
        arrays = {v.buffer for v in touched if v.size > 1}
        self.apart = self.apart and self._touched.isdisjoint(arrays)
        self._touched |= arrays
        self._read.join(read)
        self._written.join(written)

    def admits(self, read: _Memory, written: _Memory) -> bool:
        """Whether a loop may go on while others are still at an earlier one."""
        # What it writes must be neither read nor written by the others, and what it reads must not
        # be written by them: threads reach a loop at different times.
        earlier = (self._written, self._read)
        return not any(map(written.meets, earlier)) and not read.meets(self._written)


def in_parallel(
    steps: Iterable[Step],
    materialized: set[Buffer],
    offsets: dict[Buffer, int],
    reusable: Sequence[tuple[Buffer, Buffer]],
) -> list[Step | ParallelLoops]:
    """The steps, in their order, with neighbouring loops over much memory for several threads.

    Args:
        steps: the steps.
        materialized: the buffers that have memory.
        offsets: those of temporaries in the memory that they share.
        reusable: pairs of an output and an input in whose memory it may lie.
    """
    over: dict[Buffer, list[Buffer]] = {}
    for output, source in reusable:
        # A call may put this output into that input's memory. The code is the same then, so here
        # writing the one always counts as writing the other.
        over.setdefault(output, []).append(source)
    groups: list[Step | ParallelLoops] = []
    for step in steps:
        if not isinstance(step, Loop) or 0 in step.out.shape:
            # Loops over nothing have no turns to share out.
            groups.append(step)
            continue
        results = [v for v in results_of(step) if v.buffer in materialized]
        outs = {v.buffer for v in results}
        read = _Memory(offsets).add(v.buffer for v in sources_of(step))
        written = _Memory(offsets).add([*outs, *(b for out in outs for b in over.get(out, ()))])
        # Neighbours alone: a step in between may need what the loops before it write.
        last = groups[-1] if groups else None
        if not isinstance(last, ParallelLoops) or not last.admits(read, written):
            last = ParallelLoops(offsets)
            groups.append(last)
        last.take(step, read, written, dict.fromkeys([*sources_of(step), *results]))
    return [x for item in groups for x in _worth_it(item)]


def _worth_it(item: Step | ParallelLoops) -> Sequence[Step | ParallelLoops]:
    return item.loops if isinstance(item, ParallelLoops) and item.bytes < FEWEST_BYTES else [item]
