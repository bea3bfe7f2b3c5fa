"""`ModelWorker`: the one thread that computes, and what becomes of a computation without an end."""

from __future__ import annotations

import ctypes
import queue
import threading
from collections.abc import Callable
from typing import Any

from trainkit.core.process import forks

_ROUNDS = 1000


class BusyError(Exception):
    """The thread did not begin in time; what was asked for is dropped."""


class UnfinishedError(Exception):
    """What was asked for has begun, and did not end in time; it is stopped."""


class _Stopped(BaseException):
    """Raised in the thread, between two steps of Python, in what takes too long."""


class _Task:
    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.function, self.arguments = function, arguments
        self.result: Any = None
        self.error: BaseException | None = None
        self.has_begun = self.is_dropped = self.is_stopped = False
        self.ended = threading.Event()


class ModelWorker:
    """Computes one thing after the other, in a thread of its own.

    What takes too long is stopped by an exception, which Python raises between two of its steps: a
    loop of a model ends within one round. A single operation can't be interrupted, and ends by
    itself; until then nothing else is computed. The thread does not keep a program from ending.
    """

    def __init__(self) -> None:
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._lock = forks.make_lock()
        self._thread = threading.Thread(target=self._work, name="model", daemon=True)
        self._thread.start()

    def compute(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], seconds: float
    ) -> Any:
        """The result of a function.

        Raises:
            BusyError: it has not begun.
            UnfinishedError: it has not ended.
        """
        task = _Task(function, arguments)
        self._tasks.put(task)
        if not task.ended.wait(seconds):
            with self._lock:
                if not task.has_begun:
                    task.is_dropped = True
                    raise BusyError
                if not task.ended.is_set():
                    task.is_stopped = True
                    self._raise_in_thread()
                    raise UnfinishedError
        if task.error is not None:
            raise task.error
        return task.result

    def close(self) -> None:
        """Compute nothing that has not begun."""
        self._tasks.put(None)

    def _raise_in_thread(self) -> None:
        number, error = ctypes.c_ulong(self._thread.ident or 0), ctypes.py_object(_Stopped)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(number, error)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            self._run(task)

    def _run(self, task: _Task) -> None:
        try:
            with self._lock:
                if task.is_dropped:
                    return
                task.has_begun = True
            try:
                task.result = task.function(*task.arguments)
            except BaseException as error:
                task.error = error
            with self._lock:
                task.ended.set()
            # An exception that was asked for in the last moment has to come here: later it would
            # stop another task. Python looks for it at each round of a loop.
            for _ in range(_ROUNDS if task.is_stopped else 0):
                pass
        except _Stopped:
            task.ended.set()
