"""Writers of summaries: `create_file_writer`, and how a writer becomes the default."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

from trainkit.core.errors import InvalidArgumentError, UnimplementedError
from trainkit.core.files.local_paths import local_path
from trainkit.core.process import forks
from trainkit.summary.defaults import DEFAULTS
from trainkit.summary.event_file import FILE_VERSION, EventFile

MAX_QUEUE = 10
FLUSH_MILLIS = 120_000
SUFFIX = ".v2"

Fill = Callable[..., None]


class SummaryWriter:
    """Writes summaries to an event file that TensorBoard shows. Made by `create_file_writer`.

    Example:
        >>> writer = tk.summary.create_file_writer("logs")
        >>> isinstance(writer, tk.summary.SummaryWriter)
        True
        >>> writer.close()
    """

    def __init__(
        self,
        logdir: str | os.PathLike[str],
        max_queue: int = MAX_QUEUE,
        flush_millis: int = FLUSH_MILLIS,
        filename_suffix: str = SUFFIX,
        name: str | None = None,
        purge_step: int | None = None,
    ) -> None:
        from tensorboardX.proto import event_pb2

        self.logdir = local_path(logdir)
        self.name = name
        self._file = EventFile(self.logdir, max_queue, flush_millis / 1000, filename_suffix)
        self._lock = forks.make_lock()
        self._new_event = event_pb2.Event
        # one event serves all summaries: filling it again is far cheaper than making one
        self._event = event_pb2.Event()
        self._value = self._event.summary.value.add()
        self._add(event_pb2.Event(file_version=FILE_VERSION))
        if purge_step is not None:
            self._purge(purge_step)
        self._file.flush()

    def __repr__(self) -> str:
        name = f"{self.name!r} " if self.name else ""
        return f"<SummaryWriter {name}of {self._file.path!r}{' (closed)' if self.closed else ''}>"

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._file.closed

    def init(self) -> None:
        """Do nothing: the file exists from the start. For code written for TensorFlow.

        Raises:
            RuntimeError: the writer is closed.
        """
        self._check_open()

    def set_as_default(self, step: Any = None) -> None:
        """Send this thread's summaries here from now on.

        Args:
            step: default step of summaries, an int or a variable that counts; None leaves it.

        Raises:
            RuntimeError: the writer is closed.
        """
        self._check_open()
        DEFAULTS.writer = self
        if step is not None:
            DEFAULTS.step = step

    @contextlib.contextmanager
    def as_default(self, step: Any = None) -> Iterator["SummaryWriter"]:
        """Send this thread's summaries here within a `with` block, then flush.

        Args:
            step: default step within the block, an int or a variable that counts; None leaves it.

        Raises:
            RuntimeError: the writer is closed.
        """
        before = DEFAULTS.writer, DEFAULTS.step
        self.set_as_default(step)
        try:
            yield self
        finally:
            if not self.closed:
                self.flush()
            DEFAULTS.writer = before[0]
            if step is not None:
                DEFAULTS.step = before[1]

    def flush(self) -> None:
        """Write what waits in the queue, so that TensorBoard sees it."""
        self._file.flush()

    def close(self) -> None:
        """Write what waits and close the file. Closing again does nothing."""
        self._file.close()

    def add(self, fill: Fill, tag: str, step: int, *args: Any) -> None:
        """Record one summary: `fill(value, *args)` sets the fields of its proto but for the tag."""
        self._check_open()
        with self._lock:
            value = self._value
            value.Clear()
            value.tag = tag
            fill(value, *args)
            self._event.step = step
            self._add(self._event)

    def add_message(self, summary: bytes, step: int) -> None:
        """Record a serialized Summary.

        Raises:
            InvalidArgumentError: the bytes are no Summary.
        """
        from google.protobuf.message import DecodeError  # slow to import

        self._check_open()
        event = self._new_event(step=step)
        try:
            event.summary.ParseFromString(summary)
        except DecodeError as error:
            raise InvalidArgumentError(f"the bytes are no serialized Summary: {error}") from error
        self._add(event)

    def add_graph(self, graph_def: bytes, step: int) -> None:
        """Record a serialized GraphDef."""
        self._check_open()
        self._add(self._new_event(step=step, graph_def=graph_def))

    def add_run_metadata(self, tag: str, run_metadata: bytes, step: int) -> None:
        """Record a serialized RunMetadata, which the graphs page offers under `tag`."""
        self._check_open()
        event = self._new_event(step=step)
        event.tagged_run_metadata.tag = tag
        event.tagged_run_metadata.run_metadata = run_metadata
        self._add(event)

    def _purge(self, step: int) -> None:
        """Have readers drop what they have read for this step and later ones.

        A session's start does that, but for the first one in a folder, which counts as no restart.
        """
        event = self._new_event(step=step)
        event.session_log.status = event.session_log.START
        self._add(event)
        self._add(event)

    def _add(self, event: Any) -> None:
        event.wall_time = time.time()
        self._file.add(event.SerializeToString(), event.wall_time)

    def _check_open(self) -> None:
        if self.closed:
            raise RuntimeError(f"{self!r} takes no more summaries; create a new writer.")


class _NoopWriter:
    """Stands where a writer is asked for and records nothing."""

    def set_as_default(self, step: Any = None) -> None:
        """Record no summaries of this thread from now on."""
        DEFAULTS.writer = None
        if step is not None:
            DEFAULTS.step = step

    @contextlib.contextmanager
    def as_default(self, step: Any = None) -> Iterator["_NoopWriter"]:
        """Record no summaries of this thread within a `with` block."""
        before = DEFAULTS.writer, DEFAULTS.step
        self.set_as_default(step)
        try:
            yield self
        finally:
            DEFAULTS.writer, DEFAULTS.step = before

    def init(self) -> None:
        """Do nothing."""

    def flush(self) -> None:
        """Do nothing, as nothing waits."""

    def close(self) -> None:
        """Do nothing, as nothing is open."""


def create_file_writer(
    logdir: str | os.PathLike[str],
    max_queue: int | None = None,
    flush_millis: int | None = None,
    filename_suffix: str | None = None,
    name: str | None = None,
    purge_step: int | None = None,
    experimental_trackable: bool = False,
    experimental_mesh: Any = None,
) -> SummaryWriter:
    """Make a writer of summaries with a new event file of its own.

    What is written reaches the operating system, and thus TensorBoard, when the queue is full, when
    `flush_millis` have passed, at the end of each `as_default` block, and when the program ends.

    Args:
        logdir: folder for event files, made if missing. TensorBoard shows each folder as a run.
        max_queue: number of summaries that may wait before they are written, 10 by default.
        flush_millis: longest time in milliseconds after which the next summary writes what waits,
            two minutes by default.
        filename_suffix: end of the file's name, `".v2"` by default.
        name: shown by `repr` only.
        purge_step: TensorBoard drops what older files of this folder have for this step and later
            ones. For a run that resumes from a checkpoint: its step.
        experimental_trackable: whether a module may have it as an attribute: it always may, since
            nothing of a writer is saved.
        experimental_mesh: only None: there are no meshes of devices.

    Raises:
        UnimplementedError: `experimental_mesh` is given.
        ValueError: `max_queue`, `flush_millis` or `purge_step` is negative.
        OSError: the folder or file cannot be made.

    >>> import tempfile
    >>> writer = tk.summary.create_file_writer(tempfile.mkdtemp())
    >>> with writer.as_default():
    ...     tk.summary.scalar("loss", 0.5, step=1)
    True
    """
    if experimental_mesh is not None:
        raise UnimplementedError(
            "create_file_writer: experimental_mesh must be None; each process has its own writer"
        )
    for argument, value in (
        ("max_queue", max_queue),
        ("flush_millis", flush_millis),
        ("purge_step", purge_step),
    ):
        if value is not None and value < 0:
            raise ValueError(f"create_file_writer: {argument} is {value}, expected 0 or more.")
    return SummaryWriter(
        logdir,
        MAX_QUEUE if max_queue is None else max_queue,
        FLUSH_MILLIS if flush_millis is None else flush_millis,
        SUFFIX if filename_suffix is None else filename_suffix,
        name,
        purge_step,
    )


def create_noop_writer() -> _NoopWriter:
    """Make a writer that records nothing, for the processes that should not.

    Example:
        >>> with tk.summary.create_noop_writer().as_default():
        ...     bool(tk.summary.scalar("loss", 0.5, step=0))
        False
    """
    return _NoopWriter()


def flush(writer: SummaryWriter | None = None, name: str | None = None) -> None:
    """Write what waits in the queue of `writer`, or of the default writer if there is one.

    Args:
        writer: a writer; None for the default one.
        name: not kept.

    Example:
        >>> with tk.summary.create_file_writer("logs").as_default():
        ...     recorded = tk.summary.scalar("loss", 0.5, step=0)
        ...     tk.summary.flush()
    """
    target = DEFAULTS.writer if writer is None else writer
    if target is not None:
        target.flush()
