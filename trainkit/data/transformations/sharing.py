"""Batches divided among replicas: each makes its own rows of every batch, in the order of all.

A share is an element of two parts: the rows of one replica, and where they stand in the batch of
all, as (start, size, total). A replica that has none of the rows is given one all the same, with
size 0, so that it can take part in the step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core.dtypes import int64
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor_spec import TensorSpec
from trainkit.data import structure
from trainkit.data.node import (
    INFINITE,
    UNKNOWN,
    DatasetOp,
    Leaves,
    Piped,
    Rows,
    Stage,
    batched_spec,
    block_size,
    stack_elements,
)
from trainkit.data.transformations.batching import BatchNode, BatchStage
from trainkit.data.transformations.choosing import SameElements

_PLACE = TensorSpec((3,), int64)


def share(total: int, replicas: int, index: int) -> tuple[int, int, int]:
    """Which rows of a batch of `total` a replica has: (start, size, total)."""
    start = total * index // replicas
    return start, total * (index + 1) // replicas - start, total


def _first_size_unknown(spec: Any) -> Any:
    if not isinstance(spec, TensorSpec) or not spec.rank:
        return spec
    return TensorSpec((None, *tuple(spec.shape)[1:]), spec.dtype)


class ShareOfBatchNode(BatchNode):
    """What `BatchNode` gives, divided; rows of other replicas are passed over where that is free.

    Args:
        source: gives the elements.
        size: how many make a batch of all replicas.
        drop_remainder: leave out a short batch at the end.
        replicas: how many there are.
        index: which one this is.
    """

    def __init__(
        self, source: DatasetOp, size: int, drop_remainder: bool, replicas: int, index: int
    ) -> None:
        super().__init__(source, size, drop_remainder)
        if size < replicas:
            raise InvalidArgumentError(
                f"a batch of {size} can't be divided among {replicas} replicas: the batch size "
                f"counts the rows of all of them, so make it {replicas} or more"
            )
        self.replicas, self.index = replicas, index

    def spec(self) -> Any:
        return batched_spec(self.source.spec(), None), _PLACE

    def template(self) -> Any:
        return self.source.template(), 0

    def rows(self) -> Rows | None:
        rows = self.source.rows()
        return rows and ShareOfBatchRows(rows, self)

    def stage(self) -> Stage:
        return ShareOfBatchStage(self)


class ShareOfBatchRows(Rows):
    """Shares of batches by the number of the batch."""

    def __init__(self, rows: Rows, node: ShareOfBatchNode) -> None:
        self.rows, self.node, self.count = rows, node, node.count()
        self.even = False  # two shares of one size may differ by a row

    def fill(self) -> bool:
        return self.rows.fill()

    def gather(self, indices: Any) -> Leaves:
        return stack_elements([self.row(int(i)) for i in indices], "batch")

    def row(self, index: int) -> Leaves:
        node = self.node
        first = index * node.size
        extent = share(min(node.size, self.rows.count - first), node.replicas, node.index)
        begin = first + extent[0]
        return [*self.rows.slice(begin, begin + max(extent[1], 1)), np.array(extent, np.int64)]


class ShareOfBatchStage(BatchStage):
    """Takes the rows of one replica; where it can't know how long a batch is, it takes all."""

    def __init__(self, node: ShareOfBatchNode) -> None:
        super().__init__(node.source.stage(), node.size, node.drop)
        self.node, self.count = node, node.source.count()

    def _total(self) -> int | None:
        """How many rows the next batch of all replicas has; `None` if that is not known."""
        if self.count == INFINITE:
            return self.size
        passed = self.source.elements_passed
        if self.count == UNKNOWN or passed is None:
            return None
        return min(self.size, self.count - passed)

    def next(self) -> Leaves:
        total, node = self._total(), self.node
        if total is None:
            batch = super().next()
            return cut(batch, share(block_size(batch), node.replicas, node.index))
        if total <= 0 or (self.drop and total < self.size):
            raise StopIteration
        extent = share(total, node.replicas, node.index)
        self.source.skip(extent[0])
        row_count = max(extent[1], 1)
        leaves = self._some(row_count)
        self.source.skip(total - extent[0] - row_count)
        return [*leaves, np.array(extent, np.int64)]

    def _some(self, count: int) -> Leaves:
        if not self.source.in_blocks:
            return stack_elements([self.source.next() for _ in range(count)], "batch")
        leaves = self.source.block(count)
        assert leaves is not None
        return leaves


def cut(whole: Leaves, position: tuple[int, int, int]) -> Leaves:
    """The rows at a place of a batch, at least one, and the place."""
    start, stop = position[0], position[0] + max(position[1], 1)
    rows = [None if leaf is None else leaf[start:stop] for leaf in whole]
    return [*rows, np.array(position, np.int64)]


class ShareNode(SameElements):
    """Whole batches of any pipeline, cut: each replica makes all of them."""

    title = "Share"

    def __init__(self, source: DatasetOp, replicas: int, index: int) -> None:
        super().__init__(source)
        self.replicas, self.index = replicas, index

    def spec(self) -> Any:
        return structure.nest.map_structure(_first_size_unknown, self.source.spec()), _PLACE

    def template(self) -> Any:
        return self.source.template(), 0

    def count(self) -> int:
        return self.source.count()

    def stage(self) -> Stage:
        return ShareStage(self)


class ShareStage(Piped):
    """Cuts what passes."""

    def __init__(self, node: ShareNode) -> None:
        super().__init__(node.source.stage())
        self.node = node

    def next(self) -> Leaves:
        leaves = self.source.next()
        structure.same_count([x for x in leaves if x is not None], "a batch for several replicas")
        return cut(leaves, share(block_size(leaves), self.node.replicas, self.node.index))

    def skip(self, count: int) -> int:
        return self.source.skip(count)


class PiecesNode(SameElements):
    """Each batch as several smaller ones, one after the other: what one replica makes of its own.

    Args:
        source: gives batches of the size that all replicas have together.
        count: into how many pieces each is cut; those without rows are left out.
    """

    title = "Pieces"

    def __init__(self, source: DatasetOp, pieces: int) -> None:
        super().__init__(source)
        self.pieces = pieces

    def spec(self) -> Any:
        return structure.nest.map_structure(_first_size_unknown, self.source.spec())

    def count(self) -> int:
        return INFINITE if self.source.count() == INFINITE else UNKNOWN

    def stage(self) -> Stage:
        return PiecesStage(self)


class PiecesStage(Piped):
    """Holds a batch and gives out its pieces."""

    def __init__(self, node: PiecesNode) -> None:
        super().__init__(node.source.stage())
        self.node = node
        self.before = self.source.state()
        self.held: Leaves | None = None
        self.given = 0

    def next(self) -> Leaves:
        while True:
            if self.held is None or self.given == self.node.pieces:
                before = self.source.state()
                batch = self.source.next()
                structure.same_count([x for x in batch if x is not None], "a batch")
                self.before, self.held, self.given = before, batch, 0
            start, size, _ = share(block_size(self.held), self.node.pieces, self.given)
            self.given += 1
            if size:
                return [None if x is None else x[start : start + size] for x in self.held]

    def state(self) -> dict[str, Any]:
        if self.held is None:
            return {**super().state(), "given": 0}
        return {"source": self.before, "given": self.given}

    def load(self, state: dict[str, Any]) -> None:
        super().load(state)
        self.held, self.given, self.before = None, 0, state["source"]
        piece_count = int(state["given"])
        if piece_count:
            self.held, self.given = self.source.next(), piece_count
