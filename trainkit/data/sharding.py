"""Data sets divided among the replicas of a strategy, by the policy that their options name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from trainkit.core.dtypes import string
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor_spec import TensorSpec
from trainkit.data.calling import Caller
from trainkit.data.dataset import Dataset
from trainkit.data.node import DatasetOp
from trainkit.data.options import AutoShardPolicy
from trainkit.data.readers.files import FilesNode
from trainkit.data.readers.stored import FileCacheNode
from trainkit.data.sources import SlicesNode
from trainkit.data.transformations.batching import BatchNode
from trainkit.data.transformations.caching import CacheNode
from trainkit.data.transformations.choosing import RepeatNode, ShardNode, SkipNode, TakeNode
from trainkit.data.transformations.combining import InterleaveNode
from trainkit.data.transformations.mapping import MapNode
from trainkit.data.transformations.prefetch import PrefetchNode
from trainkit.data.transformations.sharing import PiecesNode, ShareNode, ShareOfBatchNode
from trainkit.data.transformations.shuffling import SameShuffleNode, ShuffleNode


class Sharded(NamedTuple):
    """What one replica reads.

    Attributes:
        dataset: gives its batches; where `placed`, pairs of one and its place in that of all.
        placed: whether all replicas take rows of the same batches; otherwise each has batches of
            its own, which may end earlier than those of others.
    """

    dataset: Dataset
    placed: bool


def sharded(dataset: Dataset, replicas: int, index: int, by_rows: bool = False) -> Sharded:
    """The part of a data set of whole batches that a replica reads.

    Args:
        dataset: its options name the policy.
        replicas: how many there are.
        index: which one this is.
        by_rows: each batch has to be divided by its rows, whatever can be done besides.

    Raises:
        InvalidArgumentError: the pipeline can't be divided as the policy wants.
    """
    distribution: Any = dataset.options().experimental_distribute
    policy, node = distribution.auto_shard_policy, dataset.node
    by_rows = by_rows or policy is AutoShardPolicy.DATA
    if by_rows and policy not in (None, AutoShardPolicy.AUTO, AutoShardPolicy.DATA):
        raise InvalidArgumentError(
            f"{policy} gives each process batches of its own, and virtual_replicas are to have the "
            "same rows whatever the number of processes: use AutoShardPolicy.DATA"
        )
    if policy is AutoShardPolicy.OFF:
        return _by_pieces(dataset, node, replicas)
    if policy is AutoShardPolicy.HINT:
        return _by_pieces(dataset, _by_hint(node, replicas, index), replicas)
    if policy is AutoShardPolicy.FILE:
        return _by_pieces(dataset, _by_file(node, replicas, index), replicas)
    if not by_rows:
        try:
            by_file = _by_file(node, replicas, index)
        except InvalidArgumentError:
            by_file = None
        if by_file is not None:
            return _by_pieces(dataset, by_file, replicas)
    share = _by_rows(node, replicas, index) or ShareNode(node, replicas, index)
    return Sharded(dataset._then(share), placed=True)


def _by_pieces(dataset: Dataset, node: DatasetOp, replicas: int) -> Sharded:
    return Sharded(dataset._then(PiecesNode(node, replicas)), placed=False)


def _by_rows(node: Any, replicas: int, index: int) -> DatasetOp | None:
    """The pipeline with its last batches divided where they are made; `None` if that can't be.

    Between there and the end stand only steps that do not look into a batch.
    """
    if type(node) is BatchNode:
        return ShareOfBatchNode(node.source, node.size, node.drop, replicas, index)
    if not isinstance(node, PrefetchNode | TakeNode | SkipNode | RepeatNode | ShuffleNode):
        return None
    source = _by_rows(node.source, replicas, index)
    return source and _over(node, {"source": source})


def _by_hint(node: DatasetOp, replicas: int, index: int) -> DatasetOp:
    def put(step: DatasetOp) -> DatasetOp | None:
        if isinstance(step, ShardNode) and step.hints:
            return ShardNode(step.source, replicas, index)
        return None

    divided = _change(node, put)
    if divided is node:
        raise InvalidArgumentError(
            "AutoShardPolicy.HINT needs dataset.shard(SHARD_HINT, SHARD_HINT) in the pipeline, "
            "which this one lacks; add it, or use AutoShardPolicy.DATA"
        )
    return divided


def _by_file(node: Any, replicas: int, index: int) -> DatasetOp:
    def divide(step: Any) -> DatasetOp | None:
        if isinstance(step, FileCacheNode):
            raise InvalidArgumentError(
                "files can't be divided among replicas where cache(filename) keeps what all of "
                "them hold; use AutoShardPolicy.DATA"
            )
        if not _reads_files(step):
            return None
        names = _change(step.source, lambda part: _shard_of_names(part, replicas, index))
        if names is step.source:
            names = ShardNode(names, replicas, index)
        return _over(step, {"source": names})

    divided = _change(node, divide)
    if divided is node:
        raise InvalidArgumentError(
            "AutoShardPolicy.FILE divides the files that a pipeline reads, and this one reads "
            "none; use AutoShardPolicy.DATA"
        )
    return divided


def _shard_of_names(names: DatasetOp, replicas: int, index: int) -> DatasetOp | None:
    if not isinstance(names, SlicesNode):
        return None
    if names.count() < replicas:
        raise InvalidArgumentError(
            f"{names.count()} files can't be divided among {replicas} replicas; give at least one "
            "for each, or use AutoShardPolicy.DATA"
        )
    return ShardNode(names, replicas, index)


def _reads_files(step: Any) -> bool:
    """Whether a step makes elements of files, whose names come from its source."""
    if isinstance(step, FilesNode):
        return True
    if not isinstance(step, InterleaveNode):
        return False
    spec = step.source.spec()
    if not isinstance(spec, TensorSpec) or spec.dtype is not string or spec.rank != 0:
        return False
    names: Any = step.source
    while not isinstance(names, SlicesNode):
        if "source" not in vars(names):
            return False
        names = names.source
    return names.count() > 0 and _holds_files(step.open(names.rows().row(0)))


def _holds_files(node: Any) -> bool:
    return isinstance(node, FilesNode) or any(map(_holds_files, _sources(node).values()))


def _sources(node: Any) -> dict[str, DatasetOp]:
    return {name: part for name, part in vars(node).items() if isinstance(part, DatasetOp)}


def _change(node: DatasetOp, change: Callable[[DatasetOp], DatasetOp | None]) -> DatasetOp:
    """The pipeline with other steps where `change` gives one; itself if it gives none."""
    replacement = change(node)
    if replacement is not None:
        return replacement
    new: dict[str, Any] = {}
    for name, part in vars(node).items():
        if isinstance(part, DatasetOp):
            new_part = _change(part, change)
            if new_part is not part:
                new[name] = new_part
        elif isinstance(part, list) and part and all(isinstance(x, DatasetOp) for x in part):
            many = [_change(x, change) for x in part]
            if any(a is not b for a, b in zip(many, part, strict=True)):
                new[name] = many
    return _over(node, new) if new else node


def _over(node: Any, sources: dict[str, Any]) -> DatasetOp:
    """The same step over other sources, of elements of the same structure."""
    source: Any = sources.get("source")
    if isinstance(node, ShuffleNode):
        return SameShuffleNode(node, source)
    if isinstance(node, CacheNode):
        return CacheNode(source)
    if isinstance(node, MapNode):
        return MapNode(source, node.caller.function, node.threads)
    step: Any = object.__new__(type(node))
    step.__dict__.update(vars(node))
    for name, part in sources.items():
        setattr(step, name, part)
    caller = vars(node).get("caller")
    if isinstance(caller, Caller) and source is not None:
        step.caller = Caller(caller.function, source, caller.extra)
    return step
