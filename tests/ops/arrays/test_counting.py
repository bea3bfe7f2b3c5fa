"""Confusion matrices: which labels they take."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.core.errors import InvalidArgumentError


def test_labels_may_be_floats():
    matrix = tk.math.confusion_matrix([0.0, 1.0, 1.7], [1.0, 1.0, 0.0])
    assert matrix.numpy().tolist() == [[0, 1], [1, 1]]


@pytest.mark.parametrize("run", [lambda f: f, tk.function], ids=["eager", "graph"])
@pytest.mark.parametrize("types", [("int32", "int32"), ("int64", "int64"), ("int8", "int64")])
@pytest.mark.parametrize("dtype", ["int32", "float32"])
@pytest.mark.parametrize("size", [0, 1, 7, 5000])
def test_confusion_counts_pairs(run, types, dtype, size, rng):
    labels, predictions = (rng.integers(0, 5, size, dtype) for dtype in types)
    matrix = run(lambda x, y: tk.math.confusion_matrix(x, y, 6, dtype=dtype))(labels, predictions)
    expected = np.zeros((6, 6), dtype)
    np.add.at(expected, (labels, predictions), 1)
    assert matrix.dtype == dtype
    np.testing.assert_array_equal(matrix, expected)
    strided = np.repeat(labels, 2)[::2]
    np.testing.assert_array_equal(
        tk.math.confusion_matrix(tk.constant(strided), predictions, 6, dtype=dtype), expected
    )


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("pair", [([0, 3], [0, 0]), ([0, 0], [7, 0])])
def test_labels_beyond_the_classes_are_refused(dtype, pair):
    with pytest.raises(InvalidArgumentError, match="not in"):
        tk.math.confusion_matrix(*(tk.constant(x, dtype) for x in pair), 3)


@pytest.mark.parametrize("run", [lambda f: f, tk.function], ids=["eager", "graph"])
@pytest.mark.parametrize("classes", [None, 3])
def test_labels_below_zero_are_refused(run, classes):
    call = run(lambda x, y: tk.math.confusion_matrix(x, y, classes))
    with pytest.raises(InvalidArgumentError, match="negative labels"):
        call(tk.constant([-1, 0]), tk.constant([0, 0]))
    with pytest.raises(InvalidArgumentError, match="negative predictions"):
        call(tk.constant([1, 0]), tk.constant([0, -1]))
