"""One event file: named so that TensorBoard reads files in order, written in batches."""

import contextlib
import itertools
import os
import pathlib
import socket
import threading
import time
import weakref
from typing import Any

from trainkit.core.files.output_folders import make_folder
from trainkit.core.process import forks
from trainkit.records.framing import framed

FILE_VERSION = "brain.Event:2"
PREFIX = "events.out.tfevents."

_numbers = itertools.count()


class EventFile:
    """Event file of one writer; events wait in a queue and are written together.

    What was written is safe when the process dies, as the operating system has it. Only closing
    waits for the disk.

    Args:
        logdir: folder of the file, of this machine, made if missing.
        max_queue: number of events that may wait; one more writes them all.
        flush_seconds: an event that comes later than this after the last flush flushes.
        suffix: end of the file's name.
    """

    def __init__(self, logdir: str, max_queue: int, flush_seconds: float, suffix: str) -> None:
        from tensorboardX.record_writer import open_file

        make_folder(logdir, "the summary writer")
        self.path = os.path.join(logdir, _file_name(logdir, suffix))
        self._file = open_file(self.path)
        self._max_queue = max_queue
        self._flush_seconds = flush_seconds
        self._queue: list[bytes] = []
        self._last_flush = time.time()
        self._lock = forks.make_lock()
        # also when the interpreter ends, so that no event is lost for want of a close()
        self._finish = weakref.finalize(
            self, _finish, self._file, self._queue, self._lock, os.getpid()
        )

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return not self._finish.alive

    def add(self, event: bytes, wall_time: float) -> None:
        """Put a serialized event, made at `wall_time` seconds since the epoch, into the queue."""
        with self._lock:
            self._queue.append(event)
            if wall_time - self._last_flush > self._flush_seconds:
                self._flush(wall_time)
            elif len(self._queue) > self._max_queue:
                _write(self._file, self._queue)

    def flush(self) -> None:
        """Hand all waiting events to the operating system, or to the remote store."""
        with self._lock:
            self._flush(time.time())

    def _flush(self, now: float) -> None:
        _write(self._file, self._queue)
        self._file.flush()
        self._last_flush = now

    def close(self) -> None:
        """Write what waits and close the file; further calls do nothing."""
        self._finish()


def _write(file: Any, queue: list[bytes]) -> None:
    """Write the waiting events; a local file hands them to the operating system at once."""
    if not queue:
        return
    file.write(framed(queue))
    queue.clear()
    if hasattr(file, "fileno"):  # a remote store would be sent the whole file each time
        file.flush()


def _finish(file: Any, queue: list[bytes], lock: threading.Lock, process: int) -> None:
    if os.getpid() != process:  # a forked child: these events are the parent's
        return
    with lock, contextlib.closing(file):
        _write(file, queue)
        if hasattr(file, "fileno"):
            os.fsync(file.fileno())


def _file_name(logdir: str, suffix: str) -> str:
    """A name after those of all files there, as TensorBoard reads a folder's files by name.

    The second in it is moved on where a file of this second exists, which happens when a run
    is resumed at once.
    """
    names = [path.name for path in pathlib.Path(logdir).glob(f"{PREFIX}*")]
    seconds = [name.removeprefix(PREFIX).partition(".")[0] for name in names]
    latest = max((int(digits) for digits in seconds if digits.isdecimal()), default=0)
    second = max(int(time.time()), latest + 1)
    host, process = socket.gethostname(), os.getpid()
    return f"{PREFIX}{second:010d}.{host}.{process}.{next(_numbers)}{suffix}"
