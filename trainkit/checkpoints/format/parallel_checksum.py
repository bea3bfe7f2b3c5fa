"""`digests_of`: the checksums of a file's big arrays, computed piece by piece on several cores."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from trainkit.checkpoints.format.checksum import PART, Checksum, Sums, sums_of
from trainkit.checkpoints.format.executor import JobPool, helpers_for
from trainkit.checkpoints.format.header import Extent
from trainkit.checkpoints.format.positioned_io import read_into
from trainkit.core.process import forks

PIECE = 2 * PART
"""Bytes that one thread takes at a time, so that all of them end at about the same time."""


def digests_of(fd: int, extents: list[Extent]) -> dict[Extent, str]:
    """The actual checksum of the bytes of each extent; those that can't be read are missing."""
    digests = {extent: _Digest(extent.size) for extent in extents}
    jobs = [(extent, start) for extent in extents for start in range(0, extent.size, PIECE)]
    helpers = helpers_for(sum(extent.size for extent in extents))
    JobPool(lambda: _reader(fd, digests), jobs, helpers).finish()
    texts = {extent: digest.hexdigest() for extent, digest in digests.items()}
    return {extent: text for extent, text in texts.items() if text is not None}


class _Digest:
    """The checksum of one extent, whose pieces come in any order."""

    def __init__(self, size: int) -> None:
        self._checksum = Checksum(size)
        self._early: dict[int, list[Sums]] = {}
        self._next = 0
        self._lock = forks.make_lock()
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


def _reader(fd: int, digests: dict[Extent, _Digest]) -> Callable[[tuple[Extent, int]], None]:
    """What sums up pieces, each (extent, start), with a scratch buffer of its own."""
    scratch = np.empty(PART, np.uint8)

    def read(piece: tuple[Extent, int]) -> None:
        extent, start = piece
        end = min(start + PIECE, extent.size)
        sums: list[Sums] = []
        for part_start in range(start, end, PART):
            part = scratch[: min(PART, end - part_start)]
            if not _fill(fd, part, extent.offset + part_start):
                return digests[extent].add(start, None)
            sums.append(sums_of(part))
        return digests[extent].add(start, sums)

    return read


def _fill(fd: int, part: np.ndarray, offset: int) -> bool:
    try:
        return read_into(fd, part, offset) == part.size
    except OSError:  # who reads the array by itself will meet it again, and name the array
        return False
