"""Layers that join inputs: masks, ranks, what they refuse."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import keras, layers

A = np.array([[[0, 0], [1, 2], [0, 0], [3, 4]]], "float32")
B = np.array([[[0, 0], [0, 0], [1, 2], [3, 4]]], "float32")
KINDS = [
    layers.Add,
    layers.Subtract,
    layers.Multiply,
    layers.Average,
    layers.Maximum,
    layers.Minimum,
]


@pytest.mark.parametrize("kind", KINDS)
def test_the_joined_mask_is_true_where_any_is(kind):
    mask = layers.Masking()
    a, b = mask(A), mask(B)
    assert not hasattr(kind()([a, B]), "_keras_mask")
    np.testing.assert_array_equal(kind()([a, b])._keras_mask, [[False, True, True, True]])


@pytest.mark.parametrize(
    ("kind", "sign", "want"),
    [
        (layers.Multiply, 1, [[0, 0], [1, 2], [1, 2], [9, 16]]),
        (layers.Maximum, -1, [[0, 0], [-1, -2], [-1, -2], [-3, -4]]),
        (layers.Minimum, 1, [[0, 0], [1, 2], [1, 2], [3, 4]]),
    ],
)
def test_masked_values_are_left_out(kind, sign, want):
    inputs = [layers.Input((4, 2)), layers.Input((4, 2))]
    mask = layers.Masking()
    model = keras.Model(inputs, kind()([mask(x) for x in inputs]))
    for y in (kind()([mask(sign * A), mask(sign * B)]), model([sign * A, sign * B])):
        np.testing.assert_array_equal(y[0], want)


def test_concatenated_masks_are_true_where_a_value_counts():
    a = layers.Masking()(A)
    along = layers.Concatenate(axis=1)([a, B])
    np.testing.assert_array_equal(along._keras_mask, [[False, True, False, True] + [True] * 4])
    beside = layers.Concatenate(axis=2)([a, B])
    np.testing.assert_array_equal(beside._keras_mask, [[True] * 4])


@pytest.mark.parametrize("kind", [*KINDS, layers.Concatenate])
def test_compute_mask_takes_lists_of_one_length(kind):
    layer = kind()
    with pytest.raises(ValueError, match="mask must be a list"):
        layer.compute_mask([A, B], A)
    with pytest.raises(ValueError, match="inputs must be a list"):
        layer.compute_mask(A, [None, None])
    with pytest.raises(ValueError, match="2 inputs and 1 masks"):
        layer.compute_mask([A, B], [None])


@pytest.mark.parametrize("kind", KINDS)
def test_batches_of_different_sizes_do_not_broadcast(kind):
    with pytest.raises(ValueError, match="different sizes"):
        kind()([A, np.ones((2, 4, 2), "float32")])


def test_one_input_alone_is_joined_with_nothing():
    np.testing.assert_array_equal(layers.Add()([A]), A)
    with pytest.raises(ValueError, match="list of 2 tensors"):
        layers.Subtract()([A])


def test_a_batch_of_one_is_joined_with_others_inside_of_a_model():
    class Biased(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = layers.Dense(1)
            self.bias = self.add_weight("bias", (1, 1))

        def call(self, x):
            return layers.Add()([self.dense(x), tk.reshape(self.bias, (1, 1))])

    model = Biased()
    model.compile("sgd", "mse")
    model.fit(np.ones((4, 3)), np.ones((4, 1)), verbose=0)
    assert model.predict(np.ones((4, 3)), verbose=0).shape == (4, 1)
