"""Compiled maxima with their indices against the plain ones: the same to the last bit."""

import ml_dtypes
import numpy as np
import pytest

from trainkit.kernels.convolution.sliding_windows import Windows
from trainkit.kernels.pooling import argmax_tuned, pool_reference

STEPS = [((2, 2), (2, 2)), ((3, 2), (2, 1)), ((1, 1), (2, 2)), ((2, 3), (4, 5))]
DTYPES = ["float32", ml_dtypes.bfloat16]


def images(rng, shape, dtype):
    x = rng.integers(-2, 3, shape).astype("float32")
    x.flat[::5], x.flat[1::7], x.flat[2::11], x.flat[3::13] = -np.inf, np.inf, np.nan, -0.0
    x[0] = -np.inf
    return x.astype(dtype)


def pooled(w, x):
    call = argmax_tuned.plan_call(w, len(x), x.shape[-1], x.dtype.itemsize)
    return argmax_tuned.max_pool_with_argmax(call, x)


def assert_same(pair, expected):
    (y, argmax), (largest, indices) = pair, expected
    assert (y.dtype, argmax.dtype) == (largest.dtype, np.int64)
    np.testing.assert_array_equal(y.astype("float32"), largest.astype("float32"))
    np.testing.assert_array_equal(argmax, indices)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("channels", [1, 15, 16, 17, 40])
@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize("steps", STEPS)
def test_maxima_and_indices_in_any_number_of_channels(eager, rng, steps, padding, channels, dtype):
    w = Windows((7, 6), *steps, padding, (1, 1))
    x = images(rng, (3, 7, 6, channels), dtype)
    expected = pool_reference.max_pool_with_argmax(np, w, x)
    assert expected[1].min() >= 0
    assert_same(pooled(w, x), expected)
    assert_same(pooled(w, np.repeat(x, 2, axis=2)[:, :, ::2]), expected)  # not in row-major order
    g = rng.normal(size=expected[0].shape).astype(dtype)
    total = argmax_tuned.add_at_argmax(g, expected[1], x)
    reference = pool_reference.add_at_argmax(np, g, expected[1], x)
    assert total.dtype == dtype
    assert total.tobytes() == reference.tobytes()


def test_maxima_are_those_of_max_pool(eager, rng):
    w = Windows((9, 9), (3, 3), (2, 2), "same", (1, 1))
    x = images(rng, (2, 9, 9, 5), "float32")
    np.testing.assert_array_equal(pooled(w, x)[0], pool_reference.max_pool(np, w, x))


def test_what_no_kernel_serves():
    flat = Windows((8,), (2,), (2,), "valid", (1,))
    assert argmax_tuned.plan_call(flat, 1, 1, 4) is None
    large = Windows((1 << 16, 1 << 15), (2, 2), (2, 2), "valid", (1, 1))
    assert argmax_tuned.plan_call(large, 1, 1, 4) is None
    w = Windows((4, 4), (2, 2), (2, 2), "valid", (1, 1))
    assert argmax_tuned.plan_call(w, 0, 1, 4) is None
    assert argmax_tuned.plan_call(w, 1, 0, 4) is None


@pytest.mark.parametrize("dtype", ["float64", "complex64", "int32"])
def test_gradients_of_other_dtypes_are_left_to_the_plain_version(eager, dtype):
    x, argmax = np.zeros((1, 4, 4, 1), dtype), np.zeros((1, 2, 2, 1), np.int64)
    assert argmax_tuned.add_at_argmax(np.ones(argmax.shape, dtype), argmax, x) is None


@pytest.mark.parametrize("index", [-1, 16])
def test_nothing_is_written_outside_of_an_image(eager, index):
    x, argmax = np.zeros((1, 4, 4, 1), "float32"), np.full((1, 2, 2, 1), index)
    assert argmax_tuned.add_at_argmax(np.ones(argmax.shape, "float32"), argmax, x) is None


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_same_bits_by_one_thread_and_by_several(eager, rng, dtype, monkeypatch):
    w = Windows((64, 64), (3, 3), (2, 2), "same", (1, 1))
    x = images(rng, (8, 64, 64, 16), dtype)
    y, argmax = pooled(w, x)
    g = rng.normal(size=y.shape).astype(dtype)
    several = y, argmax, argmax_tuned.add_at_argmax(g, argmax, x)
    monkeypatch.setattr(argmax_tuned, "shared", lambda work: (0, 1))
    one = *pooled(w, x), argmax_tuned.add_at_argmax(g, argmax, x)
    assert [a.tobytes() for a in several] == [a.tobytes() for a in one]
