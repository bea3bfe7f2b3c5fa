"""Cells that go step by step: a graph's loop has the bits of eager steps, values and gradients."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import layers

X = np.random.default_rng(2).normal(size=(2, 7, 3)).astype("float32")
MASK = np.array([[True] * 7, [True, False, True, True, False, True, False]])


class Gated(layers.Layer):
    """A cell whose state has four uses in the step after it, one of them its output."""

    def __init__(self, units, output_is_state=True):
        super().__init__()
        self.state_size = self.output_size = self.units = units
        self.output_is_state = output_is_state

    def build(self, shape):
        self.kernel = self.add_weight((shape[-1], self.units))
        self.recurrent = self.add_weight((self.units, self.units))

    def call(self, x, states):
        h = states[0]
        z = tk.sigmoid(x @ self.kernel + h @ self.recurrent)
        h = z * h + (1 - z) * tk.tanh(h @ self.recurrent) + 0.1 * h
        return (h if self.output_is_state else h * 0.5), [h]


LAYERS = {
    "SimpleRNN": lambda **more: layers.SimpleRNN(8, activation="relu", **more),
    "GRU": lambda **more: layers.GRU(8, activation="relu", **more),
    "GRU, reset before": lambda **more: layers.GRU(8, "relu", reset_after=False, **more),
    "LSTM": lambda **more: layers.LSTM(8, activation="relu", **more),
    "stacked": lambda **more: layers.RNN(
        [layers.GRUCell(4, activation="relu"), layers.LSTMCell(8, activation="elu")], **more
    ),
    "stacked, a gated cell last": lambda **more: layers.RNN(
        [layers.LSTMCell(8, activation="elu"), layers.GRUCell(4)], **more
    ),
    "penalized": lambda **more: layers.SimpleRNN(
        8, kernel_regularizer="l2", recurrent_regularizer="l1", bias_regularizer="l2", **more
    ),
    "own cell": lambda **more: layers.RNN(Gated(8), **more),
    "own output": lambda **more: layers.RNN(Gated(8, output_is_state=False), **more),
}
OPTIONS = {
    "sequences": {"return_sequences": True},
    "last": {},
    "backwards": {"return_sequences": True, "go_backwards": True},
    "zeros": {"return_sequences": True, "zero_output_for_mask": True},
    "unrolled": {"return_sequences": True, "unroll": True},
}


def gradients(layer, mask, start):
    def call(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            loss = tk.reduce_sum(tk.square(layer(x, mask=mask, initial_state=start) - 0.3))
            loss = tk.add_n([loss, *layer.losses])
        return loss, tape.gradient(loss, [x, *layer.trainable_variables])

    return call


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_gradients_of_a_traced_loop_are_those_of_eager_steps(make, options, masked):
    tk.random.set_seed(3)
    layer = make(**options)
    layer(X)
    call = gradients(layer, MASK if masked else None, None)
    eager, traced = call(tk.constant(X)), tk.function(call)(tk.constant(X))
    for one, other in zip(tk.nest.flatten(eager), tk.nest.flatten(traced), strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


@pytest.mark.parametrize("steps", [1, 2, 3, 7])
def test_the_initial_state_has_its_gradient_with_the_same_bits(steps):
    tk.random.set_seed(3)
    layer = layers.GRU(8, activation="relu", return_sequences=True)
    x, start = tk.constant(X[:, :steps]), tk.Variable(np.full((2, 8), 0.4, "float32"))
    layer(x)

    def call(x):
        with tk.GradientTape() as tape:
            loss = tk.reduce_sum(tk.square(layer(x, initial_state=tk.sin(start)) * start[0]))
        return tape.gradient(loss, [start, *layer.trainable_variables])

    for one, other in zip(call(x), tk.function(call)(x), strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_gradients_of_a_layer_that_two_branches_share():
    tk.random.set_seed(3)
    layer = layers.SimpleRNN(8, return_sequences=True)
    layer(X)

    def call(x):
        with tk.GradientTape() as tape:
            loss = tk.reduce_sum(tk.square(layer(tk.sin(x)) - layer(x)[:, ::-1]))
        return tape.gradient(loss, layer.trainable_variables)

    for one, other in zip(call(tk.constant(X)), tk.function(call)(tk.constant(X)), strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_a_number_of_steps_that_the_graph_does_not_know():
    tk.random.set_seed(3)
    layer = layers.GRU(8, activation="relu", return_sequences=True)
    layer(X)
    call = gradients(layer, None, None)
    spec = tk.TensorSpec((None, None, 3), "float32")
    traced = tk.function(call, input_signature=[spec])
    for steps in (1, 2, 7):
        x = tk.constant(X[:, :steps])
        for one, other in zip(tk.nest.flatten(call(x)), tk.nest.flatten(traced(x)), strict=True):
            np.testing.assert_array_equal(one.numpy(), other.numpy())


@pytest.mark.parametrize("kind", ["SimpleRNN", "GRU", "LSTM"])
def test_steps_of_fit_have_the_bits_of_eager_ones(kind):
    weights = []
    for run_eagerly in (True, False):
        tk.random.set_seed(3)
        model = tk.Sequential([LAYERS[kind](return_sequences=True)])
        model.compile("sgd", "mse", run_eagerly=run_eagerly)
        for _ in range(6):
            model.train_on_batch(X[:1], np.ones((1, 7, 8), "float32"))
        weights.append(model.get_weights())
    for one, other in zip(*weights, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_cell_that_gives_its_state_in_the_first_step_alone():
    class Changing(Gated):
        calls = 0

        def call(self, x, states):
            self.calls += 1
            output, states = super().call(x, states)
            return (output if self.calls == 1 else output * 1.0), states

    layer = layers.RNN(Changing(8), return_sequences=True)
    layer.build(X.shape)
    layer.cell.calls = 0
    with pytest.raises(ValueError, match="the first output of the cell is one of its states"):
        tk.function(lambda x: layer(x))(X)
