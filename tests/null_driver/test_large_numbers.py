"""CuPy is given no number that it would warn of: one too large for a short float is infinite."""

import pytest

import trainkit as tk
from tests.ops.core.test_large_numbers import CASES


@pytest.mark.parametrize("name", CASES)
def test_nothing_warns_of_a_number_that_is_too_large(name):
    call, _ = CASES[name]
    assert "GPU" in call(tk.constant([0.5, -1.0], "float16")).device


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex64", "bool", "int8"])
def test_each_dtype_is_filled(dtype):
    assert tk.ops.full((2, 3), 1, dtype).dtype == dtype
    assert tk.ops.pad(tk.ones((2,), dtype), [[1, 1]], constant_values=1).shape == (4,)
