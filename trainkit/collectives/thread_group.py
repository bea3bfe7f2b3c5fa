"""A group of threads of one process, a replica in each, such as one for each GPU."""

from __future__ import annotations

from typing import Any

from trainkit.collectives.communication import Communication
from trainkit.collectives.device_sums import DeviceSums, Message, OneDeviceSums, write_into
from trainkit.collectives.process_group import ProcessGroup, Work, check_reduction, sized
from trainkit.collectives.turns import Turns
from trainkit.core import devices


class ThreadGroup(ProcessGroup):
    """One thread's view of a group of threads. Arrays may be those of a GPU, and stay there.

    Args:
        turns: shared by all threads.
        rank: number of this one.
        sums: adds up the arrays of all; by default on the device of the first.
        communication: how gradients travel.
    """

    takes_device_arrays = True
    is_of_one_process = True

    def __init__(
        self,
        turns: Turns,
        rank: int,
        sums: DeviceSums | None = None,
        communication: Communication | None = None,
    ) -> None:
        self._turns = self.identity = turns
        self.rank, self.size = rank, turns.size
        self._sums = OneDeviceSums() if sums is None else sums
        self.communication = Communication() if communication is None else communication
        self._begun: list[tuple[Message, str]] = []

    def all_reduce(self, array: Any, reduction: str = "SUM", what: str = "") -> Any:
        return self.start_all_reduce(array, reduction, what).wait()

    def start_all_reduce(self, array: Any, reduction: str = "SUM", what: str = "") -> Work:
        """See `ProcessGroup`. All sums that were begun are made when the first is waited for.

        So a turn does not end in the middle of a backward pass.
        """
        check_reduction(reduction)
        message = Message(array, reduction)
        message.check_works()
        begun = message, sized(array, what or "all_reduce", anywhere=True)
        self._begun.append(begun)

        def finish() -> Any:
            if any(one is begun for one in self._begun):
                self._finish()
            return array

        return Work(finish)

    def _finish(self) -> None:
        """Make all sums that were begun."""
        begun, self._begun = self._begun, []
        messages = [message for message, _ in begun]

        def join(given: list[list[Message]]) -> None:
            self._sums.all_reduce(list(zip(*given, strict=True)))

        self._turns.meet(self.rank, messages, ", ".join(what for _, what in begun), join)

    def forget(self) -> None:
        """Leave out sums that were begun by a step that has failed."""
        self._begun.clear()

    def broadcast(self, array: Any, root: int = 0, what: str = "") -> Any:
        def join(arrays: list[Any]) -> None:
            _spread(arrays, root)

        self._turns.meet(self.rank, array, sized(array, what or "broadcast", anywhere=True), join)
        return array

    def all_gather(self, array: Any, what: str = "") -> list[Any]:
        here = devices.device_of(array)
        arrays = self._turns.meet(self.rank, array, what or "all_gather")
        # a step may write into its array when it goes on
        found = [_copied(other, here) for other in arrays]
        self._turns.meet(self.rank, None, "the end of a gather")
        return found

    def exchange(self, value: Any, what: str = "") -> list[Any]:
        found: list[Any] = self._turns.meet(self.rank, value, what or "exchange")
        return list(found)

    def barrier(self, what: str = "") -> None:
        self._turns.meet(self.rank, None, what or "barrier")


def _copied(array: Any, where: devices.Device) -> Any:
    return (
        devices.to_device(array, where) if devices.device_of(array) is not where else array.copy()
    )


def _spread(arrays: list[Any], root: int) -> None:
    """Write one of the arrays into all others."""
    for rank, array in enumerate(arrays):
        if rank != root:
            write_into(array, arrays[root])
