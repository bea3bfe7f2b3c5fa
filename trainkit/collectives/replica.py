"""Which replica of a model the code that runs belongs to.

A strategy enters a replica around each step. Optimizers then join gradients over all replicas,
random operations draw the numbers of their rows in the global batch, and metrics are joined when
their results are asked for. Elsewhere, and where there is one replica, none of this costs
anything: `REPLICAS` is empty.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

from trainkit.collectives.process_group import ProcessGroup
from trainkit.core.values import batch_size

_REPLICA = "replica"


class GlobalRows(NamedTuple):
    """Which rows of the global batch a replica has.

    Attributes:
        start: position of its first row.
        size: how many rows it has.
        total: how many the global batch has.
    """

    start: int
    size: int
    total: int


class Replica:
    """One of the replicas that make a step together.

    Args:
        group: the processes that have one each.
        rows: its rows of the global batch, where they are known.
        shards_state: each replica keeps the slots of optimizers for some of the weights.
        averages: gradients are of means over its own rows and are joined to those of the mean over
            the global batch; by default they are added up as they are.

    Attributes:
        rank: its number, from 0.
        count: how many there are.
        joins: whether there are others, with which it joins what it computes.
        meets: whether all run at the same time, and can do something together within a step.
        gradients_are_joined: whether optimizers are given what was added up over all already.
    """

    gradients_are_joined = False
    meets = True

    def __init__(
        self,
        group: ProcessGroup,
        rows: GlobalRows | None = None,
        averages: bool = False,
        shards_state: bool = False,
    ) -> None:
        self.group, self.rows, self.averages = group, rows, averages
        self.shards_state = shards_state
        self.rank, self.count = group.rank, group.size
        self.joins = group.size > 1

    @property
    def weight(self) -> float:
        """What a gradient of this replica counts in the sum over all."""
        if not self.averages:
            return 1.0
        return 1.0 / self.count if self.rows is None else self.rows.size / self.rows.total

    @property
    def whose(self) -> tuple[object, ...]:
        """The part of `key` that is the same on all batches."""
        return (_REPLICA, self.rank, self.count)

    @property
    def has_own_graphs(self) -> bool:
        """Whether other replicas of this process have graphs of their own beside this one's."""
        return self.group.is_of_one_process

    @property
    def shares_graphs(self) -> bool:
        """Whether a graph that was made in this replica also runs in others, on other rows."""
        return False

    @property
    def drawn_rows(self) -> Any:
        """`rows` as a graph holds them for its random operations."""
        return None if self.rows is None else tuple(self.rows)

    def check_meets(self, label: str) -> None:
        """Refuse what all replicas have to do at the same time, if they don't run so.

        Raises:
            UnimplementedError: they run one after the other.
        """

    @property
    def key(self) -> tuple[object, ...]:
        """What a graph that was made in this replica depends on."""
        return (
            *self.whose,
            self.rows,
            self.averages,
            self.shards_state,
            self.group.communication,
            self.group.identity,
        )

    def __enter__(self) -> Replica:
        _THREAD.stack.append(self)
        if self.joins:
            REPLICAS.append(self)
            if self.rows is not None:
                batch_size.enter(max(self.rows.size, 1))
        return self

    def __exit__(self, *exc: object) -> None:
        _THREAD.stack.remove(self)
        if self.joins:
            REPLICAS.remove(self)
            if self.rows is not None:
                batch_size.leave(max(self.rows.size, 1))


REPLICAS: list[Replica] = []
"""The replicas with others to join with that any thread is in: empty almost always."""


class _ReplicaStack(threading.local):
    def __init__(self) -> None:
        self.stack: list[Replica] = []


_THREAD = _ReplicaStack()


def current() -> Replica | None:
    """The replica that this thread is in, whatever the size of its group."""
    stack = _THREAD.stack
    return stack[-1] if stack else None


def among_others() -> Replica | None:
    """The replica that this thread is in, if there are others to join with."""
    if not REPLICAS:
        return None
    replica = current()
    return replica if replica is not None and replica.joins else None


def own_keys(keys: list[Any], key: Any) -> tuple[list[Any], Any]:
    """The keys of graphs without their last part, which names the replica, of this replica alone.

    Where replicas are processes, share their graphs, or there is one, they are given back as they
    are.

    Args:
        keys: of graphs that there are.
        key: of one more.
    """
    replica = among_others()
    if replica is None or not replica.has_own_graphs:
        return keys, key
    whose = replica.whose
    mine = [k[:-1] for k in keys if k and type(k[-1]) is tuple and k[-1][: len(whose)] == whose]
    return mine, key[:-1]


def of_replica(key: Any) -> tuple[tuple[int, int] | None, Any]:
    """The number of the replica that a graph was made in, and of how many, and the rest of its key.

    Args:
        key: of a graph; its last part names the replica, if there was one.

    Returns:
        `None` and the key itself for a graph that was made outside.
    """
    last = key[-1] if key else None
    if type(last) is not tuple or last[:1] != (_REPLICA,):
        return None, key
    return (last[1], last[2]), key[:-1]


def follows_in_process() -> bool:
    """Whether another replica of this process has gone ahead of that of this thread."""
    replica = among_others()
    return replica is not None and replica.rank > 0 and replica.group.is_of_one_process
