"""Locks by keys: who works on the same thing waits for the other, and finds it done."""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterator
from typing import Any

from trainkit.core.process import forks


class KeyLocks:
    """A lock for each key, which exists as long as somebody holds it or waits for it."""

    def __init__(self) -> None:
        self._table = forks.make_lock()
        self._locks: dict[Hashable, tuple[Any, int]] = {}

    @contextlib.contextmanager
    def hold(self, key: Hashable) -> Iterator[None]:
        """Hold the lock of `key`, which nobody else does meanwhile."""
        lock = self._enter(key)
        try:
            with lock:
                yield
        finally:
            self._leave(key)

    def _enter(self, key: Hashable) -> Any:
        with self._table:
            lock, users = self._locks.get(key) or (forks.make_lock(), 0)
            self._locks[key] = lock, users + 1
        return lock

    def _leave(self, key: Hashable) -> None:
        with self._table:
            lock, users = self._locks.pop(key)
            if users > 1:
                self._locks[key] = lock, users - 1
