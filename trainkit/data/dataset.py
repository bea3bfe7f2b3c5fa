"""`Dataset`: sequences of elements, made of steps, with the names and meanings of `tf.data`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from trainkit import ops
from trainkit.core import devices, nest
from trainkit.core.dispatch import trace_state
from trainkit.core.dtypes import as_dtype
from trainkit.core.errors import InvalidArgumentError, UnimplementedError
from trainkit.core.files.local_paths import local_path
from trainkit.core.tensor import Tensor, is_tensor, wrap
from trainkit.core.tensor_spec import TensorSpec
from trainkit.core.values.html_text import table, tag
from trainkit.core.values.type_aliases import DTypeLike
from trainkit.data import endless, sources, structure
from trainkit.data.batch_chaining import BatchChain
from trainkit.data.chaining import node_of, whole_number
from trainkit.data.class_shares import resampled
from trainkit.data.iterator import DatasetIterator, IteratorOfRun
from trainkit.data.node import INFINITE, UNKNOWN, DatasetOp
from trainkit.data.readers import stored
from trainkit.data.readers.file_names import matching
from trainkit.data.transformations import combining
from trainkit.data.transformations.prefetch import AUTOTUNE as AUTOTUNE
from trainkit.ops.core.run_time_checks import assert_true

INFINITE_CARDINALITY = INFINITE
UNKNOWN_CARDINALITY = UNKNOWN


class Dataset(BatchChain):
    """A sequence of elements: tensors, or tuples and dicts of tensors.

    Nothing is computed until it is iterated, and each iteration begins anew. Arrays in memory are
    not visited element by element where a batch can be had at once: slices, mapped by a pure
    function of operations that treat elements alike, shuffled and batched, cost one gather per
    batch.

    Its iterators are trackable, see `DatasetIterator`. A data set that a checkpoint tracks stores
    how many passes over each of its shuffles have begun, so that the next pass has the order it
    would have had.

    >>> numbers = tk.data.Dataset.range(6).map(lambda n: n * n).batch(4)
    >>> [batch.numpy().tolist() for batch in numbers]
    [[0, 1, 4, 9], [16, 25]]
    """

    def __init__(self, node: DatasetOp) -> None:
        if not isinstance(node, DatasetOp):
            raise TypeError("make data sets by Dataset.from_tensor_slices and its like")
        self.node = node

    # ------------------------------------------------------------------ sources

    @staticmethod
    def from_tensor_slices(tensors: Any, name: str | None = None) -> Dataset:
        """The rows of arrays, along the first axis.

        Args:
            tensors: array, tensor, list or table, or tuple or dict of them, all of the same first
                size; `None` is part of each element, and a list may hold data sets. NumPy arrays
                are not copied; leave them as they are while the data set is in use.
            name: not kept.

        Raises:
            InvalidArgumentError: the first sizes differ, a component is a scalar, or is neither
                numbers nor text.
        """
        return Dataset(sources.slices_node(tensors))

    @staticmethod
    def from_tensors(tensors: Any, name: str | None = None) -> Dataset:
        """One element: `tensors` itself."""
        return Dataset(sources.tensors_node(tensors))

    @staticmethod
    def range(*args: Any, output_type: DTypeLike = "int64", name: str | None = None) -> Dataset:
        """The integers of Python's `range(*args)`, as scalars of `output_type`.

        Raises:
            InvalidArgumentError: the step is 0.
            TypeError: there are no or more than three arguments, or one is no integer.
        """
        if not 1 <= len(args) <= 3:
            raise TypeError(
                f"Dataset.range takes stop, or start, stop and a step; got {len(args)} arguments"
            )
        numbers = [whole_number(n, "Dataset.range: a limit") for n in args]
        start, stop, step = (0, numbers[0], 1) if len(args) == 1 else (*numbers, 1)[:3]
        return Dataset(sources.RangeNode(start, stop, step, as_dtype(output_type)))

    @staticmethod
    def counter(
        start: Any = 0, step: Any = 1, dtype: DTypeLike = "int64", name: str | None = None
    ) -> Dataset:
        """start, start + step, start + 2 step and so on without end, as scalars of `dtype`.

        Args:
            start: the first.
            step: from one to the next.
            dtype: element type.
            name: not kept.

        Example:
            >>> [int(x) for x in tk.data.experimental.Counter(5, 2).take(3)]
            [5, 7, 9]
        """
        first, by = (np.asarray(structure.leaf_array(x))[()] for x in (start, step))
        return Dataset(endless.CounterNode(first, by, as_dtype(dtype)))

    @staticmethod
    def random(
        seed: int | None = None,
        rerandomize_each_iteration: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Random int64 scalars in [0, 2**32) without end.

        Args:
            seed: of the numbers; by default from the seed that `tk.random.set_seed` set.
            rerandomize_each_iteration: whether each pass has numbers of its own.
            name: not kept.

        Example:
            >>> len(list(tk.data.experimental.RandomDataset(seed=1).take(3)))
            3
        """
        seed = None if seed is None else whole_number(seed, "Dataset.random: seed")
        return Dataset(endless.RandomNode(seed, bool(rerandomize_each_iteration)))

    @staticmethod
    def from_generator(
        generator: Callable[..., Any],
        output_types: Any = None,
        output_shapes: Any = None,
        args: Any = None,
        output_signature: Any = None,
        name: str | None = None,
    ) -> Dataset:
        """What a generator yields.

        To take up a stored position the generator runs again up to there, so it should yield the
        same each time.

        Args:
            generator: function that returns something to iterate over; called for each pass.
            output_types: nest of dtypes, instead of a signature.
            output_shapes: nest of shapes that goes with it; any shapes by default.
            args: arguments of `generator`, given as NumPy arrays and scalars.
            output_signature: nest of `TensorSpec`s that the elements must fit.
            name: not kept.

        Raises:
            TypeError: `generator` can't be called, or neither a signature nor types are given, or
                both.
        """
        if not callable(generator):
            raise TypeError("from_generator: pass the function itself, not what it returns")
        if (output_signature is None) == (output_types is None):
            raise TypeError(
                "from_generator needs output_signature=, a nest of TensorSpec, or output_types=; "
                "one of the two"
            )
        if output_signature is None:
            output_signature = _signature(output_types, output_shapes)
        arguments = tuple(np.asarray(structure.leaf_array(a))[()] for a in args or ())
        return Dataset(sources.GeneratorNode(generator, arguments, output_signature))

    @staticmethod
    def list_files(
        file_pattern: Any,
        shuffle: bool | None = None,
        seed: int | None = None,
        name: str | None = None,
    ) -> Dataset:
        """The names of the files that match, as string scalars.

        Args:
            file_pattern: a shell pattern such as `"data/*.png"`, or several. As in TensorFlow, a
                star stands for the dot of hidden files, too.
            shuffle: whether the order is random; it is by default.
            seed: of the order.
            name: not kept.

        Raises:
            InvalidArgumentError: no file matches.
        """
        file_names = matching(file_pattern)
        if not file_names:
            raise InvalidArgumentError(f"list_files: no file matches {file_pattern!r}")
        files = Dataset(sources.SlicesNode(file_names))
        return files.shuffle(len(file_names), seed) if shuffle is None or shuffle else files

    @staticmethod
    def load(
        path: Any,
        element_spec: Any = None,
        compression: str | None = None,
        reader_func: Any = None,
        wait: bool = False,
    ) -> Dataset:
        """The elements that `save` wrote to a folder.

        Args:
            path: of the folder.
            element_spec: what the elements must be like, where it is given.
            compression: the files tell; a value is checked.
            reader_func: not supported, since there is one file.
            wait: not supported: the files appear when they are whole, and none are waited for.

        Raises:
            NotFoundError: nothing is stored there.
            DataLossError: the files are damaged.
            TypeError: the elements are not like `element_spec`.
            UnimplementedError: `reader_func` is given, or `wait` is true.

        Example:
            >>> tk.data.experimental.save(tk.data.Dataset.range(3), "stored")
            >>> [int(x) for x in tk.data.experimental.load("stored")]
            [0, 1, 2]
        """
        if reader_func is not None:
            raise UnimplementedError("load: reader_func is not supported")
        if wait:
            raise UnimplementedError(
                "load: wait=True is not supported: call load when save has ended"
            )
        stored.is_compressed(compression, "load")
        node = stored.StoredNode(local_path(path))
        if element_spec is not None and not structure.fits(element_spec, node.spec()):
            raise TypeError(f"load: the elements are {node.spec()}, not {element_spec}")
        return Dataset(node)

    @staticmethod
    def zip(*args: Any, datasets: Any = None, name: str | None = None) -> Dataset:
        """Elements of several data sets side by side; it ends with the shortest.

        Args:
            *args: data sets, or one nest of them, whose structure the elements take.
            datasets: the nest, by its name.
            name: not kept.

        Raises:
            TypeError: there are none, or both ways are used.
            ValueError: the nest holds none.
        """
        if bool(args) == (datasets is not None):
            raise TypeError("Dataset.zip takes data sets, or one nest of them as datasets=")
        if args:
            datasets = args[0] if len(args) == 1 else args
        datasets = tuple(datasets) if isinstance(datasets, list) else datasets
        if not nest.flatten(datasets):
            raise ValueError(f"Dataset.zip needs a data set at least, got {datasets!r}")
        return Dataset(combining.ZipNode(nest.map_structure(node_of, datasets)))

    def rejection_resample(
        self,
        class_func: Callable[..., Any],
        target_dist: Any,
        initial_dist: Any = None,
        seed: int | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Elements left out and repeated by chance, so that classes have the shares `target_dist`.

        Args:
            class_func: gives the number of an element's class, an integer scalar.
            target_dist: the share of each class that is wanted, of shape (classes,).
            initial_dist: the shares that the classes have; by default they are estimated from
                what has come so far.
            seed: of the draws; by default the next one of the process.
            name: not kept.

        Returns:
            A data set of pairs of class and element.

        Raises:
            InvalidArgumentError: the shares are no vectors of one length, or `class_func` gives
                something else than an integer scalar.

        Example:
            >>> rare = tk.data.Dataset.range(1000).map(lambda x: tk.cast(x % 10 == 0, "int32"))
            >>> even = rare.rejection_resample(lambda x: x, [0.5, 0.5], [0.9, 0.1], seed=1)
            >>> bool(0.4 < np.mean([int(label) for label, _ in even]) < 0.6)
            True
        """
        seed = None if seed is None else whole_number(seed, "rejection_resample: seed")
        dataset: Dataset = resampled(self, class_func, target_dist, initial_dist, seed)
        return dataset

    @staticmethod
    def choose_from_datasets(
        datasets: Any, choice_dataset: Dataset, stop_on_empty_dataset: bool = True
    ) -> Dataset:
        """At each step the next element of the data set whose number `choice_dataset` gives.

        Args:
            datasets: data sets of the same spec.
            choice_dataset: data set of int64 scalars, numbers of `datasets`.
            stop_on_empty_dataset: end with the first that has no more.

        Example:
            >>> a, b = tk.data.Dataset.range(3), tk.data.Dataset.range(10, 13)
            >>> choice = tk.data.Dataset.from_tensor_slices(np.array([0, 1, 0], np.int64))
            >>> [int(x) for x in tk.data.experimental.choose_from_datasets([a, b], choice)]
            [0, 10, 1]
        """
        nodes = [node_of(d) for d in datasets]
        choice = node_of(choice_dataset)
        return Dataset(combining.ChooseNode(nodes, choice, None, 0, stop_on_empty_dataset))

    @staticmethod
    def sample_from_datasets(
        datasets: Any,
        weights: Any = None,
        seed: int | None = None,
        stop_on_empty_dataset: bool = False,
        rerandomize_each_iteration: bool | None = None,
    ) -> Dataset:
        """At each step the next element of one of several data sets, drawn by weight.

        Args:
            datasets: list of them, of like elements.
            weights: chance of each; equal by default.
            seed: of the draws.
            stop_on_empty_dataset: end when one drawn is at its end, rather than go on with the
                others.
            rerandomize_each_iteration: whether each pass has draws of its own.

        Raises:
            InvalidArgumentError: there are not as many weights as data sets.

        Example:
            >>> a, b = tk.data.Dataset.range(3), tk.data.Dataset.range(10, 13)
            >>> mixed = tk.data.experimental.sample_from_datasets([a, b], seed=1)
            >>> sorted(int(x) for x in mixed)
            [0, 1, 2, 10, 11, 12]
        """
        nodes = [node_of(d) for d in datasets]
        if isinstance(weights, Dataset):
            raise UnimplementedError("sample_from_datasets: weights must be numbers, not a Dataset")
        weights = None if weights is None else np.asarray(structure.leaf_array(weights))
        if weights is not None and len(weights) != len(nodes):
            raise InvalidArgumentError(
                f"sample_from_datasets: {len(weights)} weights for {len(nodes)} data sets"
            )
        seed = None if seed is None else whole_number(seed, "sample_from_datasets: seed")
        again = bool(rerandomize_each_iteration)
        return Dataset(
            combining.ChooseNode(nodes, None, weights, seed, stop_on_empty_dataset, again)
        )

    def _then(self, node: DatasetOp) -> Any:
        dataset = Dataset(node)
        dataset._options = self._options
        return dataset

    # ------------------------------------------------------------------ reading

    def __iter__(self) -> DatasetIterator:
        return DatasetIterator(self)

    def iterator_of_run(self) -> DatasetIterator:
        """What `iter` gives in a function that is traced: a pass that begins at each run."""
        return IteratorOfRun(self)

    def as_numpy_iterator(self) -> NumpyIterator:
        """Iterate over elements as NumPy arrays and scalars, which may be written to."""
        return NumpyIterator(iter(self))

    def reduce(
        self, initial_state: Any, reduce_func: Callable[..., Any], name: str | None = None
    ) -> Any:
        """The last state of `state = reduce_func(state, element)` over all elements.

        In a function that is traced, each run goes through the elements.
        """
        state = nest.map_structure(_as_tensor, initial_state)
        graph = trace_state.current_trace()
        if hasattr(graph, "convert"):
            return self._reduced_by_runs(state, graph.convert(reduce_func))
        for element in self:
            state = nest.map_structure(_as_tensor, reduce_func(state, element))
        return state

    def _reduced_by_runs(self, initial_state: Any, reduce_func: Callable[..., Any]) -> Any:
        iterator = self.iterator_of_run()

        def step(present: Any, element: Any, state: Any) -> Any:
            state = nest.map_structure(_as_tensor, reduce_func(state, element))
            return (*iterator.get_next_as_optional(), state)

        begin = (*iterator.get_next_as_optional(), initial_state)
        return ops.while_loop(lambda present, *_: present, step, begin)[2]

    def get_single_element(self, name: str | None = None) -> Any:
        """The only element.

        Raises:
            InvalidArgumentError: there is none, or more than one.
        """
        if hasattr(trace_state.current_trace(), "convert"):
            iterator = self.iterator_of_run()
            first, second = iterator.get_next_as_optional(), iterator.get_next_as_optional()
            alone = ops.logical_and(first.present, ops.logical_not(second.present))
            assert_true(alone, message="get_single_element: there is no element, or more than one")
            return first.value
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

    def cardinality(self, name: str | None = None) -> Tensor:
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
        return f"<_{self.node.title}Dataset element_spec={self.node.spec()!r}>"

    def _repr_html_(self) -> str:
        """What notebooks show: the components of an element, and how many there are."""
        count = self.node.count()
        count_text = {INFINITE: "without end"}.get(count, str(count) if count >= 0 else "unknown")
        rows = [
            (name, getattr(spec, "shape", ""), getattr(getattr(spec, "dtype", None), "name", ""))
            for name, spec in structure.components(self.node.spec())
        ]
        return tag(
            "div",
            tag("div", tag("b", f"{self.node.title}Dataset"), f" elements: {count_text}"),
            table(("component", "shape", "dtype"), rows),
        )

    __hash__ = object.__hash__


class NumpyIterator:
    """Gives the elements of one pass as NumPy arrays and scalars."""

    def __init__(self, elements: DatasetIterator) -> None:
        self._elements = elements

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return nest.map_structure(_as_numpy, next(self._elements))

    def next(self) -> Any:
        """The next element; raises `StopIteration` behind the last."""
        return self.__next__()


def _as_numpy(x: Any) -> Any:
    """A component as an array of the user's own, which may be written to."""
    if not isinstance(x, Tensor):
        return x
    return x.numpy()


def _as_tensor(x: Any) -> Any:
    return (
        x if is_tensor(x) else wrap(devices.to_device(structure.leaf_array(x), devices.current()))
    )


def _signature(types: Any, shapes: Any) -> Any:
    """A nest of specs from nests of dtypes and of shapes."""
    if isinstance(types, tuple):
        each = [None] * len(types) if shapes is None else shapes
        return tuple(_signature(t, s) for t, s in zip(types, each, strict=True))
    if isinstance(types, dict):
        return {k: _signature(t, None if shapes is None else shapes[k]) for k, t in types.items()}
    return TensorSpec(shapes, types)
