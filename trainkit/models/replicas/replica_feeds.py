"""Batches for one replica: those of a feed, divided among all that train a model together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trainkit.collectives.process_group import ProcessGroup
from trainkit.collectives.replica import GlobalRows
from trainkit.core import nest
from trainkit.core.errors import FailedPreconditionError, InvalidArgumentError
from trainkit.core.trackable import traverse
from trainkit.data import Dataset
from trainkit.data.sharding import Sharded
from trainkit.data.sources import SlicesNode
from trainkit.data.transformations.sharing import share
from trainkit.data.transformations.shuffling import ShuffleNode
from trainkit.distribution.distributed_dataset import (
    DistributedDataset,
    ReplicaIterator,
    agree_on_end,
    distributed,
)
from trainkit.distribution.mirrored import CutBatches
from trainkit.distribution.rank_digests import digest_of_array, number_of
from trainkit.distribution.strategy import Strategy
from trainkit.models.training import data_adapters
from trainkit.models.training.batch_sources import ArrayFeed, DatasetFeed, Feed, IterableFeed

_BATCH_SAMPLE_BYTES = 1 << 16


class DistributedFeed(DatasetFeed):
    """What one replica reads of a data set or of arrays.

    Args:
        data: the data set, divided.
        like: the feed of whole batches that it stands for.

    Attributes:
        rows: where the batch given last stands in that of all replicas.
    """

    _untracked = DatasetFeed._untracked | {"data", "rows", "pack"}
    data: DistributedDataset
    rows: GlobalRows
    pack: Callable[[Any], Any]
    original: Feed

    def __init__(self, data: DistributedDataset, like: Feed) -> None:
        steps = None if like.whole_passes else like.steps
        super().__init__(data.part.dataset, steps, like.class_weight)
        if not data.part.placed:  # other ranks may have more
            self.length = None
            self.steps = steps
        pack = like.batch if isinstance(like, ArrayFeed) else _as_it_is
        self.data, self.pack, self.original = data, pack, like

    def spec(self) -> Any:
        return self.pack(self.data.element_spec)

    def missing_numbers(self) -> str:
        return self.original.missing_numbers()

    def fresh(self) -> Iterator[Any]:
        return ReplicaIterator(self.data)

    def batch(self, element: Any) -> Any:
        batch, self.rows = element
        return self.pack(batch)

    def stored(self) -> dict[str, Any]:
        if self.data.part.placed:
            arrays: dict[str, Any] = self.iterator.inner.state_arrays()
            return arrays
        return {"taken": np.int64(self.seen)}

    def restore(self, arrays: dict[str, Any]) -> None:
        if self.data.part.placed:
            self.iterator.inner.load_state_arrays(arrays)
            return
        self.seen = int(arrays["taken"])
        for _ in range(self.seen):
            next(self.iterator)


def _as_it_is(x: Any) -> Any:
    return x


class DividedFeed(IterableFeed):
    """Whole batches of a generator or a sequence, of which a replica uses its own rows.

    Attributes:
        rows: see `DistributedFeed`.
    """

    _untracked = IterableFeed._untracked | {"group", "rows", "digest"}
    group: ProcessGroup
    rows: GlobalRows
    digest: str

    def __init__(self, group: ProcessGroup, feed: IterableFeed) -> None:
        self.__dict__.update(feed.__dict__, group=group, digest="")

    def fresh(self) -> Iterator[Any] | None:
        iterator = super().fresh()
        return iterator if iterator is None or self.length is not None else self._agree(iterator)

    def _agree(self, batches: Iterator[Any]) -> Iterator[Any]:
        while True:
            batch = next(batches, None)
            agree_on_end(self.group, batch is None)
            if batch is None:
                return
            yield batch

    def batch(self, element: Any) -> Any:
        many = isinstance(element, list | tuple)
        parts = (
            tuple(map(data_adapters.as_arrays, element))
            if many
            else data_adapters.as_arrays(element)
        )
        if self.group.size > 1:
            leaves = [leaf for leaf in nest.flatten(parts) if leaf is not None]
            texts = [digest_of_array(np.asarray(leaf), _BATCH_SAMPLE_BYTES) for leaf in leaves]
            self.digest = f"{number_of([self.digest, *texts]):x}"
        batch, self.rows = own_rows(self.group, parts)
        return data_adapters.of_tensors(batch)


def own_rows(group: ProcessGroup, batch: Any) -> tuple[Any, GlobalRows]:
    """The rows of this replica, at least one, of a batch of all, and where they stand in it."""
    leaves = [leaf for leaf in nest.flatten(batch) if leaf is not None]
    rows = GlobalRows(*share(data_adapters.sample_count(leaves), group.size, group.rank))
    own = slice(rows.start, rows.start + max(rows.size, 1))
    return nest.map_structure(lambda x: None if x is None else x[own], batch), rows


def divide_feed(feed: Feed, strategy: Strategy) -> Any:
    """What one replica reads of a feed of whole batches.

    Raises:
        InvalidArgumentError: batches have fewer rows than there are replicas, or can't be divided.
    """
    if strategy.is_of_one_process:
        return _whole(feed)
    group = strategy.group
    if isinstance(feed, DatasetFeed):
        if not (strategy.divides_data_sets or isinstance(feed, ArrayFeed)):
            _check_virtual(strategy)
            own = DistributedDataset(group, Sharded(feed.dataset, placed=False))
            return DistributedFeed(own, feed)
        dataset = distributed(group, feed.dataset, strategy.virtual is not None)
        return DistributedFeed(dataset, feed)
    assert isinstance(feed, IterableFeed)
    if isinstance(feed.source, DistributedDataset):
        if not feed.source.part.placed:
            _check_virtual(strategy)
        return DistributedFeed(feed.source, feed)
    return DividedFeed(group, feed)


def _whole(feed: Feed) -> Feed:
    """A feed of whole batches, also where it was given what is cut already."""
    source = getattr(feed, "source", None)
    if not isinstance(source, CutBatches):
        return feed
    steps = None if feed.whole_passes else feed.steps
    if isinstance(source.dataset, Dataset):
        return DatasetFeed(source.dataset, steps, feed.class_weight)
    return IterableFeed(source.dataset, steps, class_weight=feed.class_weight)


def _check_virtual(strategy: Strategy) -> None:
    """Refuse data that each process has of its own, where virtual replicas are to have it."""
    if strategy.virtual is not None:
        raise InvalidArgumentError(
            f"virtual_replicas={strategy.virtual.count}: each batch has to be cut by rows for all "
            "replicas, and these data sets hold batches of one process: give fit a data set of "
            "whole batches, which it divides"
        )


def check_first_batch(rows: GlobalRows, count: int) -> None:
    """Refuse to train where already the first batch leaves replicas without rows.

    Raises:
        InvalidArgumentError: it does.
    """
    if rows.total < count:
        raise InvalidArgumentError(
            f"the first batch has {rows.total} rows for {count} replicas: a batch counts the rows "
            f"of all of them, so give it {count} or more"
        )


def text_of_data(feed: Any) -> str:
    """The arrays in memory that all ranks take rows of, as a text that ranks can compare."""
    data = getattr(feed, "data", None)
    if not isinstance(data, DistributedDataset) or not data.part.placed:
        return ""
    nodes = [x for _, x in traverse(data.part.dataset.node) if isinstance(x, SlicesNode)]
    arrays = [array for node in nodes for array in node.arrays if array is not None]
    texts = [f"{x.dtype.name}{x.shape} {digest_of_array(x)}" for x in arrays]
    return ", ".join(texts)


def place_of(feed: Any) -> str:
    """Which batches a rank has read, and in which order data is shuffled, likewise."""
    dataset = getattr(feed, "dataset", None)
    parts = [] if dataset is None else traverse(dataset.node)
    shuffles = [(int(x.seed), int(x.iteration)) for _, x in parts if isinstance(x, ShuffleNode)]
    return f"{shuffles} {getattr(feed, 'digest', '')}"


def agree_on_data(feed: Any, position: tuple[int, int], group: ProcessGroup) -> None:
    """Let all ranks shuffle as rank 0 does, and make sure that they have as many batches.

    Args:
        feed: gives the batches.
        position: the epoch and the step that this rank begins with.
        group: the processes.

    Raises:
        FailedPreconditionError: the ranks begin elsewhere.
        InvalidArgumentError: they have not; the text names them.
    """
    dataset = getattr(feed, "dataset", None)
    shuffles = []
    if dataset is not None:
        shuffles = [x for _, x in traverse(dataset.node) if isinstance(x, ShuffleNode)]
    summary = {
        "position": position,
        "steps": feed.steps,
        "shuffles": [(int(node.seed), int(node.iteration)) for node in shuffles],
    }
    ranks = group.exchange(summary, "what the data is like")
    positions = [tuple(rank["position"]) for rank in ranks]
    if len(set(positions)) > 1:
        listed = "; ".join(f"rank {r}: epoch {a}, step {b}" for r, (a, b) in enumerate(positions))
        raise FailedPreconditionError(
            f"the ranks do not begin at the same place ({listed}): a stored run must be read by "
            "all of them, from a folder that all machines see"
        )
    steps = [rank["steps"] for rank in ranks]
    if len(set(steps)) > 1:
        listed = "; ".join(f"rank {rank}: {count}" for rank, count in enumerate(steps))
        raise InvalidArgumentError(
            f"the ranks have different numbers of batches ({listed}): give all of them the same "
            "data, which is divided among them, or steps_per_epoch"
        )
    for node, (seed, iteration) in zip(shuffles, ranks[0]["shuffles"], strict=True):
        node.seed, node.iteration = seed, iteration
