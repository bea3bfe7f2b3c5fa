"""`prefetch`: the next elements are made in a background thread while the current one is used."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

from trainkit.core.errors import InvalidArgumentError
from trainkit.core.process import forks
from trainkit.data.calling import in_pass
from trainkit.data.node import DatasetOp, Leaves, Stage
from trainkit.data.transformations.choosing import SameElements
from trainkit.kernels.threads import pools

AUTOTUNE = -1
_MOST_AUTOMATIC = 32
_LARGEST_GROUP = 16
_MOMENT = 1e-3  # seconds for which an element may wait for others
_AUTOMATIC_BYTES = 64 << 20


class PrefetchNode(SameElements):
    """Works ahead of the consumer."""

    title = "Prefetch"

    def __init__(self, source: DatasetOp, size: int) -> None:
        super().__init__(source)
        if size < AUTOTUNE:
            raise InvalidArgumentError(
                f"prefetch: buffer_size must be 0 or more, or AUTOTUNE, got {size}"
            )
        self.size = size

    def count(self) -> int:
        return self.source.count()

    def rows(self) -> Any:
        return self.source.rows()

    def stage(self) -> Stage:
        source = self.source.stage()
        return AheadStage(source, self.size) if self.size else source


class _Worker:
    """What the thread works on; it holds no reference to the stage, so that can be collected.

    `made` and `taken` count elements, each written by one of the two threads alone.
    """

    def __init__(
        self, source: Stage, size: int, work: Callable[[Leaves], Any] | None = None
    ) -> None:
        self.source, self.work = source, work
        self.ready: deque[Any] = deque()
        self.automatic, self.size = size == AUTOTUNE, max(size, 1)
        self.made = self.taken = 0
        self.room: SimpleQueue[None] = SimpleQueue()
        self.news: SimpleQueue[None] = SimpleQueue()
        # of the thread: sleeping; of the consumer: waiting for some elements, for one
        self.idle = self.waiting = self.hungry = self.stop = False

    def run(self) -> None:
        """Make elements until the source ends, or the consumer is gone.

        Each is handed over when it is there, since the next may take long. An element that fails is
        handed over as its error, and the next is made.
        """
        pools.follow()
        state: Any = self.source.state()
        while self._has_room():
            error: BaseException | None = None
            element: Any = None
            try:
                try:
                    element = self._made()
                finally:
                    state = self.source.state()
            except BaseException as failure:
                error = failure
            last = isinstance(error, StopIteration) or not isinstance(error, Exception | None)
            self.made += 1
            self.ready.append((element, state, error))
            group = min(_LARGEST_GROUP, max(1, self.size // 2))
            if self.waiting and (self.hungry or last or len(self.ready) >= group):
                self.waiting = False
                self.news.put(None)
            if last:
                return

    def _made(self) -> Any:
        """The next element as it is handed over."""
        leaves = self.source.next()
        if self.automatic:
            self.automatic, self.size = False, _fitting_size(leaves)
        return leaves if self.work is None else self.work(leaves)

    def _has_room(self) -> bool:
        """Wait until another element may be made; `False` when none is to be.

        The thread sleeps until half of the room is free, as waking it costs more than making a
        small batch.
        """
        while self.made - self.taken >= self.size and not self.stop:
            self.idle = True
            # what was taken before the line above woke nobody
            if self.made - self.taken > self.size // 2:
                self.room.get()
            self.idle = False
        return not self.stop

    def take(self) -> Any:
        """The next element, its state and its error."""
        while not self.ready:
            self._wait()
        item = self.ready.popleft()
        self.taken += 1
        if self.idle and self.made - self.taken <= self.size // 2:
            self.room.put(None)
        return item

    def _wait(self) -> None:
        """Wait until some elements have come, or after a moment until one has.

        Threads that wake one another for every small element would do little else.
        """
        self.waiting = True
        with contextlib.suppress(Empty):
            if not self.ready:
                self.news.get(timeout=_MOMENT)
            return
        self.waiting = self.hungry = True
        if not self.ready:  # what came before the line above woke nobody
            self.news.get()
        self.hungry = False

    def end(self) -> None:
        """Tell the thread to stop."""
        self.stop = True
        self.room.put(None)


def _fitting_size(leaves: Leaves) -> int:
    """How many elements like this one stay small in memory."""
    size = sum(getattr(leaf, "nbytes", 0) for leaf in leaves)
    return max(2, min(_MOST_AUTOMATIC, _AUTOMATIC_BYTES // max(1, size)))


class AheadStage(Stage):
    """Hands out what a thread has made; errors of the source arrive in their place.

    Its state is that of the source when the element handed out last was made.

    Args:
        source: gives the elements.
        size: how many are made ahead; `AUTOTUNE` for as many as stay small in memory.
        work: what the thread does with each element before it is handed over.
    """

    def __init__(
        self, source: Stage, size: int, work: Callable[[Leaves], Any] | None = None
    ) -> None:
        self.source, self.size, self.work = source, size, work
        self.thread: threading.Thread | None = None
        self.generation = forks.generation()
        self._rest()

    def _rest(self) -> None:
        """Begin anew at the source's present state."""
        self.here = self.source.state()
        self.failure: BaseException | None = None

    def _start(self) -> None:
        self.worker = _Worker(self.source, self.size, self.work)
        self.thread = threading.Thread(
            target=in_pass(self.worker.run), name="trainkit-prefetch", daemon=True
        )
        self.finalizer = weakref.finalize(self, self.worker.end)
        self.thread.start()

    def next(self) -> Leaves:
        if self.failure is not None:
            raise self.failure
        if self.generation != forks.generation():
            self._begin_in_child()
        if self.thread is None:
            self._start()
        element, self.here, error = self.worker.take()
        if error is None:
            return self._take_result(element)
        if isinstance(error, Exception) and not isinstance(error, StopIteration):
            raise error
        self.failure = StopIteration() if isinstance(error, StopIteration) else error
        self.close()
        raise self.failure

    def _begin_in_child(self) -> None:
        """Go on behind the last element in a process that was forked off, without its thread."""
        self.generation = forks.generation()
        if self.thread is not None:
            self.load(self.state())

    def _take_result(self, element: Any) -> Leaves:
        """The next element, of what the thread handed over: here that is it already."""
        leaves: Leaves = element
        return leaves

    def state(self) -> dict[str, Any]:
        return {"source": self.here}

    def load(self, state: dict[str, Any]) -> None:
        self._join()
        self.source.load(state["source"])
        self._rest()

    def _join(self) -> None:
        if self.thread is not None:
            self.finalizer()
            if self.thread is not threading.current_thread():
                self.thread.join()
            self.thread = None

    def close(self) -> None:
        self._join()
        self.source.close()
