"""Graphs give the bits of eager calls where operations have tuned kernels for large arrays."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import ops
from trainkit.core.tensor import PRIMITIVES
from trainkit.kernels.jit import kernel_family
from trainkit.ops.neural.bias_activation import biased_gelu
from trainkit.ops.neural.dense import dense
from trainkit.ops.neural.dropout import dropped
from trainkit.ops.neural.softmax_cross_entropy import (
    sparse_softmax_cross_entropy_gradient as sparse_gradient,
)

SHAPE = (300, 300)
TUNED = {name: prim for name, prim in PRIMITIVES.items() if prim.facets.tuned}


@pytest.fixture(params=["eager", "off"])
def mode(request):
    before = kernel_family.mode()
    kernel_family.set_mode(request.param)
    yield request.param
    kernel_family.set_mode(before)


def dense_and_bias(x):
    return tk.nn.relu(dense(x, x * 0.01, x[0]))


def labels_of(x):
    return tk.minimum(ops.absolute(tk.cast(x[:, 0] * 40, "int32")), 299)


def sparse_loss(x):
    return tk.nn.sparse_softmax_cross_entropy_with_logits(labels_of(x), x * 2.0)


def dense_loss(x):
    return tk.nn.softmax_cross_entropy_with_logits(tk.nn.softmax(x[::-1]), x * 2.0)


CONVOLUTION = tk.layers.Conv2D(8, 1, activation="relu", kernel_initializer="ones")
CONVOLUTION.build((None, 75, 50, 6))


def convolved(x):
    images = tk.reshape(x * 2.0, (4, 75, 50, 6))
    return CONVOLUTION(images)


ROWS = {
    "biased_gelu": lambda x: biased_gelu(x * 2.0, x[0]),
    "clip": lambda x: tk.clip_by_value(x * 2.0, -1.0, 1.0) + x,
    "cumsum": lambda x: tk.cumsum(x * 2.0, 1) + x,
    "dense_gradient": dense_and_bias,
    "dropped": lambda x: dropped(x * 2.0, x > 0.0, scale=1.5) + 1.0,
    "erf": lambda x: tk.math.erf(x * 2.0) + 1.0,
    "gelu_erf": lambda x: tk.nn.gelu(x + 1.0) * 2.0,
    "gelu_tanh": lambda x: tk.nn.gelu(x + 1.0, approximate=True) * 2.0,
    "keep_where": lambda x: tk.maximum(x * 2.0, x[::-1]) + x,
    "max": lambda x: tk.reduce_max(x * x, 1) + tk.reduce_max(x, -1),
    "mean": lambda x: tk.reduce_mean(tk.reshape(x * x, (10, 9, 10, 100)), (1, 2)) * 2.0,
    "min": lambda x: tk.reduce_min(x * x, 1) + tk.reduce_min(x, -1),
    "rectified_gradient": convolved,
    "relu": lambda x: tk.nn.relu(x * 2.0) + x,
    "sigmoid": lambda x: tk.sigmoid(x * 2.0) + 1.0,
    "silu": lambda x: tk.nn.silu(x) - x,
    "softmax": lambda x: tk.nn.softmax(x * 2.0) * x,
    "softmax_cross_entropy_with_logits": dense_loss,
    "softplus": lambda x: tk.math.softplus(x) * x,
    "sparse_softmax_cross_entropy_with_logits": sparse_loss,
    "sparse_softmax_cross_entropy_gradient": lambda x: sparse_gradient(x[0], labels_of(x), x * 2.0),
    "sum": lambda x: tk.reduce_sum(x * x, 0) * 2.0,
    "sum_to_like": lambda x: tk.reduce_sum((x + x[0]) * x, 0),
    "var": lambda x: tk.math.reduce_variance(x * 2.0, 0) + 1.0,
    "where": lambda x: tk.where(x > 0.0, x * 2.0, x + 1.0),
}
"""Expressions of a matrix in which operations stand, besides those that their gradients need."""


def with_gradient(function):
    def both(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return y, tape.gradient(y, x)

    return both


@pytest.mark.parametrize("name", sorted(ROWS))
def test_a_graph_and_eager_calls_agree_on_values_and_gradients(name, mode, rng):
    x = tk.constant(rng.normal(size=SHAPE).astype("float32"))
    both = with_gradient(ROWS[name])
    compiled = tk.function(both, jit_compile=mode == "eager")
    for found, expected in zip(compiled(x), both(x), strict=True):
        np.testing.assert_array_equal(found.numpy(), expected.numpy())


def test_every_tuned_kernel_has_a_row():
    """Each operation stands in an expression above, or comes in by its gradient."""
    x = tk.TensorSpec(SHAPE, tk.float32)
    seen = set()
    for function in ROWS.values():
        for traced in (function, with_gradient(function)):
            graph = tk.function(traced).get_concrete_function(x).graph
            seen |= {operation.type for operation in graph.get_operations()}
    assert {name for name, prim in TUNED.items() if prim.facets.graph_name not in seen} == set()
