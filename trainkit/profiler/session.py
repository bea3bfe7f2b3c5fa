"""`Session`: the spans of time that are noted while a profile runs, thread by thread."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

MOST_EVENTS = 1_000_000
"""Spans that a thread keeps one by one, for the trace; later ones are still counted and summed."""


class Label:
    """What spans are summed up under, compared by identity: all spans of one kind share one.

    Attributes:
        kind: the part of the library: `"op"`, `"data"` and so on.
        name: what ran.
        shapes: of its inputs; `None` where it has none.
    """

    __slots__ = ("kind", "name", "shapes")

    def __init__(self, kind: str, name: str, shapes: Any = None) -> None:
        self.kind, self.name, self.shapes = kind, name, shapes


class Frame:
    """A span that is under way: what it is of, and the time spent in spans inside it."""

    __slots__ = ("inner", "token")

    def __init__(self, token: Any) -> None:
        self.token = token
        self.inner = 0


class ThreadRecord:
    """What one thread has noted.

    Attributes:
        ident, name: of the thread.
        events: label, beginning and end of each span, in the order in which they ended; in
            nanoseconds of `time.perf_counter_ns`.
        totals: by label: how many, and nanoseconds in all and in themselves.
        stack: the spans under way.
        outer: nanoseconds in spans that are in no other.
        dropped: spans that were too many for `events`.
    """

    def __init__(self) -> None:
        thread = threading.current_thread()
        self.ident, self.name = thread.ident or 0, thread.name
        self.events: list[tuple[Label, int, int]] = []
        self.totals: dict[Label, list[int]] = {}
        self.stack: list[Frame] = []
        self.outer = 0
        self.dropped = 0

    def forget(self) -> None:
        """Drop what was noted; spans under way stay."""
        self.events.clear()
        self.totals.clear()
        self.outer = self.dropped = 0

    def begin(self, token: Any = None) -> int:
        """Begin a span; what it began at."""
        self.stack.append(Frame(token))
        return perf_counter_ns()

    def end(self, label: Label, start: int) -> None:
        """End the innermost span."""
        end = perf_counter_ns()
        spent = end - start
        own = spent - self.stack.pop().inner
        if self.stack:
            self.stack[-1].inner += spent
        else:
            self.outer += spent
        total = self.totals.get(label)
        if total is None:
            self.totals[label] = [1, spent, own]
        else:
            total[0] += 1
            total[1] += spent
            total[2] += own
        if len(self.events) < MOST_EVENTS:
            self.events.append((label, start, end))
        else:
            self.dropped += 1


class _Local(threading.local):
    def __init__(self, session: Session) -> None:
        self.record = ThreadRecord()
        session.threads.append(self.record)


class Session:
    """What a profile notes.

    Args:
        synchronize: a span of an operation on a GPU ends when its result is there, not when the
            call returns.

    Attributes:
        threads: a record for each thread that has noted something.
        programs: by code object, the programs of graphs that have run.
        nodes: by node of a graph, its label.
        owner: the record of the thread that began the session.
        start, stop: in nanoseconds; `stop` is 0 while it runs.
    """

    def __init__(self, synchronize: bool = False) -> None:
        self.synchronize = synchronize
        self.threads: list[ThreadRecord] = []
        self.programs: dict[Any, Any] = {}
        self.nodes: dict[Any, Label] = {}
        self._labels: dict[tuple[str, str, Any], Label] = {}
        self._local = _Local(self)
        self.owner = self._local.record
        self.start, self.stop = perf_counter_ns(), 0

    def restart(self) -> None:
        """Begin now, and forget what was noted before."""
        for record in self.threads:
            record.forget()
        self.start = perf_counter_ns()

    @property
    def record(self) -> ThreadRecord:
        """That of this thread."""
        return self._local.record

    @property
    def seconds(self) -> float:
        """How long it has run."""
        return ((self.stop or perf_counter_ns()) - self.start) / 1e9

    def timed(
        self, call: Callable[..., Any], label: Callable[[tuple[Any, ...]], Label], token: Any = None
    ) -> Callable[..., Any]:
        """`call` with a span around it.

        Args:
            call: a function.
            label: gives the span's label from the arguments by position.
            token: a call inside one of the same token, which is the same work, makes no span.
        """
        local, waits = self._local, self.synchronize

        def run(*args: Any, **kwargs: Any) -> Any:
            record = local.record
            stack = record.stack
            if token is not None and stack and stack[-1].token is token:
                return call(*args, **kwargs)
            start = record.begin(token)
            try:
                return call(*args, **kwargs)
            finally:
                if waits:
                    wait_for_gpu()
                try:
                    span_label = label(args)
                except Exception:  # an object that does not tell its name or shape
                    span_label = unnamed
                record.end(span_label, start)

        unnamed = Label("unnamed", getattr(call, "__qualname__", repr(call)))
        return run

    def label(self, kind: str, name: str, shapes: Any = None) -> Label:
        """The one label of these; shapes are hashable."""
        key = (kind, name, shapes)
        entry = self._labels.get(key)
        if entry is None:
            entry = self._labels.setdefault(key, Label(kind, name, shapes))
        return entry


def wait_for_gpu() -> None:
    """Wait until the GPU has done what it was given, where one is in use."""
    cupy: Any = sys.modules.get("cupy")
    if cupy is not None:
        cupy.cuda.get_current_stream().synchronize()
