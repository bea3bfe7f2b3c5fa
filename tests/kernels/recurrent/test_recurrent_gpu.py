"""LSTM and GRU on a GPU: the values of their kernels against the reference."""

import ml_dtypes
import numpy as np
import pytest

import trainkit as tk
from tests.stand_in.kernels import has_compiler
from trainkit.core import devices
from trainkit.kernels.recurrent import recurrent_gpu, recurrent_reference
from trainkit.ops.neural import recurrence

pytestmark = pytest.mark.skipif(not has_compiler(), reason="no g++ for this machine is here")

NEAR = {"float32": 1e-5, "float64": 1e-12, "float16": 1e-2, "bfloat16": 6e-2}
DTYPES = pytest.mark.parametrize(
    "dtype",
    [np.float32, np.float64, np.float16, ml_dtypes.bfloat16],
    ids=lambda d: np.dtype(d).name,
)
SIZES = pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 1, 33), (5, 4, 7), (33, 3, 31)], ids=str)
"""Batch, steps and units."""


@pytest.fixture
def xp(any_gpu):
    return devices.parse("/gpu:0").xp


def numbers(rng, dtype, *shape, size=1.0):
    return (size * rng.normal(size=shape)).astype(dtype)


def wide(*arrays):
    return [None if a is None else a.astype(np.float64) for a in arrays]


def on(xp, *arrays):
    return [None if a is None else xp.asarray(a) for a in arrays]


def assert_near(found, wanted, dtype):
    near = NEAR[np.dtype(dtype).name]
    for a, b in zip(found, wanted, strict=True):
        assert a.dtype == dtype
        scale = max(1.0, float(np.abs(b).max()))
        np.testing.assert_allclose(a.get().astype(np.float64), b, atol=near * scale)


@DTYPES
@SIZES
@pytest.mark.parametrize("with_memory", [True, False])
def test_lstm(rng, xp, dtype, sizes, with_memory):
    batch, steps, units = sizes
    projected = numbers(rng, dtype, batch, steps, 4 * units)
    h, c = numbers(rng, dtype, batch, units), numbers(rng, dtype, batch, units)
    kernel = numbers(rng, dtype, units, 4 * units, size=0.5 / units**0.5)
    given = projected, h, c, kernel
    found = recurrent_gpu.lstm(xp, *on(xp, *given))
    wanted = recurrent_reference.lstm(np, *wide(*given))
    assert_near(found, wanted, dtype)
    g = numbers(rng, dtype, batch, steps, units)
    by_memory = numbers(rng, dtype, batch, steps, units) if with_memory else None
    given = g, by_memory, h, c, kernel, *(a.astype(dtype) for a in wanted)
    found = recurrent_gpu.lstm_gradient(xp, *on(xp, *given))
    assert_near(found, recurrent_reference.lstm_gradient(np, *wide(*given)), dtype)


@DTYPES
@SIZES
@pytest.mark.parametrize("kind", ["bias", "no bias", "before"])
def test_gru(rng, xp, dtype, sizes, kind):
    batch, steps, units = sizes
    reset_after = kind != "before"
    projected = numbers(rng, dtype, batch, steps, 3 * units)
    h = numbers(rng, dtype, batch, units)
    kernel = numbers(rng, dtype, units, 3 * units, size=0.5 / units**0.5)
    bias = numbers(rng, dtype, 3 * units) if kind == "bias" else None
    given = projected, h, kernel, bias
    found = recurrent_gpu.gru(xp, *on(xp, *given), reset_after)
    wanted = recurrent_reference.gru(np, *wide(*given), reset_after)
    assert_near(found, wanted, dtype)
    g = numbers(rng, dtype, batch, steps, units)
    given = g, h, kernel, *(a.astype(dtype) for a in wanted)
    found = recurrent_gpu.gru_gradient(xp, *on(xp, *given), reset_after)
    assert_near(found, recurrent_reference.gru_gradient(np, *wide(*given), reset_after), dtype)


@pytest.mark.parametrize("shape", [(0, 3, 8), (2, 0, 8)])
def test_nothing_to_do_is_left_to_the_reference(xp, shape):
    batch, _, _ = shape
    projected, h, kernel = xp.zeros(shape), xp.zeros((batch, 2)), xp.zeros((2, 8))
    assert recurrent_gpu.lstm(xp, projected, h, h, kernel) is None


# ------------------------------------------------------------------ the operations


def gru_before(*inputs):
    return (recurrence.gru(*inputs, reset_after=False),)


CALLS = {
    "lstm": (lambda *inputs: recurrence.lstm(*inputs), 4, 2),
    "gru": (lambda *inputs: (recurrence.gru(*inputs),), 3, 1),
    "gru, reset before": (gru_before, 3, 1),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("compiled", [False, True])
def test_the_operation_gives_what_the_cpu_gives(rng, name, compiled, device):
    function, gates, states = CALLS[name]
    units = 5
    given = [rng.normal(size=(3, 4, gates * units)).astype(np.float32)]
    given += [rng.normal(size=(3, units)).astype(np.float32) for _ in range(states)]
    given += [0.3 * rng.normal(size=(units, gates * units)).astype(np.float32)]
    weights = rng.normal(size=(3, 4, units)).astype(np.float32)

    def step(weights, *inputs):
        with tk.GradientTape() as tape:
            tape.watch(inputs)
            results = function(*inputs)
            loss = sum(tk.reduce_sum(y * weights) for y in results)
        return (*results, *tape.gradient(loss, inputs))

    def results(where):
        with tk.device(where):
            arrays = [tk.constant(a) for a in (weights, *given)]
            run = tk.function(step) if compiled else step
            run(*arrays)
            return [y.numpy() for y in run(*arrays)]  # the second call

    for found, wanted in zip(results(device), results("/cpu:0"), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("layer", [tk.layers.LSTM, tk.layers.GRU])
def test_a_layer_takes_inputs_that_are_a_view(rng, layer, device):
    x = rng.normal(size=(4, 3, 6)).astype(np.float32)

    def result(where):
        tk.random.set_seed(1)
        with tk.device(where):
            made = layer(5, return_sequences=True)
            return made(tk.transpose(tk.constant(x), (1, 0, 2))).numpy()

    np.testing.assert_allclose(result(device), result("/cpu:0"), rtol=1e-4, atol=1e-5)
