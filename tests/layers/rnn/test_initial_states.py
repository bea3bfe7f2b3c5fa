"""Cells of users that make their first state of a batch size which is not known while drawing."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import layers, ops

X = np.random.default_rng(0).normal(size=(5, 4, 3)).astype("float32")
Y = np.ones((5, 1), "float32")

STARTS = {
    "ones": lambda batch, n: ops.ones((batch, n)),
    "full": lambda batch, n: ops.full((batch, n), 2.0),
    "fill": lambda batch, n: tk.fill([batch, n], 2.0),
    "normal": lambda batch, n: tk.keras.random.normal((batch, n)),
    "tile": lambda batch, n: ops.tile(ops.ones((1, n)), (batch, 1)),
    "broadcast": lambda batch, n: ops.broadcast_to(ops.ones((1, n)), (batch, n)),
    "repeat": lambda batch, n: ops.repeat(ops.ones((1, n)), batch, axis=0),
    "reshape": lambda batch, n: ops.reshape(ops.ones((batch * n,)), (batch, n)),
    "eye": lambda batch, n: ops.eye(batch, n),
    "stack": lambda batch, n: ops.stack([ops.ones((batch,))] * n, axis=1),
}


class Adding(layers.Layer):
    """A cell that adds up the steps, beginning with what `start` gives."""

    start = None

    def __init__(self, units=2, **kwargs):
        super().__init__(**kwargs)
        self.state_size = units

    def call(self, x, states):
        y = states[0] + ops.sum(x, axis=-1, keepdims=True)
        return y, [y]

    def get_initial_state(self, batch_size=None):
        return [type(self).start(batch_size, self.state_size)]

    def get_config(self):
        return {**super().get_config(), "units": self.state_size}


def layer_of(how, start):
    def cell():
        return type("Own", (Adding,), {"start": staticmethod(start), "__module__": __name__})()

    if how == "bidirectional":
        return layers.Bidirectional(layers.RNN(cell()), merge_mode="sum")
    if how == "stacked":
        return layers.RNN([cell(), cell()])
    return layers.RNN(cell(), unroll=how == "unrolled")


@pytest.mark.parametrize("how", ["plain", "unrolled", "stacked", "bidirectional"])
@pytest.mark.parametrize("start", STARTS)
def test_models_are_drawn_trained_and_run(how, start):
    """The last batch is smaller than the others."""
    x = tk.Input((4, 3))
    layer = layer_of(how, STARTS[start])
    model = tk.Model(x, layers.Dense(1)(layer(x)))
    model.compile("sgd", "mse")
    model.fit(X, Y, batch_size=2, epochs=3, verbose=0)
    assert model.predict(X, batch_size=2, verbose=0).shape == (5, 1)
    if start in ("ones", "full", "tile") and how == "plain":
        first = 2.0 if start == "full" else 1.0
        wanted = np.repeat(first + X.sum((1, 2))[:, None], 2, 1)
        for found in (layer(X), tk.Model(x, layer(x)).predict(X, batch_size=2, verbose=0)):
            np.testing.assert_allclose(found, wanted, 1e-5)
