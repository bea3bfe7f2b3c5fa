"""Compiled softmax cross-entropy against the plain one."""

import numpy as np
import pytest

from trainkit.kernels import softmax_cpu


def test_loss_and_gradient_equal_formulas(eager, rng):
    logits = (rng.normal(size=(3, 5, 11)) * 20).astype("float32")
    labels = rng.integers(0, 11, (3, 5)).astype("int32")
    g = rng.normal(size=(3, 5)).astype("float32")
    wide = logits.astype("float64")
    chance = np.exp(wide - wide.max(-1, keepdims=True))
    chance /= chance.sum(-1, keepdims=True)
    hot = np.eye(11)[labels]
    expected = -np.log((chance * hot).sum(-1))
    np.testing.assert_allclose(softmax_cpu.loss(labels, logits), expected, rtol=1e-5, atol=1e-5)
    found = softmax_cpu.gradient(g, labels, logits)
    np.testing.assert_allclose(found, g[..., None] * (chance - hot), atol=1e-6)


def test_other_dtypes_are_left_to_the_plain_version(eager):
    assert softmax_cpu.loss(np.zeros(2, "int32"), np.zeros((2, 3))) is None


def softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


@pytest.mark.parametrize("shape", [(3, 5, 11), (2, 40), (1, 1), (70, 300)])
@pytest.mark.parametrize("turned", [False, True])
def test_softmax_and_its_gradient_equal_formulas(eager, rng, shape, turned):
    x, g = (rng.normal(size=shape).astype("float32") * 9 for _ in range(2))
    if turned:
        x, g = np.asfortranarray(x), np.asfortranarray(g)
    expected = softmax(x.astype("float64"))
    y = softmax_cpu.softmax(x, -1)
    np.testing.assert_allclose(y, expected, rtol=6e-6, atol=1e-30)
    wide = g.astype("float64")
    slope = expected * (wide - (wide * expected).sum(-1, keepdims=True))
    found = softmax_cpu.softmax_gradient(g, y, len(shape) - 1)
    np.testing.assert_allclose(found, slope, rtol=1e-4, atol=1e-5)


def test_what_is_masked_has_no_share_and_nan_fills_its_row(eager):
    x = np.zeros((4, 40), "float32")
    x[0, 3] = -1e9
    x[1, 5] = -np.inf
    x[2, 7] = np.nan
    x[3] = -np.inf
    y = softmax_cpu.softmax(x, -1)
    assert y[0, 3] == y[1, 5] == 0
    np.testing.assert_allclose(y[:2].sum(1), 1, rtol=1e-6)
    assert np.isnan(y[2:]).all()
    labels = np.zeros(4, "int32")
    assert np.isnan(softmax_cpu.loss(labels, x)[2:]).all()


def test_softmax_along_other_axes_is_left_to_the_plain_version(eager):
    x = np.ones((3, 4), "float32")
    assert softmax_cpu.softmax(x, 0) is None
    assert softmax_cpu.softmax(x, (0, 1)) is None
    assert softmax_cpu.softmax(x.astype("float64"), -1) is None
    assert softmax_cpu.softmax(x, (-1,)) is not None
