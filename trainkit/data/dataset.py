"""`Dataset`: sequences of elements, made of steps, with the names and meanings of `tf.data`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trainkit.core import devices, nest
from trainkit.core.dtypes import as_dtype
from trainkit.core.errors import InvalidArgumentError, UnimplementedError
from trainkit.core.tensor import Tensor, wrap
from trainkit.core.tensor_spec import TensorSpec
from trainkit.core.trackable import Trackable
from trainkit.data import (
    batching,
    caching,
    combining,
    mapping,
    shuffling,
    sources,
    structure,
    transforms,
)
from trainkit.data.iterator import DatasetIterator
from trainkit.data.node import INFINITE, UNKNOWN, Leaves, Node, structure_text
from trainkit.data.prefetch import AUTOTUNE as AUTOTUNE
from trainkit.data.prefetch import PrefetchNode
from trainkit.kernels.threads import pipeline_threads

INFINITE_CARDINALITY = INFINITE
UNKNOWN_CARDINALITY = UNKNOWN


class Dataset(Trackable):
    """A sequence of elements: tensors, or tuples and dicts of tensors.

    Nothing is computed until it is iterated, and each iteration begins anew. Arrays in memory are
    not walked element by element where a batch can be had at once: slices, mapped by a pure
    function of operations that treat elements alike, shuffled and batched, cost one gather per
    batch.

    Its iterators are trackable, see `DatasetIterator`. A data set that a checkpoint tracks stores
    how many passes over each of its shuffles have begun, so that the next pass has the order it
    would have had.

    >>> numbers = tk.data.Dataset.range(6).map(lambda n: n * n).batch(4)
    >>> [batch.numpy().tolist() for batch in numbers]
    [[0, 1, 4, 9], [16, 25]]
    """

    def __init__(self, node: Node) -> None:
        if not isinstance(node, Node):
            raise TypeError("make data sets by Dataset.from_tensor_slices and its like")
        self.node = node

    # ------------------------------------------------------------------ sources

    @staticmethod
    def from_tensor_slices(tensors: Any) -> Dataset:
        """The rows of arrays, along the first axis.

        Args:
            tensors: array, tensor or list, or tuple or dict of them, all of the same first size.
                NumPy arrays are not copied; leave them as they are while the data set is in use.

        Raises:
            InvalidArgumentError: the first sizes differ, a component is a scalar, or is no numbers.
        """
        return Dataset(sources.SlicesNode(tensors))

    @staticmethod
    def from_tensors(tensors: Any) -> Dataset:
        """One element: `tensors` itself."""
        return Dataset(sources.TensorsNode(tensors))

    @staticmethod
    def range(*args: Any, output_type: Any = "int64") -> Dataset:
        """The integers of Python's `range(*args)`, as scalars of `output_type`.

        Raises:
            InvalidArgumentError: the step is 0.
            TypeError: there are no or more than three arguments.
        """
        if not 1 <= len(args) <= 3:
            raise TypeError(
                f"Dataset.range takes stop, or start, stop and a step; got {len(args)} arguments"
            )
        start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
        return Dataset(sources.RangeNode(int(start), int(stop), int(step), as_dtype(output_type)))

    @staticmethod
    def from_generator(
        generator: Callable[..., Any],
        output_types: Any = None,
        output_shapes: Any = None,
        args: Any = (),
        output_signature: Any = None,
    ) -> Dataset:
        """What a generator yields.

        To take up a stored position the generator runs again up to there, so it should yield the
        same each time.

        Args:
            generator: function that returns something to iterate over; called for each pass.
            output_types: nest of dtypes, instead of a signature.
            output_shapes: nest of shapes that goes with it.
            args: arguments of `generator`, given as tensors.
            output_signature: nest of `TensorSpec`s that the elements must fit.

        Raises:
            TypeError: `generator` can't be called, or neither a signature nor types are given.
        """
        if not callable(generator):
            raise TypeError("from_generator: pass the function itself, not what it returns")
        if output_signature is None:
            if output_types is None:
                raise TypeError("from_generator needs output_signature=, a nest of tk.TensorSpec")
            output_signature = _signature(output_types, output_shapes)
        tensors = tuple(wrap(structure.leaf_array(a)) for a in args)
        return Dataset(sources.GeneratorNode(generator, tensors, output_signature))

    @staticmethod
    def zip(*datasets: Any) -> Dataset:
        """Elements of several data sets side by side; it ends with the shortest.

        Args:
            *datasets: data sets, or one nest of them, whose structure the elements take.
        """
        nested = datasets[0] if len(datasets) == 1 else datasets
        nested = tuple(nested) if isinstance(nested, list) else nested
        return Dataset(combining.ZipNode(nest.map_structure(_node_of, nested)))

    @staticmethod
    def choose_from_datasets(
        datasets: Any, choice_dataset: Dataset, stop_on_empty_dataset: bool = True
    ) -> Dataset:
        """At each step the next element of the data set whose number `choice_dataset` gives."""
        nodes = [_node_of(d) for d in datasets]
        choice = _node_of(choice_dataset)
        return Dataset(combining.ChooseNode(nodes, choice, None, 0, stop_on_empty_dataset))

    @staticmethod
    def sample_from_datasets(
        datasets: Any,
        weights: Any = None,
        seed: int | None = None,
        stop_on_empty_dataset: bool = False,
    ) -> Dataset:
        """At each step the next element of one of several data sets, drawn by weight.

        Args:
            datasets: list of them, of like elements.
            weights: chance of each; equal by default.
            seed: of the draws.
            stop_on_empty_dataset: end when one drawn is at its end, rather than go on with the
                others.

        Raises:
            InvalidArgumentError: there are not as many weights as data sets.
        """
        nodes = [_node_of(d) for d in datasets]
        if weights is not None and len(weights) != len(nodes):
            raise InvalidArgumentError(
                f"sample_from_datasets: {len(weights)} weights for {len(nodes)} data sets"
            )
        return Dataset(combining.ChooseNode(nodes, None, weights, seed, stop_on_empty_dataset))

    # ------------------------------------------------------------------ one by one

    def map(
        self,
        map_func: Callable[..., Any],
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
    ) -> Dataset:
        """A function of each element.

        Where the function is pure and its operations allow it, it runs on whole batches, with the
        results it would give one by one, to the bit; then no threads are used.

        Args:
            map_func: called with the components of a tuple, else with the element.
            num_parallel_calls: how many calls may run at a time, in threads; `AUTOTUNE` for as many
                as `tk.config.threading.set_inter_op_parallelism_threads` says, by default one per
                usable core.
            deterministic: the order is always that of the source; `False` allows what is not done.

        Raises:
            InvalidArgumentError: `num_parallel_calls` is 0 or less.
        """
        threads = num_parallel_calls
        if threads == AUTOTUNE:
            threads = pipeline_threads()
        elif threads is not None and threads < 1:
            raise InvalidArgumentError(f"map: num_parallel_calls must be at least 1, got {threads}")
        return Dataset(mapping.MapNode(self.node, map_func, threads))

    def filter(self, predicate: Callable[..., Any]) -> Dataset:
        """The elements for which `predicate` gives true, as a scalar bool."""
        return Dataset(transforms.FilterNode(self.node, predicate))

    def take_while(self, predicate: Callable[..., Any]) -> Dataset:
        """The elements before the first for which `predicate` gives false."""
        return Dataset(transforms.FilterNode(self.node, predicate, stops=True))

    def scan(self, initial_state: Any, scan_func: Callable[..., Any]) -> Dataset:
        """Elements made while a state is handed on.

        Args:
            initial_state: nest of tensors.
            scan_func: function of (state, element) that returns (next state, what to give).
        """
        return Dataset(transforms.ScanNode(self.node, initial_state, scan_func))

    def enumerate(self, start: int = 0) -> Dataset:
        """Pairs of a number, int64 from `start` on, and the element."""
        return Dataset(transforms.EnumerateNode(self.node, int(start)))

    # ------------------------------------------------------------------ order and choice

    def shuffle(
        self, buffer_size: int, seed: int | None = None, reshuffle_each_iteration: bool = True
    ) -> Dataset:
        """Elements in random order, drawn from a buffer that the source keeps full.

        With a buffer as large as the source all orders are equally likely.

        Args:
            buffer_size: how many elements are drawn from.
            seed: of the order; by default from the seed that `tk.random.set_seed` set.
            reshuffle_each_iteration: whether each pass has an order of its own.

        Raises:
            InvalidArgumentError: `buffer_size` is below 1.
        """
        return Dataset(
            shuffling.ShuffleNode(self.node, int(buffer_size), seed, bool(reshuffle_each_iteration))
        )

    def repeat(self, count: int | None = None) -> Dataset:
        """The data set `count` times over; without end for `None` or -1."""
        return Dataset(transforms.RepeatNode(self.node, None if count is None else int(count)))

    def take(self, count: int) -> Dataset:
        """The first `count` elements; all for -1."""
        return Dataset(transforms.TakeNode(self.node, int(count)))

    def skip(self, count: int) -> Dataset:
        """All but the first `count` elements; none for -1."""
        return Dataset(transforms.SkipNode(self.node, int(count)))

    def shard(self, num_shards: int, index: int) -> Dataset:
        """Every `num_shards`-th element, from number `index` on.

        Raises:
            InvalidArgumentError: `index` is not in [0, num_shards).
        """
        return Dataset(transforms.ShardNode(self.node, int(num_shards), int(index)))

    def concatenate(self, dataset: Dataset) -> Dataset:
        """The elements of this one, then those of `dataset`.

        Raises:
            TypeError: their structures or dtypes differ.
        """
        return Dataset(combining.ConcatenateNode(self.node, _node_of(dataset)))

    def flat_map(self, map_func: Callable[..., Any]) -> Dataset:
        """The elements of the data sets that `map_func` makes of elements, one after the other."""
        return Dataset(combining.InterleaveNode(self.node, map_func, 1, 1))

    def interleave(
        self,
        map_func: Callable[..., Any],
        cycle_length: int | None = None,
        block_length: int = 1,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
    ) -> Dataset:
        """The elements of the data sets that `map_func` makes of elements, several taking turns.

        Args:
            map_func: makes a data set of an element.
            cycle_length: how many data sets take turns; by default as many as there are CPUs.
            block_length: how many elements each gives at its turn.
            num_parallel_calls: a hint of TensorFlow's that changes no result.
            deterministic: the same; the order never changes.

        Raises:
            InvalidArgumentError: a length is below 1.
        """
        cycle = cycle_length if cycle_length not in (None, AUTOTUNE) else (os.cpu_count() or 1)
        return Dataset(combining.InterleaveNode(self.node, map_func, int(cycle or 1), block_length))

    # ------------------------------------------------------------------ batches

    def batch(self, batch_size: int, drop_remainder: bool = False) -> Dataset:
        """Elements stacked in groups of `batch_size`.

        Args:
            batch_size: how many.
            drop_remainder: leave out a last group that is smaller.

        Raises:
            InvalidArgumentError: `batch_size` is below 1; when iterated, elements of different
                shapes.
        """
        return Dataset(batching.BatchNode(self.node, int(batch_size), bool(drop_remainder)))

    def padded_batch(
        self,
        batch_size: int,
        padded_shapes: Any = None,
        padding_values: Any = None,
        drop_remainder: bool = False,
    ) -> Dataset:
        """Elements padded at their ends to a common shape, and stacked.

        Args:
            batch_size: how many make a batch.
            padded_shapes: nest of shapes; `None` or -1 in a shape, or for all, means the longest of
                the batch.
            padding_values: nest of values, or one for all; 0 by default.
            drop_remainder: leave out a last group that is smaller.

        Raises:
            InvalidArgumentError: an element is longer than its padded shape.
        """
        return Dataset(
            batching.PaddedBatchNode(
                self.node, int(batch_size), padded_shapes, padding_values, bool(drop_remainder)
            )
        )

    def unbatch(self) -> Dataset:
        """The rows of each element as elements."""
        return Dataset(batching.UnbatchNode(self.node))

    def window(
        self, size: int, shift: int | None = None, stride: int = 1, drop_remainder: bool = False
    ) -> Dataset:
        """Data sets of `size` elements each; see `flat_map` to turn them into batches.

        Args:
            size: how many elements a window has.
            shift: from the start of one to that of the next; `size` by default.
            stride: from one element of a window to its next.
            drop_remainder: leave out windows that are smaller.

        Raises:
            InvalidArgumentError: a number is below 1.
        """
        return Dataset(
            batching.WindowNode(
                self.node, size, shift, stride, bool(drop_remainder), _window_component
            )
        )

    # ------------------------------------------------------------------ keeping and preparing

    def cache(self, filename: str = "") -> Dataset:
        """Keep the elements of the first whole pass in memory, and give them again in later ones.

        Raises:
            UnimplementedError: a file name is given.
        """
        if filename:
            raise UnimplementedError(
                "cache: only caching in memory is supported; leave filename empty"
            )
        return Dataset(caching.CacheNode(self.node))

    def prefetch(self, buffer_size: int) -> Dataset:
        """Make up to `buffer_size` elements ahead in a background thread; `AUTOTUNE` for a few."""
        return Dataset(PrefetchNode(self.node, int(buffer_size)))

    def apply(self, transformation_func: Callable[[Dataset], Dataset]) -> Dataset:
        """`transformation_func(self)`.

        Raises:
            TypeError: it gives no data set.
        """
        made = transformation_func(self)
        if not isinstance(made, Dataset):
            raise TypeError(f"apply: the function must give a Dataset, it gave {made!r}")
        return made

    # ------------------------------------------------------------------ reading

    def __iter__(self) -> DatasetIterator:
        return DatasetIterator(self)

    def as_numpy_iterator(self) -> Iterator[Any]:
        """Iterate over elements as NumPy arrays and scalars."""
        for element in self:
            yield nest.map_structure(_as_numpy, element)

    def reduce(self, initial_state: Any, reduce_func: Callable[..., Any]) -> Any:
        """The last state of `state = reduce_func(state, element)` over all elements."""
        state = nest.map_structure(_as_tensor, initial_state)
        for element in self:
            state = nest.map_structure(_as_tensor, reduce_func(state, element))
        return state

    def get_single_element(self) -> Any:
        """The only element.

        Raises:
            InvalidArgumentError: there is none, or more than one.
        """
        elements = list(self.take(2))
        if len(elements) != 1:
            raise InvalidArgumentError(
                f"get_single_element: the data set has "
                f"{'no element' if not elements else 'more than one'}"
            )
        return elements[0]

    # ------------------------------------------------------------------ what it is

    @property
    def element_spec(self) -> Any:
        """The structure, shapes and dtypes of an element, as a nest of `TensorSpec`."""
        return nest.map_structure(lambda spec: spec, self.node.spec())

    def cardinality(self) -> Tensor:
        """How many elements there are, an int64 scalar; -1 without end, -2 if not known."""
        return wrap(np.int64(self.node.count()))

    def __len__(self) -> int:
        count = self.node.count()
        if count < 0:
            kind = "infinite" if count == INFINITE else "unknown"
            raise TypeError(f"the length of this data set is {kind}")
        return count

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        spec = self.node.spec()
        shapes = structure_text(
            spec, lambda s: tuple(s.shape) if isinstance(s, TensorSpec) else s.shape
        )
        types = structure_text(spec, lambda s: repr(s.dtype))
        return f"<{self.node.title}Dataset shapes: {shapes}, types: {types}>"

    __hash__ = object.__hash__


def _node_of(dataset: Any) -> Node:
    if not isinstance(dataset, Dataset):
        raise TypeError(f"a Dataset is needed, got {type(dataset).__name__}")
    return dataset.node


def _as_numpy(x: Any) -> Any:
    return x.numpy() if isinstance(x, Tensor) else x


def _as_tensor(x: Any) -> Any:
    return (
        x
        if isinstance(x, Tensor)
        else wrap(devices.to_device(structure.leaf_array(x), devices.current()))
    )


def _signature(types: Any, shapes: Any) -> Any:
    """A nest of specs from nests of dtypes and of shapes."""
    if isinstance(types, tuple):
        each = shapes if shapes is not None else [None] * len(types)
        return tuple(_signature(t, s) for t, s in zip(types, each, strict=True))
    if isinstance(types, dict):
        return {k: _signature(t, None if shapes is None else shapes[k]) for k, t in types.items()}
    if shapes is None:
        raise InvalidArgumentError(
            "from_generator: give output_shapes with output_types, or output_signature"
        )
    return TensorSpec(shapes, types)


def _window_component(index: int, elements: list[Leaves]) -> Dataset:
    """Component `index` of some elements, as a data set."""
    column = [element[index] for element in elements]
    if len({np.shape(leaf) for leaf in column}) == 1:
        return Dataset(sources.SlicesNode(np.stack(column)))
    node: Node = sources.TensorsNode(column[0])
    for leaf in column[1:]:
        node = combining.ConcatenateNode(node, sources.TensorsNode(leaf))
    return Dataset(node)
