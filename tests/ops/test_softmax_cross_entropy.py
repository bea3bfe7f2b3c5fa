"""Softmax cross-entropy from logits: values by its formula, and labels that are no classes."""

import numpy as np
import pytest

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.ops.softmax_cross_entropy import (
    softmax_cross_entropy_with_logits,
    sparse_softmax_cross_entropy_with_logits,
)

LOGITS = np.array([[2.0, -1.0, 0.5], [0.0, 3.0, -2.0]], "float32")


def chances(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def test_labels_that_do_not_sum_to_one_count_as_they_are():
    labels = np.array([[1.0, 2.0, 0.0]], "float32")
    found = softmax_cross_entropy_with_logits(labels, LOGITS[:1])
    expected = -(labels * np.log(chances(LOGITS[:1]))).sum(-1)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)


def test_a_class_of_chance_zero_costs_nothing_where_its_label_is_zero():
    logits = np.array([[0.0, -np.inf]], "float32")
    loss = softmax_cross_entropy_with_logits([[1.0, 0.0]], logits)
    np.testing.assert_array_equal(loss.numpy(), [0])


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("label", [-1, 3])
def test_a_label_that_is_no_class_is_named(label):
    with pytest.raises(InvalidArgumentError, match=rf"labels\[1\] = {label} is not in \[0, 3\)"):
        ops.sparse_categorical_crossentropy([0, label], LOGITS, from_logits=True)


def test_labels_must_be_integers():
    with pytest.raises(InvalidArgumentError, match="float32"):
        sparse_softmax_cross_entropy_with_logits(np.ones(2, "float32"), LOGITS)


@pytest.mark.parametrize(
    "call",
    [
        lambda: softmax_cross_entropy_with_logits(np.ones((2, 3)), np.ones((3, 2))),
        lambda: sparse_softmax_cross_entropy_with_logits([1], LOGITS),
    ],
)
def test_shapes_that_do_not_fit_are_errors(call):
    with pytest.raises(ShapeError):
        call()
