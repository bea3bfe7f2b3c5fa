"""Dropout: what is kept is scaled, the rest is 0, and the stream of bits stays what it was."""

import hashlib

import numpy as np
import pytest

import trainkit as tk
from trainkit import layers
from trainkit.core.errors import ShapeError
from trainkit.ops.neural.dropout import dropped
from trainkit.ops.sampling import generators, philox, random


def with_gradient(layer):
    def call(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = layer(x, training=True)
            squares = y * y
        return y, tape.gradient(squares, x)

    return call


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(0, 3), (1,), (3, 5), (600, 400)])
@pytest.mark.parametrize("rate", [0.25, 1.0, 1e-9])
def test_a_mask_of_floats_would_give_the_same_bits(mode, rng, dtype, shape, rate):
    x = tk.constant(rng.normal(size=shape), dtype)
    scale = 1 / (1 - rate) if rate < 1 else 0.0
    masks = generators.SeedGenerator(3)
    one, two = (with_gradient(layers.Dropout(rate, seed=3, dtype=dtype)) for _ in range(2))
    compiled = tk.function(two)
    for _ in range(2):
        mask = random.bernoulli_mask(shape, rate, scale, dtype, masks)
        expected = x * mask
        for y, gradient in (one(x), compiled(x)):
            assert y.dtype == gradient.dtype == x.dtype
            np.testing.assert_array_equal(y.numpy(), expected.numpy())
            squares = (expected + expected) * mask
            np.testing.assert_array_equal(gradient.numpy(), squares.numpy())


def test_the_stream_of_a_seed_is_what_it_always_was(mode):
    y = random.dropout(np.ones((100, 7), "float32"), 0.3, seed=generators.SeedGenerator(5)).numpy()
    digest = hashlib.sha256((y > 0).tobytes()).hexdigest()
    assert digest[:16] == "2d9c87792b653ad6"


def test_functions_and_checkpoints_see_the_generator_move(mode):
    layer = layers.Dropout(0.5, seed=1)
    tk.function(lambda x: layer(x, training=True))(np.ones((8, 8), "float32"))
    np.testing.assert_array_equal(layer.seed_generator.state.numpy(), [4, 0, 1])


@pytest.mark.parametrize("noise_shape", [(None, 1, 6), (8, 1, 6), (1, 1, 1)])
def test_a_mask_may_be_shared(mode, rng, noise_shape):
    x = tk.constant(rng.normal(size=(8, 20, 6)), "float32")
    y, gradient = with_gradient(layers.Dropout(0.5, noise_shape, seed=2))(x)
    scale = (y / x).numpy()
    assert set(np.unique(scale)) <= {0, 2}
    assert np.ptp(scale, axis=1).max() == 0
    np.testing.assert_array_equal(gradient.numpy(), (2 * y * scale).numpy())


def test_a_mask_larger_than_the_inputs_makes_them_larger(mode):
    y = random.dropout(np.ones((1, 4), "float32"), 0.5, noise_shape=(6, 4), seed=3)
    assert y.shape == (6, 4)


def test_shapes_are_known_before_sizes():
    layer = layers.Dropout(0.5, seed=1)
    spec = tk.TensorSpec((None, 4), "float32")
    call = tk.function(lambda x: layer(x, training=True), input_signature=[spec])
    for rows in (2, 5):
        assert call(np.ones((rows, 4), "float32")).shape == (rows, 4)


def test_second_gradients_pass(rng):
    x, kept = tk.constant(rng.normal(size=(3, 4))), tk.constant(rng.uniform(size=(3, 4)) < 0.5)
    with tk.GradientTape() as outer:
        outer.watch(x)
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = dropped(x, kept, scale=3.0) ** 3.0
        first = tape.gradient(y, x)
    expected = np.where(kept.numpy(), 6 * 27 * x.numpy(), 0)
    np.testing.assert_allclose(outer.gradient(first, x).numpy(), expected, rtol=1e-12)


def test_the_way_back_keeps_a_byte_for_each_element():
    layer = layers.Dropout(0.5, seed=1)
    call = tk.function(with_gradient(layer)).get_concrete_function(tk.constant(np.ones((4, 4))))
    masks = [n for n in call.graph.nodes if n.kind == "op" and n.primitive.name == "philox_kept"]
    assert [y.dtype.name for y in masks[0].outputs] == ["bool", "uint64"]


def test_a_mask_that_does_not_fit_is_shown():
    x, kept = tk.constant(np.ones((2, 3))), tk.constant(np.ones((2, 2), bool))
    with pytest.raises(ShapeError, match=r"mask  \(2, 2\)"):
        dropped(x, kept, scale=2.0)


def test_a_rate_of_nothing_keeps_all(mode):
    kept, _ = philox.philox_kept(np.array([0, 0, 1], np.uint64), shape=(50,), rate=0.0)
    assert kept.numpy().all()
