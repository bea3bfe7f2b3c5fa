"""Recurrent layers: masks, states, directions, custom cells."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import layers, ops
from trainkit.core import nest
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.tensor_spec import TensorSpec
from trainkit.core.trackable import traverse
from trainkit.core.variable import Variable
from trainkit.graph.tracing.function import function
from trainkit.models import Input

X = np.random.default_rng(1).normal(size=(2, 5, 3)).astype("float32")
KINDS = [layers.SimpleRNN, layers.GRU, layers.LSTM]


@pytest.mark.parametrize("kind", KINDS)
def test_a_masked_tail_gives_what_the_head_gives(kind):
    layer = kind(4)
    mask = np.array([[True] * 5, [True] * 2 + [False] * 3])
    y = layer(X, mask=mask).numpy()
    np.testing.assert_allclose(y[0], layer(X).numpy()[0], rtol=1e-5)
    np.testing.assert_allclose(y[1], layer(X[1:, :2]).numpy()[0], rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_masked_steps_repeat_the_output_before_or_are_zero(kind):
    mask = np.array([[True, False, True, True, True]] * 2)
    held = kind(4, return_sequences=True)
    y = held(X, mask=mask).numpy()
    np.testing.assert_array_equal(y[:, 1], y[:, 0])
    zero = kind(4, return_sequences=True, zero_output_for_mask=True)
    zero(X)
    zero.set_weights(held.get_weights())
    z = zero(X, mask=mask).numpy()
    assert (z[:, 1] == 0).all()
    np.testing.assert_allclose(z[:, 2:], y[:, 2:], rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_stateful_layer_goes_on_where_it_stopped(kind):
    layer = kind(4, stateful=True)
    plain = kind(4)
    plain(X)
    layer(X[:, :2])
    layer.set_weights(plain.get_weights())
    layer.reset_state()
    layer(X[:, :2])
    np.testing.assert_allclose(layer(X[:, 2:]).numpy(), plain(X).numpy(), rtol=1e-4, atol=1e-6)
    layer.reset_state()
    assert all((v.numpy() == 0).all() for v in layer.states)
    assert len(layer.weights) == 3
    kept = [part for _, part in traverse(layer) if isinstance(part, Variable)]
    assert len(kept) > len(layer.weights)
    with pytest.raises(ShapeError, match="known batch size"):
        kind(4, stateful=True).build((None, 5, 3))


@pytest.mark.parametrize("kind", KINDS)
def test_the_last_state_starts_another_layer(kind):
    first = kind(4, return_state=True)
    second = kind(4)
    _, *state = first(X[:, :3])
    second(X)
    second.set_weights(first.get_weights())
    whole = kind(4)
    whole(X)
    whole.set_weights(first.get_weights())
    np.testing.assert_allclose(
        second(X[:, 3:], initial_state=state).numpy(), whole(X).numpy(), rtol=1e-4, atol=1e-6
    )
    with pytest.raises(InvalidArgumentError, match="initial_state has 3 tensors"):
        second(X, initial_state=[state[0]] * 3)


@pytest.mark.parametrize("kind", KINDS)
def test_backwards_is_the_reversed_sequence(kind):
    layer, mirror = (
        kind(4, return_sequences=True),
        kind(4, return_sequences=True, go_backwards=True),
    )
    layer(X)
    mirror(X)
    mirror.set_weights(layer.get_weights())
    np.testing.assert_allclose(mirror(X).numpy(), layer(X[:, ::-1]).numpy(), rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_masks_stay_through_a_sequence(kind):
    layer = kind(4, dropout=0.5, seed=1, return_sequences=True)
    x = np.ones((1, 6, 30), "float32")
    layer(x)
    cell = layer.cell
    cell.begin_sequence()
    dropped = cell._drop("input", 0.5, ops.ones((1, 6, 30)), True, over_time=True).numpy()
    cell.end_sequence()
    assert (np.ptp(dropped, axis=1) == 0).all()
    assert set(np.unique(dropped)) == {0, 2}
    assert not np.allclose(layer(x, training=True).numpy(), layer(x).numpy())
    np.testing.assert_array_equal(layer(x).numpy(), layer(x).numpy())


class Accumulator(layers.Layer):
    """A user's cell: adds up its inputs."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.state_size = units

    def build(self, input_shape):
        self.kernel = self.add_weight("kernel", (input_shape[-1], self.units))

    def call(self, inputs, states):
        total = states[0] + ops.matmul(inputs, self.kernel)
        return total, [total]


def test_a_users_cell_runs_alone_and_stacked():
    layer = layers.RNN(Accumulator(2))
    y = layer(X).numpy()
    np.testing.assert_allclose(y, X.sum(1) @ layer.get_weights()[0], rtol=1e-4, atol=1e-6)
    stacked = layers.RNN([Accumulator(2), layers.LSTMCell(3)], return_sequences=True)
    assert stacked(X).shape == (2, 5, 3)
    assert len(stacked.weights) == 4
    with pytest.raises(InvalidArgumentError, match="a cell has"):
        layers.RNN(layers.Dense(2))


def test_the_number_of_steps_may_be_unknown_in_a_trace():
    layer = layers.LSTM(2)
    assert layer.compute_output_shape((None, None, 3)) == (None, 2)
    sequences = layers.GRU(2, return_sequences=True)
    assert sequences.compute_output_shape((None, None, 3)) == (None, None, 2)
    signature = [TensorSpec((None, None, 3), "float32")]
    np.testing.assert_array_equal(function(layer, input_signature=signature)(X), layer(X))
    unrolled = layers.RNN(Accumulator(2), unroll=True)
    with pytest.raises(ShapeError, match="number of steps must be known"):
        function(unrolled, input_signature=signature)(X)


@pytest.mark.parametrize("mode", ["concat", "sum", "mul", "ave", None])
def test_bidirectional_joins_both_directions(mode):
    layer = layers.Bidirectional(layers.GRU(2, return_sequences=True), merge_mode=mode)
    y = layer(X)
    a = layer.forward_layer(X).numpy()
    b = layer.backward_layer(X).numpy()[:, ::-1]
    if mode is None:
        np.testing.assert_allclose(y[0].numpy(), a)
        np.testing.assert_allclose(y[1].numpy(), b)
        return
    expected = {
        "concat": np.concatenate([a, b], -1),
        "sum": a + b,
        "mul": a * b,
        "ave": (a + b) / 2,
    }[mode]
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_bidirectional_wants_layers_that_agree():
    with pytest.raises(InvalidArgumentError, match="opposite directions"):
        layers.Bidirectional(layers.GRU(2), backward_layer=layers.GRU(2))
    with pytest.raises(InvalidArgumentError, match="return_state"):
        layers.Bidirectional(
            layers.GRU(2), backward_layer=layers.GRU(2, go_backwards=True, return_state=True)
        )
    with pytest.raises(InvalidArgumentError, match="merge_mode must be one of"):
        layers.Bidirectional(layers.GRU(2), merge_mode="max")


def test_a_layer_lends_its_cells_settings():
    layer = layers.LSTM(4, dropout=0.1, recurrent_activation="hard_sigmoid")
    config = layer.get_config()
    assert (config["units"], config["dropout"]) == (4, 0.1)
    assert config["recurrent_activation"] == "hard_sigmoid"
    assert "cell" not in config
    assert layer.units == 4
    with pytest.raises(AttributeError, match="no attribute 'unitz'"):
        _ = layer.unitz


def test_time_distributed_sees_steps_alone():
    layer = layers.TimeDistributed(layers.Dense(2))
    y = layer(X).numpy()
    np.testing.assert_allclose(y[:, 3], layer.layer(X[:, 3]).numpy(), rtol=1e-5)
    with pytest.raises(ShapeError, match=r"\(batch, steps, ...\)"):
        layers.TimeDistributed(layers.Dense(2))(X[:, 0])


class SumCell(layers.Layer):
    """Adds its input, through a matrix of ones, to its state, which may be bare or a list."""

    def __init__(self, units, bare, size=None, **kwargs):
        super().__init__(**kwargs)
        self.units, self.bare = units, bare
        self.state_size, self.output_size = size or units, units

    def build(self, input_shape):
        self.kernel = self.add_weight(shape=(input_shape[-1], self.units), initializer="ones")

    def call(self, inputs, states):
        assert isinstance(states, list)  # as Keras hands it to cells in a stack
        out = ops.matmul(inputs, self.kernel) + states[0]
        return out, out if self.bare else [out]


def form(state):
    return [form(s) for s in state] if isinstance(state, list | tuple) else tuple(state.shape)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("settings", [{}, {"unroll": True}, {"stateful": True}])
@pytest.mark.parametrize("bare", [True, False])
def test_a_stack_keeps_the_form_of_each_state(bare, settings, masked):
    def cells():
        return [SumCell(3, bare), layers.LSTMCell(2), SumCell(2, bare, size=[2]), layers.GRUCell(3)]

    x = np.arange(24, dtype="float32").reshape(2, 3, 4) / 10
    mask = np.array([[True, True, False], [True, True, True]]) if masked else None
    layer = layers.RNN(cells(), return_state=True, **settings)
    _, *states = layer(x, mask=mask)
    wanted = [(2, 3), [(2, 2), (2, 2)], [(2, 2)], [(2, 3)]]
    assert form(states) == wanted == form(layer.cell.get_initial_state(2))
    sums = np.cumsum(x.sum(-1), axis=1)[:, -1:] - (x[:, 2:].sum(-1) * [[1], [0]] if masked else 0)
    np.testing.assert_allclose(states[0], np.repeat(sums, 3, 1), rtol=1e-5)
    assert form(layer(x, initial_state=states, mask=mask)) == [(2, 3), *wanted]
    traced = function(lambda a: layer(a, initial_state=states, mask=mask))(x)
    assert form(list(traced)) == [(2, 3), *wanted]


@pytest.mark.parametrize("bare", [True, False])
def test_states_of_a_stack_may_be_given_in_another_form(bare):
    layer = layers.RNN([SumCell(3, bare), SumCell(2, bare)], return_state=True, stateful=True)
    x = np.ones((2, 3, 4), "float32")
    start = [np.ones((2, 3), "float32"), np.ones((2, 2), "float32")]
    plain = layer(x, initial_state=start)
    listed = layer(x, initial_state=[[s] for s in start])
    assert form(list(plain)) == [(2, 2), (2, 3), (2, 2)]
    for a, b in zip(nest.flatten(plain), nest.flatten(listed), strict=True):
        np.testing.assert_array_equal(a, b)
    assert form(layer(x)) == [(2, 2), (2, 3), (2, 2)]  # goes on in the cells' own form


class NormalizedCell(layers.Layer):
    """A cell of layers, without a `build` of its own."""

    def __init__(self, units):
        super().__init__()
        self.state_size = self.output_size = units
        self.inner = layers.SimpleRNNCell(units, activation=None)
        self.normalization = layers.LayerNormalization()

    def call(self, inputs, states):
        outputs, _ = self.inner(inputs, states)
        outputs = ops.tanh(self.normalization(outputs))
        return outputs, [outputs]


@pytest.mark.parametrize("stacked", [False, True])
def test_a_users_cell_leaves_its_weights_to_the_layers_inside(stacked):
    cell = NormalizedCell(4)
    layer = layers.RNN([cell, NormalizedCell(2)] if stacked else cell, return_sequences=True)
    drawn = layer(Input((None, 3)))
    assert drawn.shape == (None, None, 2 if stacked else 4)
    assert len(layer.trainable_weights) == (10 if stacked else 5)
    expected, state = [], ops.zeros((2, 4))
    for step in range(5):
        state, _ = cell(X[:, step], [state])
        expected.append(state.numpy())
    if not stacked:
        np.testing.assert_allclose(layer(X).numpy(), np.stack(expected, 1), rtol=1e-5, atol=1e-6)
    compiled = function(lambda x: layer(x))
    np.testing.assert_allclose(compiled(X).numpy(), layer(X).numpy(), rtol=1e-5, atol=1e-6)


def test_a_tensor_shape_is_the_shape_of_one_state():
    class Adding(tk.layers.Layer):
        state_size = tk.TensorShape([2, 3])
        output_size = tk.TensorShape([2, 3])

        def call(self, inputs, states):
            return inputs + states[0], [inputs + states[0]]

    layer = tk.layers.RNN(Adding(), return_state=True)
    total, last = layer(tk.ones((4, 5, 2, 3)))
    assert total.shape == last.shape == (4, 2, 3)
    np.testing.assert_array_equal(total, 5.0)
    again, _ = layer(tk.ones((4, 5, 2, 3)), initial_state=[last])
    np.testing.assert_array_equal(again, 10.0)
    i = tk.keras.Input((5, 2, 3))
    model = tk.keras.Model(i, tk.layers.RNN(Adding())(i))
    np.testing.assert_array_equal(model(tk.ones((1, 5, 2, 3))), 5.0)


def test_a_model_resets_all_its_stateful_layers():
    inner = tk.Sequential([layers.Bidirectional(layers.LSTM(3, stateful=True))])
    model = tk.Sequential([layers.GRU(4, stateful=True, return_sequences=True), inner])
    model.reset_states()  # nothing is kept yet
    first = model(X).numpy()
    assert not np.allclose(model(X).numpy(), first)
    model.reset_states()
    np.testing.assert_array_equal(model(X).numpy(), first)
    tk.Sequential([layers.GRU(4), layers.TextVectorization(vocabulary=["a"])]).reset_states()


@pytest.mark.parametrize("kind", KINDS)
def test_layers_can_be_built_by_the_older_name_of_the_shape(kind):
    layer = kind(4)
    layer.build(input_shape=(None, None, 5))
    assert layer.weights[0].shape[0] == 5
    assert layer.compute_output_shape((2, 3, 5)) == (2, 4)
    both = layers.Bidirectional(kind(4))
    both.build(input_shape=(None, 3, 5))
    assert both.built
    with pytest.raises(TypeError, match="unexpected keyword argument 'shape'"):
        kind(4).build(shape=(None, 3, 5))


def test_cells_of_layers_have_the_names_of_keras():
    for kind, cell in (
        ("LSTM", "lstm_cell"),
        ("GRU", "gru_cell"),
        ("SimpleRNN", "simple_rnn_cell"),
    ):
        for _ in range(2):
            layer = getattr(tk.layers, kind)(2)
            layer.build((None, 3, 4))
            assert layer.weights[0].path == f"{layer.name}/{cell}/kernel"
