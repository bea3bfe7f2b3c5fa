"""Elements of different shapes, as a short last batch: no step stacks what only passes it."""

import numpy as np
import pytest

import trainkit as tk

Dataset = tk.data.Dataset


def plain(x):
    return tuple(map(plain, x)) if isinstance(x, tuple) else x.numpy().tolist()


def passes(dataset, count=2):
    return [[plain(x) for x in dataset] for _ in range(count)]


BATCHES = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def batches():
    return Dataset.range(10).batch(4)


IN_ORDER = {
    "cached and sharded": (lambda: batches().cache().shard(2, 0), [BATCHES[0], BATCHES[2]]),
    "sharded": (lambda: batches().shard(2, 1), [BATCHES[1]]),
    "cached twice": (lambda: batches().cache().cache(), BATCHES),
    "batched again": (lambda: batches().cache().batch(2), [BATCHES[:2], BATCHES[2:]]),
    "skipped": (lambda: batches().cache().skip(1), BATCHES[1:]),
    "skipped behind a shuffle": (lambda: batches().shuffle(1).cache().skip(2), BATCHES[2:]),
    "blocks of one": (lambda: batches().shuffle(1).cache().batch(1), [[b] for b in BATCHES]),
    "numbered": (lambda: batches().enumerate().cache().shuffle(1), list(enumerate(BATCHES))),
    "side by side": (
        lambda: Dataset.zip((batches().cache(), Dataset.range(3).cache())).shuffle(1),
        list(zip(BATCHES, range(3), strict=True)),
    ),
    "of a function": (
        lambda: Dataset.range(3).map(lambda n: tk.range(n)).cache().shuffle(1),
        [[], [0], [0, 1]],
    ),
    "one after the other": (
        lambda: (
            Dataset.from_tensor_slices(np.zeros((1, 1)))
            .concatenate(Dataset.from_tensor_slices(np.ones((1, 2))))
            .cache()
            .skip(1)
        ),
        [[1.0, 1.0]],
    ),
    "windows of a series": (
        lambda: (
            tk.keras.utils.timeseries_dataset_from_array(np.arange(5), None, 2, batch_size=3)
            .cache()
            .shuffle(1)
        ),
        [[[0, 1], [1, 2], [2, 3]], [[3, 4]]],
    ),
}


@pytest.mark.parametrize("name", IN_ORDER)
def test_uneven_elements_pass_one_by_one(name):
    make, expected = IN_ORDER[name]
    assert passes(make()) == [expected, expected]


@pytest.mark.parametrize("size", [2, 10])
def test_a_short_last_batch_is_shuffled_like_the_others(size):
    dataset = batches().cache().shuffle(size, seed=4)
    for elements in passes(dataset, 3):
        assert sorted(elements) == BATCHES


def test_uneven_elements_that_meet_in_a_batch_are_named():
    with pytest.raises(tk.errors.InvalidArgumentError, match=r"different shapes, .2,. and .4,."):
        list(batches().shuffle(1).batch(3))


def test_none_and_data_sets_are_parts_of_elements():
    pair = Dataset.from_tensors((tk.constant([1, 2]), None))
    assert [(plain(x), y) for x, y in pair.repeat(3).batch(2)] == [
        ([[1, 2], [1, 2]], None),
        ([[1, 2]], None),
    ]
    rows = Dataset.from_tensor_slices((np.arange(5), None)).cache().shuffle(1).batch(3)
    assert [(plain(x), y) for x, y in rows] == [([0, 1, 2], None), ([3, 4], None)]
    assert [x for x in Dataset.from_tensors(None).repeat(2)] == [None, None]
    inner = Dataset.from_tensors((Dataset.range(3), np.arange(2))).repeat(2)
    assert [[plain(x) for x in data] for data, _ in inner] == [[0, 1, 2]] * 2
    assert passes(Dataset.from_tensors(Dataset.range(3)).flat_map(lambda x: x), 1) == [[0, 1, 2]]
    assert repr(Dataset.from_tensors(Dataset.range(3)).element_spec).startswith("DatasetSpec(")
    several = Dataset.from_tensor_slices([Dataset.range(3), Dataset.range(3, 5)])
    assert [[plain(x) for x in data] for data in several] == [[0, 1, 2], [3, 4]]


def test_rebatch_gives_an_empty_batch_for_a_size_of_nought():
    eight = Dataset.range(8).batch(4)
    assert passes(eight.rebatch([2, 0, 2]), 1) == [[[0, 1], [], [2, 3], [4, 5], [], [6, 7]]]
    assert passes(eight.rebatch([0, 5]), 1) == [[[], [0, 1, 2, 3, 4], [], [5, 6, 7], []]]
    with pytest.raises(tk.errors.InvalidArgumentError, match="0 or more"):
        eight.rebatch([2, -1])


def test_shuffle_takes_a_cardinality_that_is_not_known():
    odd = Dataset.range(9).filter(lambda n: n % 2 == 1)
    assert sorted(passes(odd.shuffle(odd.cardinality(), seed=1), 1)[0]) == [1, 3, 5, 7]
    assert sorted(passes(Dataset.range(5).shuffle(-2, seed=1), 1)[0]) == [0, 1, 2, 3, 4]
    for size in (0, -1, -3):
        with pytest.raises(tk.errors.InvalidArgumentError, match="UNKNOWN_CARDINALITY"):
            Dataset.range(5).shuffle(size)


def test_the_padded_shape_of_vectors_may_be_an_int():
    rows = tk.data.Dataset.range(1, 4).map(lambda n: tk.fill([n], n))
    (batch,) = rows.padded_batch(3, padded_shapes=4, padding_values=np.int64(-1))
    assert batch.numpy().tolist() == [[1, -1, -1, -1], [2, 2, -1, -1], [3, 3, 3, -1]]
    pairs = tk.data.Dataset.zip((rows, rows))
    assert [spec.shape for spec in pairs.padded_batch(2, ((4,), None)).element_spec] == [
        (None, 4),
        (None, None),
    ]
