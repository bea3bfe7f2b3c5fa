"""Work that is done beside the program: it gives way to it, and ends when the program does.

A thread that computes in Python holds the interpreter's lock for its whole switch interval each
time the program lets go of it, and a step lets go of it at each large operation: a step of a
thousand of those took seconds. So work here takes short turns, and between them leaves the lock
alone for as long: at most half of the program's time is lost to it, and for no longer than is
needed, as the program is slow until the work is done.

A compiler works without that lock, for longer than a turn. Where all cores are busy with steps, it
would take half of one, and steps would take twice as long; so threads here have a lower priority.

Python's exit does not wait for such work: it asks it to stop, which happens at its next pause. It
waits for a compiler alone, which is done with one kernel in about a second.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable

from trainkit.core.process import forks

TURN_SECONDS = 0.001
"""The lock is held for about so long at a time, and left alone for as long."""
NICENESS = 5
"""By so much the niceness of these threads is above that of the program.

Linux gives such a thread a quarter of a core that it shares with a step. Of 10 it would be a tenth,
and short steps would go on without compiled loops for ten times as long as compiling takes.
"""
EXIT_SECONDS = 0.2
"""What Python's exit allows a piece of work that can't pause."""
COMPILER_SECONDS = 30.0
"""What it allows a compiler that is at work. LLVM takes down its own data when the process exits,
so a thread that is in the middle of it would end the process by a signal."""

_NEVER = float("inf")


class Ended(BaseException):
    """The program ends, so the work is given up; not an error, and only this module catches it."""


class _Turn(threading.local):
    """Until when a thread may work without a pause; others than those of `start` always may."""

    until = _NEVER


_TURN = _Turn()
_EXIT = threading.Event()
_THREADS: set[threading.Thread] = set()


def start(work: Callable[[], object], name: str) -> threading.Thread:
    """Do `work` in a thread of its own, beside the program.

    It has to call `give_way` often, once a millisecond or so.
    """

    def serve() -> None:
        _lower_priority()
        _TURN.until = time.perf_counter() + TURN_SECONDS
        try:
            give_way()
            work()
        except Ended:
            pass
        finally:
            _THREADS.discard(thread)

    thread = threading.Thread(target=serve, name=name, daemon=True)
    _THREADS.add(thread)
    thread.start()
    return thread


def _lower_priority() -> None:
    """Let the threads of the program go before this one, where threads have priorities."""
    if not sys.platform.startswith("linux"):  # elsewhere priorities are those of processes
        return
    thread = threading.get_native_id()
    with contextlib.suppress(OSError):  # forbidden in some sandboxes
        niceness = os.getpriority(os.PRIO_PROCESS, thread) + NICENESS
        os.setpriority(os.PRIO_PROCESS, thread, niceness)  # above 19 the system takes it for 19


def give_way() -> None:
    """Let the program go on for a while if this is work beside it, and its turn is over.

    Raises:
        Ended: the program ends.
    """
    if time.perf_counter() > _TURN.until:
        if _EXIT.wait(TURN_SECONDS):
            raise Ended
        _TURN.until = time.perf_counter() + TURN_SECONDS


def import_modules(names: Iterable[str]) -> None:
    """Import modules one by one, and give way before each.

    An import holds the interpreter's lock, and one of many modules holds it for a tenth of a
    second: names of modules that others import come before these.
    """
    for name in names:
        give_way()
        importlib.import_module(name)


@atexit.register
def stop() -> None:
    """Give up all work, and wait shortly for what can't pause right now."""
    _EXIT.set()
    latest = time.perf_counter() + EXIT_SECONDS
    for thread in list(_THREADS):
        thread.join(max(0.0, latest - time.perf_counter()))
    forks.COMPILING.close(COMPILER_SECONDS)


def _begin_child() -> None:
    """No thread goes on in a child; one may have held the lock inside of the event."""
    global _EXIT
    _EXIT = threading.Event()
    _THREADS.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_child)
