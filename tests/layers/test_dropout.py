"""Noise layers: on while training, off otherwise, repeated by seed."""

import numpy as np
import pytest

from trainkit import layers
from trainkit.core.errors import InvalidArgumentError
from trainkit.graph.tracing.function import function
from trainkit.ops.sampling import generators

X = np.ones((40, 50, 3), "float32")
NOISY = [
    lambda: layers.Dropout(0.4, seed=1),
    lambda: layers.SpatialDropout1D(0.4, seed=1),
    lambda: layers.GaussianNoise(0.4, seed=1),
    lambda: layers.GaussianDropout(0.4, seed=1),
    lambda: layers.AlphaDropout(0.4, seed=1),
]


@pytest.mark.parametrize("make", NOISY)
def test_noise_is_off_without_training_and_repeats_by_seed(make):
    layer = make()
    np.testing.assert_array_equal(layer(X).numpy(), X)
    one, two = layer(X, training=True).numpy(), layer(X, training=True).numpy()
    assert not np.array_equal(one, two)
    again = make()
    np.testing.assert_array_equal(again(X, training=True).numpy(), one)
    assert layer.weights == []
    assert len(layer.variables) == 1


@pytest.mark.parametrize("make", NOISY)
def test_a_traced_call_draws_anew_each_time_and_the_same_as_an_eager_one(make):
    layer, eager = make(), make()
    traced = function(lambda x: layer(x, training=True))
    for _ in range(3):
        a, b = traced(X).numpy(), eager(X, training=True).numpy()
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_set_seed_before_the_layer_repeats_it():
    def draw():
        generators.set_seed(5)
        return layers.Dropout(0.5)(X, training=True).numpy()

    np.testing.assert_array_equal(draw(), draw())


def test_spatial_dropout_drops_whole_channels():
    y = layers.SpatialDropout1D(0.5, seed=1)(X, training=True).numpy()
    assert (np.ptp(y, axis=1) == 0).all()
    assert set(np.unique(y)) == {0, 2}
    image = np.ones((20, 8, 4, 4), "float32")
    first = layers.SpatialDropout2D(0.5, "channels_first", seed=1)(image, training=True).numpy()
    assert (np.ptp(first, axis=(2, 3)) == 0).all()


def test_alpha_dropout_keeps_mean_and_variance():
    x = np.random.default_rng(1).normal(size=(400, 500)).astype("float32")
    y = layers.AlphaDropout(0.3, seed=1)(x, training=True).numpy()
    assert abs(y.mean()) < 0.01
    assert abs(y.std() - 1) < 0.01


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: layers.Dropout(1.5), r"rate must lie in \[0, 1\]"),
        (lambda: layers.AlphaDropout(1.0), "below 1"),
        (lambda: layers.GaussianNoise(-1.0), "0 or more"),
    ],
)
def test_bad_rates_are_named(make, text):
    with pytest.raises(InvalidArgumentError, match=text):
        make()


def test_a_rate_of_one_drops_everything():
    assert (layers.Dropout(1.0)(X, training=True).numpy() == 0).all()
