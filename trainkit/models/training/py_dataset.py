"""`PyDataset`: batches by their number, made by several threads or processes if need be."""

from __future__ import annotations

import itertools
import signal
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from trainkit.checkpoints.interruption import STOPPING


class PyDataset:
    """Base of data sets that make each batch in Python, in `__getitem__`.

    A subclass gives `__getitem__(index)`, a whole batch: (x,), (x, y), (x, y, sample_weight) or a
    dict of inputs; and `__len__`, or a property `num_batches`, the number of batches, `None` if
    there is no end. `fit` takes the batches in random order, unless `shuffle=False`.

    Args:
        workers: how many threads or processes make batches ahead; with 1 thread none is made ahead.
        use_multiprocessing: processes rather than threads; each has a copy of the data set as it is
            when the epoch begins, so it must be possible to pickle it. Python begins such processes
            anew, on Linux from 3.14 on: a script calls `fit` below `if __name__ == "__main__":`.
        max_queue_size: how many batches are made ahead at most.

    Raises:
        ValueError: `workers` is negative, or `max_queue_size` is not positive.

    >>> class Squares(PyDataset):
    ...     def __len__(self):
    ...         return 3
    ...     def __getitem__(self, index):
    ...         return [index], [index**2]
    >>> list(Squares(workers=2))
    [([0], [0]), ([1], [1]), ([2], [4])]
    """

    _workers = 1
    _use_multiprocessing = False
    _max_queue_size = 10

    def __init__(
        self, workers: int = 1, use_multiprocessing: bool = False, max_queue_size: int = 10
    ) -> None:
        self.workers = workers
        self.use_multiprocessing = use_multiprocessing
        self.max_queue_size = max_queue_size

    @property
    def workers(self) -> int:
        """How many threads or processes make batches ahead."""
        return self._workers

    @workers.setter
    def workers(self, value: int) -> None:
        if value < 0:
            raise ValueError(f"PyDataset: workers must not be negative, got {value}")
        self._workers = value

    @property
    def use_multiprocessing(self) -> bool:
        """Whether processes rather than threads make batches."""
        return self._use_multiprocessing

    @use_multiprocessing.setter
    def use_multiprocessing(self, value: bool) -> None:
        self._use_multiprocessing = bool(value)

    @property
    def max_queue_size(self) -> int:
        """How many batches are made ahead at most."""
        return self._max_queue_size

    @max_queue_size.setter
    def max_queue_size(self, value: int) -> None:
        if value < 1:
            raise ValueError(f"PyDataset: max_queue_size must be at least 1, got {value}")
        self._max_queue_size = value

    def __getitem__(self, index: int) -> Any:
        """The batch of number `index`, from 0."""
        raise NotImplementedError(f"{type(self).__name__} needs a method __getitem__(self, index)")

    @property
    def num_batches(self) -> int | None:
        """How many batches there are, `None` if there is no end; by default `len` of this."""
        length = getattr(self, "__len__", None)
        if length is None:
            raise NotImplementedError(
                f"{type(self).__name__} needs __len__, or a property num_batches"
            )
        return int(length())

    def __iter__(self) -> Iterator[Any]:
        """All batches in their order, made one after the other."""
        count = self.num_batches
        return (self[index] for index in (itertools.count() if count is None else range(count)))

    def on_epoch_begin(self) -> None:
        """Called before each epoch."""

    def on_epoch_end(self) -> None:
        """Called after each epoch and, as in Keras, once before `fit` or an evaluation begins."""


def ahead(dataset: PyDataset, indices: Iterable[int]) -> Iterator[Any]:
    """The batches of these numbers, in this order, made ahead by the workers of the data set."""
    workers, processes = dataset.workers, dataset.use_multiprocessing
    if workers > 1 or (workers == 1 and processes):
        return _by_workers(dataset, indices)
    return (_check(dataset[index]) for index in indices)


def _by_workers(dataset: PyDataset, indices: Iterable[int]) -> Iterator[Any]:
    pool: Any
    if dataset.use_multiprocessing:
        import multiprocessing  # slow to import

        with _signals_wait():
            pool = multiprocessing.Pool(dataset.workers, initializer=_hold, initargs=(dataset,))
    else:
        from multiprocessing.pool import ThreadPool  # slow to import

        pool = ThreadPool(dataset.workers)
    waiting: deque[Any] = deque()
    try:
        for index in indices:
            waiting.append(
                pool.apply_async(_held_batch, (index,))
                if dataset.use_multiprocessing
                else pool.apply_async(dataset.__getitem__, (index,))
            )
            if len(waiting) > dataset.max_queue_size:
                yield _check(waiting.popleft().get())
        while waiting:
            yield _check(waiting.popleft().get())
    finally:
        pool.terminate()
        pool.join()


_HELD: list[PyDataset] = []  # in a worker process, its copy of the data set


def _hold(dataset: PyDataset) -> None:
    """Begin a worker: SIGTERM ends it, though `fit` has handlers that only take a note of it.

    Ctrl-C and what else a scheduler sends to all processes are for the one that trains.
    """
    for number in STOPPING:
        is_ending = number == signal.SIGTERM
        signal.signal(number, signal.SIG_DFL if is_ending else signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    _HELD[:] = [dataset]


@contextmanager
def _signals_wait() -> Iterator[None]:
    """Hold SIGTERM back, so that none reaches a worker before it has its own way with it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _held_batch(index: int) -> Any:
    return _HELD[0][index]


def _check(batch: Any) -> Any:
    if isinstance(batch, dict) or hasattr(batch, "shape"):
        return batch if isinstance(batch, dict) else (batch,)
    if isinstance(batch, list | tuple) and 1 <= len(batch) <= 3:
        return tuple(batch)
    raise ValueError(
        "PyDataset: __getitem__ must give (x,), (x, y), (x, y, sample_weight) or a dict, it gave "
        f"{type(batch).__name__}: {batch!r:.100}"
    )
