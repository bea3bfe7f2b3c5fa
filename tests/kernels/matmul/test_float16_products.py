"""Products of float16 by the kernels of 16-bit floats, against sums of float64."""

import numpy as np
import pytest

import trainkit as tk
from tests.kernels.matmul.half_products import assert_is_product, matrix_of
from trainkit.kernels.jit import target
from trainkit.kernels.matmul import half_columns_tuned, half_product_tuned
from trainkit.ops.neural.dense import dense, dense_gradient

pytestmark = [
    pytest.mark.usefixtures("on_cpu", "eager"),
    pytest.mark.skipif(not target.converts_float16(), reason="no conversions of float16"),
]

F16 = np.dtype(np.float16)
SIZES = [(1, 1, 1), (3, 5, 7), (14, 32, 32), (33, 600, 130), (27, 2051, 333)]


@pytest.mark.parametrize("second", ["rows", "columns", "part"])
@pytest.mark.parametrize("first", ["rows", "columns", "part"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_products_of_all_layouts(rng, size, first, second):
    rows, depth, columns = size
    x, w = matrix_of(rng, rows, depth, first, F16), matrix_of(rng, depth, columns, second, F16)
    y = half_product_tuned.product(x, w)
    assert_is_product(y, x, w)
    np.testing.assert_array_equal(tk.matmul(x, w).numpy(), y)
    wide = half_product_tuned.product(x, w, dtype=np.dtype(np.float32))
    np.testing.assert_array_equal(wide.astype(F16), y)  # each sum is rounded once


def test_stacks_bias_and_rectifier(rng):
    x, w = (rng.normal(size=s).astype(F16) for s in ((4, 70, 65), (4, 65, 40)))
    stack = half_product_tuned.product_of(x, w)
    for a, b, one in zip(x, w, stack, strict=True):
        np.testing.assert_array_equal(half_product_tuned.product(a, b), one)
    bias = rng.normal(size=40).astype(F16)
    y = half_product_tuned.product(x[0], w[0], bias)
    assert_is_product(y, x[0], w[0], bias.astype("float64"))
    rectified = dense(x[0], w[0], bias, "relu").numpy()
    np.testing.assert_array_equal(rectified, np.maximum(y, 0))
    assert not np.signbit(rectified).any()


def test_what_is_not_finite_or_too_large_or_subnormal(rng):
    x, w = np.zeros((20, 30), F16), np.zeros((30, 40), F16)
    x[:, 0], x[0, 1], x[1, 2], w[0] = 1, np.nan, np.inf, np.linspace(-3, 3, 40)
    w[1], w[2], w[3] = 1, 2, 300
    x[2, 3], x[3, 0], w[0, 5] = 300, 2.0**-14, 2.0**-8
    y = half_product_tuned.product(x, w)
    with np.errstate(over="ignore", invalid="ignore"):
        expected = (x.astype("float32") @ w.astype("float32")).astype(F16)
    np.testing.assert_array_equal(y, expected)
    assert np.isinf(y[2]).all()
    assert y[3, 5] == 2.0**-22
    rectified = half_product_tuned.product(x, w, None, True)
    np.testing.assert_array_equal(np.isnan(rectified), np.isnan(y))
    np.testing.assert_array_equal(rectified[1:], np.maximum(y[1:], 0))


@pytest.mark.parametrize("rows", [3, 70])
@pytest.mark.parametrize("features", [5, 32, 67])
def test_sums_of_columns_and_gradients_of_a_rectifier(rng, rows, features):
    g, y = (rng.normal(size=(rows, features)).astype(F16) for _ in range(2))
    y[0], y[1] = 0, np.nan
    sums = half_columns_tuned.column_sums(g)
    np.testing.assert_allclose(sums, g.astype("float64").sum(0), rtol=2**-10, atol=1e-5)
    result, by_bias = half_columns_tuned.rectified_gradient(g, y)
    np.testing.assert_array_equal(result, np.where(y > 0, g, 0))
    np.testing.assert_array_equal(by_bias, half_columns_tuned.column_sums(result))
    x, w = (rng.normal(size=s).astype(F16) for s in ((rows, 9), (9, features)))
    parts = dense_gradient(g, y, x, w, activation="relu", wanted=(True, True, True))
    assert_is_product(parts[0].numpy(), result, w.T)
    assert_is_product(parts[1].numpy(), x.T, result)
    np.testing.assert_array_equal(parts[2].numpy(), by_bias)
