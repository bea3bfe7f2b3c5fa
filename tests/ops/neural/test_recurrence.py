"""LSTM and GRU over sequences against their formulas, step by step."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.ops.neural.recurrence import gru, lstm


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_lstm_goes_step_by_step(rng, dtype):
    x, h, c = rng.normal(size=(2, 4, 12)), rng.normal(size=(2, 3)), rng.normal(size=(2, 3))
    kernel = rng.normal(size=(3, 12))
    x, h, c, kernel = (a.astype(dtype) for a in (x, h, c, kernel))
    hidden, memory = lstm(x, h, c, kernel)
    assert hidden.dtype.name == memory.dtype.name == dtype
    tolerance = 2e-2 if dtype == "float16" else 1e-5
    for t in range(4):
        i, f, g, o = np.split(x[:, t] + h @ kernel, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        np.testing.assert_allclose(hidden.numpy()[:, t], h, atol=tolerance)
        np.testing.assert_allclose(memory.numpy()[:, t], c, atol=tolerance)


@pytest.mark.parametrize("with_bias", [True, False])
def test_gru_goes_step_by_step(rng, with_bias):
    x, h = rng.normal(size=(2, 4, 9)), rng.normal(size=(2, 3))
    kernel, bias = rng.normal(size=(3, 9)), rng.normal(size=9) if with_bias else None
    hidden = gru(x, h, kernel, bias).numpy()
    for t in range(4):
        inner = np.split(h @ kernel + (0 if bias is None else bias), 3, axis=1)
        outer = np.split(x[:, t], 3, axis=1)
        z, r = sigmoid(outer[0] + inner[0]), sigmoid(outer[1] + inner[1])
        h = z * h + (1 - z) * np.tanh(outer[2] + r * inner[2])
        np.testing.assert_allclose(hidden[:, t], h, atol=1e-12)


def test_gru_with_the_reset_gate_before_the_product(rng):
    x, h, kernel = rng.normal(size=(2, 4, 9)), rng.normal(size=(2, 3)), rng.normal(size=(3, 9))
    hidden = gru(x, h, kernel, reset_after=False).numpy()
    for t in range(4):
        outer = np.split(x[:, t], 3, axis=1)
        z, r = (sigmoid(outer[i] + h @ kernel[:, 3 * i : 3 * i + 3]) for i in range(2))
        h = z * h + (1 - z) * np.tanh(outer[2] + (r * h) @ kernel[:, 6:])
        np.testing.assert_allclose(hidden[:, t], h, atol=1e-12)


def test_gru_with_the_reset_gate_before_the_product_has_one_bias():
    h = np.ones((2, 3))
    with pytest.raises(InvalidArgumentError, match="recurrent_bias must be None"):
        gru(np.ones((2, 4, 9)), h, np.ones((3, 9)), np.ones(9), reset_after=False)


def test_memory_that_nobody_looks_at_sends_nothing_back(rng):
    inputs = [rng.normal(size=s) for s in ((2, 4, 12), (2, 3), (2, 3), (3, 12))]
    inputs = [tk.constant(x) for x in inputs]

    def gradients(of):
        with tk.GradientTape() as tape:
            tape.watch(inputs)
            y = of(*lstm(*inputs))
        return tape.gradient(y, inputs)

    alone = gradients(lambda hidden, memory: hidden * hidden)
    both = gradients(lambda hidden, memory: hidden * hidden + 0.0 * memory)
    for a, b in zip(alone, both, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)
    only = gradients(lambda hidden, memory: memory)
    both = gradients(lambda hidden, memory: 0.0 * hidden + memory)
    for a, b in zip(only, both, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)


def test_shapes_that_do_not_fit_are_shown():
    h = np.ones((2, 3))
    with pytest.raises(ShapeError, match=r"kernel +\(3, 9\)"):
        lstm(np.ones((2, 4, 12)), h, h, np.ones((3, 9)))
    with pytest.raises(ShapeError, match=r"state 0 +\(5, 3\)"):
        gru(np.ones((2, 4, 9)), np.ones((5, 3)), np.ones((3, 9)))
