"""Writing in the background: the values are copied at once, the file is written by a thread."""

from __future__ import annotations

import atexit
import sys
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from trainkit.checkpoints.format.executor import in_threads
from trainkit.checkpoints.format.writer import Entry, Values
from trainkit.core.process import forks

if TYPE_CHECKING:
    from concurrent.futures import Future

_IN_FLIGHT = 2


class BackgroundWriter:
    """Writes snapshots one after the other, in the order in which they were submitted.

    At most two are in memory; a third `submit` waits for the first. The buffers of written
    snapshots are used again. A write that failed raises at the next `submit` or `wait`; when the
    program ends first, the failure is printed.
    """

    def __init__(self) -> None:
        self._begin()
        _WRITERS.add(self)

    def _begin(self) -> None:
        from concurrent.futures import ThreadPoolExecutor  # slow to import

        self._pool = ThreadPoolExecutor(1, "trainkit-checkpoint")
        self._running: deque[Future[None]] = deque()
        self._spare: deque[dict[str, Any]] = deque()
        self._generation = forks.generation()

    def _leave_to_parent(self) -> None:
        """In a process that was forked off begin anew: what waits is written by the parent."""
        if self._generation != forks.generation():
            self._begin()

    def submit(self, entries: list[Entry], write: Callable[[list[Entry]], None]) -> None:
        """Copy the values of `entries` and have `write` called with the copies.

        Raises:
            Exception: whatever an earlier write failed with; nothing is submitted then.
        """
        self._leave_to_parent()
        while len(self._running) >= _IN_FLIGHT or (self._running and self._running[0].done()):
            self._running.popleft().result()
        buffers = self._spare.popleft() if self._spare else {}
        frozen, used = snapshot(entries, buffers)
        self._running.append(self._pool.submit(self._write, write, frozen, used))

    def _write(
        self, write: Callable[[list[Entry]], None], entries: list[Entry], used: dict[str, Any]
    ) -> None:
        try:
            write(entries)
        finally:
            self._spare.append(used)

    def wait(self) -> None:
        """Wait until everything is written.

        Raises:
            Exception: whatever the first failed write failed with.
        """
        self._leave_to_parent()
        while self._running:
            self._running.popleft().result()

    def report_failures(self) -> None:
        """Print the failures that nobody has asked for."""
        self._leave_to_parent()
        for future in self._running:
            error = future.exception()
            if error is not None:
                print(f"trainkit: a checkpoint was not written: {error!r}", file=sys.stderr)
        self._running.clear()


_WRITERS: weakref.WeakSet[BackgroundWriter] = weakref.WeakSet()


@atexit.register
def _report_at_exit() -> None:
    for writer in list(_WRITERS):
        writer.report_failures()


def snapshot(entries: list[Entry], buffers: dict[str, Any]) -> tuple[list[Entry], dict[str, Any]]:
    """`entries` with copies of their values, and the copies by path.

    Args:
        entries: what is to be written.
        buffers: arrays by path, which are overwritten where they fit.
    """
    values = [entry for entry in entries if isinstance(entry, Values)]
    size = sum(getattr(entry.read, "nbytes", 1 << 20) for entry in values)
    copies = dict(
        zip(
            [entry.path for entry in values],
            in_threads(lambda entry: _copy(entry, buffers.get(entry.path)), values, size),
            strict=True,
        )
    )
    frozen = [
        replace(entry, read=_Given(copies[entry.path])) if isinstance(entry, Values) else entry
        for entry in entries
    ]
    return frozen, copies


class _Given:
    """A function that gives an array."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __call__(self) -> Any:
        return self._array


def _copy(entry: Values, buffer: Any) -> Any:
    value = np.asarray(entry.read())
    if buffer is None or buffer.shape != value.shape or buffer.dtype != value.dtype:
        return np.array(value)
    buffer[...] = value
    return buffer
