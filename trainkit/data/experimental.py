"""`tk.data.experimental`: CSV files, record writers, and older spellings of `Dataset`'s methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.core.errors import FailedPreconditionError
from trainkit.core.names import explain_unknown_names as _explain_unknown_names
from trainkit.data.chaining import whole_number
from trainkit.data.dataset import AUTOTUNE as AUTOTUNE
from trainkit.data.dataset import INFINITE_CARDINALITY as INFINITE_CARDINALITY
from trainkit.data.dataset import UNKNOWN_CARDINALITY as UNKNOWN_CARDINALITY
from trainkit.data.dataset import Dataset
from trainkit.data.node import DatasetOp, Leaves, Piped, Stage
from trainkit.data.optional import Optional
from trainkit.data.options import AutoShardPolicy as AutoShardPolicy
from trainkit.data.options import AutotuneOptions as AutotuneOptions
from trainkit.data.options import DistributeOptions as DistributeOptions
from trainkit.data.options import OptimizationOptions as OptimizationOptions
from trainkit.data.options import ThreadingOptions as ThreadingOptions
from trainkit.data.readers.csv_files import CsvDataset as CsvDataset
from trainkit.data.readers.csv_files import make_csv_dataset as make_csv_dataset
from trainkit.data.structure import DatasetSpec as DatasetStructure
from trainkit.data.transformations.choosing import SHARD_HINT as SHARD_HINT
from trainkit.data.transformations.choosing import SameElements
from trainkit.records.writer import TFRecordWriter as _RecordWriter

__all__ = ["DatasetStructure"]

Step = Callable[[Dataset], Dataset]

Counter = Dataset.counter
RandomDataset = Dataset.random
sample_from_datasets = Dataset.sample_from_datasets
load = Dataset.load


def _step(name: str) -> Callable[..., Step]:
    """A function that gives what `Dataset.apply` takes, for the method of that name."""

    def make(*args: Any, **kwargs: Any) -> Step:
        def step(dataset: Dataset) -> Dataset:
            changed: Dataset = getattr(dataset, name)(*args, **kwargs)
            return changed

        return step

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"`Dataset.{name}`, for `Dataset.apply`."
    return make


bucket_by_sequence_length = _step("bucket_by_sequence_length")
enumerate_dataset = _step("enumerate")
group_by_window = _step("group_by_window")
ignore_errors = _step("ignore_errors")
rejection_resample = _step("rejection_resample")
parallel_interleave = _step("interleave")
scan = _step("scan")
snapshot = _step("snapshot")
take_while = _step("take_while")
unbatch = _step("unbatch")
unique = _step("unique")


def save(
    dataset: Dataset,
    path: Any,
    compression: str | None = None,
    shard_func: Any = None,
    checkpoint_args: Any = None,
) -> None:
    """`dataset.save(path, compression)`.

    Args:
        dataset: the data set.
        path: the folder.
        compression: None or `"GZIP"`.
        shard_func: not supported, since there is one file.
        checkpoint_args: not supported; the file appears when it is whole.

    Raises:
        UnimplementedError: an argument is given that is not supported.

    Example:
        >>> tk.data.experimental.save(tk.data.Dataset.range(3), "stored")
        >>> [int(x) for x in tk.data.experimental.load("stored")]
        [0, 1, 2]
    """
    dataset.save(path, compression, shard_func, checkpoint_args)


def choose_from_datasets(
    datasets: Any, choice_dataset: Dataset, stop_on_empty_dataset: bool = False
) -> Dataset:
    """`Dataset.choose_from_datasets`, which goes on when one of the data sets has no more.

    Args:
        datasets: data sets of the same spec.
        choice_dataset: data set of int64 scalars, numbers of `datasets`.
        stop_on_empty_dataset: end with the first that has no more, rather than pass over it.

    Example:
        >>> a, b = tk.data.Dataset.range(1), tk.data.Dataset.range(10, 12)
        >>> choice = tk.data.Dataset.from_tensor_slices(np.array([0, 0, 1], np.int64))
        >>> [int(x) for x in tk.data.experimental.choose_from_datasets([a, b], choice)]
        [0, 10]
    """
    return Dataset.choose_from_datasets(datasets, choice_dataset, stop_on_empty_dataset)


def get_next_as_optional(iterator: Any) -> Optional:
    """`iterator.get_next_as_optional()`.

    Args:
        iterator: of a data set.

    Example:
        >>> iterator = iter(tk.data.Dataset.range(1))
        >>> [bool(tk.data.experimental.get_next_as_optional(iterator).has_value()) for _ in "ab"]
        [True, False]
    """
    optional: Optional = iterator.get_next_as_optional()
    return optional


def cardinality(dataset: Dataset) -> Any:
    """`dataset.cardinality()`.

    Args:
        dataset: the data set.

    Example:
        >>> int(tk.data.experimental.cardinality(tk.data.Dataset.range(3)))
        3
    """
    return dataset.cardinality()


def get_single_element(dataset: Dataset) -> Any:
    """`dataset.get_single_element()`.

    Args:
        dataset: the data set.

    Example:
        >>> int(tk.data.experimental.get_single_element(tk.data.Dataset.range(5, 6)))
        5
    """
    return dataset.get_single_element()


def get_structure(dataset_or_iterator: Any) -> Any:
    """The spec of the elements.

    Args:
        dataset_or_iterator: a data set or an iterator of one.

    Example:
        >>> tk.data.experimental.get_structure(tk.data.Dataset.range(3)).dtype.name
        'int64'
    """
    return dataset_or_iterator.element_spec


def shuffle_and_repeat(buffer_size: int, count: int | None = None, seed: int | None = None) -> Step:
    """`shuffle`, then `repeat`, for `Dataset.apply`.

    Args:
        buffer_size: elements to draw from.
        count: how often; None for no end.
        seed: of the order.

    Example:
        >>> twice = tk.data.experimental.shuffle_and_repeat(3, 2, seed=1)
        >>> sorted(int(x) for x in tk.data.Dataset.range(3).apply(twice))
        [0, 0, 1, 1, 2, 2]
    """
    return lambda dataset: dataset.shuffle(buffer_size, seed).repeat(count)


def map_and_batch(
    map_func: Callable[..., Any],
    batch_size: int,
    num_parallel_batches: int | None = None,
    drop_remainder: bool = False,
    num_parallel_calls: int | None = None,
) -> Step:
    """`map`, then `batch`, for `Dataset.apply`; the calls of several batches are their sum.

    Args:
        map_func: function of an element.
        batch_size: elements of a batch.
        num_parallel_batches: batches that are made at once.
        drop_remainder: leave the last batch out if it is incomplete.
        num_parallel_calls: calls at once.

    Example:
        >>> double = tk.data.experimental.map_and_batch(lambda x: x * 2, 2)
        >>> [x.numpy() for x in tk.data.Dataset.range(4).apply(double)]
        [array([0, 2]), array([4, 6])]
    """
    calls = num_parallel_calls
    if num_parallel_batches is not None:
        calls = num_parallel_batches * batch_size
    return lambda dataset: dataset.map(map_func, calls).batch(batch_size, drop_remainder)


def assert_cardinality(expected_cardinality: int) -> Step:
    """Say how many elements there are, for `Dataset.apply`; a pass that has others fails.

    Args:
        expected_cardinality: how many.

    Raises:
        FailedPreconditionError: when iterated, there are more or fewer.

    Example:
        >>> dataset = tk.data.Dataset.range(3).filter(lambda x: x >= 0)
        >>> int(dataset.apply(tk.data.experimental.assert_cardinality(3)).cardinality())
        3
    """
    count = whole_number(expected_cardinality, "assert_cardinality")
    return lambda dataset: dataset._then(CountedNode(dataset.node, count))


class CountedNode(SameElements):
    """Elements of which somebody knows how many there are."""

    title = "AssertCardinality"

    def __init__(self, source: DatasetOp, size: int) -> None:
        super().__init__(source)
        self.size = size

    def count(self) -> int:
        return self.size

    def stage(self) -> Stage:
        return CountedStage(self)


class CountedStage(Piped):
    """Counts what passes, and compares."""

    progress = ("passed",)

    def __init__(self, node: CountedNode) -> None:
        super().__init__(node.source.stage())
        self.wanted, self.passed = node.size, 0

    def next(self) -> Leaves:
        try:
            leaves = self.source.next()
        except StopIteration:
            if 0 <= self.wanted != self.passed:
                raise self._differs("only ") from None
            raise
        self.passed += 1
        if 0 <= self.wanted < self.passed:
            raise self._differs("at least ")
        return leaves

    def _differs(self, comparison: str) -> FailedPreconditionError:
        return FailedPreconditionError(
            f"assert_cardinality: there are {comparison}{self.passed} elements, {self.wanted} "
            "expected"
        )


class TFRecordWriter:
    """Writes data sets of string scalars to TFRecord files.

    Args:
        filename: of the file.
        compression_type: `"GZIP"`, `"ZLIB"`, or `""`.

    Example:
        >>> records = tk.data.Dataset.from_tensor_slices(["a", "b"])
        >>> tk.data.experimental.TFRecordWriter("data.tfrecord").write(records)
        >>> [x.numpy() for x in tk.data.TFRecordDataset("data.tfrecord")]
        [b'a', b'b']
    """

    def __init__(self, filename: Any, compression_type: Any = None) -> None:
        self._filename, self._compression = filename, compression_type

    def write(self, dataset: Dataset) -> None:
        """Write each element as a record.

        Raises:
            TypeError: the elements are no string scalars.
        """
        with _RecordWriter(self._filename, self._compression) as writer:
            for element in dataset.as_numpy_iterator():
                if not isinstance(element, bytes):
                    array = np.asarray(element)
                    raise TypeError(
                        "TFRecordWriter.write: elements must be string scalars, got "
                        f"{array.dtype} of shape {array.shape}"
                    )
                writer.write(element)


_explain_unknown_names(
    globals(),
    left_out={
        "DatasetInitializer": "use tk.lookup.KeyValueTensorInitializer(keys, values)",
        "Reducer": "use reduce of the data set, or group_by_window",
        "SqlDataset": "use sqlite3 of Python in tk.data.Dataset.from_generator",
        "distributed_save": "use save of the data set",
        "enable_debug_mode": "use tk.config.run_functions_eagerly(True)",
        "from_list": "use tk.data.Dataset.from_tensor_slices, or from_generator where the sizes of "
        "elements differ",
        "index_table_from_dataset": "use tk.lookup.StaticVocabularyTable of the words",
        "prefetch_to_device": "use prefetch of the data set; batches lie on the device of the step",
        "service": "each process takes its part by shard of the data set, or by AutoShardPolicy",
        "table_from_dataset": "use tk.lookup.StaticHashTable of keys and values",
        "dense_to_ragged_batch": "there are no ragged tensors; use padded_batch of the data set",
        "dense_to_sparse_batch": "there are no sparse tensors; use padded_batch of the data set",
        "make_batched_features_dataset": "use tk.data.TFRecordDataset(files).batch(n), and map "
        "tk.io.parse_example over it",
    },
)
