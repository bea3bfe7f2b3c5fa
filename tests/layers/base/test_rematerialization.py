"""`RematScope` and `remat`: the same numbers with less memory, for all that layers can do."""

import copy
import tracemalloc

import numpy as np
import pytest

import trainkit as tk
from trainkit import keras
from trainkit.layers.base import rematerialization


class Noisy(tk.layers.Layer):
    """A block of layers with random numbers, states, and losses of its own."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = tk.layers.Dense(8, "gelu", activity_regularizer="l2", kernel_regularizer="l2")
        self.normalize = tk.layers.BatchNormalization()
        self.dropout = tk.layers.Dropout(0.5, seed=4)

    def call(self, x):
        y = self.dropout(self.normalize(self.dense(x)))
        self.add_loss(tk.reduce_mean(tk.square(y)))
        return y


def trained(scope_arguments, run_eagerly, dtype="float32"):
    """Losses and weights of a model whose middle is made inside of a scope."""
    tk.random.set_seed(7)
    with keras.RematScope(**scope_arguments):
        middle = [Noisy(name="noisy", dtype=dtype), tk.layers.LSTM(6, name="lstm")]
    layers = [tk.layers.Dense(8), tk.layers.Reshape((1, 8)), *middle, tk.layers.Dense(1)]
    model = tk.Sequential(layers)
    model.compile("adam", "mse", run_eagerly=run_eagerly)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(32, 5)).astype("f4"), rng.normal(size=(32, 1)).astype("f4")
    history = model.fit(x, y, epochs=2, batch_size=8, shuffle=False, verbose=0).history
    return model, [history["loss"], *model.get_weights()]


@pytest.mark.parametrize("run_eagerly", [True, False])
@pytest.mark.parametrize(
    "scope",
    [
        {"mode": "full"},
        {"mode": "activations"},
        {"mode": "larger_than", "output_size_threshold": 7},
        {"mode": "list_of_layers", "layer_names": ["noisy"]},
    ],
    ids=lambda scope: scope["mode"],
)
def test_training_gives_the_same_numbers(scope, run_eagerly):
    _, plain = trained({"mode": None}, run_eagerly)
    model, found = trained(scope, run_eagerly)
    for a, b in zip(found, plain, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)
    assert len(model.losses) == 3


def test_in_mixed_precision():
    _, plain = trained({"mode": None}, True, "mixed_bfloat16")
    _, found = trained({"mode": "full"}, True, "mixed_bfloat16")
    for a, b in zip(found, plain, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-2, atol=1e-3)


class Counting(tk.layers.Layer):
    calls = 0

    def call(self, x):
        type(self).calls += 1
        return x * x


def calls_of_a_step(layer, x=(1.0, 2.0)):
    Counting.calls = 0
    x = tk.constant(x)
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = layer(x)
    np.testing.assert_allclose(tape.gradient(y, x).numpy(), 2 * x.numpy())
    return Counting.calls


@pytest.mark.parametrize(
    ("scope", "calls"),
    [
        ({}, 2),
        ({"mode": None}, 1),
        ({"mode": "activations"}, 1),
        ({"mode": "list_of_layers", "layer_names": ["a", "counting"]}, 2),
        ({"mode": "list_of_layers", "layer_names": ["other"]}, 1),
    ],
)
def test_the_mode_says_which_layers_are_computed_again(scope, calls):
    with keras.RematScope(**scope):
        layer = Counting(name="counting")
    assert calls_of_a_step(layer) == calls
    assert calls_of_a_step(Counting()) == 1


@pytest.mark.parametrize(("threshold", "calls"), [(2, 1), (1, 2)])
def test_larger_than_goes_by_the_elements_of_the_output(threshold, calls):
    with keras.RematScope("larger_than", output_size_threshold=threshold):
        layer = Counting()
    calls_of_a_step(layer)  # the size is found by running it on shapes, once
    assert calls_of_a_step(layer) == calls


def test_scopes_nest_and_belong_to_where_a_layer_is_made():
    with keras.RematScope():
        with keras.RematScope(None):
            plain = Counting()
        again = Counting()
        assert rematerialization.get_current_remat_mode().mode == "full"
    assert rematerialization.get_current_remat_mode() is None
    assert (calls_of_a_step(plain), calls_of_a_step(again)) == (1, 2)
    with keras.RematScope():
        assert calls_of_a_step(plain) == 1


def test_a_copy_has_the_mode_and_weights_of_its_own():
    with keras.RematScope():
        layer = Counting()
    twin = copy.deepcopy(layer)
    assert calls_of_a_step(twin) == 2
    assert twin.call.layer is twin


def test_an_unknown_mode_is_refused():
    with pytest.raises(ValueError, match="'everything'"):
        keras.RematScope("everything")


def test_activations_alone_are_computed_again():
    seen = []

    def activation(x):
        seen.append(x)
        return tk.tanh(x)

    with keras.RematScope("activations"):
        layer = tk.layers.Dense(3, activation)
    x = tk.ones((2, 3))
    layer(x)
    seen.clear()
    with tk.GradientTape() as tape:
        y = layer(x)
    tape.gradient(y, layer.trainable_variables)
    assert len(seen) == 2
    assert layer.activation is activation


def test_masks_pass_through():
    with keras.RematScope():
        layer = tk.layers.Masking()
        lstm = tk.layers.LSTM(3, return_sequences=True)
    plain = tk.layers.LSTM.from_config(lstm.get_config())
    x = tk.constant(np.concatenate([np.ones((2, 2, 4)), np.zeros((2, 2, 4))], 1).astype("f4"))
    plain.build(x.shape)
    lstm.build(x.shape)
    plain.set_weights(lstm.get_weights())
    with tk.GradientTape() as tape:
        y = lstm(layer(x))
    by_mask = plain(tk.layers.Masking()(x))
    np.testing.assert_allclose(y.numpy(), by_mask.numpy(), rtol=1e-6)
    assert y._keras_mask.numpy().tolist() == by_mask._keras_mask.numpy().tolist()
    assert tape.gradient(y, lstm.trainable_variables)[0] is not None


def test_remat_of_a_function_in_a_functional_model():
    inputs = tk.Input((4,))
    hidden = tk.layers.Lambda(keras.remat(tk.layers.ReLU()))(tk.layers.Dense(4)(inputs))
    model = tk.Model(inputs, tk.layers.Dense(1)(hidden))
    model.compile("sgd", "mse")
    history = model.fit(np.ones((8, 4)), np.ones((8, 1)), epochs=3, verbose=0).history["loss"]
    assert history[-1] < history[0]


def test_dropout_around_a_function_runs_as_in_the_first_call():
    """What a layer is called for is known in the second call, too."""
    dropout = tk.layers.Dropout(0.5, seed=1)

    class Block(tk.layers.Layer):
        def call(self, x):
            return keras.remat(lambda x: dropout(x) * x)(x)

    x = tk.Variable(np.full((2, 500), 2.0, "float32"))
    with tk.GradientTape() as tape:
        y = Block()(x, training=True)
    assert 0.3 < np.mean(y.numpy() == 0) < 0.7
    np.testing.assert_allclose(tape.gradient(y, x).numpy(), y.numpy(), rtol=1e-6)


SIZE, DEPTH = 256, 6


def peak_bytes(mode, run_eagerly):
    class Block(tk.layers.Layer):
        def __init__(self):
            super().__init__()
            self.layers = [tk.layers.Dense(SIZE, "tanh") for _ in range(3)]

        def call(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    with keras.RematScope(mode, layer_names=[f"block_{i}" for i in range(DEPTH)]):
        blocks = [Block() for _ in range(DEPTH)]
    x = tk.constant(np.ones((512, SIZE), "float32"))

    def step(x):
        with tk.GradientTape() as tape:
            y = x
            for block in blocks:
                y = block(y)
            y = tk.reduce_sum(y)
        return tape.gradient(y, [w for block in blocks for w in block.trainable_variables])

    step = step if run_eagerly else tk.function(step, jit_compile=False)
    step(x)
    tracemalloc.start()
    step(x)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


@pytest.mark.parametrize("run_eagerly", [True, False])
def test_a_step_needs_less_memory(run_eagerly):
    one = 512 * SIZE * 4
    assert peak_bytes("full", run_eagerly) < peak_bytes(None, run_eagerly) - DEPTH * one
