"""Reductions against NumPy over random shapes, axes and dtypes, and their conventions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trainkit as tk
from tests.ops.numpy_compare import (
    FLOATS,
    INTEGERS,
    arrays,
    assert_same,
    example_settings,
    reductions,
    reference,
)
from trainkit import ops
from trainkit.autodiff.tape import GradientTape
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.tensor import convert_to_tensor

METHODS = ("linear", "lower", "higher", "midpoint", "nearest")


@pytest.mark.parametrize(
    "name",
    [
        "sum",
        "mean",
        "var",
        "std",
        "max",
        "min",
        "amax",
        "amin",
        "prod",
        "all",
        "any",
        "ptp",
        "median",
    ],
)
def test_reduction_agrees_with_numpy(name):
    limit = 1 if name == "prod" else 3  # no overflow

    @example_settings
    @given(reductions(low=-limit, high=limit))
    def check(arguments):
        x, axis, keepdims = arguments
        if name == "ptp" and x.dtype.kind in "ui":
            x = x.astype("int64")
        if name == "median" and axis == ():
            axis = None
        if not x.ndim and axis == ():
            axis = None
        result = getattr(ops, name)(x, axis=axis, keepdims=keepdims)
        want = reference(lambda a: getattr(np, name)(a, axis=axis, keepdims=keepdims), result, x)
        assert_same(result, want, rtol=1e-4, atol=1e-5)

    check()


@pytest.mark.parametrize(
    "name", ["nansum", "nanmean", "nanmax", "nanmin", "nanprod", "nanvar", "nanstd", "nanmedian"]
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, for rows of nothing but NaN
def test_nan_reduction_agrees_with_numpy(name):
    @example_settings
    @given(reductions(FLOATS, low=-3, high=3), st.randoms(use_true_random=False))
    def check(arguments, random):
        x, axis, keepdims = arguments
        axis = None if axis == () else axis
        x = np.where([random.random() < 0.4 for _ in range(x.size)], np.nan, x.ravel())
        x = x.reshape(arguments[0].shape).astype(arguments[0].dtype)
        want = getattr(np, name)(x.astype("float64"), axis=axis, keepdims=keepdims)
        result = getattr(ops, name)(x, axis=axis, keepdims=keepdims)
        assert_same(result, want, rtol=1e-4, atol=1e-5)

    check()


@example_settings
@given(
    reductions(FLOATS + INTEGERS),
    st.lists(st.floats(0, 1), max_size=3) | st.floats(0, 1),
    st.sampled_from(METHODS),
)
def test_quantile_agrees_with_numpy(arguments, q, method):
    x, axis, keepdims = arguments
    axis = None if axis == () else axis
    want = np.quantile(x.astype("float64"), q, axis=axis, method=method, keepdims=keepdims)
    result = ops.quantile(x.astype("float64"), q, axis, method, keepdims)
    if method == "nearest":  # NumPy rounds a place that is nearly half way by other arithmetic
        place = np.asarray(q) * 1e6
        if np.any(np.abs(place - np.round(place)) > 1e-3):
            return
    assert_same(result, want, rtol=1e-4, atol=1e-5)


@example_settings
@given(reductions(FLOATS + INTEGERS))
def test_count_nonzero_agrees_with_numpy(arguments):
    x, axis, _ = arguments
    assert_same(ops.count_nonzero(x, axis), np.count_nonzero(x, axis))


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_position_agrees_with_numpy(name):
    @example_settings
    @given(arrays(low=-2, high=2, min_side=1, min_dims=1), st.data())
    def check(x, data):
        axis = data.draw(st.none() | st.integers(-x.ndim, x.ndim - 1))
        keepdims = data.draw(st.booleans())
        result = getattr(ops, name)(x, axis, keepdims)
        assert_same(result, getattr(np, name)(x, axis=axis, keepdims=keepdims))
        assert result.dtype == "int32"

    check()


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_running_operation_agrees_with_numpy(name):
    @example_settings
    @given(arrays((*FLOATS, "int32", "int64"), low=-2, high=2, min_dims=1), st.data())
    def check(x, data):
        axis = data.draw(st.none() | st.integers(-x.ndim, x.ndim - 1))
        result = getattr(ops, name)(x, axis)
        assert_same(result, getattr(np, name)(x.astype("float64"), axis), rtol=1e-4, atol=1e-5)

    check()


@example_settings
@given(reductions(FLOATS))
def test_logsumexp_agrees_with_the_sum(arguments):
    x, axis, keepdims = arguments
    want = np.log(np.sum(np.exp(x.astype("float64")), axis=axis, keepdims=keepdims))
    assert_same(ops.logsumexp(x, axis, keepdims), want, rtol=1e-4, atol=1e-5)


# ---------------------------------------------------------------------- dtypes and conventions


@pytest.mark.parametrize(
    ("dtype", "total"),
    [
        ("bool", "int32"),
        ("int8", "int32"),
        ("uint8", "uint32"),
        ("int16", "int32"),
        ("int64", "int64"),
        ("float16", "float16"),
        ("bfloat16", "bfloat16"),
    ],
)
def test_sums_of_small_integers_grow(dtype, total):
    x = ops.cast([1, 1, 0], dtype)
    assert ops.sum(x).dtype == total
    assert ops.prod(x).dtype == total


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_summed_in_float32(dtype):
    x = ops.ones((4096,), dtype)
    assert float(ops.sum(x)) == 4096
    assert float(ops.mean(x)) == 1
    assert ops.mean(x).dtype == dtype


def test_mean_of_integers_is_a_float():
    assert ops.mean([1, 2]).dtype == "float32"
    assert float(ops.mean([1, 2])) == 1.5


def test_logsumexp_neither_overflows_nor_fails_on_infinities():
    assert float(ops.logsumexp([1000.0, 1000.0])) == pytest.approx(1000 + np.log(2))
    assert float(ops.logsumexp([-np.inf, -np.inf])) == -np.inf
    assert float(ops.logsumexp([np.inf, 1.0])) == np.inf
    assert float(ops.logsumexp(np.zeros(0))) == -np.inf


def test_empty_reductions():
    nothing = np.zeros((0, 3), "float32")
    np.testing.assert_array_equal(ops.sum(nothing, 0).numpy(), [0, 0, 0])
    np.testing.assert_array_equal(ops.prod(nothing, 0).numpy(), [1, 1, 1])
    assert np.isnan(ops.mean(nothing).numpy())
    assert np.isnan(ops.mean(nothing, axis=0).numpy()).all()
    assert ops.max(nothing, 1).shape == (0,)
    with pytest.raises(InvalidArgumentError, match="max"):
        ops.max(nothing, 0)
    with pytest.raises(InvalidArgumentError, match="argmax"):
        ops.argmax(nothing, 0)
    np.testing.assert_array_equal(ops.max(nothing, 0, initial=2.0).numpy(), [2, 2, 2])


def test_axis_may_be_a_list_or_a_numpy_integer():
    x = np.arange(24.0).reshape(2, 3, 4)
    np.testing.assert_array_equal(ops.sum(x, [0, -1]).numpy(), x.sum((0, -1)))
    np.testing.assert_array_equal(ops.sum(x, np.int64(1)).numpy(), x.sum(1))


@pytest.mark.parametrize("op", [ops.sum, ops.mean, ops.max, ops.var, ops.logsumexp, ops.any])
def test_axis_out_of_range_raises(op):
    with pytest.raises(ShapeError, match="axis 2 is out of range"):
        op(np.zeros((2, 3)), axis=2)
    with pytest.raises(ShapeError, match="axis 0 is out of range"):
        op(np.float32(1), axis=0)


def test_gradient_is_shared_by_equal_extremes():
    x = convert_to_tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
    for op, want in ((ops.max, [[0, 0.5, 0.5], [1 / 3] * 3]), (ops.min, [[1, 0, 0], [1 / 3] * 3])):
        with GradientTape() as tape:
            tape.watch(x)
            y = op(x, axis=1)
        np.testing.assert_allclose(tape.gradient(y, x).numpy(), want, rtol=1e-6)


def test_gradient_of_product_with_zeros():
    x = convert_to_tensor([2.0, 0.0, 3.0])
    with GradientTape() as tape:
        tape.watch(x)
        y = ops.prod(x)
    np.testing.assert_array_equal(tape.gradient(y, x).numpy(), [0, 6, 0])


def test_positions_without_numbers_are_minus_one():
    x = [[np.nan, np.nan], [np.nan, 2.0]]
    np.testing.assert_array_equal(ops.nanargmax(x, 1).numpy(), [-1, 1])
    np.testing.assert_array_equal(ops.nanargmin(x, 1).numpy(), [-1, 1])


# ---------------------------------------------------------------------- averages and counts


def test_average_with_weights():
    x, w = np.arange(6.0).reshape(2, 3), np.array([1.0, 2.0, 5.0])
    np.testing.assert_allclose(
        ops.average(x, 1, w).numpy(), np.average(x, axis=1, weights=w), rtol=1e-6
    )
    np.testing.assert_allclose(
        ops.average(x, weights=x).numpy(), np.average(x, weights=x), rtol=1e-6
    )
    with pytest.raises(ShapeError, match="weights"):
        ops.average(x, 0, w)
    with pytest.raises(ShapeError, match="one axis"):
        ops.average(x, weights=w)


def test_bincount_counts_rows_and_sums_weights():
    np.testing.assert_array_equal(ops.bincount([1, 1, 3]).numpy(), [0, 2, 0, 1])
    np.testing.assert_array_equal(ops.bincount([[1, 1], [0, 2]]).numpy(), [[0, 2, 0], [1, 0, 1]])
    np.testing.assert_array_equal(ops.bincount([0, 2, 2], [0.5, 1.0, 2.0]).numpy(), [0.5, 0, 3])
    np.testing.assert_array_equal(ops.bincount([0], minlength=3).numpy(), [1, 0, 0])
    with pytest.raises(InvalidArgumentError, match="negative"):
        ops.bincount([-1, 2])
    with pytest.raises(InvalidArgumentError, match="integers"):
        ops.bincount([1.0])


def test_histogram_counts_equal_parts():
    counts, edges = ops.histogram([0.0, 0.5, 1.0, 2.0], bins=2, range=(0, 2))
    np.testing.assert_array_equal(counts.numpy(), [2, 2])
    np.testing.assert_array_equal(edges.numpy(), [0, 1, 2])
    with pytest.raises(InvalidArgumentError, match="bins"):
        ops.histogram([1.0], bins=0)
    with pytest.raises(ShapeError, match="one axis"):
        ops.histogram(np.ones((2, 2)))
    with pytest.raises(InvalidArgumentError, match="range"):
        ops.histogram([1.0], range=(2, 1))


def test_quantile_refuses_shares_beyond_one():
    with pytest.raises(InvalidArgumentError, match="q must"):
        ops.quantile([1.0], 1.5)
    with pytest.raises(InvalidArgumentError, match="cubic"):
        ops.quantile([1.0], 0.5, method="cubic")


def test_sum_to_like_undoes_broadcasting():
    g = np.ones((2, 3, 4))
    assert ops.sum_to_like(g, np.zeros((3, 1))).numpy().tolist() == [[8.0]] * 3
    assert float(ops.sum_to_like(g, 0.0)) == 24
    x = convert_to_tensor(g)
    assert ops.sum_to_like(x, x).numpy() is not None


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("size", [50, 3000, 70000])
def test_products_of_halves_are_those_of_float32(dtype, size, rng):
    x = tk.cast(np.exp(rng.normal(size=(2, size)) / size**0.5), dtype)
    exact = x.numpy().astype("float64")
    error = {"rtol": 0.002 if dtype == "float16" else 0.01}
    for function in (ops.prod, tk.function(ops.prod)):
        total, rows = function(x[:1]), function(x, axis=1)
        assert (total.dtype, rows.dtype) == (dtype, dtype)
        np.testing.assert_allclose(total.numpy().astype("float64"), exact[:1].prod(), **error)
        np.testing.assert_allclose(rows.numpy().astype("float64"), exact.prod(axis=1), **error)
    running = ops.cumprod(x, axis=1)
    assert running.dtype == dtype
    np.testing.assert_allclose(running.numpy().astype("float64"), exact.cumprod(axis=1), **error)


@pytest.mark.parametrize("name", ["nanmax", "nanmin"])
def test_the_greatest_of_nothing_but_nan_is_nan_where_there_is_nothing_too(name):
    op = getattr(ops, name)
    np.testing.assert_array_equal(op(np.zeros((0, 3), "float32"), axis=0), [np.nan] * 3)
    assert op(np.zeros((3, 0), "float32"), axis=0).shape == (0,)
    with pytest.raises(InvalidArgumentError, match=f"{name[3:]}: zero-size"):
        op(np.zeros(0, "int32"))
