"""The methods of `Dataset` that make another data set of one."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from trainkit.core.errors import InvalidArgumentError, UnimplementedError
from trainkit.core.files.local_paths import local_path
from trainkit.core.files.output_folders import make_folder
from trainkit.core.trackable import Trackable
from trainkit.data import structure
from trainkit.data.node import DatasetOp
from trainkit.data.options import Options
from trainkit.data.readers import stored
from trainkit.data.transformations import caching, choosing, combining, grouping, mapping, shuffling
from trainkit.data.transformations.prefetch import AUTOTUNE, PrefetchNode
from trainkit.kernels.threads.pools import pipeline_threads


def whole_number(value: Any, what: str) -> int:
    """A size, given as an int or as a scalar tensor or array of ints.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(value, int):
        return int(value)
    array = np.asarray(structure.leaf_array(value))
    if array.shape != () or array.dtype.kind not in "iu":
        raise TypeError(f"{what} must be an int or a scalar of ints, got {value!r}")
    return int(array)


def threads_for(num_parallel_calls: Any, what: str) -> int | None:
    """How many calls may run at a time, `AUTOTUNE` as the number of threads."""
    if num_parallel_calls is None:
        return None
    count = whole_number(num_parallel_calls, f"{what}: num_parallel_calls")
    if count == AUTOTUNE:
        return pipeline_threads()
    if count < 1:
        raise InvalidArgumentError(f"{what}: num_parallel_calls must be at least 1, got {count}")
    return count


class Chain(Trackable):
    """What `Dataset` inherits: each method gives a new data set and leaves this one alone.

    All of them take TensorFlow's `name`, which is not kept, and `num_parallel_calls` and
    `deterministic` where TensorFlow has them.

    Attributes:
        node: the last step.
    """

    node: DatasetOp
    _options: Options | None = None

    def _then(self, node: DatasetOp) -> Self:
        """The data set that ends with `node`, with the options of this one."""
        raise NotImplementedError

    # ------------------------------------------------------------------ one by one

    def map(
        self,
        map_func: Callable[..., Any],
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        synchronous: bool | None = None,
        use_unbounded_threadpool: bool = False,
        name: str | None = None,
    ) -> Self:
        """A function of each element.

        Where the function is pure and its operations allow it, it runs on whole batches, with the
        results it would give one by one, to the bit; then no threads are used.

        Args:
            map_func: called with the components of a tuple, else with the element. A list of
                results is a tuple of them.
            num_parallel_calls: how many calls may run at a time, in threads; `AUTOTUNE` for as many
                as `tk.config.threading.set_inter_op_parallelism_threads` says, by default one per
                usable core.
            deterministic: the order is always that of the source; `False` allows what is not done.
            synchronous: True for no threads.
            use_unbounded_threadpool: a hint of TensorFlow's that changes no result.
            name: not kept.

        Raises:
            InvalidArgumentError: `num_parallel_calls` is 0 or less.
        """
        threads = threads_for(num_parallel_calls, "map")
        return self._then(mapping.MapNode(self.node, map_func, None if synchronous else threads))

    def filter(self, predicate: Callable[..., Any], name: str | None = None) -> Self:
        """The elements for which `predicate` gives true, as a scalar bool."""
        return self._then(choosing.FilterNode(self.node, predicate))

    def take_while(self, predicate: Callable[..., Any], name: str | None = None) -> Self:
        """The elements before the first for which `predicate` gives false."""
        return self._then(choosing.FilterNode(self.node, predicate, stops=True))

    def scan(
        self, initial_state: Any, scan_func: Callable[..., Any], name: str | None = None
    ) -> Self:
        """Elements made while a state is handed on.

        Args:
            initial_state: nest of tensors.
            scan_func: function of (state, element) that returns (next state, what to give).
            name: not kept.
        """
        return self._then(choosing.ScanNode(self.node, initial_state, scan_func))

    def enumerate(self, start: int = 0, name: str | None = None) -> Self:
        """Pairs of a number, int64 from `start` on, and the element."""
        return self._then(
            choosing.EnumerateNode(self.node, whole_number(start, "enumerate: start"))
        )

    def ignore_errors(self, log_warning: bool = False, name: str | None = None) -> Self:
        """The elements whose making does not fail.

        Args:
            log_warning: warn of each failure.
            name: not kept.
        """

        def tell(error: Exception) -> None:
            if log_warning:
                warnings.warn(f"ignore_errors: {error}", RuntimeWarning, stacklevel=2)

        return self._then(grouping.IgnoreErrorsNode(self.node, tell))

    # ------------------------------------------------------------------ order and choice

    def shuffle(
        self,
        buffer_size: int,
        seed: int | None = None,
        reshuffle_each_iteration: bool | None = True,
        name: str | None = None,
    ) -> Self:
        """Elements in random order, drawn from a buffer that the source keeps full.

        With a buffer as large as the source all orders are equally likely.

        Args:
            buffer_size: how many elements are drawn from; `UNKNOWN_CARDINALITY` for all.
            seed: of the order; by default from the seed that `tk.random.set_seed` set.
            reshuffle_each_iteration: whether each pass has an order of its own.
            name: not kept.

        Raises:
            InvalidArgumentError: `buffer_size` is below 1.
        """
        size = whole_number(buffer_size, "shuffle: buffer_size")
        seed = None if seed is None else whole_number(seed, "shuffle: seed")
        again = reshuffle_each_iteration is None or bool(reshuffle_each_iteration)
        return self._then(shuffling.ShuffleNode(self.node, size, seed, again))

    def repeat(self, count: int | None = None, name: str | None = None) -> Self:
        """The data set `count` times over; without end for `None` or -1."""
        times = None if count is None else whole_number(count, "repeat: count")
        return self._then(choosing.RepeatNode(self.node, times))

    def take(self, count: int, name: str | None = None) -> Self:
        """The first `count` elements; all for -1."""
        return self._then(choosing.TakeNode(self.node, whole_number(count, "take: count")))

    def skip(self, count: int, name: str | None = None) -> Self:
        """All but the first `count` elements; none for -1."""
        return self._then(choosing.SkipNode(self.node, whole_number(count, "skip: count")))

    def shard(self, num_shards: int, index: int, name: str | None = None) -> Self:
        """Every `num_shards`-th element, from number `index` on.

        Raises:
            InvalidArgumentError: `index` is not in [0, num_shards).
        """
        shards = whole_number(num_shards, "shard: num_shards")
        return self._then(
            choosing.ShardNode(self.node, shards, whole_number(index, "shard: index"))
        )

    def concatenate(self, dataset: Any, name: str | None = None) -> Self:
        """The elements of this one, then those of `dataset`.

        Raises:
            TypeError: their structures or dtypes differ.
        """
        return self._then(combining.ConcatenateNode(self.node, node_of(dataset)))

    def flat_map(self, map_func: Callable[..., Any], name: str | None = None) -> Self:
        """The elements of the data sets that `map_func` makes of elements, one after the other."""
        return self._then(combining.InterleaveNode(self.node, map_func, 1, 1))

    def interleave(
        self,
        map_func: Callable[..., Any],
        cycle_length: int | None = None,
        block_length: int | None = None,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Self:
        """The elements of the data sets that `map_func` makes of elements, several taking turns.

        Args:
            map_func: makes a data set of an element.
            cycle_length: how many data sets take turns; by default as many as there are CPUs.
            block_length: how many elements each gives at its turn, 1 by default.
            num_parallel_calls: a hint of TensorFlow's that changes no result.
            deterministic: the same; the order never changes.
            name: not kept.

        Raises:
            InvalidArgumentError: a length is below 1.
        """
        threads_for(num_parallel_calls, "interleave")
        cycle = AUTOTUNE
        if cycle_length is not None:
            cycle = whole_number(cycle_length, "interleave: cycle_length")
        block = (
            1 if block_length is None else whole_number(block_length, "interleave: block_length")
        )
        return self._then(
            combining.InterleaveNode(
                self.node, map_func, (os.cpu_count() or 1) if cycle == AUTOTUNE else cycle, block
            )
        )

    def unique(self, name: str | None = None) -> Self:
        """Each element once, where it comes first."""
        return self._then(grouping.UniqueNode(self.node))

    # ------------------------------------------------------------------ keeping and preparing

    def cache(self, filename: Any = "", name: str | None = None) -> Self:
        """Keep the elements of the first whole pass, and give them again in later ones.

        Args:
            filename: of a file to keep them in; in memory if it is empty. A file that is there
                already is read, whoever wrote it.
            name: not kept.

        Raises:
            DataLossError: when iterated, the file is damaged.
            UnimplementedError: it is an address of another system, such as `s3://bucket/name`.
        """
        path = local_path(filename)
        if path:
            return self._then(stored.FileCacheNode(self.node, path))
        return self._then(caching.CacheNode(self.node))

    def snapshot(
        self,
        path: Any,
        compression: str = "AUTO",
        reader_func: Any = None,
        shard_func: Any = None,
        name: str | None = None,
    ) -> Self:
        """Keep the elements of the first whole pass in a folder, and give them again later.

        Args:
            path: of the folder.
            compression: `"AUTO"`, `"GZIP"`, `"NONE"` or `None`.
            reader_func: not supported, since there is one file.
            shard_func: not supported, since there is one file.
            name: not kept.

        Raises:
            UnimplementedError: one of the two functions is given.
        """
        if reader_func is not None or shard_func is not None:
            raise UnimplementedError("snapshot: reader_func and shard_func are not supported")
        folder = local_path(path)
        make_folder(folder, "snapshot")
        gzip = stored.is_compressed(compression, "snapshot")
        return self._then(stored.FileCacheNode(self.node, os.path.join(folder, "snapshot"), gzip))

    def save(
        self,
        path: Any,
        compression: str | None = None,
        shard_func: Any = None,
        checkpoint_args: Any = None,
    ) -> None:
        """Write all elements to a folder, which `Dataset.load` reads.

        Args:
            path: of the folder.
            compression: `"GZIP"`, or `None`.
            shard_func: not supported, since there is one file.
            checkpoint_args: not supported; the file appears when it is whole.

        Raises:
            UnimplementedError: one of the last two is given.
        """
        if shard_func is not None or checkpoint_args is not None:
            raise UnimplementedError("save: shard_func and checkpoint_args are not supported")
        stored.write(self.node, local_path(path), stored.is_compressed(compression, "save"))

    def prefetch(self, buffer_size: int | None, name: str | None = None) -> Self:
        """Make up to `buffer_size` elements ahead in a background thread; `AUTOTUNE` for a few."""
        size = (
            AUTOTUNE if buffer_size is None else whole_number(buffer_size, "prefetch: buffer_size")
        )
        return self._then(PrefetchNode(self.node, size))

    def apply(self, transformation_func: Callable[[Any], Any]) -> Any:
        """`transformation_func(self)`.

        Raises:
            TypeError: it gives no data set.
        """
        dataset = transformation_func(self)
        if not isinstance(dataset, Chain):
            raise TypeError(f"apply: the function must give a Dataset, it gave {dataset!r}")
        return dataset

    def options(self) -> Options:
        """What `with_options` was given, here or before."""
        return self._options or Options()

    def with_options(self, options: Options, name: str | None = None) -> Self:
        """The same elements, with hints of TensorFlow's about how to run; see `Options`.

        Raises:
            TypeError: `options` are none.
        """
        if not isinstance(options, Options):
            raise TypeError(f"with_options: tk.data.Options is needed, got {options!r}")
        dataset = self._then(self.node)
        dataset._options = self.options().merge(options)
        return dataset


def node_of(dataset: Any) -> DatasetOp:
    """The last step of a data set.

    Raises:
        TypeError: it is none.
    """
    if not isinstance(dataset, Chain):
        raise TypeError(f"a Dataset is needed, got {type(dataset).__name__}")
    return dataset.node
