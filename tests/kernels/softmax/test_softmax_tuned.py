"""Compiled softmax cross-entropy against the plain one."""

import numpy as np
import pytest

from trainkit.kernels.softmax import softmax_tuned


def test_loss_and_gradient_equal_formulas(eager, rng):
    logits = (rng.normal(size=(3, 5, 11)) * 20).astype("float32")
    labels = rng.integers(0, 11, (3, 5)).astype("int32")
    g = rng.normal(size=(3, 5)).astype("float32")
    wide = logits.astype("float64")
    chance = np.exp(wide - wide.max(-1, keepdims=True))
    chance /= chance.sum(-1, keepdims=True)
    hot = np.eye(11)[labels]
    expected = -np.log((chance * hot).sum(-1))
    np.testing.assert_allclose(softmax_tuned.loss(labels, logits), expected, rtol=1e-5, atol=1e-5)
    found = softmax_tuned.gradient(g, labels, logits)
    np.testing.assert_allclose(found, g[..., None] * (chance - hot), atol=1e-6)


def expected_of(labels, logits):
    """Losses and gradients by their formulas in float64."""
    wide = logits.astype("float64")
    chance = np.exp(wide - wide.max(-1, keepdims=True))
    chance /= chance.sum(-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        losses = -np.where(labels == 0, 0, labels * np.log(chance)).sum(-1)
    return losses, chance * labels.sum(-1, keepdims=True) - labels


@pytest.mark.parametrize("shape", [(3, 5, 11), (2, 40), (1, 1), (70, 300)])
@pytest.mark.parametrize("turned", [False, True])
def test_losses_and_gradients_come_in_one_pass(eager, rng, shape, turned):
    logits = (rng.normal(size=shape) * 9).astype("float32")
    labels = rng.integers(0, shape[-1], shape[:-1]).astype("int32")
    if turned:
        logits, labels = np.asfortranarray(logits), np.asfortranarray(labels)
    losses, grads = softmax_tuned.loss_and_gradients(labels, logits)
    expected = expected_of(np.eye(shape[-1])[labels], logits)
    np.testing.assert_allclose(losses, expected[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(grads, expected[1], atol=1e-6)


@pytest.mark.parametrize("shape", [(90, 10, 11), (300, 40), (9000, 1), (70, 300)])
@pytest.mark.parametrize("turned", [False, True])
def test_labels_may_be_chances(eager, rng, shape, turned):
    logits, labels = (rng.normal(size=shape).astype("float32") for _ in range(2))
    logits *= 9
    labels[labels < 0] = 0
    if turned:
        logits, labels = np.asfortranarray(logits), np.asfortranarray(labels)
    expected = expected_of(labels, logits)
    losses, grads = softmax_tuned.dense_loss_and_gradients(labels, logits)
    for found in (losses, softmax_tuned.dense_loss(labels, logits)):
        np.testing.assert_allclose(found, expected[0], rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(grads, expected[1], atol=1e-5 * max(1, labels.sum(-1).max()))


@pytest.mark.parametrize("shape", [(90, 10, 11), (9000, 1), (3, 5), (1, 1)])
@pytest.mark.parametrize("turned", [False, True])
def test_scaled_rows_have_the_bits_of_numpy(eager, rng, shape, turned):
    grads = rng.normal(size=shape).astype("float32")
    g = rng.normal(size=shape[:-1]).astype("float32")
    if turned:
        grads, g = np.asfortranarray(grads), np.asfortranarray(g)
    found = softmax_tuned.scaled_rows(g, grads)
    np.testing.assert_array_equal(found, grads * g[..., None])
    assert softmax_tuned.scaled_rows(g.astype("float64"), grads) is None
    assert softmax_tuned.scaled_rows(g[:0], grads[:0]) is None


def test_a_label_of_0_counts_nothing_even_where_the_chance_is_0(eager):
    logits = np.zeros((200, 50), "float32")
    logits[:, 3] = -np.inf
    labels = np.zeros_like(logits)
    labels[:, 0] = 1
    losses, grads = softmax_tuned.dense_loss_and_gradients(labels, logits)
    np.testing.assert_allclose(losses, np.log(49), rtol=1e-6)
    np.testing.assert_allclose(grads[:, 3], 0)


def test_dense_labels_of_other_dtypes_and_small_arrays_are_left_to_the_plain_version(eager, rng):
    logits = rng.normal(size=(300, 40))
    assert softmax_tuned.dense_loss(logits, logits) is None
    logits = logits.astype("float32")
    assert softmax_tuned.dense_loss(logits.astype("float64"), logits) is None
    assert softmax_tuned.dense_loss_and_gradients(logits[:9], logits[:9]) is None
    none = np.zeros((0, 40), "float32")
    assert softmax_tuned.loss_and_gradients(np.zeros(0, "int32"), none) is None
    assert softmax_tuned.dense_loss_and_gradients(none, none) is None


def test_other_dtypes_are_left_to_the_plain_version(eager):
    assert softmax_tuned.loss(np.zeros(2, "int32"), np.zeros((2, 3))) is None


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
    y = softmax_tuned.softmax(x, -1)
    np.testing.assert_allclose(y, expected, rtol=6e-6, atol=1e-30)
    wide = g.astype("float64")
    grad = expected * (wide - (wide * expected).sum(-1, keepdims=True))
    found = softmax_tuned.softmax_gradient(g, y, len(shape) - 1)
    np.testing.assert_allclose(found, grad, rtol=1e-4, atol=1e-5)


def test_what_is_masked_has_no_share_and_nan_fills_its_row(eager):
    x = np.zeros((4, 40), "float32")
    x[0, 3] = -1e9
    x[1, 5] = -np.inf
    x[2, 7] = np.nan
    x[3] = -np.inf
    y = softmax_tuned.softmax(x, -1)
    assert y[0, 3] == y[1, 5] == 0
    np.testing.assert_allclose(y[:2].sum(1), 1, rtol=1e-6)
    assert np.isnan(y[2:]).all()
    labels = np.zeros(4, "int32")
    assert np.isnan(softmax_tuned.loss(labels, x)[2:]).all()


def test_softmax_along_other_axes_is_left_to_the_plain_version(eager):
    x = np.ones((3, 4), "float32")
    assert softmax_tuned.softmax(x, 0) is None
    assert softmax_tuned.softmax(x, (0, 1)) is None
    assert softmax_tuned.softmax(x.astype("float64"), -1) is None
    assert softmax_tuned.softmax(x, (-1,)) is not None


@pytest.mark.parametrize("shape", [(90, 10, 11), (300, 40), (9000, 1), (70, 300)])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("offset", [0.0, 3e5])
def test_log_softmax_and_its_gradient_equal_formulas(eager, rng, shape, turned, offset):
    """A large number in all places takes no digits of the results."""
    x = (np.round(rng.normal(size=shape) * 9) + offset).astype("float32")
    g = rng.normal(size=shape).astype("float32")
    if turned:
        x, g = np.asfortranarray(x), np.asfortranarray(g)
    wide = x.astype("float64") - x.max(-1, keepdims=True)
    expected = wide - np.log(np.exp(wide).sum(-1, keepdims=True))
    y = softmax_tuned.log_softmax(x, -1)
    np.testing.assert_allclose(y, expected, rtol=1e-6, atol=1e-6)
    slope = g - np.exp(expected) * g.sum(-1, keepdims=True, dtype="float64")
    found = softmax_tuned.log_softmax_gradient(g, y, x.ndim - 1)
    np.testing.assert_allclose(found, slope, rtol=1e-5, atol=2e-6)


def test_log_softmax_of_numbers_that_are_not_finite_is_that_of_the_plain_version(eager, rng):
    x = rng.normal(size=(300, 40)).astype("float32")
    x[0, 3], x[1, 2], x[2, 0], x[3] = np.nan, np.inf, -np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        centred = x - x.max(-1, keepdims=True)
        expected = centred - np.log(np.exp(centred).sum(-1, keepdims=True))
    np.testing.assert_allclose(softmax_tuned.log_softmax(x, -1), expected, rtol=1e-6, atol=1e-6)
    assert softmax_tuned.log_softmax(x, 0) is None
    assert softmax_tuned.log_softmax(x.astype("float64"), -1) is None
