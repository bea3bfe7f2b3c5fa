"""Local response normalization beside float64, and the sums over channels that it is made of."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.ops.convolutional.local_response import channel_window_sums

DTYPES = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 1e-6, "float64": 1e-14}
pytestmark = pytest.mark.usefixtures("mode")


def band(channels, radius):
    distance = np.abs(np.arange(channels)[:, None] - np.arange(channels))
    return (distance <= radius).astype("float64")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("radius", [0, 1, 5, 40])
@pytest.mark.parametrize("channels", [1, 3, 16, 37])
def test_values_and_gradients_beside_float64(rng, channels, radius, dtype):
    x = tk.cast(rng.normal(size=(2, 3, 2, channels)), dtype)
    g = tk.cast(rng.normal(size=x.shape), dtype)

    def both(x, g):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = tk.nn.local_response_normalization(x, radius, 1.5, 0.2, 0.75)
        return y, tape.gradient(y, x, g)

    numbers, slopes = (tk.cast(a, "float64").numpy() for a in (x, g))
    near = band(channels, radius)
    strength = 1.5 + 0.2 * (numbers**2 @ near)
    expected = numbers * strength**-0.75
    shared = (slopes * numbers * strength**-1.75) @ near
    gradient = slopes * strength**-0.75 - 0.3 * numbers * shared
    compiled = tk.function(both)
    for y, by_x in both(x, g), compiled(x, g), compiled(x, g):
        assert y.dtype == by_x.dtype == dtype
        tolerance = DTYPES[dtype] * 5
        np.testing.assert_allclose(tk.cast(y, "float64").numpy(), expected, tolerance, tolerance)
        np.testing.assert_allclose(
            tk.cast(by_x, "float64").numpy(), gradient, tolerance * 4, tolerance * 4
        )


@pytest.mark.parametrize("dtype", [*DTYPES, "int32"])
def test_sums_have_the_same_bits_in_functions(rng, dtype):
    x = tk.cast(rng.normal(size=(2, 5, 19)) * 9, dtype)
    sums = channel_window_sums(x, radius=4)
    assert sums.dtype == dtype
    by_function = tk.function(lambda x: channel_window_sums(x, radius=4))
    for _ in range(2):
        assert by_function(x).numpy().tobytes() == sums.numpy().tobytes()


def test_small_numbers_beside_large_ones_are_not_lost():
    x = np.full((1, 1, 1, 32), 1e-3, "float32")
    x[..., 3] = 1e18
    y = tk.nn.local_response_normalization(x, 2, 0.0, 1.0, 1.0).numpy()
    np.testing.assert_allclose(y[0, 0, 0, 8:-2], 1 / (5 * 1e-3), rtol=1e-6)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_stays_among_its_neighbours(value):
    x = np.ones((1, 1, 2, 32), "float32")
    x[0, 0, 0, 5] = value
    y = tk.nn.local_response_normalization(x, 2).numpy()
    expected = tk.nn.local_response_normalization(np.ones_like(x), 2).numpy()
    alike = y == expected
    assert np.argwhere(~alike)[:, 2:].tolist() == [[0, c] for c in range(3, 8)]


def test_second_gradients(rng):
    x = tk.constant(rng.normal(size=(1, 1, 2, 5)))

    def slope(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = tk.reduce_sum(tk.nn.local_response_normalization(x, 1, 1.0, 0.5, 0.75))
        return tape.gradient(y, x)

    with tk.GradientTape() as tape:
        tape.watch(x)
        total = tk.reduce_sum(slope(x) ** 2)
    second = tape.gradient(total, x).numpy()
    step = 1e-5 * np.eye(10).reshape(10, *x.shape)
    numeric = [
        (np.sum(slope(x + d).numpy() ** 2) - np.sum(slope(x - d).numpy() ** 2)) / 2e-5 for d in step
    ]
    np.testing.assert_allclose(second.ravel(), numeric, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("shape", [(0, 2, 2, 4), (2, 0, 2, 4), (1, 2, 2, 0)])
def test_nothing_gives_nothing(shape):
    x = tk.zeros(shape)
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = tk.nn.local_response_normalization(x, 3)
    assert y.shape == tape.gradient(y, x).shape == shape


def test_channels_that_are_unknown(rng):
    @tk.function(input_signature=[tk.TensorSpec([None] * 4, "float32")])
    def normalize(x):
        return tk.nn.local_response_normalization(x, 2)

    for channels in 7, 1, 20:
        x = rng.normal(size=(2, 1, 3, channels)).astype("float32")
        expected = tk.nn.local_response_normalization(x, 2).numpy()
        np.testing.assert_array_equal(normalize(x).numpy(), expected)


def test_a_radius_below_0_is_refused():
    with pytest.raises(tk.errors.InvalidArgumentError, match="depth_radius=-1 must be 0 or more"):
        tk.nn.lrn(tk.zeros((1, 1, 1, 3)), -1)
