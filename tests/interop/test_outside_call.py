"""Calls of code that records nothing: here NumPy's, which stands for that of another library."""

import numpy as np
import pytest

import trainkit as tk
from tests.interop.derivatives import second_derivative
from trainkit.core.shapes import Spec
from trainkit.layers.foreign.outside_call import call_outside


class Cubes(tk.layers.Layer):
    """Cubes times a weight; it counts how often each half runs."""

    def __init__(self):
        super().__init__()
        self.scale = self.add_weight(name="scale", initializer="ones")
        self.forward_count = self.backward_count = 0

    def call(self, x):
        inputs = [x, self.scale.value()]
        return call_outside("cubes", self.forward, self.backward, inputs, [Spec(x.shape, x.dtype)])[
            0
        ]

    def forward(self, x, scale):
        self.forward_count += 1
        return [tk.constant(scale.numpy() * x.numpy() ** 3)]

    def backward(self, result, upstream, x, scale):
        self.backward_count += 1
        gx = upstream.numpy() * scale.numpy() * 3 * x.numpy() ** 2
        return [tk.constant(gx), tk.constant(np.sum(upstream.numpy() * x.numpy() ** 3))]


@pytest.mark.parametrize("in_graph", [False, True])
def test_each_half_runs_once_for_gradients(in_graph):
    layer = Cubes()

    def gradients(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = layer(x)
        return tape.gradient(y, [x, layer.scale])

    gx, gw = (tk.function(gradients) if in_graph else gradients)(tk.constant([1.0, 2.0]))
    np.testing.assert_array_equal(gx.numpy(), [3.0, 12.0])
    assert float(gw) == 9.0
    assert (layer.forward_count, layer.backward_count) == (1, 1)


def test_fit_moves_the_weight():
    model = tk.Sequential([tk.Input((1,)), Cubes()])
    model.compile(tk.optimizers.SGD(0.1), "mse")
    x = np.linspace(-1, 1, 8, dtype="float32")[:, None]
    model.fit(x, 2 * x**3, epochs=60, batch_size=4, verbose=0)
    np.testing.assert_allclose(model.get_weights()[0], 2.0, atol=0.05)


@pytest.mark.parametrize("in_graph", [False, True])
def test_second_derivatives_are_refused(in_graph):
    with pytest.raises(tk.errors.UnimplementedError, match="'cubes': a second derivative"):
        second_derivative(Cubes(), in_graph)
