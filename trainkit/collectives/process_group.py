"""What the processes of a group do together; alone, a process is a group of one."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from trainkit.collectives.communication import Communication

REDUCTIONS = ("SUM", "MAX", "MIN")


class Work:
    """A collective operation under way."""

    def __init__(self, finish: Callable[[], Any]) -> None:
        self._finish: Callable[[], Any] | None = finish
        self._result: Any = None

    def wait(self) -> Any:
        """The result, once it is there.

        Raises:
            UnavailableError: another process has ended.
        """
        if self._finish is not None:
            finish, self._finish = self._finish, None
            self._result = finish()
        return self._result


class ProcessGroup:
    """A group of processes; this class is the group of one.

    All processes of a group call the same methods in the same order. Arrays are NumPy's,
    contiguous.

    Attributes:
        rank: number of this process, from 0.
        size: how many processes there are.
        communication: how gradients travel.
        takes_device_arrays: whether arrays may lie on a GPU; elsewhere they are copied to the host.
        is_of_one_process: whether its members are threads of one process.
        identity: what tells groups of threads from each other.
    """

    rank = 0
    size = 1
    communication = Communication()
    takes_device_arrays = False
    is_of_one_process = False
    identity: Any = None

    def with_communication(self, settings: Communication) -> Self:
        """A view of the same processes with settings of its own, such as those of a strategy.

        Args:
            settings: count for what is joined by way of the view alone.
        """
        view = copy.copy(self)
        view.communication = settings
        return view

    def all_reduce(self, array: Any, reduction: str = "SUM", label: str = "") -> Any:
        """Combine an array of all processes, element by element, in place.

        Args:
            array: of the same shape and dtype in each process; it gets the result.
            reduction: `"SUM"`, `"MAX"` or `"MIN"`.
            label: what the array is, for messages when processes disagree.

        Returns:
            `array`.
        """
        check_reduction(reduction)
        return array

    def start_all_reduce(self, array: Any, reduction: str = "SUM", label: str = "") -> Work:
        """Begin `all_reduce`; `array` is in use until the work that is given has been waited for.

        Args:
            array: see `all_reduce`.
            reduction: see `all_reduce`.
            label: see `all_reduce`.
        """
        check_reduction(reduction)
        return Work(lambda: array)

    def broadcast(self, array: Any, root: int = 0, label: str = "") -> Any:
        """Copy an array of the process `root` into that of all others, in place.

        Args:
            array: of the same shape and dtype in each process.
            root: whose values all get.
            label: see `all_reduce`.

        Returns:
            `array`.
        """
        return array

    def all_gather(self, array: Any, label: str = "") -> list[Any]:
        """The arrays of all processes, in the order of their ranks.

        Args:
            array: of the same dtype in each process and the same sizes but for the first.
            label: see `all_reduce`.
        """
        return [array]

    def sum_pieces(self, pieces: Any, label: str = "") -> Any:
        """The sum of the rows of all processes, in order of their ranks, by one binary tree.

        Neighbours are added first, then these sums, so that the bits depend on the rows alone.

        Args:
            pieces: shape (rows, n), the same in each process.
            label: see `all_reduce`.

        Returns:
            An array of shape (n,).
        """
        return sum_by_tree(np.concatenate(self.all_gather(pieces, label or "sum_pieces")))

    def exchange(self, value: Any, label: str = "") -> list[Any]:
        """Small values of all processes, in the order of their ranks.

        Args:
            value: made of numbers, strings, `None`, tuples, lists and dicts.
            label: see `all_reduce`.
        """
        return [value]

    def barrier(self, label: str = "") -> None:
        """Go on once all processes are here."""

    def hear_signal(self, asked: bool) -> None:
        """Let the others know that a signal has asked this process to stop, or that this is over.

        Args:
            asked: whether it has.
        """

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, rank {self.rank} of {self.size}>"


def sum_by_tree(parts: Any) -> Any:
    """The sum of rows: of neighbours first, then of these sums.

    Args:
        parts: shape (rows, n).
    """
    while len(parts) > 1:
        sums = parts[0::2].copy()
        sums[: len(parts) // 2] += parts[1::2]
        parts = sums
    return parts[0]


def check_reduction(reduction: str) -> None:
    """Refuse what is no reduction.

    Raises:
        ValueError: the text lists them.
    """
    if reduction not in REDUCTIONS:
        raise ValueError(f"the reduction must be one of {REDUCTIONS}, got {reduction!r}")


def sized(array: Any, label: str, anywhere: bool = False) -> str:
    """`label` with the sizes in which ranks have to agree, and where the array lies.

    Args:
        array: of this rank.
        label: what it is.
        anywhere: it may lie elsewhere in other ranks.
    """
    where = "" if anywhere or type(array) is np.ndarray else " of a GPU"
    return f"{label} of {array.size:,} {array.dtype}{where}"
