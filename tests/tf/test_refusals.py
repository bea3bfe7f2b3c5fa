"""Arguments that contradict one another, which TensorFlow refuses."""

import numpy as np
import pytest

import trainkit as tk


@pytest.mark.parametrize("sizes", [[2, 4], tk.constant([2, 4])])
def test_a_number_of_pieces_that_is_not_that_of_the_sizes_is_refused(sizes):
    with pytest.raises(tk.errors.InvalidArgumentError, match="num=3, but there are 2 sizes"):
        tk.split(tk.range(6), sizes, num=3)
    assert [len(x) for x in tk.split(tk.range(6), sizes, num=2)] == [2, 4]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"on_value": 1.5, "dtype": tk.int32}, "on_value is float32, dtype is int32"),
        ({"off_value": 1.5, "dtype": tk.int32}, "off_value is float32, dtype is int32"),
        ({"on_value": tk.constant(5), "dtype": tk.float32}, "on_value is int32, dtype is float32"),
        ({"on_value": 5, "off_value": 1.0}, "off_value is float32, on_value is int32"),
        ({"on_value": 5.0, "off_value": 1}, "off_value is int32, on_value is float32"),
    ],
)
def test_values_of_one_hot_have_its_dtype(values, text):
    with pytest.raises(TypeError, match=text):
        tk.one_hot([0, 1], 2, **values)


@pytest.mark.parametrize(
    ("values", "dtype", "on"),
    [
        ({"on_value": 5, "off_value": 1, "dtype": tk.float32}, "float32", 5),
        ({"on_value": 5, "off_value": 1}, "int32", 5),
        ({"on_value": True, "dtype": tk.int32}, "int32", 1),
        ({"on_value": True, "off_value": False}, "bool", True),
        ({"on_value": 300, "dtype": tk.uint8}, "uint8", 44),
    ],
)
def test_values_of_one_hot_that_fit(values, dtype, on):
    found = tk.one_hot([0, 1], 2, **values).numpy()
    assert found.dtype == np.dtype(dtype)
    assert found[0, 0] == on
