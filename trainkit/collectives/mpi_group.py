"""A process group over MPI, by mpi4py. Importing this file starts MPI.

Collective operations that overlap with computation run on a thread of their own, one after the
other, so that their order is that in which they were started in each process.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np
from mpi4py import MPI

from trainkit.collectives.agreement import Agreement
from trainkit.collectives.endings import Endings
from trainkit.collectives.nccl import NcclSums, why_not
from trainkit.collectives.process_group import (
    ProcessGroup,
    Work,
    check_reduction,
    sized,
    sum_by_tree,
)
from trainkit.core.errors import InvalidArgumentError

_REDUCTIONS = {"SUM": MPI.SUM, "MAX": MPI.MAX, "MIN": MPI.MIN}


class _Order:
    """What is under way in this process, in the order in which it was started."""

    def __init__(self) -> None:
        self.waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.thread: threading.Thread | None = None
        self.pending: Future[Any] | None = None
        self.nccl: NcclSums | None = None


class MPIGroup(ProcessGroup):
    """All processes of MPI's world."""

    def __init__(self) -> None:
        self._comm = MPI.COMM_WORLD.Dup()
        self.rank, self.size = self._comm.Get_rank(), self._comm.Get_size()
        self._order = _Order()  # one for all views of these processes
        self._short_operations: dict[Any, Any] = {}
        self._agreement = Agreement(MPI.COMM_WORLD.Dup(), MPI)
        self._endings = Endings(MPI.COMM_WORLD.Dup(), self._agreement, MPI.COMM_WORLD)
        self.look_for_nccl()

    def look_for_nccl(self) -> None:
        """Let arrays stay on GPUs if all processes have NCCL."""
        self.takes_device_arrays = not any(self._comm.allgather(why_not()))

    # ------------------------------------------------------------------ what a group does

    def all_reduce(self, array: Any, reduction: str = "SUM", label: str = "") -> Any:
        return self._now(sized(array, label or "all_reduce"), self._reduce, array, reduction)

    def start_all_reduce(self, array: Any, reduction: str = "SUM", label: str = "") -> Work:
        check_reduction(reduction)
        if type(array) is not np.ndarray:  # NCCL returns at once, and is in order in this stream
            total = self.all_reduce(array, reduction, label)
            return Work(lambda: total)
        future: Future[Any] = Future()
        order = self._order
        order.pending = future
        if order.thread is None:
            order.thread = threading.Thread(
                target=self._serve, args=(order.waiting,), name="collectives", daemon=True
            )
            order.thread.start()
        label = sized(array, label or "all_reduce")
        order.waiting.put((future, label, self._reduce, (array, reduction)))
        return Work(future.result)

    def broadcast(self, array: Any, root: int = 0, label: str = "") -> Any:
        return self._now(sized(array, label or "broadcast"), self._broadcast, array, root)

    def all_gather(self, array: Any, label: str = "") -> list[Any]:
        return list(self._now(label or "all_gather", self._gather, np.ascontiguousarray(array)))

    def exchange(self, value: Any, label: str = "") -> list[Any]:
        return list(self._now(label or "exchange", self._comm.allgather, value))

    def sum_pieces(self, pieces: Any, label: str = "") -> Any:
        return self._now(sized(pieces, label or "sum_pieces"), self._sum_by_shares, pieces)

    def barrier(self, label: str = "") -> None:
        self._now(label or "barrier", _do_nothing)

    def hear_signal(self, asked: bool) -> None:
        self._endings.hear_signal(asked)

    # ------------------------------------------------------------------ order

    def _now(self, step: str, action: Callable[..., Any], *args: Any) -> Any:
        """Do `step`, by an action, after all that was started, in this thread."""
        pending, self._order.pending = self._order.pending, None
        if pending is not None:
            pending.exception()  # its own waiter hears of it
        self._agreement.check(step)
        return action(*args)

    def _serve(self, waiting: queue.SimpleQueue[Any]) -> None:
        while True:
            future, step, action, args = waiting.get()
            try:
                self._agreement.check(step)
                future.set_result(action(*args))
            except BaseException as error:
                future.set_exception(error)

    # ------------------------------------------------------------------ by MPI

    def _reduce(self, array: Any, reduction: str) -> Any:
        check_reduction(reduction)
        if self.takes_device_arrays and type(array) is not np.ndarray:
            if self._order.nccl is None:
                self._order.nccl = NcclSums(self.rank, self.size, self._comm.allgather)
            return self._order.nccl.all_reduce(array, reduction)
        _check_contiguous(array)
        is_short = array.dtype.itemsize == 2 and array.dtype.kind not in "iu"
        if reduction == "SUM" and (self.communication.in_order or is_short):
            return self._sum_in_order(array, is_short)
        if is_short:
            self._comm.Allreduce(
                MPI.IN_PLACE, array.view(np.uint16), self._short(array.dtype, reduction)
            )
        else:
            self._comm.Allreduce(MPI.IN_PLACE, array, _REDUCTIONS[reduction])
        return array

    def _sum_in_order(self, array: Any, is_short: bool) -> Any:
        """Each rank adds up a share of the arrays, by a tree over the ranks, and gives it to all.

        As many bytes travel as in a ring. Short floats are added up in float32 and rounded once.
        """
        flat = array.reshape(-1)
        self._sum_by_shares(flat[np.newaxis], into=flat, is_short=is_short)
        return array

    def _sum_by_shares(self, pieces: Any, into: Any = None, is_short: bool = False) -> Any:
        """The sum of the rows of all ranks, each of which adds up a share of the columns."""
        (count, size), item = pieces.shape, pieces.dtype.itemsize
        share = -(-size // self.size)
        counts = [max(0, min(share, size - rank * share)) for rank in range(self.size)]
        own, lengths = counts[self.rank], [n * item for n in counts]
        parts = np.empty((self.size, count, own), pieces.dtype)
        self._comm.Alltoallv(
            [_by_share(pieces, counts).view(np.uint8), [n * count for n in lengths], MPI.BYTE],
            [parts.reshape(-1).view(np.uint8), [own * count * item] * self.size, MPI.BYTE],
        )
        parts = parts.reshape(self.size * count, own)
        total = sum_by_tree(parts.astype(np.float32) if is_short else parts)
        mine = np.ascontiguousarray(total.astype(pieces.dtype, copy=False))
        into = np.empty(size, pieces.dtype) if into is None else into
        self._comm.Allgatherv(
            [mine.view(np.uint8), MPI.BYTE], [into.view(np.uint8), lengths, MPI.BYTE]
        )
        return into

    def _short(self, dtype: Any, reduction: str) -> Any:
        """The maximum or minimum of float16 or bfloat16, which MPI does not know, by their bits."""
        operation = self._short_operations.get((dtype, reduction))
        if operation is None:
            combine = {"MAX": np.maximum, "MIN": np.minimum}[reduction]

            def of_bits(mine: Any, theirs: Any, _: Any) -> None:
                into = np.frombuffer(theirs, np.uint16).view(dtype)
                combine(np.frombuffer(mine, np.uint16).view(dtype), into, out=into)

            operation = self._short_operations[dtype, reduction] = MPI.Op.Create(
                of_bits, commute=True
            )
        return operation

    def _broadcast(self, array: Any, root: int) -> Any:
        _check_contiguous(array)
        self._comm.Bcast(
            [array.view(np.uint8) if array.ndim else array.reshape(1).view(np.uint8), MPI.BYTE],
            root,
        )
        return array

    def _gather(self, array: Any) -> list[Any]:
        sizes = self._comm.allgather(array.shape)
        row_shapes = {shape[1:] for shape in sizes}
        if len(row_shapes) != 1:
            raise InvalidArgumentError(
                f"all_gather: arrays must agree in all sizes but the first, the ranks have {sizes}"
            )
        counts = [int(np.prod(shape)) * array.dtype.itemsize for shape in sizes]
        into = np.empty(sum(counts), np.uint8)
        self._comm.Allgatherv([array.reshape(-1).view(np.uint8), MPI.BYTE], [into, counts])
        ends = np.cumsum([0, *counts])
        return [
            into[a:b].view(array.dtype).reshape(shape)
            for a, b, shape in zip(ends, ends[1:], sizes, strict=False)
        ]


def _by_share(pieces: Any, counts: list[int]) -> Any:
    """The columns of each rank's share, of all rows, one share after the other."""
    if len(pieces) == 1:
        return pieces.reshape(-1)
    ends = np.cumsum(counts)
    shares = np.split(pieces, ends[:-1], axis=1)
    return np.concatenate([part.reshape(-1) for part in shares])


def _do_nothing() -> None:
    """A barrier is passed once all ranks have agreed on it."""


def _check_contiguous(array: Any) -> None:
    if type(array) is not np.ndarray or not array.flags.c_contiguous:
        raise InvalidArgumentError(
            "collective operations of processes take contiguous NumPy arrays, got "
            f"{type(array).__name__}"
        )
