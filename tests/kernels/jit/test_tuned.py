"""Graphs give the bits of eager calls where operations have tuned kernels for large arrays."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import ops
from trainkit.core.errors import ShapeError
from trainkit.core.tensor import PRIMITIVES
from trainkit.ops.convolutional import local_response
from trainkit.ops.convolutional.convolution import conv_with_bias
from trainkit.ops.linear_algebra.int8_product import int8_product
from trainkit.ops.math.value_limits import huber_penalty
from trainkit.ops.neural import recurrence
from trainkit.ops.neural.bias_activation import biased_gelu
from trainkit.ops.neural.dense import dense
from trainkit.ops.neural.dropout import dropped
from trainkit.ops.neural.fused_attention import attend
from trainkit.ops.neural.group_normalization import group_normalization
from trainkit.ops.neural.softmax_cross_entropy import (
    sparse_softmax_cross_entropy_gradient as sparse_gradient,
)

SHAPE = (300, 300)
TUNED = {
    name: prim
    for name, prim in PRIMITIVES.items()
    if prim.facets.tuned and prim.facets.tuned.run is not None
}


def dense_and_bias(x):
    return tk.nn.relu(dense(x, x * 0.01, x[0]))


def labels_of(x):
    return tk.minimum(ops.absolute(tk.cast(x[:, 0] * 40, "int32")), 299)


def seed_of(x):
    return tk.cast(x[0, :2] * 100, "int32")  # a constant one would be drawn from as it is traced


def sparse_loss(x):
    return tk.nn.sparse_softmax_cross_entropy_with_logits(labels_of(x), x * 2.0)


def dense_loss(x):
    return tk.nn.softmax_cross_entropy_with_logits(tk.nn.softmax(x[::-1]), x * 2.0)


CONVOLUTION = tk.layers.Conv2D(8, 1, activation="relu", kernel_initializer="ones")
CONVOLUTION.build((None, 75, 50, 6))


def images_of(x):
    return tk.reshape(x * 2.0, (4, 75, 50, 6))


def convolved(x):
    return CONVOLUTION(images_of(x))


def sequences_of(x, gates):
    """(projected, state, recurrent kernel) of 8 units, which `x` is cut into."""
    units = 8 * gates
    projected = tk.reshape(x[:, : units * 9] * 2.0, (300, 9, units))
    return projected, x[:, :8], x[:8, :units] * 0.3


def long_short_term(x):
    projected, state, kernel = sequences_of(x, 4)
    return recurrence.lstm(projected, state, state * 0.5, kernel)[1] * 2.0


def gated(reset_after):
    def of(x):
        projected, state, kernel = sequences_of(x, 3)
        return recurrence.gru(projected, state, kernel, reset_after=reset_after) * 2.0

    return of


def attended(x):
    heads = tk.reshape(x * 2.0, (10, 90, 4, 25))
    return attend(heads, heads[:, :40], heads[:, 40:80], scale=0.2)


def looked_up(x):
    ids = tk.minimum(ops.absolute(tk.cast(x[:, :200] * 40, "int32")), 299)
    return ops.embedding_lookup(x * 2.0, ids) + 1.0


def kernel_of(x):
    return tk.reshape(x[:18, :18], (3, 3, 6, 6))


SMALL = tk.constant(np.arange(90000).reshape(300, 300) % 251 - 125, "int8")


def integers_summed(x):
    return tk.cast(int8_product(tk.cast(x[:2] * 40, "int8"), SMALL), "float32") + x[:2] * 2.0


def regular_of(x):
    """Symmetric matrices, of which all is well conditioned."""
    part = tk.reshape(x[:, :48], (-1, 24, 24))[:8] * 0.1
    return tk.matmul(part, part, transpose_b=True) + tk.eye(24)


def bessel(name):
    function = getattr(tk.math.special, f"bessel_{name}")
    return lambda x: function(x * 9.0) + x


ROWS = {
    "grouped_normalization": lambda x: group_normalization(x, x[0], x[1], 1, 6, 1e-3),
    "attention": attended,
    "cholesky": lambda x: tk.linalg.cholesky(regular_of(x)) * 2.0,
    "det": lambda x: tk.linalg.det(regular_of(x)) * 2.0,
    "inv": lambda x: tk.linalg.inv(regular_of(x)) * 2.0,
    "lu_factor": lambda x: ops.lu_factor(regular_of(x))[0] * 2.0,
    "pivots_to_permutation": lambda x: tk.cast(tk.linalg.lu(regular_of(x))[1], "float32") + x[0, 0],
    "qr": lambda x: tk.linalg.qr(regular_of(x))[0] * 2.0,
    "slogdet": lambda x: tk.linalg.slogdet(regular_of(x))[1] * 2.0,
    "solve": lambda x: tk.linalg.solve(regular_of(x), tk.reshape(x[:, :16], (-1, 24, 8))[:8]) + 1.0,
    "solve_triangular": lambda x: tk.linalg.triangular_solve(
        regular_of(x), tk.reshape(x[:, :16], (-1, 24, 8))[:8]
    ),
    "average_pool": lambda x: ops.average_pool(images_of(x), 3, 2, "same") + 1.0,
    "batch": lambda x: ops.fused_batch_normalization(x * 2.0, x[0], x[1])[0] + 1.0,
    **{f"bessel_{name}": bessel(name) for name in ("j0", "y0", "i0", "i0e", "k0", "k0e")},
    "biased_gelu": lambda x: biased_gelu(x * 2.0, x[0]),
    "channel_window_sums": lambda x: local_response.channel_window_sums(x * 2.0, radius=3) + x,
    "clip": lambda x: tk.clip_by_value(x * 2.0, -1.0, 1.0) + x,
    "concatenate": lambda x: tk.concat([x * 2.0, x, x + 1.0, x * x], 1) + 1.0,
    "conv": lambda x: ops.conv(images_of(x), kernel_of(x), padding="same") + 1.0,
    "conv_transpose": lambda x: ops.conv_transpose(images_of(x), kernel_of(x), 2) + 1.0,
    "cumprod": lambda x: tk.math.cumprod(x * 2.0, 1) + x,  # and by its gradient, a recurrence
    "cumsum": lambda x: tk.cumsum(x * 2.0, 1) + x,
    "dense_gradient": dense_and_bias,
    "digamma": lambda x: tk.math.digamma(tk.abs(x) + 0.5) + x,
    "dropped": lambda x: dropped(x * 2.0, x > 0.0, scale=1.5) + 1.0,
    "elu_gradient": lambda x: tk.nn.elu(x * 2.0) + x,
    "embedding": looked_up,
    "erfc": lambda x: tk.math.erfc(x * 2.0) + 1.0,
    "erf": lambda x: tk.math.erf(x * 2.0) + 1.0,
    "erfinv": lambda x: tk.math.erfinv(tk.tanh(x)) + x,
    "erfcinv": lambda x: tk.math.erfcinv(tk.tanh(x) + 1.0) + x,
    "fft": lambda x: tk.math.real(tk.signal.fft(tk.complex(x * 2.0, x))) + x,
    "gelu_erf": lambda x: tk.nn.gelu(x + 1.0) * 2.0,
    "gelu_tanh": lambda x: tk.nn.gelu(x + 1.0, approximate=True) * 2.0,
    "ifft": lambda x: tk.math.imag(tk.signal.ifft(tk.complex(x * 2.0, x))) + x,
    "igamma": lambda x: tk.math.igamma(1.5, tk.abs(x)) * x,
    "igammac": lambda x: tk.math.igammac(1.5, tk.abs(x)) * x,
    "int8_product": integers_summed,
    "gru": gated(reset_after=True),
    "gru_reset_before": gated(reset_after=False),
    "hard_shrink": lambda x: ops.hard_shrink(x * 2.0) + x,
    "hard_sigmoid": lambda x: ops.hard_sigmoid(x * 2.0) + x,
    "hard_silu": lambda x: ops.hard_silu(x * 2.0) + x,
    "hard_tanh": lambda x: ops.hard_tanh(x * 2.0) + x,
    "huber_penalty": lambda x: huber_penalty(x * 2.0, 0.7) + x,
    "irfft": lambda x: tk.signal.irfft(tk.complex(x[:, :151] * 2.0, x[:, 149:])) + x,
    "keep_where": lambda x: tk.maximum(x * 2.0, x[::-1]) + x,
    "layer": lambda x: ops.layer_normalization(x * 2.0, x[0], x[1]) + 1.0,
    "leaky_relu": lambda x: tk.nn.leaky_relu(x * 2.0) + x,
    "lgamma": lambda x: tk.math.lgamma(tk.abs(x) + 0.5) * x,
    "logaddexp": lambda x: ops.logaddexp(x * 2.0, x) * x,
    "log_softmax": lambda x: tk.nn.log_softmax(x * 2.0) * x,
    "lstm": long_short_term,
    "matmul": lambda x: tk.matmul(tk.reshape(x, (30, 10, 300)), tk.matmul(x, x * 0.1)),
    "max": lambda x: tk.reduce_max(x * x, 1) + tk.reduce_max(x, -1),
    "max_pool": lambda x: ops.max_pool(images_of(x), 2) + 1.0,
    "max_pool_with_argmax": lambda x: tk.nn.max_pool_with_argmax(images_of(x), 2, 2, "SAME")[0],
    "mean": lambda x: tk.reduce_mean(tk.reshape(x * x, (10, 9, 10, 100)), (1, 2)) * 2.0,
    "min": lambda x: tk.reduce_min(x * x, 1) + tk.reduce_min(x, -1),
    "ndtri": lambda x: tk.math.ndtri(tk.sigmoid(x)) * x,
    "philox_integers": lambda x: (
        tk.cast(tk.random.stateless_uniform(SHAPE, seed_of(x), 0, 9, "int32"), "float32") * x
    ),
    "philox_normal": lambda x: tk.random.stateless_normal(SHAPE, seed_of(x)) * x,
    "philox_uniform": lambda x: tk.random.stateless_uniform(SHAPE, seed_of(x)) * x,
    "pad": lambda x: (
        ops.pad(
            tk.reshape(tk.concat([x * 2.0, x, x + 1.0, x * x], 1), (4, 75, 50, 24)),
            ((0, 0), (1, 2), (3, 0), (0, 0)),
        )
        + 1.0
    ),
    "rectified_gradient": convolved,
    "nan_to_num": lambda x: ops.nan_to_num(x / (x - x[0]), 0.5, 2.0, -2.0) * x,
    "relu": lambda x: tk.nn.relu(x * 2.0) + x,
    "relu6": lambda x: tk.nn.relu6(x * 9.0) + x,
    "prod": lambda x: tk.reduce_prod(x * 0.001 + 1.0) * x,
    "rfft": lambda x: tk.math.real(tk.signal.rfft(x * 2.0)) * x[:, :151],
    "rsqrt": lambda x: tk.math.rsqrt(x * x + 1.0) + x,
    "soft_shrink": lambda x: ops.soft_shrink(x * 2.0) + x,
    "sparse_plus": lambda x: ops.sparse_plus(x * 2.0) + x,
    "selu_gradient": lambda x: tk.nn.selu(x * 2.0) + x,
    "sigmoid": lambda x: tk.sigmoid(x * 2.0) + 1.0,
    "silu": lambda x: tk.nn.silu(x) - x,
    "softmax": lambda x: tk.nn.softmax(x * 2.0) * x,
    "softmax_cross_entropy_with_logits": dense_loss,
    "softplus": lambda x: tk.math.softplus(x) * x,
    "sparse_softmax_cross_entropy_with_logits": sparse_loss,
    "sparse_softmax_cross_entropy_gradient": lambda x: sparse_gradient(x[0], labels_of(x), x * 2.0),
    "split": lambda x: (
        tk.split(tk.concat([x, x * 2.0, x + 1.0, x * x], 1), [200, 1000], 1)[1] * x[:, :1]
    ),
    "square_sum": lambda x: tk.norm(x * 2.0) * tk.norm(x * 2.0, axis=1) + tk.norm(x, axis=0),
    "sum": lambda x: tk.reduce_sum(x * x, 0) * 2.0,
    "sum_to_like": lambda x: tk.reduce_sum((x + x[0]) * x, 0),
    "var": lambda x: tk.math.reduce_variance(x * 2.0, 0) + 1.0,
    "weighted_pixels": lambda x: tk.image.resize(images_of(x), (90, 20), "bicubic") + 1.0,
    "where": lambda x: tk.where(x > 0.0, x * 2.0, x + 1.0),
}
"""Expressions of a matrix in which operations stand, besides those that their gradients need."""


@pytest.mark.parametrize("size", [1, 3, 25])
def test_a_bias_of_another_size_is_refused_whatever_computes(size, mode):
    """Machine code would read what lies behind it."""
    bias = tk.ones((size,))
    with pytest.raises(ShapeError, match=f"16 filters, the bias shape \\({size},\\)"):
        conv_with_bias(tk.ones((2, 8, 8, 4)), tk.ones((3, 3, 4, 16)), bias)
    with pytest.raises(ShapeError, match=f"and a bias \\(3 units,\\)(.|\n)*bias +\\({size},\\)"):
        recurrence.gru(tk.ones((2, 5, 24)), tk.ones((2, 8)), tk.ones((8, 24)), bias)


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
