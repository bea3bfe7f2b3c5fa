"""Choosing, counting and repeating: take, skip, repeat, shard, enumerate, filter, scan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.core import nest
from trainkit.core.dtypes import int64
from trainkit.core.errors import FailedPreconditionError, InvalidArgumentError
from trainkit.core.tensor_spec import TensorSpec
from trainkit.data import structure
from trainkit.data.calling import Caller
from trainkit.data.node import (
    INFINITE,
    UNKNOWN,
    DatasetOp,
    Leaves,
    Piped,
    Rows,
    RowStage,
    Stage,
    block_size,
    join_blocks,
    usable_rows,
)


class SameElements(DatasetOp):
    """A step whose elements are elements of its source."""

    def __init__(self, source: DatasetOp) -> None:
        self.source = source

    def spec(self) -> Any:
        return self.source.spec()

    def template(self) -> Any:
        return self.source.template()


class WindowOfRows(Rows):
    """Every `step`-th row from `start` up to `stop`."""

    def __init__(self, rows: Rows, start: int, stop: int, step: int = 1) -> None:
        self.rows = rows
        self.range = range(rows.count)[start:stop:step]
        self.count, self.even = len(self.range), rows.even

    def fill(self) -> bool:
        return self.rows.fill()

    def gather(self, indices: Any) -> Leaves:
        return self.rows.gather(self.range.start + np.asarray(indices) * self.range.step)

    def slice(self, start: int, stop: int) -> Leaves:
        if self.range.step == 1:
            return self.rows.slice(self.range.start + start, self.range.start + stop)
        return super().slice(start, stop)

    def row(self, index: int) -> Leaves:
        return self.rows.row(self.range[index])


class TakeNode(SameElements):
    """The first elements."""

    title = "Take"

    def __init__(self, source: DatasetOp, size: int) -> None:
        super().__init__(source)
        self.size = size

    def count(self) -> int:
        source_count = self.source.count()
        if self.size < 0 or source_count == UNKNOWN:
            return source_count
        return self.size if source_count == INFINITE else min(self.size, source_count)

    def rows(self) -> Rows | None:
        rows = self.source.rows()
        stop = None if self.size < 0 else self.size
        return rows and WindowOfRows(rows, 0, rows.count if stop is None else stop)

    def stage(self) -> Stage:
        source = self.source.stage()
        return source if self.size < 0 else TakeStage(source, self.size)


class TakeStage(Piped):
    """Stops after a number of elements."""

    progress = ("left",)

    def __init__(self, source: Stage, size: int) -> None:
        super().__init__(source)
        self.left = size
        self.in_blocks = source.in_blocks

    @property
    def elements_passed(self) -> int | None:
        return self.source.elements_passed

    def next(self) -> Leaves:
        if self.left <= 0:
            raise StopIteration
        leaves = self.source.next()
        self.left -= 1
        return leaves

    def block(self, size: int) -> Leaves | None:
        if self.left <= 0:
            return None
        leaves = self.source.block(min(size, self.left))
        self.left -= 0 if leaves is None else block_size(leaves)
        return leaves

    def skip(self, count: int) -> int:
        skipped = self.source.skip(min(count, self.left))
        self.left -= skipped
        return skipped


class SkipNode(SameElements):
    """All but the first elements."""

    title = "Skip"

    def __init__(self, source: DatasetOp, size: int) -> None:
        super().__init__(source)
        self.size = size

    def count(self) -> int:
        source_count = self.source.count()
        if self.size < 0:
            return 0
        return source_count if source_count < 0 else max(0, source_count - self.size)

    def rows(self) -> Rows | None:
        rows = self.source.rows()
        return rows and WindowOfRows(rows, rows.count if self.size < 0 else self.size, rows.count)

    def stage(self) -> Stage:
        if self.size < 0:
            return TakeStage(self.source.stage(), 0)
        return SkipStage(self.source.stage(), self.size)


class SkipStage(Piped):
    """Passes over some elements before the first."""

    progress = ("pending",)

    def __init__(self, source: Stage, size: int) -> None:
        super().__init__(source)
        self.pending = size
        self.in_blocks = source.in_blocks

    def _begin(self) -> None:
        if self.pending:
            self.source.skip(self.pending)
            self.pending = 0

    def next(self) -> Leaves:
        self._begin()
        return self.source.next()

    def block(self, size: int) -> Leaves | None:
        self._begin()
        return self.source.block(size)

    def skip(self, count: int) -> int:
        self._begin()
        return self.source.skip(count)


SHARD_HINT = -1
"""For both numbers of `shard`: a strategy puts those of its replicas in their place."""


class ShardNode(SameElements):
    """Every n-th element."""

    title = "Shard"

    def __init__(self, source: DatasetOp, shards: int, index: int) -> None:
        super().__init__(source)
        self.hints = shards == index == SHARD_HINT
        if self.hints:
            self.shards, self.index = shards, index
            return
        if shards < 1 or not 0 <= index < shards:
            raise InvalidArgumentError(
                f"shard: index {index} of {shards} shards; the index must be in [0, "
                f"{max(shards, 1)})"
            )
        self.shards, self.index = shards, index

    def count(self) -> int:
        source_count = self.source.count()
        if self.hints:
            return UNKNOWN
        return (
            source_count if source_count < 0 else len(range(self.index, source_count, self.shards))
        )

    def rows(self) -> Rows | None:
        rows = None if self.hints else self.source.rows()
        return rows and WindowOfRows(rows, self.index, rows.count, self.shards)

    def stage(self) -> Stage:
        if self.hints:
            raise FailedPreconditionError(
                "shard(SHARD_HINT, SHARD_HINT): a strategy says which shard this is; set "
                "options().experimental_distribute.auto_shard_policy to AutoShardPolicy.HINT and "
                "give the data set to strategy.experimental_distribute_dataset, or to fit of a "
                "model that was made in its scope"
            )
        rows = usable_rows(self)
        return RowStage(rows) if rows else ShardStage(self.source.stage(), self.shards, self.index)


class ShardStage(Piped):
    """Every n-th element of another pass."""

    progress = ("before",)

    def __init__(self, source: Stage, shards: int, index: int) -> None:
        super().__init__(source)
        self.shards, self.before = shards, index

    def next(self) -> Leaves:
        if self.source.skip(self.before) < self.before:
            raise StopIteration
        leaves = self.source.next()
        self.before = self.shards - 1
        return leaves


class RepeatNode(SameElements):
    """Passes one after the other."""

    title = "Repeat"

    def __init__(self, source: DatasetOp, times: int | None) -> None:
        super().__init__(source)
        self.times = -1 if times is None else times

    def count(self) -> int:
        source_count = self.source.count()
        if self.times == 0 or source_count == 0:
            return 0
        if self.times < 0 or source_count == INFINITE:
            return INFINITE
        return source_count if source_count == UNKNOWN else source_count * self.times

    def stage(self) -> Stage:
        return RepeatStage(self)


class RepeatStage(Stage):
    """Begins a new pass when one ends; without a number of passes, an empty first one ends it."""

    def __init__(self, node: RepeatNode) -> None:
        self.node = node
        self.done = 0
        self.empty = True
        self.source = node.source.stage() if node.times else None
        self.in_blocks = bool(self.source and self.source.in_blocks)

    def _again(self) -> bool:
        """Whether another pass has begun."""
        if self.source is None:
            return False
        self.source.close()
        self.done += 1
        endless = self.node.times < 0
        if self.done == self.node.times or (self.empty and endless):
            self.source = None
            return False
        self.source, self.empty = self.node.source.stage(), True
        return True

    def next(self) -> Leaves:
        while self.source is not None:
            try:
                leaves = self.source.next()
            except StopIteration:
                self._again()
                continue
            self.empty = False
            return leaves
        raise StopIteration

    def block(self, size: int) -> Leaves | None:
        parts: list[Leaves] = []
        while size and self.source is not None:
            part = self.source.block(size)
            if part is None:
                self._again()
                continue
            self.empty = False
            size -= block_size(part)
            parts.append(part)
        return join_blocks(parts) if parts else None

    def skip(self, count: int) -> int:
        left = count
        while left and self.source is not None:
            skipped = self.source.skip(left)
            if skipped:
                self.empty = False
                left -= skipped
            else:
                self._again()
        return count - left

    def state(self) -> dict[str, Any]:
        inner = {} if self.source is None else {"source": self.source.state()}
        return {**inner, "done": self.done, "empty": self.empty}

    def load(self, state: dict[str, Any]) -> None:
        self.done, self.empty = int(state["done"]), bool(state["empty"])
        if "source" not in state:
            self.source = None
            return
        if self.source is None:
            self.source = self.node.source.stage()
        self.source.load(state["source"])

    def close(self) -> None:
        if self.source is not None:
            self.source.close()


class EnumerateNode(DatasetOp):
    """Elements with their numbers."""

    title = "Enumerate"

    def __init__(self, source: DatasetOp, start: int) -> None:
        self.source, self.start = source, start

    def spec(self) -> Any:
        return TensorSpec((), int64), self.source.spec()

    def template(self) -> Any:
        return 0, self.source.template()

    def count(self) -> int:
        return self.source.count()

    def rows(self) -> Rows | None:
        rows = self.source.rows()
        return rows and NumberedRows(rows, self.start)

    def stage(self) -> Stage:
        return EnumerateStage(self.source.stage(), self.start)


class NumberedRows(Rows):
    """Rows with their numbers."""

    def __init__(self, rows: Rows, start: int) -> None:
        self.rows, self.start, self.count = rows, start, rows.count
        self.even = rows.even

    def fill(self) -> bool:
        return self.rows.fill()

    def gather(self, indices: Any) -> Leaves:
        return [np.asarray(indices, np.int64) + self.start, *self.rows.gather(indices)]

    def row(self, index: int) -> Leaves:
        return [np.int64(index + self.start), *self.rows.row(index)]


class EnumerateStage(Piped):
    """Counts what passes."""

    progress = ("number",)

    def __init__(self, source: Stage, start: int) -> None:
        super().__init__(source)
        self.number = start
        self.in_blocks = source.in_blocks

    def next(self) -> Leaves:
        self.number += 1  # an element that fails has a number too
        return [np.int64(self.number - 1), *self.source.next()]

    def block(self, size: int) -> Leaves | None:
        leaves = self.source.block(size)
        if leaves is None:
            return None
        first, self.number = self.number, self.number + block_size(leaves)
        return [np.arange(first, self.number, dtype=np.int64), *leaves]


class FilterNode(SameElements):
    """Elements for which a function says yes; with `stops`, up to the first no."""

    title = "Filter"

    def __init__(
        self, source: DatasetOp, predicate: Callable[..., Any], stops: bool = False
    ) -> None:
        super().__init__(source)
        self.caller = Caller(predicate, source)
        self.stops = stops
        if stops:
            self.title = "TakeWhile"

    def stage(self) -> Stage:
        return FilterStage(self)


class FilterStage(Piped):
    """Asks a function about each element."""

    progress = ("ended",)

    def __init__(self, node: FilterNode) -> None:
        super().__init__(node.source.stage())
        self.node = node
        self.ended = False

    def next(self) -> Leaves:
        while not self.ended:
            leaves = self.source.next()
            answer = np.asarray(self.node.caller(leaves))
            if answer.shape != () or answer.dtype != np.bool_:
                raise InvalidArgumentError(
                    f"{self.node.title.lower()}: the function must give one bool for each "
                    f"element, it gave "
                    f"shape {answer.shape} and dtype {answer.dtype}"
                )
            if answer:
                return leaves
            self.ended = self.node.stops
        raise StopIteration


class ScanNode(DatasetOp):
    """A function of a state and an element that gives the next state and what to pass on."""

    title = "Scan"

    def __init__(self, source: DatasetOp, initial_state: Any, function: Callable[..., Any]) -> None:
        self.source = source
        self.initial = structure.arrays_of(initial_state, "scan")
        self.caller = Caller(function, source, extra=self.initial[0])

    def spec(self) -> Any:
        return self._result_spec()[1]

    def template(self) -> Any:
        return self.caller.template(self._result_spec)[1]

    def _result_spec(self) -> Any:
        """The spec of a state and of what is passed on."""
        first = [structure.spec_of_leaf(leaf) for leaf in self.initial[1]]
        state = nest.pack(self.initial[0], first)
        return self.caller.spec_after(state, self.source.spec())

    def count(self) -> int:
        return self.source.count()

    def stage(self) -> Stage:
        return ScanStage(self)


class ScanStage(Piped):
    """Hands a state from element to element."""

    progress = ("carry",)

    def __init__(self, node: ScanNode) -> None:
        super().__init__(node.source.stage())
        self.node = node
        self.carry = list(node.initial[1])

    def next(self) -> Leaves:
        element = self.source.next()
        result = self.node.caller.flat([*self.carry, *element])
        size = len(self.carry)
        self.carry = result[:size]
        return result[size:]
