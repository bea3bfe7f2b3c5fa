"""The compiled gradient of an embedding against NumPy's sum by index."""

import numpy as np

from trainkit.kernels.embedding import embedding_tuned


def test_rows_are_added_up_by_their_id(eager, rng):
    rows = rng.normal(size=(50, 7)).astype("float32")
    ids = rng.integers(0, 9, 50).astype("int32")
    expected = np.zeros((12, 7), "float32")
    np.add.at(expected, ids, rows)
    np.testing.assert_array_equal(embedding_tuned.sum_by_id(rows, ids, 12), expected)
    assert embedding_tuned.sum_by_id(rows.astype("float64"), ids, 12) is None


def test_much_work_is_split_among_as_many_threads_as_were_chosen(monkeypatch):
    told = []
    monkeypatch.setattr(
        embedding_tuned.SUM_BY_ID, "find", lambda *args: lambda *a: told.append(a[1])
    )
    monkeypatch.setattr(embedding_tuned.pools, "compute_threads", lambda: 5)
    embedding_tuned.sum_by_id(np.ones((2, 3), "float32"), np.zeros(2, "int32"), 4)
    embedding_tuned.sum_by_id(np.ones((9000, 300), "float32"), np.zeros(9000, "int32"), 4)
    assert told == [1, 5]
