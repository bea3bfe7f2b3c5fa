"""Normalization of inputs that lie on another device than what the layer learned."""

import numpy as np
import pytest

import trainkit as tk
from tests import stand_in

ROWS = np.random.default_rng(0).normal(3.0, 2.0, (6, 4)).astype("float32")
LAYERS = {
    "learned": lambda: tk.layers.Normalization(),
    "given": lambda: tk.layers.Normalization(mean=3.0, variance=4.0),
    "inverted": lambda: tk.layers.Normalization(invert=True),
}


def layer_of(name):
    layer = LAYERS[name]()
    if name != "given":
        layer.adapt(ROWS)
    return layer


@pytest.fixture
def gpu():
    with stand_in.in_place():
        yield


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize(("lies", "current"), [("/cpu:0", "/gpu:0"), ("/gpu:0", "/cpu:0")])
def test_inputs_of_another_device(gpu, name, lies, current):
    with tk.device(lies):
        x = tk.constant(ROWS)
    with tk.device(current):
        layer = layer_of(name)
        wanted = layer(ROWS)
        y = layer(x)
    assert y.device == x.device
    assert wanted.device != x.device
    np.testing.assert_allclose(y.numpy(), wanted.numpy(), rtol=1e-6)


@pytest.mark.parametrize("name", LAYERS)
def test_in_the_map_of_a_data_set(gpu, name):
    layer = layer_of(name)
    rows = tk.data.Dataset.from_tensor_slices(ROWS).batch(4).map(layer)
    found = np.concatenate(list(rows.as_numpy_iterator()))
    np.testing.assert_allclose(found, layer(ROWS).numpy(), rtol=1e-6)
