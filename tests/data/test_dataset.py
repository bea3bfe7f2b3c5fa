"""What data sets give: sources, steps, batches, specs and texts."""

import numpy as np
import pytest

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError, OutOfRangeError, UnimplementedError
from trainkit.core.tensor import Tensor
from trainkit.core.tensor_spec import TensorSpec
from trainkit.data import AUTOTUNE, INFINITE_CARDINALITY, UNKNOWN_CARDINALITY, Dataset


def listed(dataset):
    """Elements as plain lists."""

    def plain(x):
        if isinstance(x, tuple):
            return tuple(plain(i) for i in x)
        if isinstance(x, dict):
            return {k: plain(v) for k, v in x.items()}
        return x.tolist()

    return [plain(element) for element in dataset.as_numpy_iterator()]


def numbers(n):
    return Dataset.range(n)


def walked(n):
    """Numbers that can't be had by position."""
    return Dataset.from_generator(lambda: iter(range(n)), output_signature=TensorSpec((), "int64"))


SOURCES = [numbers, walked]


def test_slices_keep_structure_and_dtype():
    dataset = Dataset.from_tensor_slices(
        {"x": np.zeros((3, 2), "uint8"), "y": (np.arange(3), [1.0, 2.0, 3.0])}
    )
    element = next(iter(dataset))
    assert isinstance(element["x"], Tensor)
    assert element["x"].dtype == "uint8"
    assert element["y"][0].dtype == "int64"
    assert element["y"][1].dtype == "float32"


def test_from_tensors_is_one_element():
    assert listed(Dataset.from_tensors([[1, 2], [3, 4]])) == [[[1, 2], [3, 4]]]


def test_slices_of_different_sizes_are_refused():
    with pytest.raises(InvalidArgumentError, match=r"\(3,\), \(4,\)"):
        Dataset.from_tensor_slices((np.zeros(3), np.zeros(4)))


def test_objects_and_records_are_refused():
    with pytest.raises(InvalidArgumentError, match="texts alone"):
        Dataset.from_tensor_slices(np.array(["a", 1], object))
    with pytest.raises(InvalidArgumentError, match="fields one by one"):
        Dataset.from_tensor_slices(np.zeros(2, [("a", "f4"), ("b", "i4")]))


def test_an_element_is_a_copy_of_its_row():
    x = np.zeros((4, 2))
    batch = next(iter(Dataset.from_tensor_slices(x).batch(2)))
    x[:] = 7
    assert batch.numpy().max() == 0


def test_range_as_pythons():
    assert listed(Dataset.range(2, 11, 4)) == [2, 6, 10]
    assert listed(Dataset.range(5, 0, -2)) == [5, 3, 1]
    assert Dataset.range(3, output_type="float32").element_spec == TensorSpec((), "float32")


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (lambda d: d.map(lambda n: n * 10), [0, 10, 20, 30, 40, 50, 60]),
        (lambda d: d.filter(lambda n: n % 2 == 0), [0, 2, 4, 6]),
        (lambda d: d.take_while(lambda n: n < 3), [0, 1, 2]),
        (lambda d: d.take(3), [0, 1, 2]),
        (lambda d: d.take(-1), [0, 1, 2, 3, 4, 5, 6]),
        (lambda d: d.take(99).take(2), [0, 1]),
        (lambda d: d.skip(5), [5, 6]),
        (lambda d: d.skip(-1), []),
        (lambda d: d.shard(3, 1), [1, 4]),
        (lambda d: d.take(2).repeat(3), [0, 1, 0, 1, 0, 1]),
        (lambda d: d.take(2).repeat().take(5), [0, 1, 0, 1, 0]),
        (lambda d: d.repeat(0), []),
        (lambda d: d.take(0).repeat(), []),
        (lambda d: d.enumerate(5).take(2), [(5, 0), (6, 1)]),
        (lambda d: d.batch(3), [[0, 1, 2], [3, 4, 5], [6]]),
        (lambda d: d.batch(3, drop_remainder=True), [[0, 1, 2], [3, 4, 5]]),
        (lambda d: d.take(4).batch(2).batch(2), [[[0, 1], [2, 3]]]),
        (lambda d: d.batch(3).unbatch(), [0, 1, 2, 3, 4, 5, 6]),
        (lambda d: d.batch(3).map(lambda b: b + 1), [[1, 2, 3], [4, 5, 6], [7]]),
        (lambda d: d.take(2).concatenate(Dataset.range(8, 10)), [0, 1, 8, 9]),
        (lambda d: d.take(2).concatenate(Dataset.range(8, 10)).batch(3), [[0, 1, 8], [9]]),
        (lambda d: d.take(3).repeat(2).batch(4), [[0, 1, 2, 0], [1, 2]]),
        (lambda d: d.take(4).cache().repeat(2), [0, 1, 2, 3, 0, 1, 2, 3]),
        (lambda d: d.take(4).cache().batch(3).repeat(2), [[0, 1, 2], [3], [0, 1, 2], [3]]),
        (lambda d: d.prefetch(2), [0, 1, 2, 3, 4, 5, 6]),
        (lambda d: d.map(lambda n: n * 2, num_parallel_calls=3), [0, 2, 4, 6, 8, 10, 12]),
        (lambda d: d.apply(lambda x: x.skip(6)), [6]),
        (lambda d: d.scan(0, lambda s, n: (s + int(n), s * 2)), [0, 0, 2, 6, 12, 20, 30]),
        (lambda d: Dataset.zip(d, d.skip(5)), [(0, 5), (1, 6)]),
        (lambda d: Dataset.zip((d, d.skip(4))).batch(2), [([0, 1], [4, 5]), ([2], [6])]),
        (lambda d: Dataset.zip({"a": d, "b": d}).take(1), [{"a": 0, "b": 0}]),
        (lambda d: d.window(3, shift=2).flat_map(lambda w: w.batch(3)),
         [[0, 1, 2], [2, 3, 4], [4, 5, 6], [6]]),
        (lambda d: d.window(2, stride=2, drop_remainder=True).flat_map(lambda w: w.batch(2)),
         [[0, 2], [2, 4], [4, 6]]),
        (lambda d: d.take(2).flat_map(lambda n: Dataset.range(3)), [0, 1, 2, 0, 1, 2]),
        (lambda d: d.take(3).interleave(
            lambda n: Dataset.from_tensors(n).repeat(3), cycle_length=2, block_length=2),
         [0, 0, 1, 1, 0, 1, 2, 2, 2]),
        (lambda d: Dataset.choose_from_datasets(
            [d, d.map(lambda n: n + 50)], Dataset.from_tensor_slices([1, 0, 1])), [50, 0, 51]),
    ],
)  # fmt: skip
def test_steps(source, step, expected):
    assert listed(step(source(7))) == expected
    assert listed(step(source(7))) == expected  # twice: nothing is used up


@pytest.mark.parametrize(
    ("dataset", "count"),
    [
        (numbers(7), 7),
        (numbers(7).batch(3), 3),
        (numbers(7).batch(3, drop_remainder=True), 2),
        (numbers(7).repeat(), INFINITE_CARDINALITY),
        (numbers(7).repeat(2).skip(4), 10),
        (numbers(7).repeat().take(3), 3),
        (numbers(7).filter(lambda n: n > 1), UNKNOWN_CARDINALITY),
        (walked(7), UNKNOWN_CARDINALITY),
        (numbers(7).concatenate(numbers(2)), 9),
        (Dataset.zip(numbers(7), numbers(9).repeat()), 7),
        (numbers(7).shard(3, 0), 3),
        (numbers(7).window(3), 3),
        (numbers(7).window(3, shift=1, drop_remainder=True), 5),
        (numbers(7).shuffle(3).cache().prefetch(1).enumerate().map(lambda i, n: n), 7),
    ],
)
def test_cardinality(dataset, count):
    assert int(dataset.cardinality()) == count
    if count >= 0:
        assert len(dataset) == count == len(list(dataset))
    else:
        with pytest.raises(TypeError, match=r"infinite|unknown"):
            len(dataset)


def test_texts_are_tensorflows():
    images = {"x": np.zeros((4, 28, 28), "uint8"), "y": np.zeros(4, "int32")}

    def prepare(example):
        return ops.expand_dims(ops.cast(example["x"], "float32") / 255, axis=-1), example["y"]

    dataset = Dataset.from_tensor_slices(images).map(prepare).shuffle(1000).batch(32)
    assert repr(dataset) == (
        "<_BatchDataset element_spec=("
        "TensorSpec(shape=(None, 28, 28, 1), dtype=tf.float32, name=None), "
        "TensorSpec(shape=(None,), dtype=tf.int32, name=None))>"
    )
    assert repr(Dataset.from_tensor_slices(images)) == (
        "<_TensorSliceDataset element_spec={"
        "'x': TensorSpec(shape=(28, 28), dtype=tf.uint8, name=None), "
        "'y': TensorSpec(shape=(), dtype=tf.int32, name=None)}>"
    )
    assert repr(Dataset.range(3)) == (
        "<_RangeDataset element_spec=TensorSpec(shape=(), dtype=tf.int64, name=None)>"
    )


def test_spec_of_a_map_that_needs_values_leaves_sizes_open():
    dataset = Dataset.from_tensor_slices(np.ones((3, 2))).map(lambda x: x.numpy().repeat(2))
    assert dataset.element_spec == TensorSpec((None,), "float64")
    assert dataset.batch(3).element_spec == TensorSpec((None, None), "float64")


def test_padded_batch():
    dataset = Dataset.range(1, 4).map(lambda n: np.full(int(n), int(n)))
    assert listed(dataset.padded_batch(2)) == [[[1, 0], [2, 2]], [[3, 3, 3]]]
    wide = dataset.padded_batch(3, padded_shapes=[4], padding_values=-1)
    assert listed(wide) == [[[1, -1, -1, -1], [2, 2, -1, -1], [3, 3, 3, -1]]]
    assert tuple(wide.element_spec.shape) == (None, 4)
    with pytest.raises(InvalidArgumentError, match="size 3 where the padded shape says 2"):
        list(dataset.padded_batch(3, padded_shapes=[2]))


def test_batch_of_different_shapes_names_the_way_out():
    dataset = Dataset.range(1, 4).map(lambda n: np.ones(int(n)))
    with pytest.raises(InvalidArgumentError, match="padded_batch"):
        list(dataset.batch(2))


def test_sampling_follows_weights_and_seed():
    sources = [Dataset.from_tensors(i).repeat() for i in range(2)]
    dataset = Dataset.sample_from_datasets(sources, weights=[0.2, 0.8], seed=3).take(1000)
    drawn = listed(dataset)
    assert 750 < sum(drawn) < 850
    assert listed(dataset) == drawn
    both = Dataset.sample_from_datasets([numbers(3), numbers(2)], seed=1)
    assert sorted(listed(both)) == [0, 0, 1, 1, 2]


def test_generator_is_checked_against_its_signature():
    def rows():
        yield [1.0, 2.0]
        yield [1.0, 2.0, 3.0]

    dataset = Dataset.from_generator(rows, output_signature=TensorSpec((2,), "float32"))
    with pytest.raises(InvalidArgumentError, match=r"element 1 .*shape \(3,\)"):
        list(dataset)
    typed = Dataset.from_generator(
        lambda n: iter(range(n)), output_types="int32", output_shapes=(), args=(3,)
    )
    assert listed(typed) == [0, 1, 2]
    with pytest.raises(TypeError, match="output_signature"):
        Dataset.from_generator(rows)


def test_reduce_and_single_element():
    assert int(numbers(5).reduce(np.int64(0), lambda s, n: s + n)) == 10
    assert int(numbers(1).get_single_element()) == 0
    with pytest.raises(InvalidArgumentError, match="more than one"):
        numbers(2).get_single_element()


def test_get_next_raises_out_of_range():
    iterator = iter(numbers(1))
    assert int(iterator.get_next()) == 0
    with pytest.raises(OutOfRangeError):
        iterator.get_next()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: numbers(3).batch(0), "batch_size must be at least 1"),
        (lambda: numbers(3).shuffle(0), "buffer_size must be at least 1"),
        (lambda: numbers(3).shard(2, 2), r"\[0, 2\)"),
        (lambda: numbers(3).map(abs, num_parallel_calls=0), "at least 1"),
        (lambda: numbers(3).window(0), "at least 1"),
        (lambda: numbers(3).prefetch(-2), "AUTOTUNE"),
        (lambda: list(numbers(3).filter(lambda n: n)), "one bool"),
        (lambda: Dataset.range(0, 3, 0), "step is 0"),
    ],
)
def test_bad_arguments(call, words):
    with pytest.raises(InvalidArgumentError, match=words):
        call()


def test_unsupported_and_wrong_types():
    with pytest.raises(UnimplementedError, match="padded_batch"):
        numbers(3).ragged_batch(2)
    with pytest.raises(TypeError, match="Dataset is needed"):
        Dataset.zip(numbers(3), [1, 2])
    with pytest.raises(TypeError, match="differ"):
        numbers(3).concatenate(Dataset.from_tensor_slices(np.zeros((2, 2))))
    with pytest.raises(TypeError, match="must give a Dataset"):
        list(numbers(2).flat_map(lambda n: n))
    with pytest.raises(TypeError, match="function"):
        numbers(2).map(3)


def test_autotune_is_accepted_everywhere():
    dataset = numbers(4).map(lambda n: n + 1, num_parallel_calls=AUTOTUNE).prefetch(AUTOTUNE)
    assert listed(dataset) == [1, 2, 3, 4]


def test_a_scan_is_known_before_its_first_element():
    scanned = Dataset.range(2).scan(np.int64(0), lambda state, n: (state + n, state + 10))
    first = Dataset.from_tensors(np.int64(5))
    chosen = Dataset.choose_from_datasets([scanned, first], Dataset.from_tensor_slices([1, 0, 0]))
    assert [int(n) for n in chosen] == [5, 10, 10]
