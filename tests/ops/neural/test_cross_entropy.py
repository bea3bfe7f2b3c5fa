"""Cross-entropies: values by their formulas, extreme logits, and labels that are no classes."""

import numpy as np
import pytest

from trainkit import ops
from trainkit.core.dispatch import eval_shape
from trainkit.core.errors import ShapeError
from trainkit.core.shapes import Spec
from trainkit.ops.neural import cross_entropy

LOGITS = np.array([[2.0, -1.0, 0.5], [0.0, 3.0, -2.0]], "float32")


def chances(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def test_sparse_dense_and_chances_agree():
    labels = np.array([0, 2], "int32")
    hot = np.eye(3, dtype="float32")[labels]
    expected = -np.log((chances(LOGITS) * hot).sum(-1))
    for loss in (
        ops.sparse_categorical_crossentropy(labels, LOGITS, from_logits=True),
        ops.sparse_categorical_crossentropy(labels[:, None], chances(LOGITS)),
        ops.categorical_crossentropy(hot, LOGITS, from_logits=True),
        ops.categorical_crossentropy(hot, 7 * chances(LOGITS)),
        ops.sparse_categorical_crossentropy(labels, LOGITS.T, from_logits=True, axis=0),
        ops.categorical_crossentropy(hot.T, LOGITS.T, from_logits=True, axis=0),
    ):
        np.testing.assert_allclose(loss.numpy(), expected, rtol=1e-5)


def test_extreme_logits_stay_finite():
    logits = np.array([[1e4, 0.0], [-1e4, 1e4]], "float32")
    sparse = ops.sparse_categorical_crossentropy([0, 1], logits, from_logits=True)
    np.testing.assert_array_equal(sparse.numpy(), [0, 0])
    binary = ops.binary_crossentropy(np.ones((2, 2)), logits, from_logits=True)
    np.testing.assert_allclose(binary.numpy(), [[0, np.log(2)], [1e4, 0]], rtol=1e-6)


def test_weighted_cross_entropy_weighs_the_yes_part():
    x, z = np.array([0.3, -2.0], "float32"), np.array([1.0, 0.0], "float32")
    found = cross_entropy.weighted_cross_entropy_with_logits(z, x, 3.0).numpy()
    plain = cross_entropy.sigmoid_cross_entropy_with_logits(z, x).numpy()
    np.testing.assert_allclose(found, plain * [3, 1], rtol=1e-6)


def test_multi_hot_marks_each_class_once():
    found = ops.multi_hot([[0, 2, 2], [1, 1, 1]], 4).numpy()
    np.testing.assert_array_equal(found, [[1, 0, 1, 0], [0, 1, 0, 0]])


def test_psnr_is_in_decibels():
    found = ops.psnr(np.zeros(4, "float32"), np.full(4, 0.1, "float32"), 1.0)
    np.testing.assert_allclose(found.numpy(), 20, rtol=1e-6)


@pytest.mark.parametrize(
    "call",
    [
        lambda: ops.binary_crossentropy(np.ones(3), np.ones(4)),
        lambda: ops.categorical_crossentropy(np.ones((2, 3)), np.ones((2, 4))),
        lambda: ops.categorical_crossentropy(1.0, 1.0),
        lambda: ops.sparse_categorical_crossentropy([1, 2, 0], LOGITS),
        lambda: ops.psnr(np.ones(3), np.ones(4), 1.0),
    ],
)
def test_shapes_that_do_not_fit_are_errors(call):
    with pytest.raises(ShapeError):
        call()


def test_shapes_are_known_before_values():
    spec = eval_shape.result_specs(
        lambda y, x: ops.sparse_categorical_crossentropy(y, x, from_logits=True),
        Spec((None,), "int32"),
        Spec((None, 10), "float32"),
    )
    assert spec == Spec((None,), "float32")
