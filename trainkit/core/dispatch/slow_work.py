"""What takes long says so: tracing and compiling, while a person may wonder what goes on.

Work of one kind that goes on in several threads has one note: when it has taken
`PATIENCE_SECONDS`, when more of it begins or ends, and when all of it is done.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from trainkit.core.process.console import kind_of

PATIENCE_SECONDS = 2.0
"""Work is spoken of when it has taken so long."""
BEGINS, GOES_ON, IS_DONE = "begins", "goes on", "is done"
"""What a listener is notified of: its first text, another in its place, or the last."""

Listener = Callable[[str, str], None]


class _Depth(threading.local):
    inside = False


_DEPTH = _Depth()


class _Listening:
    """Who is notified, as long as it lives."""

    # Weak, so that a progress bar that was never closed can go.
    method: weakref.WeakMethod[Listener] | None = None


def notify(method: Listener | None) -> None:
    """Have a bound method called for slow work, until its object is gone or another takes over.

    Args:
        method: takes a line of text, and one of `BEGINS`, `GOES_ON` and `IS_DONE`; `None` for lines
            on stderr, if that is a terminal or a notebook.
    """
    _Listening.method = None if method is None else weakref.WeakMethod(method)


def _speaker() -> Listener | None:
    listener = None if _Listening.method is None else _Listening.method()
    if listener is not None:
        return listener
    stream = sys.stderr
    return None if kind_of(stream) == "file" else lambda text, stage: _line(stream, text, stage)


def _line(stream: Any, text: str, stage: str) -> None:
    # A stream of lines takes none back, so what would replace one is left out.
    if stage != GOES_ON:
        print(text, file=stream, flush=True)


class _SlowWork:
    """Work of one kind, from the moment that some of it begins until none goes on.

    Args:
        many: how several pieces are called, with `{}` for their number.
        speak: who is notified.
    """

    def __init__(self, many: str, speak: Listener) -> None:
        self.many, self.speak = many, speak
        self.pieces: list[str] = []
        self.running = 0
        self.spoken = False
        self.began = time.perf_counter()
        # A thread, as the one that works is inside a compiler and sees no clock.
        self.timer = threading.Timer(PATIENCE_SECONDS, self._announce)
        # The end of a program does not wait for a note.
        self.timer.daemon = True
        self.timer.start()

    def begin(self, piece: str) -> None:
        self.pieces.append(piece)
        self.running += 1
        self._go_on()

    def end(self) -> None:
        self.running -= 1
        if self.running:
            self._go_on()
            return
        # One that has gone off waits for the lock, and then sees that nothing is running.
        self.timer.cancel()
        if self.spoken:
            self.speak(f"{self._name()} took {time.perf_counter() - self.began:.1f} s", IS_DONE)

    def _announce(self) -> None:
        with _GoingOn.lock:
            if self.running:
                self.spoken = True
                self.speak(f"{self._name()} ...", BEGINS)

    def _go_on(self) -> None:
        if self.spoken:
            finished = len(self.pieces) - self.running
            self.speak(f"{self._name()} ({finished} done) ...", GOES_ON)

    def _name(self) -> str:
        count = len(self.pieces)
        return self.pieces[0] if count == 1 else self.many.format(count)


class _GoingOn:
    """The work that goes on, by its kind."""

    lock = threading.RLock()
    works: ClassVar[dict[str, _SlowWork]] = {}


def _forget() -> None:
    """In a child process, where none of the threads goes on that did the work."""
    _GoingOn.lock, _GoingOn.works = threading.RLock(), {}


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


@contextlib.contextmanager
def slow_work(what: str, many: str = "") -> Iterator[None]:
    """Say `what` is being done if the block takes longer than `PATIENCE_SECONDS`, and how long.

    Of blocks within one another the outer one speaks.

    Args:
        what: is done.
        many: blocks for which this is the same have one note as soon as several go on, in
            any threads; it holds `{}` for their number. By default each has a note of its own.
    """
    speak = None if _DEPTH.inside else _speaker()
    if speak is None:
        yield
        return
    kind = many or f"{what} {threading.get_ident()}"
    with _GoingOn.lock:
        work = _GoingOn.works.get(kind)
        if work is None:
            work = _GoingOn.works[kind] = _SlowWork(many, speak)
        work.begin(what)
    _DEPTH.inside = True
    try:
        yield
    finally:
        _DEPTH.inside = False
        with _GoingOn.lock:
            # Before the last note, so that work which begins after it has a note of its own.
            if work.running == 1:
                _GoingOn.works.pop(kind, None)
            work.end()
