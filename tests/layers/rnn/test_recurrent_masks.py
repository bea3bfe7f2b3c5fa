"""Recurrent layers with masks, states and steps as Keras has them."""

import numpy as np
import pytest

from trainkit import keras
from trainkit.keras import layers

X = np.random.default_rng(0).normal(size=(2, 5, 3)).astype("float32")
MASK = np.array([[True, True, False, True, False], [False, False, True, True, True]])
KINDS = [layers.SimpleRNN, layers.LSTM, layers.GRU]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("merge_mode", ["concat", "sum", "mul", "ave", None])
def test_bidirectional_outputs_are_zero_at_masked_steps(kind, merge_mode):
    layer = layers.Bidirectional(kind(4, return_sequences=True), merge_mode=merge_mode)
    masked = layers.Masking()(np.where(MASK[..., None], X, 0))
    for y in (layer(X, mask=MASK), layer(masked)):
        for part in y if merge_mode is None else [y]:
            assert np.all(part.numpy()[~MASK] == 0)
            assert np.all(part.numpy()[MASK] != 0)


@pytest.mark.parametrize("kind", KINDS)
def test_masked_steps_count_as_if_they_were_not_there(kind):
    layer = layers.Bidirectional(kind(4, return_sequences=True))
    y = layer(X, mask=MASK)
    for sample in range(2):
        kept = MASK[sample]
        alone = layer(X[sample : sample + 1, kept])
        np.testing.assert_allclose(y[sample].numpy()[kept], alone[0], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", [*KINDS, lambda n: layers.RNN(layers.LSTMCell(n))])
def test_sequences_have_steps(kind):
    with pytest.raises(ValueError, match="at least one step"):
        kind(4)(X[:, :0])
    assert kind(4)(X[:0]).shape == (0, 4)


def test_a_stateful_layer_keeps_its_batch_size():
    layer = layers.LSTM(4, stateful=True)
    layer(X)
    with pytest.raises(ValueError, match="batch size"):
        layer(X[:1])


@pytest.mark.parametrize("kind", KINDS)
def test_implementation_and_cudnn_are_taken_and_change_nothing(kind):
    layer = kind(3, implementation=1)
    more = {} if kind is layers.SimpleRNN else {"use_cudnn": True}
    other = kind(3, implementation=0, **more)
    layer(X), other(X)
    other.set_weights(layer.get_weights())
    np.testing.assert_array_equal(layer(X), other(X))
    with pytest.raises(ValueError, match="implementation"):
        kind(3, implementation=5)


def test_states_of_stacked_cells_are_lists():
    cells = [layers.LSTMCell(4), layers.GRUCell(3)]
    layer = layers.RNN(cells, return_state=True)
    _, first, second = layer(X, mask=MASK)
    assert [s.shape for s in first] == [(2, 4), (2, 4)]
    assert [s.shape for s in second] == [(2, 3)]
    again = layer(X, initial_state=[first, second[0]], mask=MASK)
    np.testing.assert_allclose(again[0], layer(X, initial_state=[first, second], mask=MASK)[0])


@pytest.mark.parametrize("shape", [(2, 6), (3, 5), (3, 6), (2, 6, 2), (2,)])
def test_time_distributed_refuses_masks_of_other_steps(shape):
    layer = layers.TimeDistributed(layers.Dense(2))
    with pytest.raises(ValueError, match="batch and steps of the mask"):
        layer(X, mask=np.ones(shape, bool))
    assert layer(X, mask=np.ones((2, 5, 2), bool)).shape == (2, 5, 2)


def test_each_step_is_a_batch_of_its_own_where_a_layer_counts_batches():
    x = X + np.arange(5)[:, None]
    y = layers.TimeDistributed(layers.BatchNormalization(epsilon=0))(x, training=True)
    want = (x - x.mean(axis=0)) / x.std(axis=0)
    np.testing.assert_allclose(y, want, rtol=1e-3, atol=1e-4)


def test_a_convolutional_lstm_has_strides_or_dilation():
    with pytest.raises(ValueError, match="can't both be above 1"):
        layers.ConvLSTM2D(1, 1, strides=2, dilation_rate=3)
    assert layers.ConvLSTM1D(1, 1, strides=2).cell.strides == (2,)


def test_a_recurrent_layer_is_read_from_a_config_with_a_policy():
    layer = layers.Bidirectional(layers.GRU(3, dtype="mixed_float16"), dtype="mixed_float16")
    config = keras.layers.serialize(layer)
    assert config["config"]["dtype"]["class_name"] == "DTypePolicy"
    again = keras.layers.deserialize(config)
    assert again.forward_layer.compute_dtype == "float16"
