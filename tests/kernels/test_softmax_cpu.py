"""Compiled softmax cross-entropy against the plain one."""

import numpy as np

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
