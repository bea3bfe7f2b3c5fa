"""Python numbers: the digits they keep in wide dtypes, and their dtype beside arrays of NumPy."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import keras, ops

TWO = tk.zeros((2,), "float64")


@pytest.mark.parametrize(
    "make",
    [
        lambda: ops.array(2.7, "float64"),
        lambda: ops.convert_to_tensor([2.7], "float64"),
        lambda: ops.full((2,), [2.7], dtype="float64"),
        lambda: ops.full_like(TWO, 2.7),
        lambda: ops.linspace(2.7, 3, 2, dtype="float64")[0],
        lambda: ops.geomspace(2.7, 3, 2, dtype="float64")[0],
        lambda: ops.scatter_update(TWO, [[0]], [2.7])[0],
        lambda: tk.tensor_scatter_nd_update(TWO, [[0]], [2.7])[0],
        lambda: tk.one_hot([0], 2, on_value=2.7, dtype="float64")[0, 0],
        lambda: keras.Variable(2.7, dtype="float64"),
        lambda: keras.Variable(np.zeros(()), dtype="float64").assign(2.7),
        lambda: tk.function(lambda x: ops.full_like(x, 2.7))(TWO),
    ],
)
def test_floats_are_not_rounded_to_float32_on_their_way_to_float64(make):
    y = make()
    assert y.dtype == "float64"
    np.testing.assert_allclose(y.numpy(), 2.7, rtol=1e-15)


def test_large_integers_reach_int64():
    n = 2**40 + 1
    assert int(ops.array(n, "int64")) == int(keras.Variable(n, dtype="int64").numpy()) == n
    assert ops.full_like(tk.zeros((1,), "int64"), n).numpy().tolist() == [n]


BINARY = ["add", "subtract", "multiply", "maximum", "power", "floor_divide", "mod", "arctan2"]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int64", "uint8"])
@pytest.mark.parametrize("number", [2, 2.7])
@pytest.mark.parametrize("name", BINARY)
def test_numbers_are_as_weak_beside_arrays_as_beside_tensors(name, number, dtype):
    call = getattr(ops, name)
    array = np.array([3, 1, 2]).astype(dtype)
    tensor = tk.constant(array)
    for y, want in [
        (call(array, number), call(tensor, number)),
        (call(number, array), call(number, tensor)),
        (call(array[0], number), call(tensor[0], number)),
    ]:
        assert y.dtype == want.dtype
        np.testing.assert_array_equal(y.numpy(), want.numpy())


def test_numbers_beside_arrays_have_the_dtypes_of_keras():
    assert ops.add(np.int8([1]), 2).dtype == "int8"
    assert ops.add(np.float16([1]), 2.5).dtype == "float16"
    assert ops.multiply(np.array([0.1]), 0.3).numpy().tolist() == [0.1 * 0.3]
    assert ops.add(np.int64([1]), 2.5).dtype == "float32"


def test_numbers_are_weak_in_operations_made_of_others():
    half = tk.constant([3.0, 0.0], "float16")
    for call in (tk.math.multiply_no_nan, tk.truncatediv):
        for other in (1.5, [1.5, 2.0]):
            assert call(half, other).dtype == "float16"
            assert call(other, half).dtype == "float16"


def test_the_factor_of_silu_takes_the_dtype_of_its_input():
    x = tk.constant([1.0, 2.0])
    want = x.numpy() / (1 + np.exp(-1.5 * x.numpy()))
    for beta in (1.5, np.array(1.5), tk.constant(1.5, "float64")):
        y = tk.nn.silu(x, beta)
        assert y.dtype == "float32"
        np.testing.assert_allclose(y.numpy(), want, rtol=1e-6)
