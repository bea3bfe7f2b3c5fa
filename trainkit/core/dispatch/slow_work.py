"""What takes long says so: tracing and compiling, while a person may wonder what goes on."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator

PATIENCE_SECONDS = 2.0
"""Work is spoken of when it has taken so long."""


class _Depth(threading.local):
    inside = False


_DEPTH = _Depth()


class _Listener:
    """Who is notified, as long as it lives."""

    method: weakref.WeakMethod[Callable[[str], None]] | None = None


def notify(method: Callable[[str], None] | None) -> None:
    """Have a bound method called for slow work, until its object is gone or another takes over.

    Args:
        method: takes a line of text; `None` for a line to stderr, if that is a terminal.
    """
    _Listener.method = None if method is None else weakref.WeakMethod(method)


def _speaker() -> Callable[[str], None] | None:
    listener = None if _Listener.method is None else _Listener.method()
    if listener is not None:
        return listener
    stream = sys.stderr
    try:
        return (lambda text: print(text, file=stream, flush=True)) if stream.isatty() else None
    except (AttributeError, ValueError):  # no stream, or a closed one
        return None


@contextlib.contextmanager
def slow_work(what: str) -> Iterator[None]:
    """Say `what` is being done if the block takes longer than `PATIENCE_SECONDS`, and how long.

    Of blocks within one another the outer one speaks.
    """
    speak = None if _DEPTH.inside else _speaker()
    if speak is None:
        yield
        return
    spoken = threading.Event()

    def announce() -> None:
        spoken.set()
        speak(f"{what} ...")

    timer = threading.Timer(PATIENCE_SECONDS, announce)
    timer.daemon = True
    began = time.perf_counter()
    _DEPTH.inside = True
    timer.start()
    try:
        yield
    finally:
        _DEPTH.inside = False
        timer.cancel()
        if spoken.is_set():
            speak(f"{what} took {time.perf_counter() - began:.1f} s")
