"""`prefetch`: the next elements are made in a background thread while the current one is used."""

from __future__ import annotations

import threading
import weakref
from queue import SimpleQueue
from typing import Any

from trainkit.core.errors import InvalidArgumentError
from trainkit.data.node import DatasetOp, Leaves, Stage
from trainkit.data.transformations.choosing import SameElements
from trainkit.kernels.threads import pools

AUTOTUNE = -1
# Elements travel in groups: waking the other thread costs more than making a small batch.
_LARGEST_GROUP = 16
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
        return PrefetchStage(source, self.size) if self.size else source


class _Worker:
    """What the thread works on; it holds no reference to the stage, so that can be collected."""

    def __init__(self, source: Stage, size: int) -> None:
        self.source = source
        self.ready: SimpleQueue[Any] = SimpleQueue()
        self.automatic = size == AUTOTUNE
        self.group = 1 if self.automatic else max(1, min(_LARGEST_GROUP, size // 2))
        self.room = threading.Semaphore(2 if self.automatic else max(1, size // self.group))
        self.stop = False

    def run(self) -> None:
        """Make elements until the source ends or fails, or the consumer is gone."""
        pools.follow()
        while True:
            self.room.acquire()
            group: list[tuple[Leaves, Any]] = []
            end: BaseException | None = None
            while not self.stop and len(group) < self.group:
                try:
                    group.append((self.source.next(), self.source.state()))
                except BaseException as error:
                    end = error
                    break
            if self.automatic and group:
                self.group = _fitting_group(group[0][0])
            self.ready.put((group, end))
            if self.stop or end is not None:
                return

    def end(self) -> None:
        """Tell the thread to stop."""
        self.stop = True
        self.room.release()


def _fitting_group(leaves: Leaves) -> int:
    """How many elements like this one make a group, so that two groups stay small in memory."""
    size = sum(getattr(leaf, "nbytes", 0) for leaf in leaves)
    return max(1, min(_LARGEST_GROUP, _AUTOMATIC_BYTES // max(1, 2 * size)))


class PrefetchStage(Stage):
    """Hands out what a thread has made; errors of the source arrive in their place.

    Its state is that of the source when the element handed out last was made.
    """

    def __init__(self, source: Stage, size: int) -> None:
        self.source, self.size = source, size
        self.thread: threading.Thread | None = None
        self._rest()

    def _rest(self) -> None:
        """Begin anew at the source's present state."""
        self.here = self.source.state()
        self.group: list[tuple[Leaves, Any]] = []
        self.failure: BaseException | None = None

    def _start(self) -> None:
        self.worker = _Worker(self.source, self.size)
        self.thread = threading.Thread(
            target=self.worker.run, name="trainkit-prefetch", daemon=True
        )
        self.finalizer = weakref.finalize(self, self.worker.end)
        self.thread.start()

    def next(self) -> Leaves:
        while not self.group:
            if self.failure is not None:
                self._raise()
            if self.thread is None:
                self._start()
            self.group, self.failure = self.worker.ready.get()
            self.group.reverse()
            self.worker.room.release()
        leaves, self.here = self.group.pop()
        return leaves

    def _raise(self) -> None:
        failure = self.failure
        self.close()
        if not isinstance(failure, StopIteration):
            assert failure is not None
            raise failure
        raise StopIteration

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
