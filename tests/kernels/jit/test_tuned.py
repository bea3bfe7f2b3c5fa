"""Graphs give the bits of eager calls where operations have versions for large arrays."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import ops
from trainkit.kernels.jit import kernel_family
from trainkit.kernels.jit.tuned import may_be_tuned

SHAPE = (300, 300)


@pytest.fixture(params=["eager", "off"])
def mode(request):
    before = kernel_family.mode()
    kernel_family.set_mode(request.param)
    yield request.param
    kernel_family.set_mode(before)


def dense_and_bias(x):
    return tk.nn.relu(ops.neural.dense.dense(x, x * 0.01, x[0]))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: tk.sigmoid(x * 2.0) + 1.0,
        lambda x: tk.nn.softmax(x * 2.0) * x,
        lambda x: tk.nn.gelu(x + 1.0) * 2.0,
        lambda x: tk.nn.silu(x) - x,
        lambda x: tk.math.softplus(x) * x,
        lambda x: tk.reduce_sum(x * x, 0) * 2.0,
        lambda x: tk.reduce_max(x * x, 1) + tk.reduce_min(x, -1),
        lambda x: tk.reduce_sum((x + x[0]) * x, 0),
        dense_and_bias,
        lambda x: tk.reduce_mean(tk.reshape(x * x, (10, 9, 10, 100)), (1, 2)) * 2.0,
    ],
    ids="sigmoid softmax gelu silu softplus sum max broadcast dense pixels".split(),
)
def test_a_graph_and_eager_calls_agree_on_values_and_gradients(function, mode, rng):
    x = tk.constant(rng.normal(size=SHAPE).astype("float32"))

    def both(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return y, tape.gradient(y, x)

    compiled = tk.function(both, jit_compile=mode == "eager")
    for found, expected in zip(compiled(x), both(x), strict=True):
        np.testing.assert_array_equal(found.numpy(), expected.numpy())


def test_small_arrays_and_other_operations_have_one_kernel():
    large = np.zeros(SHAPE, "float32")
    assert may_be_tuned("sigmoid", [large], {})
    assert not may_be_tuned("sigmoid", [large[:10]], {})
    assert not may_be_tuned("add", [large, large], {})


@pytest.mark.parametrize(
    ("name", "axis", "tuned"),
    [
        ("sum", None, True),
        ("sum", (0, 1, 2), True),
        ("sum", 0, True),
        ("sum", 1, True),
        ("sum", -1, False),
        ("sum", (1,), True),
        ("sum", (1, 2), False),
        ("sum", (0, 2), False),
        ("mean", None, True),
        ("mean", (1,), True),
        ("mean", 0, True),
        ("mean", -1, False),
        ("mean", (1, 2), False),
        ("max", -1, True),
    ],
)
def test_reductions_are_told_by_their_axes(name, axis, tuned):
    large = np.zeros((4, 100, 100), "float32")
    assert may_be_tuned(name, [large], {"axis": axis}) == tuned
    assert not may_be_tuned(name, [large[:1]], {"axis": axis})


def test_a_dense_layer_is_told_by_the_gradient_that_is_summed():
    large = np.zeros(SHAPE, "float32")
    assert may_be_tuned("dense_gradient", [large, large, large, large], {})
    assert not may_be_tuned("dense_gradient", [large[:10], large[:10], large[:10], large], {})


def test_a_small_batch_through_a_large_dense_layer_has_the_eager_bits(mode, rng):
    kernel, bias = (tk.constant(rng.normal(size=s).astype("float32")) for s in ((300, 200), 200))

    def both(x):
        with tk.GradientTape() as tape:
            tape.watch([x, kernel, bias])
            y = tk.nn.relu(ops.neural.dense.dense(x * 2.0, kernel, bias))
        return tape.gradient(y, [x, kernel, bias])

    x = tk.constant(rng.normal(size=(20, 300)).astype("float32"))
    compiled = tk.function(both, jit_compile=mode == "eager")
    for found, expected in zip(compiled(x), both(x), strict=True):
        np.testing.assert_array_equal(found.numpy(), expected.numpy())
