"""The first state of a recurrent layer is made where its inputs are."""

import numpy as np
import pytest

import trainkit as tk
from tests import stand_in

SEQUENCES = tk.ones((2, 3, 5)).numpy()
LAYERS = {
    "LSTM": lambda **more: tk.layers.LSTM(4, **more),
    "GRU": lambda **more: tk.layers.GRU(4, **more),
    "SimpleRNN": lambda **more: tk.layers.SimpleRNN(4, **more),
    "a stack of cells": lambda **more: tk.layers.RNN(
        [tk.layers.LSTMCell(4), tk.layers.GRUCell(4)], **more
    ),
    "a bidirectional one": lambda **more: tk.layers.Bidirectional(tk.layers.LSTM(4, **more)),
}
PLACES = [("/cpu:0", "/gpu:0"), ("/gpu:0", "/cpu:0")]


@pytest.fixture
def gpu():
    with stand_in.in_place():
        yield


@pytest.mark.parametrize("unroll", [False, True])
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize(("lies", "current"), PLACES)
def test_layers_of_sequences(gpu, name, unroll, lies, current):
    layer = LAYERS[name](unroll=unroll, return_sequences=True)
    with tk.device(lies):
        x = tk.constant(SEQUENCES)
        wanted = layer(x)
    with tk.device(current):
        y = layer(x)
    assert y.device == x.device
    np.testing.assert_array_equal(y.numpy(), wanted.numpy())


@pytest.mark.parametrize(("lies", "current"), PLACES)
def test_layers_of_sequences_of_images(gpu, lies, current):
    layer = tk.layers.ConvLSTM1D(2, 3)
    with tk.device(lies):
        x = tk.ones((2, 3, 6, 1))
        wanted = layer(x)
    with tk.device(current):
        y = layer(x)
    assert y.device == x.device
    np.testing.assert_array_equal(y.numpy(), wanted.numpy())


@pytest.mark.parametrize(("lies", "current"), PLACES)
def test_stateful_layers(gpu, lies, current):
    layer = tk.layers.GRU(4, stateful=True)
    with tk.device(lies):
        x = tk.constant(SEQUENCES)
        wanted = layer(x)
        layer.reset_state()
    with tk.device(current):
        y = layer(x)
    assert y.device == x.device
    np.testing.assert_array_equal(y.numpy(), wanted.numpy())
