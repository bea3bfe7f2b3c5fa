"""Plain pooling, whose gradient goes to the first largest value of each window."""

import ml_dtypes
import numpy as np
import pytest

from trainkit.kernels.convolution.sliding_windows import Windows
from trainkit.kernels.pooling import pool_reference

DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
CASES = [((2, 2), (2, 2), "valid"), ((3, 2), (2, 1), "same"), ((2, 2), (3, 3), "valid")]


def by_hand(w, g, x, y):
    """Window by window."""
    result = np.zeros(x.shape, np.float64)
    before = [a for a, _ in w.pads]
    for n, i, j, c in np.ndindex(*y.shape):
        for k, m in np.ndindex(*w.window):
            row, column = i * w.strides[0] + k - before[0], j * w.strides[1] + m - before[1]
            inside = 0 <= row < x.shape[1] and 0 <= column < x.shape[2]
            if inside and x[n, row, column, c] == y[n, i, j, c]:
                result[n, row, column, c] += g[n, i, j, c]
                break
    return result


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_gradient_goes_to_the_first_largest(case, dtype, rng):
    window, strides, padding = case
    w = Windows((7, 8), window, strides, padding, (1, 1))
    x = rng.integers(-3, 3, (2, 7, 8, 3)).astype(dtype)
    y = pool_reference.max_pool(np, w, x)
    g = rng.integers(-9, 9, y.shape).astype(dtype)
    found = pool_reference.max_pool_gradient(np, w, g, x, y)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found.astype(np.float64), by_hand(w, g, x, y))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("strides", [1, 2])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_stays_at_its_place(value, strides, dtype):
    w = Windows((4, 4), (2, 2), (strides, strides), "valid", (1, 1))
    x = np.arange(16).reshape(1, 4, 4, 1).astype(dtype)
    y = pool_reference.max_pool(np, w, x)
    g = np.ones(y.shape, dtype)
    g[0, 0, 0, 0] = value
    found = pool_reference.max_pool_gradient(np, w, g, x, y).astype(np.float64)
    assert list(zip(*np.nonzero(~np.isfinite(found)), strict=True)) == [(0, 1, 1, 0)]
