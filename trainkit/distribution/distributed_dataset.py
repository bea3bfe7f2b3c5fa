"""Data sets of a strategy: what the replica of this process gets of each batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trainkit.collectives.process_group import ProcessGroup
from trainkit.collectives.replica import GlobalRows
from trainkit.core import nest
from trainkit.core.dispatch import trace_state
from trainkit.core.errors import FailedPreconditionError, OutOfRangeError
from trainkit.data import Dataset
from trainkit.data.sharding import Sharded, sharded
from trainkit.data.traced_iteration import taken_later


class InputContext:
    """What a function that makes the data set of one process has to know.

    Args:
        num_input_pipelines: how many processes make one.
        input_pipeline_id: the number of this one, from 0.
        num_replicas_in_sync: how many replicas make a step together.

    Example:
        >>> tk.distribute.InputContext(2, 1, 2).get_per_replica_batch_size(8)
        4
    """

    def __init__(
        self,
        num_input_pipelines: int = 1,
        input_pipeline_id: int = 0,
        num_replicas_in_sync: int = 1,
    ) -> None:
        self.num_input_pipelines = num_input_pipelines
        self.input_pipeline_id = input_pipeline_id
        self.num_replicas_in_sync = num_replicas_in_sync

    def get_per_replica_batch_size(self, global_batch_size: int) -> int:
        """How many rows of a batch of all replicas each of them has.

        Raises:
            ValueError: the replicas can't have the same number.
        """
        size, remainder = divmod(global_batch_size, self.num_replicas_in_sync)
        if remainder:
            raise ValueError(
                f"the global batch size {global_batch_size} is no multiple of the "
                f"{self.num_replicas_in_sync} replicas; give one that is"
            )
        return size

    def __repr__(self) -> str:
        return f"<InputContext {self.input_pipeline_id} of {self.num_input_pipelines}>"


class DistributedDataset:
    """The batches of one replica, of a data set of a strategy; iterate it in each process alike.

    Where other replicas have more batches, those without rows come last.

    Args:
        group: the processes that have a replica each.
        part: what this one reads.
    """

    def __init__(self, group: ProcessGroup, part: Sharded) -> None:
        self.group, self.part = group, part

    @property
    def element_spec(self) -> Any:
        """The structure, shapes and dtypes of a batch of one replica."""
        spec = self.part.dataset.element_spec
        return spec[0] if self.part.placed else spec

    def __iter__(self) -> DistributedIterator:
        return DistributedIterator(self._batches(), self.element_spec)

    def _batches(self) -> Iterator[Any]:
        for batch, rows in ReplicaIterator(self):
            yield batch if rows.size else nest.map_structure(_without_rows, batch)

    def reduce(self, initial_state: Any, reduce_func: Callable[..., Any]) -> Any:
        """The last state of `state = reduce_func(state, batch)` over this replica's batches."""
        state = initial_state
        for batch in self:
            state = reduce_func(state, batch)
        return state

    def __repr__(self) -> str:
        return f"<DistributedDataset element_spec={self.element_spec!r}>"


class DistributedIterator:
    """A pass over the batches of one replica.

    In a traced function a batch is taken whenever the function runs.

    Args:
        batches: gives them.
        element_spec: the structure, shapes and dtypes of a batch.
    """

    def __init__(self, batches: Iterator[Any], element_spec: Any) -> None:
        self._batches, self.element_spec = batches, element_spec
        self._of_trace = bool(trace_state.THREAD.traces)

    def __iter__(self) -> DistributedIterator:
        return self

    def __next__(self) -> Any:
        if trace_state.THREAD.traces and not self._of_trace:
            return taken_later(self._batches.__next__, self.element_spec)
        return next(self._batches)

    def get_next(self) -> Any:
        """The next batch.

        Raises:
            OutOfRangeError: there is none.
        """
        try:
            return self.__next__()
        except StopIteration:
            raise OutOfRangeError("the data set has no further batch") from None


class ReplicaIterator:
    """A pass: pairs of a batch of this replica and where its rows stand in that of all.

    A replica that has no rows gets one all the same, of no weight, to take part in the step.

    Args:
        distributed: the data set.
    """

    def __init__(self, distributed: DistributedDataset) -> None:
        self.group, self.part = distributed.group, distributed.part
        self.inner: Any = iter(self.part.dataset)
        self.known = self.part.placed and self.part.dataset.node.count() != -2
        self.last: Any = None
        self.ended = self.begun = False

    def __iter__(self) -> ReplicaIterator:
        return self

    def __next__(self) -> tuple[Any, GlobalRows]:
        if self.part.placed:
            return self._place_elements()
        return self._own()

    def _place_elements(self) -> tuple[Any, GlobalRows]:
        element = next(self.inner, None)
        if not self.known:
            agree_on_end(self.group, element is None)
        if element is None:
            raise StopIteration
        batch, global_rows = element
        return batch, GlobalRows(*global_rows.numpy().tolist())

    def _own(self) -> tuple[Any, GlobalRows]:
        """Batches that each replica has of its own, the next of each as one."""
        batch = None if self.ended else next(self.inner, None)
        self.ended = batch is None
        sizes = np.zeros(self.group.size, np.int64)
        sizes[self.group.rank] = 0 if batch is None else _size(batch)
        self.group.all_reduce(sizes, label="the sizes of a batch")
        if not sizes.any():
            raise StopIteration
        self._check_first(sizes)
        start = int(sizes[: self.group.rank].sum())
        rows = GlobalRows(start, int(sizes[self.group.rank]), int(sizes.sum()))
        if batch is not None:
            self.last = nest.map_structure(lambda x: None if x is None else x[:1], batch)
        return (self.last if batch is None else batch), rows

    def _check_first(self, sizes: Any) -> None:
        """Refuse data that has nothing at all for some ranks, which could take no part."""
        if not self.begun and not sizes.all():
            ranks = ", ".join(str(rank) for rank in np.flatnonzero(sizes == 0))
            raise FailedPreconditionError(
                f"the data of rank {ranks} has no batch, that of others has; give each rank some, "
                "as AutoShardPolicy.DATA does"
            )
        self.begun = True


def agree_on_end(group: ProcessGroup, ended: bool) -> None:
    """Make sure that the data of all ranks goes on, or of none.

    Raises:
        FailedPreconditionError: it has ended in some; the text names them.
    """
    ends = np.zeros(group.size, np.int64)
    ends[group.rank] = ended
    group.all_reduce(ends, label="whether the data goes on")
    if 0 < ends.sum() < group.size:
        over = ", ".join(str(rank) for rank in np.flatnonzero(ends))
        raise FailedPreconditionError(
            f"the data has ended in rank {over} of {group.size}, and goes on in others: data that "
            "is not divided by trainkit must give the same batches in each"
        )


def _without_rows(x: Any) -> Any:
    return None if x is None else x[:0]


def _size(batch: Any) -> int:
    first = next(leaf for leaf in nest.flatten(batch) if leaf is not None)
    return int(first.shape[0])


def distributed(group: ProcessGroup, dataset: Any, by_rows: bool = False) -> DistributedDataset:
    """A data set of whole batches, divided among the replicas of a group.

    Args:
        group: the processes.
        dataset: its options name the policy.
        by_rows: each batch has to be divided by its rows.

    Raises:
        TypeError: it is no `Dataset`.
        InvalidArgumentError: its policy divides it otherwise.
    """
    if isinstance(dataset, DistributedDataset):
        return dataset
    if not isinstance(dataset, Dataset):
        raise TypeError(
            f"a strategy distributes a tk.data.Dataset, got {type(dataset).__name__}; make one by "
            "Dataset.from_generator or Dataset.from_tensor_slices"
        )
    return DistributedDataset(group, sharded(dataset, group.size, group.rank, by_rows))


def from_function(group: ProcessGroup, dataset_fn: Callable[..., Any]) -> DistributedDataset:
    """The data set that a function makes for this process, taken as it is.

    Args:
        group: the processes.
        dataset_fn: function of an `InputContext` that gives a data set of the batches of one
            replica.

    Raises:
        TypeError: it gives no `Dataset`.
    """
    dataset = dataset_fn(InputContext(group.size, group.rank, group.size))
    if not isinstance(dataset, Dataset):
        raise TypeError(
            "distribute_datasets_from_function: the function must give a tk.data.Dataset, it gave "
            f"{type(dataset).__name__}"
        )
    return DistributedDataset(group, Sharded(dataset, placed=False))
