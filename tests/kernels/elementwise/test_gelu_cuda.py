"""The error function and Gaussian error linear units by kernels of a GPU."""

import numpy as np
import pytest

import trainkit as tk
from tests.stand_in.kernels import has_compiler
from trainkit.ops.neural import gated_activations as module

FUNCTIONS = {
    "error_function": lambda g, x: tk.math.erf(x),
    "gelu_erf": lambda g, x: module.gelu_erf(x),
    "gelu_erf_back": lambda g, x: module.gelu_erf_gradient(g, x),
    "gelu_tanh": lambda g, x: module.gelu_tanh(x),
    "gelu_tanh_back": lambda g, x: module.gelu_tanh_gradient(g, x),
}
NEAR = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-6, "float64": 1e-14}
pytestmark = pytest.mark.skipif(not has_compiler(), reason="g++ is not here")


@pytest.fixture
def launches(inside, kernel_names):
    return kernel_names


def numbers(dtype):
    x = np.concatenate([np.linspace(-6, 6, 301), [0.0, -0.0, np.inf, -np.inf, np.nan]])
    return tk.cast(tk.constant(np.resize(x, (17, 20))), dtype)


@pytest.mark.usefixtures("any_gpu")
@pytest.mark.parametrize("dtype", NEAR)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_are_those_of_the_cpu(name, dtype):
    found = []
    for device in ("/cpu:0", "/gpu:0"):
        with tk.device(device):
            x = numbers(dtype)
            found.append(FUNCTIONS[name](tk.cast(tk.ones_like(x) * 3, dtype), x))
    assert found[0].dtype == found[1].dtype == dtype
    here, there = (tk.cast(y, "float64").numpy() for y in found)
    np.testing.assert_allclose(there, here, rtol=NEAR[dtype], atol=6 * NEAR[dtype])


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_each_is_one_launch(launches, name, dtype):
    x = numbers(dtype)
    FUNCTIONS[name](x, x)
    assert launches == [name]
    FUNCTIONS[name](tk.transpose(x), tk.transpose(x))
    assert launches == [name] * 2


@pytest.mark.parametrize("name", ["gelu_erf_back", "gelu_tanh_back"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_one_row_for_all_has_the_bits_of_each_row_by_itself(launches, name, dtype):
    rows = numbers(dtype)
    one = tk.cast(tk.linspace(-1.0, 2.0, rows.shape[1]), dtype)
    for together, by_itself in (
        (FUNCTIONS[name](rows, one), [FUNCTIONS[name](row, one) for row in rows]),
        (FUNCTIONS[name](one, rows), [FUNCTIONS[name](one, row) for row in rows]),
    ):
        assert together.numpy().tobytes() == b"".join(y.numpy().tobytes() for y in by_itself)
    assert launches == [name] * 2 * (1 + len(rows))


def test_a_layer_with_gelu_trains_alike_eagerly_and_compiled(launches):
    x = tk.constant(np.random.default_rng(0).normal(size=(6, 5)).astype("float32"))

    def trained(compiled):
        tk.random.set_seed(3)
        layer, rule = tk.layers.Dense(4, activation="gelu"), tk.optimizers.SGD(0.1)
        layer.build(x.shape)

        def step():
            with tk.GradientTape() as tape:
                loss = tk.reduce_mean(tk.square(layer(x)))
            weights = layer.trainable_variables
            rule.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))

        step = tk.function(step) if compiled else step
        for _ in range(6):
            step()
        return [w.numpy() for w in layer.weights]

    for a, b in zip(trained(False), trained(True), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    assert {"gelu_erf", "gelu_erf_back"} <= set(launches)


def test_no_elements_and_a_missing_compiler_go_operation_by_operation(launches, monkeypatch):
    assert FUNCTIONS["gelu_erf"](None, tk.zeros((0, 3))).shape == (0, 3)
    monkeypatch.setattr("trainkit.kernels.cuda.raw_kernel.RawKernel.is_there", lambda *_: False)
    x = numbers("float32")
    y = FUNCTIONS["gelu_erf"](x, x).numpy()
    assert launches == []
    with tk.device("/cpu:0"):
        wanted = FUNCTIONS["gelu_erf"](None, tk.constant(x.numpy())).numpy()
    np.testing.assert_allclose(y, wanted, rtol=1e-6, atol=1e-6)
