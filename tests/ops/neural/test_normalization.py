"""Normalization by its formulas."""

import numpy as np
import pytest

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError, ShapeError


@pytest.mark.parametrize("axis", [-1, (1, 2), (0, 2)])
def test_layer_normalization_has_mean_zero_and_variance_one(rng, axis):
    x = 3 + 2 * rng.normal(size=(4, 5, 6))
    y = ops.layer_normalization(x, axis=axis, epsilon=1e-12).numpy()
    np.testing.assert_allclose(y.mean(axis), 0, atol=1e-7)
    np.testing.assert_allclose(y.var(axis), 1, atol=1e-7)


def test_gamma_and_beta_have_the_shape_of_the_axes(rng):
    x, gamma, beta = rng.normal(size=(4, 5, 6)), rng.normal(size=(5, 6)), rng.normal(size=(5, 6))
    plain = ops.layer_normalization(x, axis=(1, 2)).numpy()
    found = ops.layer_normalization(x, gamma, beta, axis=(1, 2)).numpy()
    np.testing.assert_allclose(found, plain * gamma + beta, atol=1e-12)
    with pytest.raises(ShapeError, match=r"scale has shape \(6,\)"):
        ops.layer_normalization(x, gamma[0], axis=(1, 2))


@pytest.mark.parametrize("axis", [-1, 1])
def test_batch_normalization_by_its_own_moments(rng, axis):
    x = 3 + 2 * rng.normal(size=(4, 5, 6))
    outer = tuple(i for i in range(3) if i != axis % 3)
    y, mean, variance = ops.fused_batch_normalization(x, axis=axis, epsilon=0.1)
    np.testing.assert_allclose(mean.numpy(), x.mean(outer))
    np.testing.assert_allclose(variance.numpy(), x.var(outer))
    expected = ops.batch_normalization(x, mean, variance, axis, epsilon=0.1)
    np.testing.assert_allclose(y.numpy(), expected.numpy(), atol=1e-12)


def test_batch_normalization_names_the_vector_that_does_not_fit(rng):
    x, good, bad = rng.normal(size=(4, 5)), np.ones(5), np.ones(4)
    with pytest.raises(ShapeError, match=r"variance has shape \(4,\)"):
        ops.batch_normalization(x, good, bad, -1)


def test_float16_is_summed_in_float32():
    x = np.full((1, 4096), 300, "float16")
    x[0, 0] = 301
    y = ops.layer_normalization(x, epsilon=1e-3)
    assert y.dtype.name == "float16"
    assert np.isfinite(y.numpy()).all()


def test_moments_keep_axes_on_request(rng):
    x = rng.normal(size=(3, 4)).astype("float32")
    mean, variance = ops.moments(x, [0], keepdims=True)
    np.testing.assert_allclose(mean.numpy(), x.mean(0, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(variance.numpy(), x.var(0, keepdims=True), rtol=1e-5)


def test_rms_normalization_divides_by_the_root_mean_square(rng):
    x, scale = rng.normal(size=(3, 4)), rng.normal(size=4)
    expected = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-7) * scale
    np.testing.assert_allclose(ops.rms_normalization(x, scale).numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_normalize_gives_vectors_of_length_one(rng, order):
    x = rng.normal(size=(3, 4))
    y = ops.normalize(x, axis=1, order=order).numpy()
    np.testing.assert_allclose(np.linalg.norm(y, order, axis=1), 1)


def test_normalize_leaves_zeros_alone_and_refuses_order_zero():
    np.testing.assert_array_equal(ops.normalize(np.zeros((2, 3))).numpy(), np.zeros((2, 3)))
    with pytest.raises(InvalidArgumentError, match="got 0"):
        ops.normalize(np.ones(3), order=0)
