"""What is not finite goes through kernels without a word of NumPy's."""

import warnings

import numpy as np
import pytest

import trainkit as tk

pytestmark = pytest.mark.usefixtures("on_cpu", "eager")


@pytest.mark.parametrize(
    "layer",
    [
        lambda: tk.layers.Conv2D(16, 3, strides=2, use_bias=False),
        lambda: tk.layers.DepthwiseConv2D(3, use_bias=False),
        lambda: tk.layers.LayerNormalization(),
    ],
    ids=["conv", "depthwise", "normalization"],
)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_parts_of_a_gradient_that_are_infinite_with_either_sign_warn_of_nothing(layer, dtype):
    layer = layer()
    x = tk.cast(np.ones((8, 60, 60, 3), "float32"), dtype)
    with tk.GradientTape() as tape:
        y = tk.cast(layer(x), "float32")
    g = np.ones(y.shape, "float32")
    g[:4], g[4:] = np.inf, -np.inf
    with warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", module="numpy")
        gradients = tape.gradient(y, layer.trainable_variables, tk.constant(g))
    assert not [str(w.message) for w in caught]
    assert np.isnan(gradients[-1].numpy()).all()
