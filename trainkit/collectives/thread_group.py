"""A group of threads of one process, a replica in each, such as one for each GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainkit.collectives.communication import Communication
from trainkit.collectives.device_sums import DeviceSums, Message, OneDeviceSums
from trainkit.collectives.process_group import ProcessGroup, Work, check_reduction, sized
from trainkit.collectives.turns import Turns
from trainkit.core.errors import FailedPreconditionError


class _Begun:
    """A sum that a replica has begun.

    Args:
        message: its array.
        label: what it is, in words, which have to be the same in all replicas.
        failures: how many meetings of this step have failed before.

    Attributes:
        is_made: whether it is under way in all replicas, or done.
    """

    def __init__(self, message: Message, title: str, failures: int) -> None:
        self.message, self.label, self.failures = message, title, failures
        self.is_made = False


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
        self._begun: list[_Begun] = turns.begun[rank]
        self._open: list[Message] = []  # those of other streams that nothing has waited for yet
        self._failures = 0

    def all_reduce(self, array: Any, reduction: str = "SUM", label: str = "") -> Any:
        return self.start_all_reduce(array, reduction, label).wait()

    def start_all_reduce(self, array: Any, reduction: str = "SUM", label: str = "") -> Work:
        """See `ProcessGroup`. Sums are made when the first is waited for, or the last one begins.

        So a turn does not end in the middle of a backward pass. Where sums run beside other work,
        the replica that comes last starts each as soon as it has begun it, as all others have.
        """
        check_reduction(reduction)
        message = _message(array, reduction)
        if self._sums.runs_beside:
            message.mark()
        text = sized(array, label or "all_reduce", anywhere=True)
        begun = _Begun(message, text, self._failures)
        self._begun.append(begun)
        self._open.append(message)
        if self._sums.runs_beside:
            self._make_common()

        def finish() -> Any:
            if any(one is begun for one in self._begun):
                self._finish()  # also where it is made: others may wait for this replica
            elif not begun.is_made:
                raise FailedPreconditionError(
                    f"{text}: the replicas failed to meet since this sum was begun; begin it again"
                )
            message.settle()
            if message in self._open:
                self._open.remove(message)
            return array

        return Work(finish)

    def _make_common(self) -> None:
        """Make the sums that all replicas have begun, as far as they agree on what these are."""
        for ranks in zip(*self._turns.begun, strict=False):
            if len({(begun.label, begun.failures) for begun in ranks}) > 1:
                return  # they hear of it when they meet
            self._make([ranks])

    def _make(self, columns: Sequence[Sequence[_Begun]]) -> None:
        """Make those of some sums that are not under way; each is of all ranks."""
        unmade = [ranks for ranks in columns if not ranks[0].is_made]
        self._sums.all_reduce([[begun.message for begun in ranks] for ranks in unmade])
        for ranks in unmade:
            for begun in ranks:
                begun.is_made = True

    def _finish(self) -> None:
        """Make all sums that were begun."""

        def join(begun_sums: list[list[_Begun]]) -> None:
            self._make(list(zip(*begun_sums, strict=True)))
            for mine in self._turns.begun:
                mine.clear()

        names = ", ".join(begun.label for begun in self._begun)
        try:
            self._turns.meet(self.rank, list(self._begun), names, join)
        except BaseException:
            self._begun.clear()
            self._failures += 1
            raise

    def forget(self) -> None:
        """Leave out sums that were begun by a step that has failed."""
        for message in self._open:
            message.settle()
        self._open.clear()
        self._begun.clear()
        self._failures = 0

    def broadcast(self, array: Any, root: int = 0, label: str = "") -> Any:
        def join(messages: list[Message]) -> None:
            self._sums.broadcast(messages, root)

        text = sized(array, label or "broadcast", anywhere=True)
        self._turns.meet(self.rank, _message(array), text, join)
        return array

    def all_gather(self, array: Any, label: str = "") -> list[Any]:
        copies: list[list[Any]] = self._turns.meet(
            self.rank, _message(array), label or "all_gather", self._sums.all_gather
        )
        return copies[self.rank]

    def exchange(self, value: Any, label: str = "") -> list[Any]:
        values: list[Any] = self._turns.meet(self.rank, value, label or "exchange")
        return list(values)

    def barrier(self, label: str = "") -> None:
        self._turns.meet(self.rank, None, label or "barrier")


def _message(array: Any, reduction: str = "SUM") -> Message:
    message = Message(array, reduction)
    message.check_works()
    return message
