"""Reductions by ids as TensorFlow's: what means of integers are, and which ids are refused."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.core.errors import InvalidArgumentError

FOLDS = ["segment_sum", "segment_mean", "segment_prod", "segment_max", "segment_min"]


@pytest.mark.parametrize("run", [lambda f: f, tk.function], ids=["eager", "graph"])
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_means_of_integers_are_integers_rounded_towards_zero(run, dtype):
    rows = tk.constant([[-1, 4], [-2, 3], [5, 6]], dtype)
    y = run(tk.math.segment_mean)(rows, tk.constant([0, 0, 2]))
    assert y.dtype == dtype
    assert y.numpy().tolist() == [[-1, 3], [0, 0], [5, 6]]


@pytest.mark.parametrize("run", [lambda f: f, tk.function], ids=["eager", "graph"])
@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([0, 0, -1], "0 or above, the least is -1"),
        ([-1, 0, 0], "0 or above, the least is -1"),
        ([0, 2, 1], r"segment_ids\[1\] is 2 and the next 1"),
        ([[0, 0], [1, 1], [2, 2]], r"must be a vector, they have shape \(3, 2\)"),
    ],
)
def test_ids_ascend_from_zero(run, name, ids, message):
    with pytest.raises(InvalidArgumentError, match=message):
        run(getattr(tk.math, name))(tk.ones((3, 2)), tk.constant(ids))


def test_unsorted_ids_may_be_negative_and_of_any_order():
    y = tk.math.unsorted_segment_mean(np.array([1.0, 2.0, 5.0], "float32"), [1, -1, 0], 2)
    assert y.numpy().tolist() == [5.0, 1.0]
