"""The compiled gradient of an embedding against NumPy's sum by index."""

import numpy as np
import pytest

from trainkit.kernels.embedding import embedding_tuned, scatter_reference


def test_rows_are_added_up_by_their_id(eager, rng):
    rows = rng.normal(size=(50, 7)).astype("float32")
    ids = rng.integers(0, 9, 50).astype("int32")
    expected = np.zeros((12, 7), "float32")
    np.add.at(expected, ids, rows)
    np.testing.assert_array_equal(embedding_tuned.sum_by_id(rows, ids, 12), expected)
    assert embedding_tuned.sum_by_id(rows.astype("float64"), ids, 12) is None


@pytest.mark.parametrize("features", [1, 7, 40])
def test_rows_are_added_to_those_that_their_ids_name(eager, rng, features):
    rows = rng.normal(size=(50, features)).astype("float32")
    ids = rng.integers(0, 9, 50).astype("int32")
    result = rng.normal(size=(12, features)).astype("float32")
    expected = result.copy()
    np.add.at(expected, ids, rows)
    assert embedding_tuned.fold_by_id("add", result, ids, rows)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("name", [ufunc.__name__ for ufunc in embedding_tuned.FOLDS])
def test_each_fold_has_a_kernel_that_gives_the_bits_of_numpy(eager, rng, name):
    rows = rng.normal(size=(50, 5)).astype("float32")
    ids = rng.integers(0, 9, 50).astype("int32")
    result = rng.normal(size=(12, 5)).astype("float32")
    expected = result.copy()
    getattr(np, name).at(expected, ids, rows)
    assert embedding_tuned.fold_by_id(name, result, ids, rows)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    ("ids", "dtype", "expected"),
    [([], "int32", True), ([0, 3], "uint8", True), ([3, 4], "int64", False), ([-1], "int8", False)],
)
def test_numbers_outside_are_seen(ids, dtype, expected):
    assert scatter_reference.all_inside(np.array(ids, dtype), 4) is expected


def test_nothing_is_added_where_an_id_is_outside_or_numbers_are_others(eager, rng):
    rows, result = np.ones((3, 2), "float32"), np.zeros((4, 2), "float32")
    for ids in ([0, 4, 1], [0, -1, 1]):
        assert not embedding_tuned.fold_by_id("add", result, np.array(ids), rows)
    ids = np.array([0, 1, 2])
    assert not embedding_tuned.fold_by_id("add", result, ids, rows.astype("float64"))
    assert not embedding_tuned.fold_by_id("add", result.astype("float64"), ids, rows)
    assert not embedding_tuned.fold_by_id("add", result, ids[:0], rows[:0])
    transposed = np.zeros((2, 4), "float32").T
    assert not embedding_tuned.fold_by_id("add", transposed, ids, rows)
    assert not result.any()
    assert not transposed.any()


def test_much_work_is_split_among_as_many_threads_as_were_chosen(monkeypatch):
    told = []
    monkeypatch.setattr(
        embedding_tuned.SUM_BY_ID, "find", lambda *args: lambda *a: told.append(a[1])
    )
    monkeypatch.setattr(embedding_tuned.pools, "compute_threads", lambda: 5)
    embedding_tuned.sum_by_id(np.ones((2, 3), "float32"), np.zeros(2, "int32"), 4)
    embedding_tuned.sum_by_id(np.ones((9000, 300), "float32"), np.zeros(9000, "int32"), 4)
    assert told == [1, 5]
