"""Masks and loops of recurrent layers: the numbers of a plain walk, in graphs that stay short."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import layers, ops
from trainkit.layers.rnn.packed_steps import PackedSteps

RNG = np.random.default_rng(3)
X = RNG.normal(size=(4, 6, 3)).astype("float32")
MASK = np.array(
    [
        [True, True, False, True, False, True],
        [False, False, True, True, True, False],
        [False] * 6,
        [True, True, True, False, False, False],
    ]
)


def _stacked_cells(dtype):
    cells = [layers.LSTMCell(4, dtype=dtype), layers.GRUCell(3, dtype=dtype)]
    return layers.StackedRNNCells(cells, dtype=dtype)


CELLS = {
    "lstm": lambda **more: layers.LSTM(4, **more),
    "gru": lambda **more: layers.GRU(4, **more),
    "gru before": lambda **more: layers.GRU(4, reset_after=False, **more),
    "rnn": lambda **more: layers.SimpleRNN(4, **more),
    "rnn relu": lambda **more: layers.SimpleRNN(4, activation="relu", **more),
    "lstm relu": lambda **more: layers.LSTM(4, activation="relu", **more),
    "stacked": lambda dtype=None, **more: layers.RNN(_stacked_cells(dtype), dtype=dtype, **more),
}


def walked(layer, x, mask, states):
    """Outputs and last states by the cell's own steps, one sample and one step after the other."""
    zero, results, last = layer.zero_output_for_mask, [], []
    for n in range(len(x)):
        state, rows = [s[n : n + 1] for s in states], []
        before = None
        for t in range(x.shape[1])[:: -1 if layer.go_backwards else 1]:
            output, new = layer.cell(x[n : n + 1, t], state)
            if mask[n, t]:
                state, before = new, output
                rows.append(output)
            else:
                held = ops.zeros_like(output) if zero or before is None else before
                rows.append(held)
        results.append(np.concatenate(rows)[None])
        last.append([np.asarray(s) for s in tk.nest.flatten(state)])
    outputs = np.concatenate(results)
    ends = [np.concatenate(parts) for parts in zip(*last, strict=True)]
    return (outputs if layer.return_sequences else outputs[:, -1]), ends


@pytest.mark.parametrize("name", [n for n in CELLS if n != "stacked"])
@pytest.mark.parametrize("go_backwards", [False, True])
@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("return_sequences", [False, True])
def test_masked_steps_are_left_out(name, go_backwards, zero, return_sequences):
    layer = CELLS[name](
        return_sequences=return_sequences,
        return_state=True,
        go_backwards=go_backwards,
        zero_output_for_mask=zero,
    )
    layer(X)
    states = [RNG.normal(size=(4, 4)).astype("float32") for _ in layer.state_size]
    output, ends = walked(layer, X, MASK, [tk.constant(s) for s in states])
    run = tk.function(lambda x: layer(x, mask=MASK, initial_state=list(states)), jit_compile=False)
    eager, traced = layer(X, mask=MASK, initial_state=list(states)), run(X)
    for a, b, c in zip(eager, traced, [output, *ends], strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(a, c, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("return_sequences", [False, True])
def test_gradients_match_central_differences_and_are_the_same_in_graphs(name, return_sequences):
    layer = CELLS[name](return_sequences=return_sequences, dtype="float64")
    x, step = X.astype("float64"), 1e-5
    layer(x)
    for i, w in enumerate(layer.trainable_variables):
        w.assign(np.random.default_rng(i).normal(size=w.shape) * 0.4)

    def total(x):
        y = layer(x, mask=MASK)
        return tk.reduce_sum(y * y)

    def slopes(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = total(x)
        return tape.gradient(y, [x, *layer.trainable_variables])

    gradients = slopes(tk.constant(x))
    for a, b in zip(gradients, tk.function(slopes, jit_compile=False)(tk.constant(x)), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(np.asarray(gradients[0])[~MASK], 0)
    way = np.random.default_rng(9).normal(size=x.shape)
    measured = (float(total(x + step * way)) - float(total(x - step * way))) / (2 * step)
    assert measured == pytest.approx(float(np.sum(gradients[0] * way)), rel=1e-6)
    for w, g in zip(layer.trainable_variables, gradients[1:], strict=True):
        start, way = w.numpy(), np.random.default_rng(9).normal(size=w.shape)
        ends = []
        for sign in (1, -1):
            w.assign(start + sign * step * way)
            ends.append(float(total(x)))
        w.assign(start)
        assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(float(np.sum(g * way)), rel=1e-5)


def node_count(layer, steps):
    signature = tk.TensorSpec([4, steps, 3]), tk.TensorSpec([4, steps], tk.bool)
    f = tk.function(lambda x, mask: layer(x, mask=mask), input_signature=signature)
    return len(f.get_concrete_function().graph.nodes)


@pytest.mark.parametrize("name", CELLS)
def test_the_graph_does_not_grow_with_the_steps(name):
    layer = CELLS[name]()
    layer(X)
    assert node_count(layer, 6) == node_count(layer, 60)


def test_the_graph_of_a_convolutional_lstm_does_not_grow_with_the_steps():
    layer = layers.ConvLSTM1D(2, 3, padding="same", return_sequences=True)
    x = RNG.normal(size=(4, 6, 5, 2)).astype("float32")
    eager = layer(x, mask=MASK)
    f = tk.function(lambda x: layer(x, mask=MASK), jit_compile=False)
    np.testing.assert_array_equal(f(x), eager)
    counts = []
    for steps in (6, 60):
        g = tk.function(layer, input_signature=[tk.TensorSpec([4, steps, 5, 2])])
        counts.append(len(g.get_concrete_function().graph.nodes))
    assert counts[0] == counts[1]


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("return_sequences", [False, True])
def test_batch_and_steps_may_be_unknown(name, return_sequences):
    layer = layers.Bidirectional(CELLS[name](return_sequences=return_sequences))
    signature = tk.TensorSpec([None, None, 3]), tk.TensorSpec([None, None], tk.bool)
    f = tk.function(lambda x, mask: layer(x, mask=mask), signature, jit_compile=False)
    layer(X)
    for steps in (6, 1, 4):
        x, mask = X[:3, :steps], MASK[:3, :steps]
        np.testing.assert_array_equal(f(x, mask), layer(x, mask=mask))


@pytest.mark.parametrize("name", CELLS)
def test_dropped_inputs_and_states_are_the_same_in_a_loop(name):
    if name == "stacked":
        cells = [layers.LSTMCell(4, dropout=0.3, recurrent_dropout=0.4, seed=5)]
        layer = layers.RNN(cells)
    else:
        layer = CELLS[name](dropout=0.3, recurrent_dropout=0.4, seed=5)
    layer(X)
    twin = type(layer).from_config(layer.get_config())
    twin(X)
    twin.set_weights(layer.get_weights())
    f = tk.function(lambda x: twin(x, mask=MASK, training=True), jit_compile=False)
    for _ in range(2):
        y = layer(X, mask=MASK, training=True)
        np.testing.assert_allclose(f(X), y, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("name", ["lstm", "gru", "rnn"])
def test_mixed_precision_keeps_its_dtype(name, policy):
    layer = CELLS[name](return_sequences=True, return_state=True, dtype=policy)
    f = tk.function(lambda x: layer(x, mask=MASK), jit_compile=False)
    for a, b in zip(layer(X, mask=MASK), f(X), strict=True):
        assert a.dtype == layer.compute_dtype
        np.testing.assert_array_equal(ops.cast(a, "float32"), ops.cast(b, "float32"))


@pytest.mark.parametrize("name", ["lstm", "gru", "rnn"])
def test_a_stateful_layer_keeps_the_state_of_the_last_step_that_counts(name):
    layer = CELLS[name](stateful=True)
    plain = CELLS[name](return_state=True)
    plain(X)
    layer(X)
    layer.set_weights(plain.get_weights())
    layer.reset_state()
    layer(X, mask=MASK)
    for kept, state in zip(layer.states, plain(X, mask=MASK)[1:], strict=True):
        np.testing.assert_array_equal(kept, state)
    assert np.all(layer.states[0].numpy()[2] == 0)


def test_numbers_at_masked_steps_do_not_matter():
    layer = layers.LSTM(4)
    y = layer(X, mask=MASK)
    broken = np.where(MASK[..., None], X, np.nan)
    with tk.GradientTape() as tape:
        z = layer(broken, mask=MASK)
    np.testing.assert_array_equal(z, y)
    for g in tape.gradient(z, layer.trainable_variables):
        assert np.isfinite(g.numpy()).all()


class WithLoss(layers.Layer):
    """A cell that adds a loss at each step."""

    def __init__(self):
        super().__init__()
        self.state_size = 3

    def call(self, inputs, states):
        self.add_loss(tk.reduce_sum(inputs))
        return inputs + states[0], [inputs + states[0]]


def test_losses_of_each_step_reach_the_layer_in_a_graph():
    layer = layers.RNN(WithLoss())
    layer(X)

    @tk.function(jit_compile=False)
    def total(x):
        layer(x)
        return tk.add_n(layer.losses)

    assert float(total(X)) == pytest.approx(float(X.sum()), rel=1e-4)


def test_packing_moves_kept_steps_to_the_front():
    packed = PackedSteps(tk.constant(MASK), go_backwards=False)
    rows = np.asarray(packed.pack(tk.constant(X)))
    np.testing.assert_array_equal(rows[1, :3], X[1, 2:5])
    assert not rows[1, 3:].any()
    backwards = PackedSteps(tk.constant(MASK), go_backwards=True).pack(tk.constant(X))
    np.testing.assert_array_equal(backwards[1, :3], X[1, 4:1:-1])
