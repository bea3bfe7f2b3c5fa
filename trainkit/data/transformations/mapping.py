"""`map`: a function of each element, on whole batches, one by one, or in several threads."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from trainkit.data.calling import Caller
from trainkit.data.node import DatasetOp, Leaves, Piped, Rows, Stage
from trainkit.data.purity import is_pure
from trainkit.data.vectorizing import BatchCall
from trainkit.kernels.threads import pools as threads


class MapNode(DatasetOp):
    """A function of each element."""

    title = "Map"

    def __init__(
        self, source: DatasetOp, function: Callable[..., Any], threads: int | None = None
    ) -> None:
        self.source, self.threads = source, threads
        self.caller = Caller(function, source)
        self.pure = is_pure(function)
        self._batch_call: BatchCall | None = None
        if threads is not None:
            self.title = "ParallelMap"

    def spec(self) -> Any:
        return self.caller.spec()

    def template(self) -> Any:
        return self.caller.template()

    def count(self) -> int:
        return self.source.count()

    def batch_call(self) -> BatchCall:
        """The function for stacks; asked for only if it is pure."""
        if self._batch_call is None:
            self._batch_call = BatchCall(self.caller, self.source.spec())
        return self._batch_call

    def rows(self) -> Rows | None:
        rows = self.source.rows() if self.pure else None
        return rows and MappedRows(self, rows)

    def stage(self) -> Stage:
        source = self.source.stage()
        if self.pure and source.in_blocks and self.batch_call().program is not None:
            return MapStage(self, source)
        if self.threads is not None and self.threads > 1:
            return ParallelMapStage(self, source)
        return MapStage(self, source, in_blocks=False)


class MappedRows(Rows):
    """A pure function of rows, computed when they are asked for."""

    def __init__(self, node: MapNode, rows: Rows) -> None:
        self.caller, self.rows, self.count = node.caller, rows, rows.count
        self.call = node.batch_call()

    def gather(self, indices: Any) -> Leaves:
        return self.call(self.rows.gather(indices))

    def slice(self, start: int, stop: int) -> Leaves:
        return self.call(self.rows.slice(start, stop))

    def row(self, index: int) -> Leaves:
        return self.caller.flat(self.rows.row(index))


class MapStage(Piped):
    """Calls the function as elements or blocks pass."""

    def __init__(self, node: MapNode, source: Stage, in_blocks: bool = True) -> None:
        super().__init__(source)
        self.node = node
        self.in_blocks = in_blocks

    @property
    def elements_passed(self) -> int | None:
        return self.source.elements_passed

    def next(self) -> Leaves:
        return self.node.caller.flat(self.source.next())

    def block(self, size: int) -> Leaves | None:
        leaves = self.source.block(size)
        return None if leaves is None else self.node.batch_call()(leaves)

    def skip(self, count: int) -> int:
        return self.source.skip(count) if self.node.pure else super().skip(count)


class ParallelMapStage(Piped):
    """Keeps several calls under way in a pool of threads; the order stays."""

    def __init__(self, node: MapNode, source: Stage) -> None:
        super().__init__(source)
        self.node = node
        assert node.threads is not None
        self.pool = ThreadPoolExecutor(
            node.threads, thread_name_prefix="trainkit-map", initializer=threads.follow
        )
        self.under_way: deque[tuple[Any, Future[Leaves]]] = deque()
        self.ended = False
        weakref.finalize(self, self.pool.shutdown, wait=False, cancel_futures=True)

    def next(self) -> Leaves:
        assert self.node.threads is not None
        while not self.ended and len(self.under_way) < 2 * self.node.threads:
            before = self.source.state()
            try:
                leaves = self.source.next()
            except StopIteration:
                self.ended = True
                break
            self.under_way.append((before, self.pool.submit(self.node.caller.flat, leaves)))
        if not self.under_way:
            raise StopIteration
        return self.under_way.popleft()[1].result()

    def state(self) -> dict[str, Any]:
        if self.under_way:
            return {"source": self.under_way[0][0]}
        return super().state()

    def load(self, state: dict[str, Any]) -> None:
        for _, future in self.under_way:
            future.cancel()
        self.under_way.clear()
        self.ended = False
        super().load(state)

    def close(self) -> None:
        self.pool.shutdown(wait=True, cancel_futures=True)
        super().close()
