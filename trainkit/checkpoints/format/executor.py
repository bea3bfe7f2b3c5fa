"""`JobPool`: a list of jobs, done by few background threads and by whoever waits for them."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

HELPERS = 2
"""Background threads at most."""
_WORTHWHILE = 1 << 23  # bytes below which a thread costs more than it saves

T = TypeVar("T")


def helpers_for(total_bytes: int) -> int:
    """How many background threads help to read so many bytes; one core is the caller's."""
    return min(HELPERS, (os.cpu_count() or 1) - 1) if total_bytes >= _WORTHWHILE else 0


class JobPool(Generic[T]):
    """Starts on the jobs at once.

    Args:
        hire: makes the function that does a job; each thread calls it once, so that what it
            allocates is used again for the next job.
        jobs: taken in this order.
        helpers: how many background threads.
    """

    def __init__(
        self, hire: Callable[[], Callable[[Any], T]], jobs: Iterable[Any], helpers: int
    ) -> None:
        self._hire = hire
        self._queue = deque(enumerate(jobs))
        self._results: dict[int, T] = {}
        self._errors: dict[int, BaseException] = {}
        self._threads = [
            threading.Thread(target=self._work, name="trainkit-checkpoint", daemon=True)
            for _ in range(min(helpers, len(self._queue)))
        ]
        for thread in self._threads:
            thread.start()

    def _work(self) -> None:
        work: Callable[[Any], T] | None = None
        while True:
            try:
                number, job = self._queue.popleft()
            except IndexError:
                return
            try:
                work = work or self._hire()
                self._results[number] = work(job)
            except BaseException as error:
                self._errors[number] = error
                self._queue.clear()

    def finish(self) -> list[T]:
        """Help, and give the results in the order of the jobs.

        Raises:
            Exception: what the first of the jobs that failed has raised; no job was begun after a
                failure.
        """
        try:
            self._work()
        finally:
            self._queue.clear()
            for thread in self._threads:
                thread.join()
        if self._errors:
            raise self._errors[min(self._errors)]
        return [self._results[number] for number in sorted(self._results)]


def in_threads(work: Callable[[Any], T], jobs: Iterable[Any], total_bytes: int) -> list[T]:
    """The results of `work` for each job, on several cores when there are many bytes to read."""
    return JobPool(lambda: work, jobs, helpers_for(total_bytes)).finish()
