"""Reading and writing at a position of an open file, and the file that HDF5 works through."""

from __future__ import annotations

import io
import os
from bisect import bisect_right
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

MAX_STRUCTURE = 1 << 21
"""Bytes that HDF5 may read to find out what one object is; they take up to 13 times that."""
_SYNC_STEP = 1 << 26
_LAST = (1 << 62) - 1
_MOST_PENDING = 1 << 20
"""Bytes that are gathered before they go into the file."""
_HAS_POSITIONS = hasattr(os, "pwrite")
_HAS_PREADV = hasattr(os, "preadv")


def _write_once(fd: int, view: memoryview, offset: int) -> int:
    if _HAS_POSITIONS:
        return os.pwrite(fd, view, offset)
    os.lseek(fd, offset, os.SEEK_SET)
    return os.write(fd, view)


def _read_once(fd: int, view: memoryview, offset: int) -> int:
    if _HAS_PREADV:
        return os.preadv(fd, [view], offset)
    if _HAS_POSITIONS:  # macOS before Python 3.10 knew preadv
        part = os.pread(fd, len(view), offset)
    else:
        os.lseek(fd, offset, os.SEEK_SET)
        part = os.read(fd, len(view))
    view[: len(part)] = part
    return len(part)


def write_at(fd: int, data: Any, offset: int) -> None:
    """Write all of `data`, a contiguous buffer, at `offset`; the system may take less at a time."""
    view = memoryview(data).cast("B")
    while view:
        written = _write_once(fd, view, offset)
        view, offset = view[written:], offset + written


def read_into(fd: int, buffer: Any, offset: int) -> int:
    """Fill `buffer`, contiguous and writable, from `offset` on.

    Returns:
        How many bytes there were; less than asked for at the end of the file.
    """
    view = memoryview(buffer).cast("B")
    total = 0
    while view:
        count = _read_once(fd, view, offset + total)
        if not count:
            break
        view, total = view[count:], total + count
    return total


def read_at(fd: int, size: int, offset: int) -> bytes:
    """`size` bytes at `offset`, less at the end of the file; the caller bounds `size`."""
    buffer = np.empty(size, np.uint8)
    return buffer[: read_into(fd, buffer, offset)].tobytes()


class EarlySync:
    """Lets the disk begin while there is still more to write, so that the last `fsync` is short.

    Not for use inside of HDF5's calls: these hold a lock that another thread may want when it
    collects garbage, and must not wait for one.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._written = 0
        self._pool: ThreadPoolExecutor | None = None
        self._running: Future[None] | None = None

    def written(self, size: int) -> None:
        """So many bytes more are in the file."""
        self._written += size
        if self._written < _SYNC_STEP or not hasattr(os, "fdatasync"):
            return
        if self._running is None or self._running.done():
            self.finish()
            self._written = 0
            if self._pool is None:
                from concurrent.futures import ThreadPoolExecutor  # slow to import

                self._pool = ThreadPoolExecutor(1, "trainkit-sync")
            self._running = self._pool.submit(os.fdatasync, self._fd)

    def finish(self) -> None:
        """Wait for the disk.

        Raises:
            OSError: it could not take what was written.
        """
        running, self._running = self._running, None
        if running is not None:
            running.result()

    def close(self) -> None:
        """Wait for the disk, whatever it says."""
        if self._pool is not None:
            self._pool.shutdown()


class H5Stream(io.RawIOBase):
    """An open file as h5py's `fileobj` driver wants it; all that HDF5 reads and writes passes here.

    HDF5 writes its structure in pieces of tens of bytes, between which the values of arrays come to
    lie: what is written is gathered, and goes into the file in few long pieces, where there is much
    of it, where something is read or the file's size is asked for, or in `check`.
    Once a write has failed the rest is dropped, so that HDF5 can still close the file it believes
    in; the failure is kept in `error`.
    """

    def __init__(self, fd: int) -> None:
        super().__init__()
        self.fd = fd
        self.error: OSError | None = None
        self._position = 0
        # Runs of bytes that wait, by where they begin; no two overlap.
        self._starts: list[int] = []
        self._runs: list[bytearray] = []
        self._pending = 0

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_END:
            self.flush_runs()
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position}.get(whence)
        self._position = offset + (os.fstat(self.fd).st_size if start is None else start)
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Any) -> int:
        if not 0 <= self._position <= _LAST:  # a damaged file may point anywhere
            return 0
        self.flush_runs()
        count = read_into(self.fd, buffer, self._position)
        self._position += count
        return count

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self.write_at(self._position, view)
        self._position += view.nbytes
        return view.nbytes

    def write_at(self, start: int, view: memoryview) -> None:
        """Write bytes at `start`, past HDF5 too, which had better not write there itself."""
        if self.error is not None:
            return
        stop = start + view.nbytes
        after = bisect_right(self._starts, start)
        reached = self._starts[after - 1] + len(self._runs[after - 1]) if after else -1
        if stop <= reached:  # what waits is written anew, as structure that has changed is
            offset = start - self._starts[after - 1]
            self._runs[after - 1][offset : offset + view.nbytes] = view
            return
        touches_next = after < len(self._starts) and self._starts[after] < stop
        if reached > start or touches_next or self._pending + view.nbytes > _MOST_PENDING:
            self.flush_runs()
            after, reached = 0, -1
        if reached == start:
            self._runs[after - 1] += view
        else:
            self._starts.insert(after, start)
            self._runs.insert(after, bytearray(view))
        self._pending += view.nbytes

    def flush_runs(self) -> None:
        """Put what was gathered into the file; runs that meet are one piece."""
        starts, runs = self._starts, self._runs
        self._starts, self._runs, self._pending = [], [], 0
        if not runs or self.error is not None:
            return
        try:
            start, piece = starts[0], runs[0]
            for next_start, run in zip(starts[1:], runs[1:], strict=True):
                if start + len(piece) == next_start:
                    piece += run
                else:
                    write_at(self.fd, piece, start)
                    start, piece = next_start, run
            write_at(self.fd, piece, start)
        except OSError as error:
            self.error = error
            raise

    def truncate(self, size: int | None = None) -> int:
        size = self._position if size is None else size
        self.flush_runs()
        if self.error is None:
            try:
                os.ftruncate(self.fd, size)
            except OSError as error:
                self.error = error
                raise
        return size

    def check(self) -> None:
        """Raise what went wrong while it was written.

        Raises:
            OSError: a write failed, and the file is not whole.
        """
        if self.error is not None:
            raise self.error
        self.flush_runs()


class H5Source(H5Stream):
    """The same for a file that HDF5 only reads, which may be damaged or hostile.

    h5py tells HDF5 nothing of a read that falls short, so HDF5 would take whatever its memory held
    for a part of the file. It asks for bytes beyond the end when a place is so large that place and
    size together begin at 0 again; its own check passes that.

    Attributes:
        allowance: how many bytes may still be read; None for as many as HDF5 likes.
    """

    def __init__(self, fd: int) -> None:
        super().__init__(fd)
        self.allowance: int | None = None

    def readinto(self, buffer: Any) -> int:
        position, size = self._position, memoryview(buffer).nbytes
        if self.allowance is not None:
            if size > self.allowance:
                raise OSError(f"{size} bytes more at {position} are too many for one object")
            self.allowance -= size
        count = super().readinto(buffer)
        if count < size:
            raise OSError(f"{size} bytes at {position} are asked for, the file has {count} of them")
        return count
