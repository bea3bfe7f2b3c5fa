"""Products of few rows by small kernels have the bits of the body, in programs of graphs too."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.core.dispatch import native
from trainkit.core.tensor import PRIMITIVES
from trainkit.ops.neural.dense import OF_FEW_ROWS, finished

pytestmark = pytest.mark.skipif(native.NATIVE is None, reason="there is no compiled half")

SHAPES = [(1, 1, 1), (1, 3, 1), (4, 3, 1), (1, 20, 64), (5, 7, 3), (32, 40, 100), (1, 300, 10)]
UNSERVED = [(1, 300, 20), (600, 8, 30), (0, 3, 2), (2, 0, 3)]
dense = PRIMITIVES["dense"].op


def operands(rows, depth, columns, dtype="float32"):
    rng = np.random.default_rng(rows * depth + columns)
    shapes = (rows, depth), (depth, columns), (columns,)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def both(call):
    results = []
    for compiled in (True, False):
        before = native.switch(compiled)
        try:
            with np.errstate(all="ignore"):
                results.append(np.asarray(call()))
        finally:
            native.switch(before)
    return results


def assert_alike(call):
    a, b = both(call)
    assert (a.dtype, a.shape) == (b.dtype, b.shape)
    assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("activation", [None, "relu"])
@pytest.mark.parametrize("shape", SHAPES + UNSERVED, ids=str)
def test_products_have_the_bits_of_the_body(shape, activation, dtype):
    x, kernel, bias = map(tk.constant, operands(*shape, dtype))
    for shift in (bias, None):
        assert_alike(lambda shift=shift: dense(x, kernel, shift, activation=activation))


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, -0.0, 1e-40])
def test_unusual_numbers_have_the_bits_of_the_body(special):
    x, kernel, bias = operands(4, 5, 9)
    x[1, 2] = kernel[3, 4] = bias[5] = special
    x[3] = 0
    for activation in (None, "relu"):
        tensors = [tk.constant(a) for a in (x, kernel, bias)]
        assert_alike(lambda tensors=tensors, a=activation: dense(*tensors, activation=a))


def test_other_layouts_have_the_bits_of_the_body():
    x, kernel, bias = operands(6, 8, 10)
    wide = np.repeat(np.repeat(x, 2, 0), 2, 1)
    for rows in (np.asfortranarray(x), wide[::2, ::2], x[::-1]):
        for weights in (np.asfortranarray(kernel), kernel[:, ::-1]):
            tensors = [tk.core.tensor.wrap(a) for a in (rows, weights, bias)]
            assert_alike(lambda tensors=tensors: dense(*tensors, activation="relu"))


def test_sizes_that_do_not_fit_are_explained():
    x, kernel, bias = map(tk.constant, operands(4, 5, 9))
    with pytest.raises(tk.errors.ShapeError, match="the input has 4 features"):
        dense(x[:, :4], kernel, bias, activation=None)
    with pytest.raises(tk.errors.ShapeError, match="bias shape"):
        dense(x, kernel, bias[:4], activation=None)


@pytest.mark.parametrize("activation", [None, "relu"])
@pytest.mark.parametrize("shape", SHAPES + UNSERVED, ids=str)
def test_programs_have_the_bits_of_single_operations(shape, activation):
    x, kernel, bias = operands(*shape)
    layer = tk.layers.Dense(shape[2], activation=activation)
    layer.build((None, shape[1]))
    layer.set_weights([kernel, bias])
    f = tk.function(lambda t: layer(t))
    for _ in range(3):
        assert_alike(lambda: f(x))
    assert f(x).numpy().tobytes() == layer(x).numpy().tobytes()


def test_only_small_products_are_served():
    left = []

    def other(x, kernel, bias=None):
        left.append(x.shape)
        return finished(np, x @ kernel, bias, "relu")

    multiply = native.small_dense(OF_FEW_ROWS, True, other)
    for shape in SHAPES[1:] + UNSERVED:
        x, kernel, bias = operands(*shape)
        expected = finished(np, x @ kernel, bias, "relu")
        np.testing.assert_allclose(multiply(x, kernel, bias), expected, rtol=1e-6, atol=1e-6)
    assert left == [(rows, depth) for rows, depth, _ in UNSERVED]
    with pytest.raises(ValueError, match="mismatch"):
        multiply(x, kernel[:-1] if len(kernel) else np.ones((1, 3), "float32"))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_products_with_vectors_have_the_bits_of_matmul(dtype):
    rng = np.random.default_rng(0)
    for n in (1, 2, 7, 8, 33, 128, 500, 5000):
        for dims in ((n,), (1, n), (2, n), (5, n), (8, n), (0, n), (3, 2, n)):
            a = tk.constant((rng.choice([-0.0, 0.1, 1.0, 3.0], dims) * 5).astype(dtype))
            b = tk.constant((rng.standard_normal(n) * 9).astype(dtype))
            y = tk.ops.matmul(a, b).numpy()
            expected = np.matmul(a.numpy(), b.numpy())
            assert y.dtype == expected.dtype
            assert y.tobytes() == expected.tobytes()
    with pytest.raises(tk.errors.ShapeError):
        tk.ops.matmul(tk.ones((2, 3)), tk.ones(4))
