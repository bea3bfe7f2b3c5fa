"""Compiled extremes of rows and running sums against NumPy's, and sums of columns."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.kernels import reductions_cpu, registry
from trainkit.kernels.reductions_cpu import FEWEST


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("shape", [(3, 40), (2, 5, 7), (1, 1), (300, 1), (2, 1000)])
def test_extremes_of_rows_are_those_of_numpy(eager, rng, name, shape):
    x = rng.normal(size=shape).astype("float32")
    expected = getattr(x, name)(axis=-1)
    np.testing.assert_array_equal(reductions_cpu.row_extreme(name, x, -1, False), expected)
    kept = reductions_cpu.row_extreme(name, x, len(shape) - 1, True)
    np.testing.assert_array_equal(kept, expected[..., None])


@pytest.mark.parametrize("name", ["max", "min"])
def test_nan_of_either_sign_wins_in_extremes_of_rows(eager, name):
    x = np.zeros((5, 33), "float32")
    x[0, 4], x[1, 32], x[2, 0] = np.nan, -np.float32(np.nan), np.inf
    x[3], x[4, 1] = -np.inf, -np.inf
    found = reductions_cpu.row_extreme(name, x, 1, False)
    np.testing.assert_array_equal(found, getattr(x, name)(axis=1))


@pytest.mark.parametrize("shape", [(3, 40), (17, 5), (8, 1), (2, 3, 300), (5, 6, 7), (40,)])
@pytest.mark.parametrize("axis", [0, -1, 1])
def test_running_sums_have_the_bits_of_numpy(eager, rng, shape, axis):
    if axis >= len(shape):
        return
    x = rng.normal(size=shape).astype("float32")
    x.flat[0] = -0.0
    found = reductions_cpu.running_sum(x, axis)
    assert found.tobytes() == np.cumsum(x, axis=axis).tobytes()


def test_other_axes_orders_and_dtypes_are_left_to_numpy(eager):
    x = np.ones((40, 50), "float32")
    assert reductions_cpu.row_extreme("max", x, 0, False) is None
    assert reductions_cpu.row_extreme("max", x, None, False) is None
    assert reductions_cpu.row_extreme("max", x.T, 1, False) is None
    assert reductions_cpu.row_extreme("max", x.astype("float64"), 1, False) is None
    assert reductions_cpu.running_sum(x[:, ::2], 1) is None
    assert reductions_cpu.running_sum(x[:0], 1) is None


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_of_columns_of_large_arrays_are_those_of_small_ones(rng, dtype):
    x = rng.normal(size=(2, FEWEST // 32, 40)).astype(dtype)
    tolerance = {"rtol": 1e-4, "atol": 1e-4} if dtype == "float32" else {"rtol": 1e-12}
    expected = x.astype("float64").sum((0, 1))
    np.testing.assert_allclose(reductions_cpu.leading_sum(x, 2), expected, **tolerance)
    assert reductions_cpu.leading_sum(x, 2).dtype == dtype
    found = tk.reduce_sum(tk.constant(x), 0)
    np.testing.assert_allclose(found.numpy(), x.sum(0), **tolerance)
    assert tk.reduce_sum(tk.constant(x), 0, keepdims=True).shape == (1, *x.shape[1:])


def test_operations_on_large_arrays_use_the_kernels(rng):
    before = registry.mode()
    registry.set_mode("eager")
    x = rng.normal(size=(130, 140)).astype("float32")
    t = tk.constant(x)
    np.testing.assert_array_equal(tk.reduce_max(t, 1).numpy(), x.max(1))
    np.testing.assert_array_equal(tk.cumsum(t, 0).numpy(), x.cumsum(0))
    np.testing.assert_array_equal(tk.cumsum(t, 1, reverse=True).numpy()[:, -1], x[:, -1])
    assert reductions_cpu.EXTREMES["max"]._ready
    assert reductions_cpu.RUNNING_COLUMNS._ready
    registry.set_mode(before)


@pytest.mark.parametrize("shape", [(4, 16, 16, 32), (8, 100, 32), (2, 8, 8, 8, 32)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_spatial_sums_are_those_of_numpy(rng, shape, keepdims):
    x = rng.normal(size=shape).astype("float32")
    axis = tuple(range(1, len(shape) - 1))
    found = reductions_cpu.spatial_sum(x, axis, keepdims)
    expected = x.sum(axis=axis, keepdims=keepdims)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(tk.reduce_mean(x, axis), x.mean(axis=axis), rtol=1e-4, atol=1e-4)


def test_other_axes_and_small_arrays_are_left_to_numpy():
    x = np.ones((4, 16, 16, 32), "float32")
    assert reductions_cpu.spatial_sum(x, (1,), False) is None
    assert reductions_cpu.spatial_sum(x, 1, False) is None
    assert reductions_cpu.spatial_sum(x[0], (), False) is None
    assert reductions_cpu.spatial_sum(x[:, ::2], (1, 2), False) is None
    assert reductions_cpu.spatial_sum(np.ones((2, 2, 2, 2), "float32"), (1, 2), False) is None


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(FEWEST,), (FEWEST + 255,), (130, 127), (3, 70, 91)])
def test_whole_sums_are_as_exact_as_numpys(rng, dtype, shape):
    x = rng.uniform(size=shape).astype(dtype)
    exact = x.astype("longdouble").sum()
    error = 4 * np.finfo(dtype).eps * exact
    for axis in (None, tuple(range(len(shape)))):
        found = reductions_cpu.whole_sum(x, axis, False)
        assert (found.dtype, found.shape) == (dtype, ())
        assert abs(found - exact) <= error
    assert tk.reduce_sum(tk.constant(x)).numpy() == found
    kept = tk.reduce_sum(tk.constant(x), keepdims=True)
    assert kept.shape == (1,) * len(shape)
    assert kept.numpy().item() == found
    np.testing.assert_allclose(tk.reduce_mean(tk.constant(x)).numpy(), x.mean(), rtol=1e-6)


def test_whole_sums_of_other_arrays_are_left_to_numpy():
    x = np.ones((200, 200), "float32")
    assert reductions_cpu.whole_sum(x, 0, False) is None
    assert reductions_cpu.whole_sum(x, (0, 0), False) is None
    assert reductions_cpu.whole_sum(x.T[:, :150], None, False) is None
    assert reductions_cpu.whole_sum(x[:5], None, False) is None
    assert reductions_cpu.whole_sum(x.astype("int32"), None, False) is None


def test_whole_sums_of_what_is_not_finite():
    x = np.ones(FEWEST, "float32")
    x[5] = np.inf
    assert reductions_cpu.whole_sum(x, None, False) == np.inf
    x[-1] = -np.inf
    with pytest.warns(RuntimeWarning, match="invalid value"):  # as from NumPy's own
        assert np.isnan(reductions_cpu.whole_sum(x, None, False))
