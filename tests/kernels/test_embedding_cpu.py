"""The compiled gradient of an embedding against NumPy's sum by index."""

import numpy as np

from trainkit.kernels import embedding_cpu


def test_rows_are_added_up_by_their_id(eager, rng):
    rows = rng.normal(size=(50, 7)).astype("float32")
    ids = rng.integers(0, 9, 50).astype("int32")
    expected = np.zeros((12, 7), "float32")
    np.add.at(expected, ids, rows)
    np.testing.assert_array_equal(embedding_cpu.sum_by_id(rows, ids, 12), expected)
    assert embedding_cpu.sum_by_id(rows.astype("float64"), ids, 12) is None
