"""Processes that are forked off while threads are at work: one thread, the caller's, goes on there.

A lock that another thread held would never be free in the child. So locks are made here, and are
free in a child, whoever held them: what they protect are counts and tables, which are whole between
two instructions. The compilers are not, so a fork waits for them. Threads and pools do not exist in
the child; who has some compares `generation` with what it was when they were started.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

_LOCKS: weakref.WeakSet[Any] = weakref.WeakSet()


class _Generation:
    number = 0


def generation() -> int:
    """How often this process was forked off, itself and those that it comes from."""
    return _Generation.number


def free_in_child(lock: Any) -> Any:
    """`lock`, one of `threading`, which is free in a process that is forked off."""
    _LOCKS.add(lock)
    return lock


def make_lock() -> Any:
    """A `threading.Lock` that is free in a process that is forked off."""
    return free_in_child(threading.Lock())


def make_rlock() -> Any:
    """A `threading.RLock` that is free in a process that is forked off."""
    return free_in_child(threading.RLock())


class _Compilers:
    """Any number of threads compile at a time; a fork waits until none but its own does.

    It is entered and left by `with`, within itself too, as one compiler may call another.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._of_thread = threading.local()
        self._last_thread: int | None = None

    def _own(self) -> int:
        return getattr(self._of_thread, "depth", 0)

    def _move(self, step: int) -> None:
        with self._changed:
            self._inside += step
            self._of_thread.depth = self._own() + step
            self._changed.notify_all()

    def __enter__(self) -> None:
        if self._last_thread not in (None, threading.get_ident()):
            threading.Event().wait()  # for the end of the process, which is near
        self._move(1)

    def __exit__(self, *error: object) -> None:
        self._move(-1)

    def hold(self) -> None:
        """Wait for all others, and let none begin or end until `release`."""
        self._changed.acquire()
        self._changed.wait_for(lambda: self._inside == self._own())

    def close(self, seconds: float) -> None:
        """Wait so long for other threads that compile, none of which begins once more."""
        self._last_thread = threading.get_ident()
        with self._changed:
            self._changed.wait_for(lambda: self._inside == self._own(), seconds)

    def release(self) -> None:
        """Go on, in the process that forked."""
        self._changed.release()

    def begin_child(self) -> None:
        """Go on in the process that was forked off, where no other thread is."""
        self._changed, self._inside = threading.Condition(), self._own()
        self._last_thread = None


COMPILING = _Compilers()
"""Entered while LLVM or Numba compiles, whose state can't be taken up in the middle."""


def _begin_child() -> None:
    COMPILING.begin_child()
    for lock in list(_LOCKS):
        lock._at_fork_reinit()
    _Generation.number += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=COMPILING.hold, after_in_parent=COMPILING.release, after_in_child=_begin_child
    )
