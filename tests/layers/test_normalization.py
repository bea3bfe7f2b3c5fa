"""Normalization layers: what they keep, and in which mode."""

import numpy as np
import pytest

from trainkit import layers
from trainkit.autodiff.tape import GradientTape
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.tensor import convert_to_tensor
from trainkit.graph.function import function

X = np.random.default_rng(1).normal(3, 2, size=(64, 5)).astype("float32")


def test_batch_normalization_learns_the_moments_while_training():
    layer = layers.BatchNormalization(momentum=0.5)
    y = layer(X, training=True).numpy()
    np.testing.assert_allclose(y.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(y.std(0), 1, atol=1e-3)
    np.testing.assert_allclose(layer.moving_mean.numpy(), 0.5 * X.mean(0), rtol=1e-4)
    np.testing.assert_allclose(layer.moving_variance.numpy(), 0.5 + 0.5 * X.var(0), rtol=1e-4)
    kept = layer.moving_mean.numpy().copy()
    layer(X)
    np.testing.assert_array_equal(layer.moving_mean.numpy(), kept)


def test_batch_normalization_in_a_trace_updates_at_each_run():
    layer = layers.BatchNormalization(momentum=0.5)
    traced = function(lambda x: layer(x, training=True))
    for _ in range(3):
        traced(X)
    np.testing.assert_allclose(layer.moving_mean.numpy(), X.mean(0) * (1 - 0.5**3), rtol=1e-4)


def test_a_frozen_batch_normalization_uses_what_it_has_learned():
    layer = layers.BatchNormalization()
    layer(X)
    layer.trainable = False
    np.testing.assert_allclose(layer(X, training=True).numpy(), X / np.sqrt(1.001), rtol=1e-5)
    assert layer.moving_mean.numpy().sum() == 0
    assert layer.trainable_weights == []


def test_masked_steps_do_not_count():
    layer = layers.BatchNormalization(momentum=0.0)
    x = np.stack([X[:4, :2], 1000 * np.ones((4, 2), "float32")], axis=1)
    mask = np.array([[True, False]] * 4)
    layer(x, training=True, mask=mask)
    np.testing.assert_allclose(layer.moving_mean.numpy(), X[:4, :2].mean(0), rtol=1e-4)
    np.testing.assert_allclose(layer.moving_variance.numpy(), X[:4, :2].var(0), rtol=1e-4)


def test_moving_moments_get_no_gradient():
    layer = layers.BatchNormalization()
    x = convert_to_tensor(X)
    with GradientTape() as tape:
        tape.watch(x)
        y = layer(x, training=True)
        loss = y * y
    assert len(layer.trainable_variables) == 2
    assert tape.gradient(loss, x) is not None


def test_half_precision_sums_in_single():
    layer = layers.BatchNormalization(dtype="mixed_float16")
    big = np.full((8, 3), 60000.0, "float16")
    y = layer(big, training=True)
    assert y.dtype.name == "float16"
    assert np.isfinite(layer.moving_mean.numpy()).all()
    assert layer.moving_mean.dtype.name == "float32"


@pytest.mark.parametrize(
    "layer",
    [
        layers.LayerNormalization(),
        layers.RMSNormalization(),
        layers.UnitNormalization(),
        layers.GroupNormalization(1),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_samples_do_not_see_each_other(layer):
    whole = layer(X).numpy()
    np.testing.assert_allclose(layer(X[:1]).numpy(), whole[:1], rtol=1e-5)


def test_group_normalization_wants_groups_that_fit():
    with pytest.raises(ShapeError, match=r"5 features.*do not fall into 2 groups"):
        layers.GroupNormalization(2)(X)
    with pytest.raises(InvalidArgumentError, match="synchronized"):
        layers.BatchNormalization(synchronized=True)
    with pytest.raises(ShapeError, match="must have known sizes"):
        layers.LayerNormalization().build((None, None))
