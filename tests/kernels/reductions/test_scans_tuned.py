"""Compiled running sums, products and recurrences against NumPy's steps, bit for bit."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import ops
from trainkit.kernels.reductions import scans_tuned
from trainkit.ops.math.cumulative import linear_recurrence, running_product, running_sum

SHAPES = [((1, 9), 1), ((4, 1), 1), ((11, 33), -1), ((7, 5), 0), ((2, 6, 3), 1), ((40,), 0)]
SPECIAL = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.5, -1.5], "float32")


def same_bits(result, expected):
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected, strict=True)
    zeros = expected == 0
    np.testing.assert_array_equal(np.signbit(result[zeros]), np.signbit(expected[zeros]))


def plain(primitive, *arrays, **settings):
    """What the operation's body gives."""
    with np.errstate(all="ignore"):
        return primitive.primitive.body(np, *arrays, **settings)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # of NumPy, for small arrays
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("op", [running_sum, running_product])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_scans_have_the_bits_of_numpy(eager, rng, shape, axis, op, reverse, exclusive):
    multiplies = op is running_product
    settings = {"axis": axis, "reverse": reverse, "exclusive": exclusive}
    for x in (rng.normal(size=shape).astype("float32"), rng.choice(SPECIAL, shape)):
        expected = plain(op, x, **settings)
        same_bits(scans_tuned.scan(x, axis, multiplies, reverse, exclusive), expected)
        same_bits(op(x, **settings).numpy(), expected)
        turned = np.asfortranarray(x)
        same_bits(scans_tuned.scan(turned, axis, multiplies, reverse, exclusive), expected)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_recurrences_have_the_bits_of_their_steps(eager, rng, shape, axis, reverse):
    for draw in (
        lambda: rng.normal(size=shape).astype("float32"),
        lambda: rng.choice(SPECIAL, shape),
    ):
        a, b = draw(), draw()
        expected = plain(linear_recurrence, a, b, axis=axis, reverse=reverse)
        same_bits(scans_tuned.recurrence(a, b, axis, reverse), expected)
        same_bits(linear_recurrence(a, b, axis=axis, reverse=reverse).numpy(), expected)


def test_other_numbers_shapes_and_axes_are_left_to_numpy(eager, rng):
    x = rng.normal(size=(3, 4)).astype("float32")
    assert scans_tuned.scan(x.astype("float64"), 1, True, False, False) is None
    assert scans_tuned.scan(x[:0], 1, True, False, False) is None
    assert scans_tuned.scan(x, 2, True, False, False) is None
    assert scans_tuned.recurrence(x, x[:, :2], 1, False) is None
    assert scans_tuned.recurrence(x, x.astype("float64"), 1, False) is None


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("size", [0, 1, 2, 5])
@pytest.mark.usefixtures("mode")
def test_scans_of_short_axes_and_other_numbers(size, dtype):
    x = np.arange(3 * size).reshape(3, size).astype(dtype)
    for op, function in ((running_sum, np.cumsum), (running_product, np.cumprod)):
        result = op(x, axis=1, exclusive=False, reverse=True).numpy()
        expected = function(x[:, ::-1], axis=1, dtype=dtype)[:, ::-1]
        np.testing.assert_array_equal(result, expected, strict=True)
        before = op(x, axis=1, exclusive=True, reverse=False).numpy()
        first = np.full((3, min(size, 1)), op is running_product, dtype)
        expected = np.concatenate(
            [first, function(x[:, : max(size - 1, 0)], axis=1, dtype=dtype)], 1
        )
        np.testing.assert_array_equal(before, expected[:, :size], strict=True)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_gradients_of_products_are_those_of_plain_steps(kernels, rng, axis):
    x = rng.normal(size=(37, 9)).astype("float32")
    x[3, 4] = 0.0

    def gradients(x):
        with tk.GradientTape(persistent=True) as tape:
            tape.watch(x)
            products = tk.reduce_prod(x, axis)
            running = tk.math.cumprod(x, axis or 0)
        return tape.gradient(products, x), tape.gradient(running, x)

    results = []
    for mode in ("off", "eager"):
        kernels(mode)
        results += [gradients(tk.constant(x)), tk.function(gradients)(tk.constant(x))]
    for result in results[1:]:
        for value, expected in zip(result, results[0], strict=True):
            same_bits(value.numpy(), expected.numpy())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("shape", [(130, 150), (9, 40, 60), (30000,)])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("flags", [(False, False), (True, False), (False, True)])
def test_sums_of_halves_and_of_transposes_have_the_bits_of_the_body(
    eager, rng, dtype, shape, turned, flags
):
    x = ops.cast(rng.normal(size=shape), dtype).numpy()
    x.reshape(-1)[:3] = [-0.0, np.inf, np.nan]
    x = x.T if turned else x
    for axis in range(-x.ndim, x.ndim):
        settings = {"axis": axis, "exclusive": flags[0], "reverse": flags[1]}
        with np.errstate(invalid="ignore"):
            expected = running_sum.primitive.body(np, x, **settings)
        y = running_sum.primitive.kernel(np, x, **settings)
        assert y.dtype == expected.dtype
        np.testing.assert_array_equal(y.astype("float32"), expected.astype("float32"))
