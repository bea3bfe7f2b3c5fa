"""Compiled pooling and rectified gradients against the plain ones: the same to the last bit."""

import ml_dtypes
import numpy as np
import pytest

from trainkit.kernels.convolution.sliding_windows import Windows
from trainkit.kernels.pooling import pool_reference, pool_tuned

CASES = [
    ((6, 8), (2, 2), (2, 2), "valid"),
    ((7, 5), (3, 3), (2, 2), "same"),
    ((5, 5), (2, 3), (1, 1), "same"),
    ((9,), (3,), (2,), "same"),
    ((4, 6, 5), (1, 2, 2), (1, 2, 2), "valid"),
    ((5, 6, 7), (2, 3, 2), (2, 2, 1), "valid"),
]
PADDED = ((5, 4, 7), (3, 3, 2), (2, 1, 2), "same")


def arrays(case, rng):
    sizes, window, strides, padding = case
    w = Windows(sizes, window, strides, padding, (1,) * len(window))
    # few different values, so that there are equal maxima
    x = rng.integers(-3, 3, (4, *sizes, 5)).astype("float32")
    return w, x, rng.normal(size=(4, *w.out, 5)).astype("float32")


@pytest.mark.parametrize("case", [*CASES, PADDED], ids=str)
def test_max_pool_equals_the_plain_version(eager, rng, case):
    w, x, g = arrays(case, rng)
    y = pool_reference.max_pool(np, w, x)
    np.testing.assert_array_equal(pool_tuned.max_pool(w, x), y)
    np.testing.assert_allclose(
        pool_tuned.max_pool_gradient(w, g, x, y),
        pool_reference.max_pool_gradient(np, w, g, x, y),
        atol=1e-6,
    )


@pytest.mark.parametrize("steps", [((3, 2), (2, 1)), ((2, 2), (2, 2)), ((2, 2), (1, 1))])
@pytest.mark.parametrize("channels", [1, 15, 16, 17, 40])
def test_the_gradient_of_max_pooling_for_any_number_of_channels(eager, rng, channels, steps):
    w = Windows((7, 6), *steps, "same", (1, 1))
    x = rng.integers(-2, 2, (3, 7, 6, channels)).astype("float32")
    g = rng.integers(-9, 9, (3, *w.out, channels)).astype("float32")  # whose sums are exact
    y = pool_reference.max_pool(np, w, x)
    np.testing.assert_array_equal(
        pool_tuned.max_pool_gradient(w, g, x, y), pool_reference.max_pool_gradient(np, w, g, x, y)
    )


@pytest.mark.parametrize("dtype", ["float32", ml_dtypes.bfloat16])
@pytest.mark.parametrize("channels", [1, 15, 16, 17, 40])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("steps", [((3, 2), (2, 1)), ((2, 2), (2, 2))])
def test_the_largest_of_any_numbers_in_any_number_of_channels(
    eager, rng, dtype, channels, batch, steps
):
    w = Windows((7, 6), *steps, [(2, 1), (3, 0)], (1, 1))
    x = rng.normal(size=(batch, 7, 6, channels))
    x.flat[::5], x.flat[1::7], x.flat[2::11], x.flat[3::13] = -np.inf, np.inf, np.nan, -0.0
    x = x.astype(dtype)
    for _ in range(2):
        y = pool_tuned.max_pool(w, x)
        expected = pool_reference.max_pool(np, w, x.astype("float32"))
        np.testing.assert_array_equal(y.astype("float32"), expected)
    wide = pool_tuned.max_pool(w, np.repeat(x, 2, axis=2)[:, :, ::2])  # not in row-major order
    np.testing.assert_array_equal(wide.astype("float32"), expected)
    other = Windows((6, 7), *steps, [(2, 1), (3, 0)], (1, 1))  # the same number of bytes
    turned = np.ascontiguousarray(x.swapaxes(1, 2))
    expected = pool_reference.max_pool(np, other, turned.astype("float32"))
    np.testing.assert_array_equal(pool_tuned.max_pool(other, turned).astype("float32"), expected)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_average_pool_equals_the_plain_version(eager, rng, case):
    w, x, g = arrays(case, rng)
    np.testing.assert_allclose(
        pool_tuned.average_pool(w, x), pool_reference.average_pool(np, w, x), atol=1e-6
    )
    np.testing.assert_allclose(
        pool_tuned.average_pool_gradient(w, g),
        pool_reference.average_pool_gradient(np, w, g),
        atol=1e-6,
    )


def test_the_largest_of_a_window_with_nan_is_nan(eager):
    x = np.zeros((1, 2, 4, 1), "float32")
    x[0, 0, 0, 0] = x[0, 1, 3, 0] = np.nan
    w = Windows((2, 4), (2, 2), (2, 2), "valid", (1, 1))
    assert np.isnan(pool_tuned.max_pool(w, x)).all()


def test_rectified_gradient_equals_the_plain_version(eager, rng):
    g = rng.normal(size=(5, 7, 9)).astype("float32")
    y = np.maximum(rng.normal(size=g.shape).astype("float32"), 0)
    found, by_bias = pool_tuned.rectified_gradient(g, y)
    np.testing.assert_array_equal(found, g * (y > 0))
    np.testing.assert_allclose(by_bias, found.sum(axis=(0, 1)), atol=1e-5)


OVERLAPPING = [
    (CASES[-2], False),
    (CASES[-1], True),
    (((6, 6, 6), (3, 3, 3), (1, 1, 1), "valid"), True),
    (((5, 7, 6), (3, 2, 3), (2, 1, 2), "valid"), True),
]


@pytest.mark.parametrize(("case", "overlap"), OVERLAPPING, ids=str)
def test_pooling_of_volumes_has_the_bits_of_the_plain_version(eager, rng, case, overlap):
    w, _, g = arrays(case, rng)
    assert w.overlap == overlap
    x = rng.normal(size=(4, *w.sizes, 19)).astype("float32")
    g = rng.normal(size=(4, *w.out, 19)).astype("float32")
    y = pool_reference.max_pool(np, w, x)
    pairs = [
        (pool_tuned.max_pool(w, x), y),
        (
            pool_tuned.max_pool_gradient(w, g, x, y),
            pool_reference.max_pool_gradient(np, w, g, x, y),
        ),
        (pool_tuned.average_pool(w, x), pool_reference.average_pool(np, w, x)),
        (pool_tuned.average_pool_gradient(w, g), pool_reference.average_pool_gradient(np, w, g)),
    ]
    for compiled, plain in pairs:
        np.testing.assert_array_equal(compiled, plain, strict=True)


def test_other_dtypes_and_padded_means_of_volumes_are_left_to_the_plain_version(eager, rng):
    w, x, _ = arrays(CASES[0], rng)
    assert pool_tuned.max_pool(w, x.astype("float64")) is None
    w, x, g = arrays(PADDED, rng)
    assert pool_tuned.average_pool(w, x) is None
    assert pool_tuned.average_pool_gradient(w, g) is None


@pytest.mark.parametrize("case", [CASES[0], CASES[1], CASES[3], CASES[4]], ids=str)
def test_bfloat16_is_pooled_as_float32_and_rounded_once(eager, rng, case):
    w, _, g = arrays(case, rng)
    x = rng.normal(size=(4, *w.sizes, 5)).astype(ml_dtypes.bfloat16)
    x.reshape(-1)[:2] = np.nan, -np.inf
    g = g.astype(ml_dtypes.bfloat16)
    y = pool_tuned.max_pool(w, x)
    wide_x, wide_g = x.astype("float32"), g.astype("float32")
    wide_y = pool_tuned.max_pool(w, wide_x)
    results = [
        (y, wide_y),
        (
            pool_tuned.max_pool_gradient(w, g, x, y),
            pool_tuned.max_pool_gradient(w, wide_g, wide_x, wide_y),
        ),
        (pool_tuned.average_pool(w, x), pool_tuned.average_pool(w, wide_x)),
        (pool_tuned.average_pool_gradient(w, g), pool_tuned.average_pool_gradient(w, wide_g)),
    ]
    for short, wide in results:
        assert short.dtype == ml_dtypes.bfloat16
        np.testing.assert_array_equal(
            short.astype("float32"), wide.astype(ml_dtypes.bfloat16).astype("float32")
        )
    assert pool_tuned.max_pool_gradient(w, wide_g, x, y) is None


@pytest.mark.parametrize("channels", [1, 16, 37])
@pytest.mark.parametrize("case", [CASES[0], CASES[4], CASES[1]], ids=str)
def test_bfloat16_is_converted_only_where_sums_overlap(eager, rng, monkeypatch, case, channels):
    sizes, window, strides, padding = case
    w = Windows(sizes, window, strides, padding, (1,) * len(window))
    x, g = (
        rng.integers(-3, 3, (4, *n, channels)).astype(ml_dtypes.bfloat16) for n in (w.sizes, w.out)
    )
    g.reshape(-1)[:3] = -0.0, np.nan, np.inf
    y = pool_reference.max_pool(np, w, x.astype("float32")).astype(x.dtype)
    wide = [a.astype("float32") for a in (g, x, y)]
    expected = [
        pool_tuned.max_pool_gradient(w, *wide),
        pool_tuned.average_pool(w, wide[1]),
        pool_tuned.average_pool_gradient(w, wide[0]),
    ]
    widened, cast = [], pool_tuned.cast_array
    monkeypatch.setattr(
        pool_tuned,
        "cast_array",
        lambda a, dtype: (widened.append(a) if a.dtype != dtype else None) or cast(a, dtype),
    )
    results = [
        pool_tuned.max_pool_gradient(w, g, x, y),
        pool_tuned.average_pool(w, x),
        pool_tuned.average_pool_gradient(w, g),
    ]
    assert bool(widened) == w.overlap
    for result, right in zip(results, expected, strict=True):
        assert result.dtype == x.dtype
        narrow = right.astype(x.dtype)
        same = (result.view("u2") == narrow.view("u2")) | (np.isnan(result) & np.isnan(narrow))
        assert same.all()
