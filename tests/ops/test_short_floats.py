"""16-bit floats stay what they are, eagerly and compiled, and are computed in float32."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import ops
from trainkit.core.dispatch import native
from trainkit.graph.runtime.fusion import fuse
from trainkit.kernels.elementwise import half_casts_tuned
from trainkit.kernels.jit import kernel_family
from trainkit.kernels.jit.kernel_family import owned
from trainkit.ops.math.elementwise import keep_where
from trainkit.ops.neural.gated_activations import (
    gelu_erf_gradient,
    gelu_tanh_gradient,
    silu_gradient,
)
from trainkit.ops.neural.softmax import softmax_gradient


@pytest.mark.parametrize(
    "op", [lambda x: ops.clip(x, 0.1, 0.5), ops.logsumexp, lambda x: ops.logsumexp(x, axis=0)]
)
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("size", [3, 20000])
def test_bfloat16_stays_bfloat16(op, compiled, size):
    x = ops.cast(np.linspace(0.0, 1.0, size), "bfloat16")
    y = (tk.function(op) if compiled else op)(x)
    assert y.dtype == "bfloat16"
    wide = op(ops.cast(x, "float32"))
    np.testing.assert_allclose(np.asarray(ops.cast(y, "float32")), wide, rtol=1e-2)


def _chain(x, y):
    z = ops.relu(x * y + y[:1]) / y
    w = ops.where(x > y, z, ops.maximum(x, y)) - ops.minimum(x, 0.5)
    wide = ops.cast(x, "float32") * 1.1 + ops.cast(y, "float32")
    return z, w, ops.relu6(-x) + ops.square(y) * 0.1, ops.cast(wide, x.dtype), ops.gelu(w), wide


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (301, 257)])
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_chains_of_16_bits_have_the_same_bits_in_a_graph(shape, dtype, rng):
    numbers = (rng.normal(size=(2, *shape)) * 5).astype("float32")
    edges = [[np.nan, np.inf, -np.inf, -0.0, 0.0], [1.0, np.inf, -0.0, 0.0, 1e-40]]
    if shape[-1] >= 5:
        numbers[:, 0, :5] = edges
    x, y = (ops.cast(v, dtype) for v in numbers)
    compiled = tk.function(_chain, jit_compile=True)
    for _ in range(2):
        for eager, traced in zip(_chain(x, y), compiled(x, y), strict=True):
            assert traced.dtype == eager.dtype
            bits = f"u{eager.dtype.size}"
            isnan = np.isnan(ops.cast(eager, "float32").numpy())
            same = eager.numpy().view(bits) == traced.numpy().view(bits)
            np.testing.assert_array_equal(same | isnan, True)
            np.testing.assert_array_equal(np.isnan(ops.cast(traced, "float32").numpy()), isnan)


def test_a_single_operation_on_bfloat16_is_compiled(rng):
    """Alone it is worth a call: the loops outside go number by number, on one core."""
    x = ops.cast(rng.normal(size=(40, 50)), "bfloat16")
    mask = x > 0
    graph = tk.function(lambda x, mask: keep_where(x, mask)).get_concrete_function(x, mask).graph
    fused = fuse(graph)
    assert [n.primitive.name for n in fused.nodes if n.kind == "op"] == ["fused"]
    eager, traced = keep_where(x, mask), tk.function(keep_where, jit_compile=True)(x, mask)
    np.testing.assert_array_equal(eager.numpy().view("u2"), traced.numpy().view("u2"))


@pytest.fixture
def eager():
    """Kernels are compiled at once; each test ends in the mode that it began in."""
    kernel_family.set_mode("eager")


FUNCTIONS = [
    ops.exp, ops.log, ops.log1p, ops.expm1, ops.tanh, ops.sin, ops.arctan, ops.sqrt, ops.floor,
    ops.negative, ops.square, ops.sigmoid, ops.silu, ops.softplus, ops.softmax, ops.log_softmax,
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(2,), (7,), (5, 12), (160, 128)])
def test_a_function_of_16_bits_is_that_of_float32_rounded_once(function, shape, dtype, rng, eager):
    numbers = np.abs(rng.normal(size=shape)) * 3
    if numbers.size == 60 and function not in (ops.softmax, ops.log_softmax):
        numbers[0, :6] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40]
    x = ops.cast(numbers, dtype)
    expected = ops.cast(function(ops.cast(x, "float32")), dtype).numpy()
    for f in (function, tk.function(function, jit_compile=True)):
        y = f(x).numpy()
        assert y.dtype == expected.dtype
        same = y.view("u2") == expected.view("u2")
        np.testing.assert_array_equal(same | (np.isnan(expected) & np.isnan(y)), True)


GRADIENTS = [silu_gradient, gelu_tanh_gradient, gelu_erf_gradient, softmax_gradient]


@pytest.mark.parametrize("gradient", GRADIENTS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("shape", [(5, 12), (520, 128)])
def test_gradients_of_activations_of_bfloat16_are_rounded_once(gradient, shape, rng, eager):
    settings = {"axis": -1} if gradient is softmax_gradient else {}
    g, x = (ops.cast(v, "bfloat16") for v in rng.normal(size=(2, *shape)))
    wide = gradient(*(ops.cast(v, "float32") for v in (g, x)), **settings)
    expected = ops.cast(wide, "bfloat16").numpy().view("u2")
    compiled = tk.function(lambda g, x: gradient(g, x, **settings), jit_compile=True)
    for y in (gradient(g, x, **settings), compiled(g, x)):
        assert y.dtype == "bfloat16"
        np.testing.assert_array_equal(y.numpy().view("u2"), expected)


def test_large_arrays_are_cast_by_the_kernel(rng, eager, monkeypatch):
    x = ops.array(rng.normal(size=1 << 15).astype("float32"))
    expected = x.numpy().astype(tk.bfloat16.dtype)
    calls = []
    kernel = half_casts_tuned._by_kernel
    monkeypatch.setattr(half_casts_tuned, "_by_kernel", lambda *a: calls.append(a) or kernel(*a))
    y = ops.cast(x, "bfloat16")
    np.testing.assert_array_equal(y.numpy().view("u2"), expected.view("u2"))
    np.testing.assert_array_equal(ops.cast(y, "float32"), expected.astype("float32"))
    np.testing.assert_array_equal(ops.cast(y, "float64"), expected.astype("float64"))
    assert len(calls) == 3
    compiled = native.switch(False)  # which widens by itself
    ops.exp(y)
    native.switch(compiled)
    assert len(calls) == 5


def test_concatenated_and_split_bfloat16_keep_their_bits(rng):
    bits = rng.integers(0, 1 << 16, (2, 6, 7)).astype(np.uint16)
    one, two = (ops.array(x.view(tk.bfloat16.dtype)) for x in bits)
    for axis in (0, 1):
        y = ops.concatenate([one, two], axis)
        np.testing.assert_array_equal(y.numpy().view("u2"), np.concatenate(bits, axis))
        for part, x in zip(ops.split(y, 2, axis), bits, strict=True):
            np.testing.assert_array_equal(part.numpy().view("u2"), x)


def test_rows_with_gaps_become_rows_in_order():
    x = np.arange(60, dtype=np.uint16).reshape(4, 15).view(tk.bfloat16.dtype)[:, ::2]
    y = owned(x)
    assert y.flags.carray
    np.testing.assert_array_equal(y.view("u2"), np.arange(60).reshape(4, 15)[:, ::2])


@pytest.mark.parametrize("compiled", [False, True])
def test_a_rectified_convolution_sends_back_rounded_sums(rng, compiled):
    x, kernel, bias = (
        ops.cast(rng.normal(size=shape), "bfloat16") for shape in ((2, 9, 9, 8), (3, 3, 8, 16), 16)
    )

    layer = tk.layers.Conv2D(16, 3, activation="relu", dtype="bfloat16")
    layer.build(x.shape)
    layer.kernel.assign(kernel)
    layer.bias.assign(bias)

    def step(x):
        with tk.GradientTape() as tape:
            y = layer(x)
        return y, tape.gradient(y, [layer.kernel, layer.bias])

    y, (by_kernel, by_bias) = (tk.function(step) if compiled else step)(x)
    passed = (np.asarray(ops.cast(y, "float64")) > 0).sum((0, 1, 2))
    assert by_kernel.dtype == by_bias.dtype == y.dtype == "bfloat16"
    np.testing.assert_allclose(np.asarray(ops.cast(by_bias, "float64")), passed, rtol=2**-8)


@pytest.mark.parametrize("pick", [ops.max, ops.min], ids=lambda f: f.__name__)
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 2)])
def test_extremes_of_large_bfloat16_are_found_in_float32(pick, axis, rng, eager, monkeypatch):
    numbers = rng.normal(size=(40, 30, 16))
    numbers[3, 4, 5] = np.nan
    x = ops.cast(numbers, "bfloat16")
    expected = pick(ops.cast(x, "float32"), axis=axis)
    sources = []
    kernel = half_casts_tuned._by_kernel
    monkeypatch.setattr(
        half_casts_tuned, "_by_kernel", lambda x, dtype: sources.append(x) or kernel(x, dtype)
    )
    for f in (lambda x: pick(x, axis=axis), tk.function(lambda x: pick(x, axis=axis))):
        np.testing.assert_array_equal(ops.cast(f(x), "float32"), expected)
        assert f(x).dtype == "bfloat16"
    assert sources


def test_repeated_and_turned_bfloat16_is_widened_by_the_kernel(rng, eager):
    row = rng.normal(size=(1, 256)).astype("float32").astype(tk.bfloat16.dtype)
    repeated = np.broadcast_to(row, (128, 256))
    kernel = half_casts_tuned._by_kernel
    for x in (repeated, repeated.T, np.repeat(row, 256, 0)[::2, ::-1]):
        wide = kernel(x, np.dtype("float32"))
        right = x.astype("float32")
        np.testing.assert_array_equal(wide, right)
        assert wide.strides == right.strides
        narrow = kernel(np.broadcast_to(row.astype("float32"), (128, 256)), tk.bfloat16.dtype)
        np.testing.assert_array_equal(narrow.view("u2"), repeated.view("u2"))


def _convolved(x, kernel):
    return ops.conv(x, kernel, padding="same")


def _pooled(x, kernel):
    return ops.average_pool(x, 3, 2, "same") + ops.max_pool(x, 3, 2, "same")


def _multiplied(x, kernel):
    return ops.matmul(x, kernel[0, 0]), ops.einsum("bhwc,xycf->bhwf", x, kernel)


def _summed(x, kernel):
    return ops.sum(x, (0, 1, 2)), ops.mean(x, (1, 2)), ops.sum(x)


@pytest.mark.parametrize("function", [_convolved, _pooled, _multiplied, _summed])
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_of_16_bits_are_those_of_float32_rounded(function, compiled, dtype, rng, eager):
    x, kernel = (ops.cast(rng.normal(size=n), dtype) for n in ((2, 24, 20, 16), (3, 3, 16, 32)))

    def step(x, kernel):
        with tk.GradientTape() as tape:
            tape.watch([x, kernel])
            y = function(x, kernel)
        return y, tape.gradient(y, [x, kernel], unconnected_gradients="zero")

    wide = tk.nest.flatten(step(*(ops.cast(a, "float32") for a in (x, kernel))))
    results = tk.nest.flatten(
        (tk.function(step, jit_compile=True) if compiled else step)(x, kernel)
    )
    unit = 2**-10 if dtype == "float16" else 2**-7
    for y, expected in zip(results, wide, strict=True):
        assert y.dtype == dtype
        large = np.abs(expected).max() + 1e-6
        np.testing.assert_allclose(ops.cast(y, "float32"), expected, rtol=unit, atol=large * unit)
