"""Few rows by many weights: the bits of a row among others, however weights are read."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.kernels.jit.register_tiles import FAR_BYTES
from trainkit.kernels.matmul import product_tuned
from trainkit.kernels.matmul.prepared_weights import PreparedWeights, let_go
from trainkit.kernels.repeated import repeated_product
from trainkit.kernels.repeated.repeated_product import RepeatedProduct
from trainkit.ops.neural.dense import dense

pytestmark = pytest.mark.usefixtures("on_cpu", "eager")

SIZES = [
    (1, 784, 256),  # a cache has these weights
    (1, 1030, 333),  # it has not, and some rows and columns are left of eights and of vectors
    (1, 9, 30000),
    (1, 2060, 40),
    (3, 517, 800),
    (7, 260, 300),
]


def of_gaps(rng, rows, columns):
    """A matrix whose rows have gaps between them."""
    return rng.normal(size=(rows, columns + 5)).astype("float32")[:, 3:-2]


def multiplier(rectify):
    """A product as a program asks for it: as the one before, else as a first one."""
    product = RepeatedProduct(PreparedWeights(), rectify, lambda *arrays: product.first(*arrays))
    return product.calls


def operands(rng, rows, depth, columns, make=None):
    make = make or (lambda rng, *shape: rng.normal(size=shape).astype("float32"))
    bias = rng.normal(size=columns).astype("float32")
    return make(rng, rows, depth), make(rng, depth, columns), bias


@pytest.mark.parametrize("make", [None, of_gaps], ids=["whole", "with gaps"])
@pytest.mark.parametrize("size", SIZES)
def test_a_row_has_the_bits_that_it_has_among_others(rng, size, make):
    x, w, bias = operands(rng, *size, make)
    among = product_tuned.product(np.tile(x, (30, 1)), w, bias)[: len(x)]
    np.testing.assert_array_equal(product_tuned.product(x, w, bias), among)
    np.testing.assert_array_equal(dense(x, w, bias), among)
    np.testing.assert_array_equal(dense(x, w, bias, "relu"), np.maximum(among, 0))
    np.testing.assert_array_equal(dense(x[:, None], w, bias)[:, 0], among)
    np.testing.assert_array_equal(tk.matmul(x, w), product_tuned.product(x, w))
    exact = x.astype("float64") @ w + bias
    np.testing.assert_allclose(among, exact, rtol=1e-4, atol=1e-4)


def test_weights_that_are_far_are_asked_for_ahead():
    """Both ways to read them are among the sizes of this file."""
    sizes = [4 * depth * columns >= FAR_BYTES for rows, depth, columns in SIZES if rows == 1]
    assert {True, False} == set(sizes)


def test_what_follows_a_row(rng):
    x, w, bias = operands(rng, 1, 1030, 333)
    factor, shift, residual = (rng.normal(size=(1, 333)).astype("float32") for _ in range(3))
    epilogue = product_tuned.Epilogue(factor[0], shift[0], residual)
    y = product_tuned.product(x, w, bias, epilogue=epilogue)
    plain = product_tuned.product(x, w, bias)
    np.testing.assert_array_equal(y, plain * factor + shift + residual)


def test_nan_and_inf_stay_in_their_columns(rng):
    x, w, _ = operands(rng, 1, 1030, 333)
    w[1029, 332], w[3, 7] = np.nan, np.inf
    y = product_tuned.product(x, w)[0]
    assert np.isnan(y[332])
    assert np.isinf(y[7])
    assert np.isfinite(np.delete(y, [7, 332])).all()


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_other_types_are_left_to_blas(rng, dtype):
    x, w = np.ones((1, 784), dtype), np.ones((784, 256), dtype)
    assert product_tuned.product_of(x, w) is None


def test_so_are_weights_that_lie_by_columns_and_few_weights(rng):
    x, w, _ = operands(rng, 1, 256, 784)
    assert product_tuned.product_of(x, np.asfortranarray(w)) is None
    assert product_tuned.product_of(x, w[:, :200]) is None
    assert product_tuned.product_of(x[:0], w) is None


@pytest.mark.parametrize("rectify", [False, True])
@pytest.mark.parametrize("size", [*SIZES, (40, 300, 70), (64, 784, 256)])
def test_repeated_products_have_the_same_bits(rng, size, rectify):
    x, w, bias = operands(rng, *size)
    multiply = multiplier(rectify)
    for _ in range(4):
        for bias_or_none in (bias, None):
            expected = product_tuned.product(x, w, bias_or_none, rectify)
            np.testing.assert_array_equal(multiply(x, w, bias_or_none), expected)
        stack = multiply(x.reshape(1, *x.shape), w, bias)
        np.testing.assert_array_equal(stack[0], product_tuned.product(x, w, bias, rectify))
        gaps = np.repeat(bias, 2)[::2]
        np.testing.assert_array_equal(multiply(x, w, gaps), stack[0])


@pytest.mark.parametrize("size", SIZES)
def test_a_repeated_product_asks_only_once(rng, monkeypatch, size):
    x, w, bias = operands(rng, *size)
    multiply = multiplier(rectify=False)
    for _ in range(4):
        expected = multiply(x, w, bias)
    monkeypatch.setattr(repeated_product, "product", lambda *_: pytest.fail("asked again"))
    np.testing.assert_array_equal(multiply(x, w, bias), expected)


@pytest.mark.parametrize("size", [(1, 784, 256), (1, 1030, 333), (3, 517, 800)])
def test_other_weights_and_inputs_are_seen(rng, size):
    x, w, bias = operands(rng, *size)
    multiply = multiplier(rectify=False)
    for weights in (w, w.copy(), 2 * w, of_gaps(rng, *w.shape), w[:, ::2]):
        for rows in (x, -x, np.tile(x, (5, 1)), x):
            for _ in range(3):
                start = bias[: weights.shape[1]]
                expected = product_tuned.product(rows, weights, start)
                found = multiply(rows, weights, start)
                if expected is None:  # every other column: left to BLAS
                    assert found is None
                else:
                    np.testing.assert_array_equal(found, expected)


def test_weights_that_were_let_go_are_read_anew(rng):
    variable = tk.Variable(rng.normal(size=(784, 256)).astype("float32"))
    x = rng.normal(size=(1, 784)).astype("float32")
    multiply = multiplier(rectify=False)
    for _ in range(3):
        multiply(x, variable._value._array, None)
    let_go([variable])
    variable._value._array[...] = 1  # in place, as nobody holds it
    found = multiply(x, variable._value._array, None)
    np.testing.assert_array_equal(found, product_tuned.product(x, np.ones((784, 256), "float32")))


def test_without_kernels_blas_does_it(kernels, rng):
    x, w, bias = operands(rng, 1, 784, 256)
    multiply = multiplier(rectify=False)
    for _ in range(3):
        assert multiply(x, w, bias) is not None
    kernels("off")
    assert multiply(x, w, bias) is None
    np.testing.assert_array_equal(tk.matmul(x, w), x @ w)
