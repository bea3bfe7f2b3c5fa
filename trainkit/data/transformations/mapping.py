"""`map`: a function of each element, on whole batches, one by one, or in several threads."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from trainkit.core.process import forks
from trainkit.data.calling import PASS, Caller, in_pass
from trainkit.data.node import DatasetOp, Leaves, Piped, Rows, Stage
from trainkit.data.purity import is_pure
from trainkit.data.transformations.prefetch import AheadStage
from trainkit.data.vectorizing import BatchCall
from trainkit.kernels.threads import pools as threads

_Call = tuple[int | None, Future[Leaves]]
"""The number of an element, and what its call will give."""


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
        # a function that is called one by one may give each element a shape of its own
        self.even = rows.even and self.call.program is not None

    def fill(self) -> bool:
        return self.rows.fill()

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
        self.numbers = ElementNumbers(node)

    @property
    def elements_passed(self) -> int | None:
        return self.source.elements_passed

    def next(self) -> Leaves:
        leaves = self.source.next()
        return self.node.caller.flat(leaves, self.numbers.take())

    def state(self) -> dict[str, Any]:
        return {**super().state(), **self.numbers.state()}

    def load(self, state: dict[str, Any]) -> None:
        super().load(state)
        self.numbers.load(state)

    def block(self, size: int) -> Leaves | None:
        leaves = self.source.block(size)
        return None if leaves is None else self.node.batch_call()(leaves)

    def skip(self, count: int) -> int:
        return self.source.skip(count) if self.node.pure else super().skip(count)


class ElementNumbers:
    """The numbers of elements whose function may draw, for which they stand."""

    def __init__(self, node: MapNode) -> None:
        self.node = node
        self.next: int | None = None  # None where the pass says it
        self._resumes = False

    def take(self) -> int | None:
        """The number of the next element; `None` outside of a pass, and where nothing is drawn."""
        if self.node.pure or PASS.draws is None:
            return None
        number: int = PASS.draws.next_number(self.node, self.next if self._resumes else None)
        self._resumes, self.next = False, number + 1
        return number

    def state(self) -> dict[str, Any]:
        """What a checkpoint holds of them."""
        return {} if self.next is None else {"number": self.next}

    def load(self, state: dict[str, Any]) -> None:
        """Go on where `state` stood."""
        self.next = int(state["number"]) if "number" in state else None
        self._resumes = self.next is not None


class ParallelMapStage(AheadStage):
    """Keeps several calls under way in a pool of threads; the order stays.

    One more thread takes the elements of the source, which may be slow, so that results are given
    when they are there.
    """

    def __init__(self, node: MapNode, source: Stage) -> None:
        assert node.threads is not None
        self.node, self.numbers = node, ElementNumbers(node)
        self.next_number: int | None = None  # the number of the element to be handed out next
        super().__init__(source, 2 * node.threads, self._hire())

    def _hire(self) -> Callable[[Leaves], _Call]:
        """Make the pool; what hands it a call."""
        self.pool = pool = ThreadPoolExecutor(
            self.node.threads, thread_name_prefix="trainkit-map", initializer=threads.follow
        )
        call, numbers = self.node.caller.flat, self.numbers
        weakref.finalize(self, _dismiss, pool, forks.generation())
        self._is_closed = False

        def submit(leaves: Leaves) -> _Call:
            number = numbers.take()
            return number, pool.submit(in_pass(call), leaves, number)

        return submit

    def _begin_in_child(self) -> None:
        self.work = self._hire()
        super()._begin_in_child()

    def _take_result(self, element: _Call) -> Leaves:
        number, call = element
        self.next_number = None if number is None else number + 1
        return call.result()

    def state(self) -> dict[str, Any]:
        return {
            **super().state(),
            **({} if self.next_number is None else {"number": self.next_number}),
        }

    def load(self, state: dict[str, Any]) -> None:
        # The pool goes at the last element, before which a restored pass may stand again.
        if self._is_closed:
            self.work = self._hire()
        super().load(state)
        self.numbers.load(state)
        self.next_number = self.numbers.next

    def close(self) -> None:
        self._is_closed = True
        self._join()
        if self.generation == forks.generation():
            self.pool.shutdown(wait=True, cancel_futures=True)
        self.source.close()


def _dismiss(pool: ThreadPoolExecutor, generation: int) -> None:
    """Let the threads of a pool end, in the process that has them: a child's lock may be held."""
    if generation == forks.generation():
        pool.shutdown(wait=False, cancel_futures=True)
