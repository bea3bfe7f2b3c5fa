"""`Ahead`: checksums of a file's big arrays, computed while its structure is still being read."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable

import numpy as np

from trainkit.checkpoints.checksum import PART, Checksum, Sums, sums_of
from trainkit.checkpoints.crew import Crew, helpers_for
from trainkit.checkpoints.positioned import read_into

PIECE = 4 * PART
"""Bytes that one thread takes at a time, so that one huge array keeps all of them busy."""

Extent = tuple[int, int]


class _Digest:
    """The checksum of one extent, whose pieces come in any order."""

    def __init__(self, size: int) -> None:
        self._checksum = Checksum(size)
        self._early: dict[int, list[Sums]] = {}
        self._next = 0
        self._lock = threading.Lock()
        self.whole = True

    def add(self, start: int, sums: list[Sums] | None) -> None:
        """The sums of the piece at `start`; None when it can't be read."""
        with self._lock:
            if sums is None:
                self.whole = False
                return
            self._early[start] = sums
            while self._next in self._early:
                for part in self._early.pop(self._next):
                    self._checksum.update_sums(part)
                self._next += PIECE

    def hexdigest(self) -> str | None:
        return self._checksum.hexdigest() if self.whole else None


class Ahead:
    """Starts at once, in background threads.

    Args:
        fd: the file; a duplicate of it is used.
        extents: offset and size of each array, of more than `checksum.SMALL` bytes.
    """

    def __init__(self, fd: int, extents: list[Extent]) -> None:
        own = os.dup(fd)
        self._digests = {extent: _Digest(extent[1]) for extent in extents}
        digests = self._digests
        jobs = [(e, start) for e in extents for start in range(0, e[1], PIECE)]
        self._crew = Crew(
            lambda: _reader(own, digests), jobs, helpers_for(sum(size for _, size in extents))
        )
        # Not `stop`, since the garbage collector may run in one of the threads. The descriptor is
        # given back once no thread can use it any more, as the last of them holds the crew.
        weakref.finalize(self, self._crew.forget)
        weakref.finalize(self._crew, os.close, own)

    def finish(self) -> dict[Extent, str]:
        """Help, and give the checksums of the extents that could be read."""
        self._crew.finish()
        found = {extent: digest.hexdigest() for extent, digest in self._digests.items()}
        return {extent: text for extent, text in found.items() if text is not None}

    def stop(self) -> None:
        """Leave the rest; no thread runs any more."""
        self._crew.stop()


def _reader(fd: int, digests: dict[Extent, _Digest]) -> Callable[[tuple[Extent, int]], None]:
    """What sums up pieces, each (extent, start), with a scratch buffer of its own."""
    scratch = np.empty(PART, np.uint8)

    def read(piece: tuple[Extent, int]) -> None:
        (offset, size), start = piece
        end = min(start + PIECE, size)
        sums: list[Sums] = []
        for here in range(start, end, PART):
            part = scratch[: min(PART, end - here)]
            if not _filled(fd, part, offset + here):
                return digests[offset, size].add(start, None)
            sums.append(sums_of(part))
        return digests[offset, size].add(start, sums)

    return read


def _filled(fd: int, part: np.ndarray, offset: int) -> bool:
    try:
        return read_into(fd, part, offset) == part.size
    except OSError:  # who reads the array by itself will meet it again, and name the array
        return False
