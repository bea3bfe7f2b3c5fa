"""A number that a short float can't hold becomes infinite without a word, on each device.

CuPy converts numbers in lines of its own, whose warnings would reach the user.
"""

import itertools

import numpy as np
import pytest

import trainkit as tk
from trainkit import ops

INF = np.inf
CASES = {
    "where": (lambda x: ops.where(x > 0, x, -1e9), [0.5, -INF]),
    "select": (lambda x: ops.select([x > 0], [x], 1e9), [0.5, INF]),
    "isclose": (lambda x: ops.isclose(x, 1e9), [False, False]),
    "threshold": (lambda x: ops.threshold(x, 0.0, 1e9), [0.5, INF]),
    "nan_to_num": (lambda x: ops.nan_to_num(x / x * 0 + x, nan=1e9), [0.5, -1.0]),
    "max": (lambda x: ops.max(x, initial=1e9), INF),
    "min": (lambda x: ops.min(x, initial=-1e9), -INF),
    "max of nothing": (lambda x: ops.max(x[:0], initial=-1e9), -INF),
    "full": (lambda x: ops.full((2,), 1e9, x.dtype), [INF, INF]),
    "full of NumPy": (lambda x: ops.full((2,), np.float64(-1e9), x.dtype), [-INF, -INF]),
    "fill by an initializer": (lambda x: tk.initializers.Constant(1e9)((1,), x.dtype), [INF]),
    "pad": (lambda x: ops.pad(x, [[0, 1]], constant_values=-1e9), [0.5, -1.0, -INF]),
}


@pytest.mark.parametrize("name", CASES)
def test_a_number_that_is_too_large_is_infinite(name, device):
    with tk.device(device):
        call, expected = CASES[name]
        found = call(tk.constant([0.5, -1.0], "float16"))
        np.testing.assert_array_equal(found.numpy(), expected)


REAL = [3, -2.5, True, 1e9, np.float64(0.5), np.int64(300)]
DTYPES = ["float32", "float16", "bfloat16", "complex64", "bool"]


@pytest.mark.parametrize(
    ("value", "dtype"), [*itertools.product(REAL, DTYPES), (2 + 1j, "complex64")]
)
def test_what_is_filled_has_the_values_of_numpy(value, dtype, device):
    wanted = tk.as_dtype(dtype).as_numpy_dtype
    with tk.device(device):
        found = ops.full((2, 3), value, dtype)
    with np.errstate(over="ignore"):
        expected = np.full((2, 3), value, wanted)
    np.testing.assert_array_equal(found.numpy(), expected)
    assert found.dtype == dtype
