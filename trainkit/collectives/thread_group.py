"""A group of threads of one process, a replica in each, such as one for each GPU."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from trainkit.collectives.agreement import RanksDifferError
from trainkit.collectives.process_group import ProcessGroup, Work, check_reduction, sized
from trainkit.core import devices
from trainkit.core.errors import AbortedError

_COMBINE = {"SUM": np.add, "MAX": np.maximum, "MIN": np.minimum}


class Meeting:
    """Where the threads of a group meet.

    Args:
        size: how many there are.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.given: list[Any] = [None] * size
        self.words: list[str] = [""] * size
        self.barrier = threading.Barrier(size)

    def exchange(self, rank: int, value: Any, what: str) -> list[Any]:
        """The values of all threads, once all have given theirs.

        Raises:
            RanksDifferError: they are about to do different things; in all threads.
            AbortedError: another thread has ended.
        """
        self.given[rank], self.words[rank] = value, what
        self._wait()
        values, words = list(self.given), list(self.words)
        self._wait()  # nobody gives the next value before all have these
        if any(word != what for word in words):
            raise RanksDifferError(words)
        return values

    def _wait(self) -> None:
        try:
            self.barrier.wait()
        except threading.BrokenBarrierError:
            raise AbortedError("another replica of this process ended") from None


class ThreadGroup(ProcessGroup):
    """One thread's view of a group of threads. Arrays may be those of a GPU, and stay there.

    Args:
        meeting: shared by all threads.
        rank: number of this one.
    """

    takes_device_arrays = True

    def __init__(self, meeting: Meeting, rank: int) -> None:
        self._meeting, self.rank, self.size = meeting, rank, meeting.size

    def all_reduce(self, array: Any, reduction: str = "SUM", what: str = "") -> Any:
        check_reduction(reduction)
        arrays = self._meeting.exchange(self.rank, array, sized(array, what or "all_reduce"))
        here = devices.device_of(array)
        combine = getattr(devices.XP_OF[type(array)], _COMBINE[reduction].__name__)
        # in the order of the ranks in each thread, so that all come to the same bits
        total = devices.to_device(arrays[0], here).copy()
        for other in arrays[1:]:
            combine(total, devices.to_device(other, here), out=total)
        self._meeting.exchange(self.rank, None, "the end of a sum")
        array[...] = total
        return array

    def start_all_reduce(self, array: Any, reduction: str = "SUM", what: str = "") -> Work:
        found = self.all_reduce(array, reduction, what)
        return Work(lambda: found)

    def broadcast(self, array: Any, root: int = 0, what: str = "") -> Any:
        arrays = self._meeting.exchange(self.rank, array, what or "broadcast")
        found = devices.to_device(arrays[root], devices.device_of(array)).copy()
        self._meeting.exchange(self.rank, None, "the end of a broadcast")
        array[...] = found
        return array

    def all_gather(self, array: Any, what: str = "") -> list[Any]:
        here = devices.device_of(array)
        arrays = self._meeting.exchange(self.rank, array, what or "all_gather")
        found = [devices.to_device(other, here).copy() for other in arrays]
        self._meeting.exchange(self.rank, None, "the end of a gather")
        return found

    def exchange(self, value: Any, what: str = "") -> list[Any]:
        return self._meeting.exchange(self.rank, value, what or "exchange")

    def barrier(self, what: str = "") -> None:
        self._meeting.exchange(self.rank, None, what or "barrier")
