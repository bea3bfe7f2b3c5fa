"""Single operations on large arrays, split among threads: NumPy's bits."""

import threading

import numpy as np
import pytest

import trainkit as tk
from trainkit.core import tensor
from trainkit.core.dispatch import eager
from trainkit.kernels.elementwise import parallel_ufuncs
from trainkit.kernels.jit import kernel_family
from trainkit.kernels.threads.thread_pool import thread_pool

pytestmark = pytest.mark.skipif(thread_pool() is None, reason="one core, or no pool here")

SIZES = [(1 << 17,), (131_073,), (3, 50_021), (1_000_003,)]


@pytest.fixture(autouse=True)
def _split():
    assert parallel_ufuncs.prepare()
    yield
    eager.WIDE.clear()


def numbers(rng, shape, dtype):
    x = rng.standard_normal(shape).astype(dtype)
    x.flat[:: x.size // 7] = 0.0
    return x


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("ufunc", parallel_ufuncs._UNARY, ids=lambda f: f.__name__)
def test_functions_of_one_array(rng, ufunc, dtype):
    for shape in SIZES:
        x = abs(numbers(rng, shape, dtype)) * 9
        with np.errstate(all="ignore"):
            expected = ufunc(x)
        found = eager.WIDE[0](ufunc, x)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "ufunc", [*parallel_ufuncs._BINARY, *parallel_ufuncs._COMPARING], ids=lambda f: f.__name__
)
def test_functions_of_two_arrays(rng, ufunc, dtype):
    for shape in SIZES:
        x, y = numbers(rng, shape, dtype), numbers(rng, shape, dtype)
        for given in ((x, y), (x, 0.3), (2, y)):
            with np.errstate(all="ignore"):
                expected = ufunc(*given)
            found = eager.WIDE[0](ufunc, *given)
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)


def test_other_arrays_are_left_to_numpy(rng, monkeypatch):
    x = numbers(rng, (400, 400), "float32")
    split = eager.WIDE[0]
    monkeypatch.setattr(split, "_code", None)  # what is split fails
    for given in ((x, x.T), (x, x[0]), (x[:, 1:], x[:, 1:]), (x, x.astype("float64"))):
        np.testing.assert_array_equal(split(np.add, *given), np.add(*given))
    whole = x.astype("int32")
    np.testing.assert_array_equal(split(np.add, whole, 1), whole + 1)
    np.testing.assert_array_equal(split(np.arctan, x), np.arctan(x))
    with pytest.raises(TypeError):
        split(np.add, x, x)


def test_operations_on_tensors_are_split_where_they_are_large(rng, monkeypatch):
    met = []
    whole = eager.WIDE[0]
    eager.WIDE[0] = lambda *a: met.append(a[0]) or whole(*a)
    x, small = tk.constant(numbers(rng, (1 << 17,), "float32")), tk.constant([1.0, 2.0])
    np.testing.assert_array_equal((x * 2.0 + x).numpy(), x.numpy() * np.float32(2) + x.numpy())
    np.testing.assert_array_equal(tk.abs(1.0 - x).numpy(), abs(1 - x.numpy()))
    assert met == [np.multiply, np.add, np.subtract, np.absolute]
    small * 2.0 + small
    tk.abs(small)
    assert len(met) == 4


def test_shapes_that_do_not_fit_are_explained():
    x, y = tk.zeros((1 << 17,)), tk.zeros((3,))
    with pytest.raises(tk.errors.InvalidArgumentError, match="add"):
        x + y


def test_the_first_large_tensor_prepares_for_more(monkeypatch):
    eager.WIDE.clear()
    monkeypatch.setattr(tensor, "ON_LARGE", [parallel_ufuncs.begin])
    monkeypatch.setattr(kernel_family._State, "mode", "eager")
    tk.constant(np.zeros((1 << 17) - 1, "float32"))
    assert not eager.WIDE
    tk.constant(np.zeros(1 << 17, "float32"))
    assert eager.WIDE
    assert not tensor.ON_LARGE


def test_it_is_prepared_in_the_background_or_not_at_all(monkeypatch):
    eager.WIDE.clear()
    monkeypatch.setattr(kernel_family._State, "mode", "off")
    parallel_ufuncs.begin()
    assert not eager.WIDE
    monkeypatch.setattr(kernel_family._State, "mode", "hot")
    parallel_ufuncs.begin()
    for thread in threading.enumerate():
        if thread.name == "trainkit-compile":
            thread.join()
    assert eager.WIDE
