"""Replicas that a process plays one after the other, so that their number is not that of processes.

The global batch is always cut for the same number of replicas, whichever process has them, and what
they come to is joined in one order. Source: Li et al. 2023, "EasyScale: Elastic Training with
Consistent Accuracy and Improved Utilization on GPUs", arXiv:2208.14228.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainkit.collectives.process_group import ProcessGroup
from trainkit.collectives.replica import GlobalRows, Replica
from trainkit.core import devices
from trainkit.core.errors import UnimplementedError

NOWHERE = GlobalRows(0, 0, 0)


class MovingRows:
    """The rows that a virtual replica has now: what a graph of all of them draws by.

    Attributes:
        moves: what depends on them is no constant of a graph.
    """

    moves = True

    def __init__(self) -> None:
        self.now = NOWHERE

    def __iter__(self) -> Iterator[int]:
        return iter(self.now)

    def __getitem__(self, index: int) -> int:
        return self.now[index]


class VirtualReplica(Replica):
    """All virtual replicas of this process: it is the one that `turn` has named last.

    Graphs that are made in one of them serve all that have as many rows.

    Args:
        group: the processes.
        count: how many virtual replicas there are in all of them; a multiple of their number.

    Attributes:
        own: the numbers of those of this process.
        gradients: keeps what optimizers are given in each turn.
    """

    meets = False

    def __init__(self, group: ProcessGroup, count: int) -> None:
        super().__init__(group, NOWHERE, averages=True)
        self.count, self.joins = count, True
        each = count // group.size
        self.own = range(group.rank * each, (group.rank + 1) * each)
        self.gradients: Any = None
        self._moving = MovingRows()
        # a recorded launch of a GPU keeps its numbers, so there each has graphs of its own
        self._shares_graphs = not devices.gpu_count()

    def turn(self, rank: int, rows: GlobalRows) -> VirtualReplica:
        """Be the replica of this number, which has these rows of the global batch."""
        self.rank, self.rows = rank, rows
        self._moving.now = rows
        return self

    @property
    def drawn_rows(self) -> Any:
        return self._moving if self._shares_graphs else super().drawn_rows

    @property
    def shares_graphs(self) -> bool:
        return self._shares_graphs

    @property
    def has_own_graphs(self) -> bool:
        return not self._shares_graphs

    @property
    def whose(self) -> tuple[object, ...]:
        return ("virtual replica", self, None if self._shares_graphs else self.rank)

    @property
    def key(self) -> tuple[object, ...]:
        assert self.rows is not None
        return (*self.whose, self.rows[1:] if self._shares_graphs else self.rows)

    def check_meets(self, label: str) -> None:
        raise UnimplementedError(
            f"{label} needs the rows of all replicas at once, and virtual_replicas={self.count} "
            "has them run one after the other: leave virtual_replicas out, or compute within the "
            "rows of a replica, as BatchNormalization(synchronized=False) does"
        )


class UpdatingReplica(Replica):
    """A process in the update that follows on the turns of its virtual replicas."""

    gradients_are_joined = True
