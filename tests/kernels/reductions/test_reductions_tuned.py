"""Compiled extremes of rows and running sums against NumPy's, and sums of columns."""

import ml_dtypes
import numpy as np
import pytest

import trainkit as tk
from trainkit.core.dispatch import native
from trainkit.core.dispatch.eager import WIDE
from trainkit.kernels.elementwise import parallel_ufuncs
from trainkit.kernels.reductions import reductions_tuned
from trainkit.kernels.reductions.reductions_tuned import FEWEST
from trainkit.ops.linear_algebra.square_sums import square_sum

pytestmark = pytest.mark.usefixtures("on_cpu")

SIDE_BY_SIDE = [
    ((3, 40), -1),
    ((2, 5, 7), 2),
    ((1, 1), 1),
    ((300, 1), 1),
    ((2, 1000), (1,)),
    ((2, 5, 7), (-1, 1)),
    ((130, 127), None),
    ((40, 3), 0),
    ((300, 600), 0),
    ((5, 6, 300), 1),
    ((3, 4, 5, 6), (1, 2)),
    ((3, 4, 5, 6), (0, 1)),
]


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize(("shape", "axis"), SIDE_BY_SIDE, ids=str)
def test_extremes_are_those_of_numpy(eager, rng, monkeypatch, name, shape, axis):
    monkeypatch.setattr(reductions_tuned, "FEWEST_OF_ALL", 1)
    x = rng.normal(size=shape).astype("float32")
    for keepdims in (False, True):
        expected = getattr(np, name)(x, axis, keepdims=keepdims)
        found = reductions_tuned.axis_extreme(name, x, axis, keepdims)
        assert np.shape(found) == np.shape(expected)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("axis", [0, 1])
def test_nan_of_either_sign_wins_in_extremes(eager, name, axis):
    x = np.zeros((5, 33), "float32")
    x[0, 4], x[1, 32], x[2, 0] = np.nan, -np.float32(np.nan), np.inf
    x[3], x[4, 1] = -np.inf, -np.inf
    x = x if axis else np.ascontiguousarray(x.T)
    found = reductions_tuned.axis_extreme(name, x, axis, False)
    np.testing.assert_array_equal(found, getattr(x, name)(axis=axis))


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("sign", [-1, 0, 1])
def test_extremes_of_rows_of_one_sign_and_of_both(eager, rng, name, sign):
    x = rng.normal(size=(400, 65)).astype("float32")
    x = np.abs(x) * sign if sign else x
    extremes = reductions_tuned.axis_extreme(name, x, 1, False)
    assert extremes.tobytes() == getattr(x, name)(axis=1).tobytes()


@pytest.mark.parametrize(("name", "sign"), [("max", 1), ("min", -1)])
def test_of_zeros_the_greatest_is_positive_and_the_least_negative(eager, name, sign):
    x = np.zeros((400, 65), "float32")
    x[:, ::3] = -0.0
    extremes = reductions_tuned.axis_extreme(name, x, 1, False)
    np.testing.assert_array_equal(np.copysign(1, extremes), sign)


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("place", [0, 17, FEWEST, FEWEST + 10])
def test_nan_wins_in_extremes_of_whole_arrays(eager, monkeypatch, name, place):
    monkeypatch.setattr(reductions_tuned, "FEWEST_OF_ALL", FEWEST)
    x = np.zeros(FEWEST + 11, "float32")
    x[5], x[-2] = 3, -3
    assert reductions_tuned.axis_extreme(name, x, None, False) == getattr(x, name)()
    x[place] = np.nan
    assert np.isnan(reductions_tuned.axis_extreme(name, x, None, False))


@pytest.mark.parametrize("shape", [(3, 40), (17, 5), (8, 1), (2, 3, 300), (5, 6, 7), (40,)])
@pytest.mark.parametrize("axis", [0, -1, 1])
def test_running_sums_have_the_bits_of_numpy(eager, rng, shape, axis):
    if axis >= len(shape):
        return
    x = rng.normal(size=shape).astype("float32")
    x.flat[0] = -0.0
    found = reductions_tuned.running_sum(x, axis)
    assert found.tobytes() == np.cumsum(x, axis=axis).tobytes()


def test_other_axes_orders_and_dtypes_are_left_to_numpy(eager):
    x = np.ones((40, 5, 50), "float32")
    assert reductions_tuned.axis_extreme("max", x, (0, 2), False) is None
    assert reductions_tuned.axis_extreme("max", x, (1, 1), False) is None
    assert reductions_tuned.axis_extreme("max", x, 3, False) is None
    assert reductions_tuned.axis_extreme("max", x, (), False) is None
    assert reductions_tuned.axis_extreme("max", x.T, 1, False) is None
    assert reductions_tuned.axis_extreme("max", x.astype("float64"), 1, False) is None
    assert reductions_tuned.axis_extreme("max", x, None, False) is None  # not that many
    assert reductions_tuned.running_sum(x[:, ::2], 1) is None
    assert reductions_tuned.running_sum(x[:0], 1) is None


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_of_columns_of_large_arrays_are_those_of_small_ones(rng, dtype):
    x = rng.normal(size=(2, FEWEST // 32, 40)).astype(dtype)
    tolerance = {"rtol": 1e-4, "atol": 1e-4} if dtype == "float32" else {"rtol": 1e-12}
    expected = x.astype("float64").sum((0, 1))
    np.testing.assert_allclose(reductions_tuned.leading_sum(x, 2), expected, **tolerance)
    assert reductions_tuned.leading_sum(x, 2).dtype == dtype
    found = tk.reduce_sum(tk.constant(x), 0)
    np.testing.assert_allclose(found.numpy(), x.sum(0), **tolerance)
    assert tk.reduce_sum(tk.constant(x), 0, keepdims=True).shape == (1, *x.shape[1:])


@pytest.mark.parametrize(
    "shape", [(1000, 40), (16384, 1), (4096, 10), (5001, 17), (3001, 5), (64, 2000), (40000, 12)]
)
def test_sums_of_columns_are_made_on_the_pool(eager, rng, monkeypatch, shape):
    x = rng.uniform(size=shape).astype("float32")
    found = reductions_tuned.leading_sum(x, 1)
    exact = x.astype("float64").sum(0)
    assert (np.abs(found - exact) <= 64 * np.finfo("float32").eps * exact).all()
    monkeypatch.setattr(reductions_tuned, "shared", lambda _: (0, 5))
    np.testing.assert_allclose(reductions_tuned.leading_sum(x, 1), exact, rtol=2e-5)
    assert bool(reductions_tuned._folds(*shape)) == (shape != (3001, 5))
    assert shape == (3001, 5) or reductions_tuned.COLUMN_SUMS._ready


@pytest.mark.parametrize("shape", [(32, 64, 512), (3, 700, 16), (130, 6, 100)])
def test_sums_of_the_middle_axis_are_made_on_the_pool(eager, rng, shape):
    x = rng.uniform(size=shape).astype("float32")
    found = reductions_tuned.axis_sum(x, 1, False)
    exact = x.astype("float64").sum(1)
    assert (np.abs(found - exact) <= 64 * np.finfo("float32").eps * exact).all()
    assert reductions_tuned.MIDDLE_SUMS._ready


def test_operations_on_large_arrays_use_the_kernels(rng, eager):
    x = rng.normal(size=(130, 140)).astype("float32")
    t = tk.constant(x)
    np.testing.assert_array_equal(tk.reduce_max(t, 1).numpy(), x.max(1))
    np.testing.assert_array_equal(tk.cumsum(t, 0).numpy(), x.cumsum(0))
    np.testing.assert_array_equal(tk.cumsum(t, 1, reverse=True).numpy()[:, -1], x[:, -1])
    assert reductions_tuned.ROW_MAX_MIN["max"]._ready
    assert reductions_tuned.RUNNING_COLUMNS._ready


LARGE_ONES = [
    ((4, 16, 16, 32), (1, 2)),
    ((8, 100, 32), (-2,)),
    ((2, 8, 8, 8, 32), (3, 1, 2)),
    ((130, 127), 0),
    ((2, 70, 7, 40), (0, 1)),
    ((2, 70, 7, 40), (1, 2)),
    ((4, 16, 16, 8, 4), (1, 2, 4)),  # others lie between
    ((40, 5, 130), (0, 2)),
    ((40, 5, 130), (-1, 0)),
    ((6, 5, 4, 3, 2, 30), (0, 5, 2)),
    ((4, 30, 5, 40), (1, 3)),
    ((30, 1, 6, 100), (0, 2)),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("shape", "axis"), LARGE_ONES, ids=str)
@pytest.mark.parametrize("keepdims", [False, True])
def test_sums_along_axes_are_as_exact_as_numpys(rng, dtype, shape, axis, keepdims):
    x = rng.uniform(size=shape).astype(dtype)
    found = reductions_tuned.axis_sum(x, axis, keepdims)
    exact = x.astype("longdouble").sum(axis=axis, keepdims=keepdims)
    assert (found.dtype, found.shape) == (dtype, exact.shape)
    assert np.max(np.abs(found - exact)) <= 16 * np.finfo(dtype).eps * exact.max()
    np.testing.assert_array_equal(tk.reduce_sum(x, axis, keepdims).numpy(), found)
    np.testing.assert_allclose(tk.reduce_mean(x, axis), x.mean(axis=axis), rtol=1e-5)
    np.testing.assert_allclose(tk.math.reduce_variance(x, axis), x.var(axis=axis), rtol=1e-4)


@pytest.mark.skipif(native.NATIVE is None, reason="there is no compiled half")
@pytest.mark.parametrize("axis", [3, (2, 3), (1, 2, 3)])
def test_sums_of_rows_have_the_bits_of_numpy(rng, axis):
    x = rng.normal(size=(4, 16, 16, 33)).astype("float32")
    for keepdims in (False, True):
        sums = reductions_tuned.axis_sum(x, axis, keepdims)
        expected = x.sum(axis, keepdims=keepdims)
        assert sums.shape == expected.shape
        assert sums.tobytes() == expected.tobytes()


@pytest.mark.parametrize("of_squares", [False, True])
@pytest.mark.parametrize(
    "shape", [(2100, 8), (1999, 9), (131, 127), (130, 129), (17, 1000)], ids=str
)
def test_sums_of_rows_by_the_kernel_have_the_bits_of_numpy(
    eager, rng, monkeypatch, shape, of_squares
):
    monkeypatch.setattr(reductions_tuned, "shared", lambda nanoseconds: (0, 3))
    monkeypatch.setattr(reductions_tuned, "row_sums", lambda x: pytest.fail("no kernel"))
    monkeypatch.setattr(reductions_tuned, "row_square_sums", lambda x: pytest.fail("no kernel"))
    x = rng.normal(size=shape).astype("float32")
    x[0], x[1, 3], x[2, 4:6], x[3] = -0.0, np.nan, (np.inf, -np.inf), 3e38
    with np.errstate(all="ignore"):
        expected = np.add.reduce(np.square(x) if of_squares else x, 1)
    sum_of = reductions_tuned.axis_square_sum if of_squares else reductions_tuned.axis_sum
    sums = sum_of(x, 1, False)
    np.testing.assert_array_equal(sums, expected)
    np.testing.assert_array_equal(np.signbit(sums[0]), np.signbit(expected[0]))


def test_a_kernel_of_another_order_than_numpys_is_not_taken(eager, rng, monkeypatch):
    monkeypatch.setattr(reductions_tuned, "_adds_as_numpy", lambda run, of_squares: False)
    x = rng.normal(size=(40, 1000)).astype("float32")
    assert reductions_tuned._row_sum_on_pool(x, False) is None
    np.testing.assert_array_equal(tk.reduce_sum(x, 1), x.sum(1))


def test_the_order_of_a_kernel_is_compared_with_numpys():
    def in_order(pool, parts, x, starts, merges, sums):
        sums[:] = np.add.accumulate(x, 1)[:, -1]

    assert not reductions_tuned._adds_as_numpy(in_order, False)
    assert reductions_tuned._adds_as_numpy(lambda *a: np.add.reduce(a[2], 1, out=a[-1]), False)


def test_sums_of_few_rows_and_of_small_arrays_are_left_to_numpy():
    x = np.ones((4, 16, 16, 32), "float32")
    for axis in [(2, 2), (0, 3, 3), (), 4, (0, 4)]:
        assert reductions_tuned.axis_sum(x, axis, False) is None
    assert reductions_tuned.axis_sum(x[:, ::2], (1, 2), False) is None
    assert reductions_tuned.axis_sum(np.ones((2, 2, 2, 2), "float32"), (1, 2), False) is None
    assert reductions_tuned.axis_sum(np.ones((2, 2, 2, 2), "float32"), (1, 3), False) is None
    assert reductions_tuned.axis_sum(np.ones((1, 20000), "float32"), 1, False) is None
    assert reductions_tuned.axis_sum(np.ones((500, 8, 16), "float32"), 1, False) is None
    with pytest.raises(tk.errors.InvalidArgumentError):
        tk.reduce_sum(x, 4)


def test_the_variance_of_all_elements_has_the_bits_of_one_core(rng):
    x = rng.normal(size=(700, 900)).astype("float32")
    alone = tk.math.reduce_variance(x).numpy()
    before = WIDE[:]
    WIDE.clear()
    if parallel_ufuncs.prepare():
        assert tk.math.reduce_variance(x).numpy() == alone
    WIDE[:] = before
    np.testing.assert_allclose(alone, x.astype("float64").var(), rtol=1e-6)
    kept = tk.math.reduce_variance(x, keepdims=True).numpy()
    assert kept.shape == (1, 1)
    assert kept.item() == alone
    assert tk.math.reduce_variance(x.reshape(1, -1), 1).shape == (1,)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(FEWEST,), (FEWEST + 255,), (130, 127), (3, 70, 91)])
def test_whole_sums_are_as_exact_as_numpys(rng, dtype, shape):
    x = rng.uniform(size=shape).astype(dtype)
    exact = x.astype("longdouble").sum()
    error = 4 * np.finfo(dtype).eps * exact
    for axis in (None, tuple(range(len(shape)))):
        found = reductions_tuned.axis_sum(x, axis, False)
        assert (found.dtype, found.shape) == (dtype, ())
        assert abs(found - exact) <= error
    assert tk.reduce_sum(tk.constant(x)).numpy() == found
    kept = tk.reduce_sum(tk.constant(x), keepdims=True)
    assert kept.shape == (1,) * len(shape)
    assert kept.numpy().item() == found
    np.testing.assert_allclose(tk.reduce_mean(tk.constant(x)).numpy(), x.mean(), rtol=1e-6)


@pytest.mark.parametrize("size", [1023, 1024, 1032, 1056, 12_288, 16_384, 16_416, 3_200_000])
def test_sums_by_quarters_have_the_bits_of_numpy(mode, rng, size):
    x = (rng.normal(size=size) * 10.0 ** rng.integers(-3, 4, size)).astype("float32")
    total = reductions_tuned._sum_in_pairs(x)
    assert type(total) is np.float32
    assert total.tobytes() == np.add.reduce(x).tobytes()
    zeros = np.full(size, -0.0, "float32")
    assert not np.signbit(reductions_tuned._sum_in_pairs(zeros))


def test_whole_sums_of_other_arrays_are_left_to_numpy():
    x = np.ones((200, 200), "float32")
    assert reductions_tuned.axis_sum(x, (0, 0), False) is None
    assert reductions_tuned.axis_sum(x.T[:150], None, False) is None
    assert reductions_tuned.axis_sum(x[:5], None, False) is None
    assert reductions_tuned.axis_sum(x.astype("int32"), None, False) is None


@pytest.mark.parametrize("shape", [(200, 300), (300, 200), (3, 100, 70), (70, 3, 100)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_sums_of_transposes_have_the_bits_of_those_in_order(rng, shape, dtype):
    x = (rng.normal(size=shape) * 10).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    turned = tk.transpose(tk.constant(x))
    assert reductions_tuned.is_turned(turned._array)
    for op in (tk.ops.sum, tk.ops.mean):
        for keepdims in (False, True):
            whole = op(turned, keepdims=keepdims).numpy()
            assert whole.tobytes() == op(tk.constant(x), keepdims=keepdims).numpy().tobytes()
            # the last axis in memory is the first one here
            rows = op(turned, axis=0, keepdims=keepdims)
            expected = op(tk.constant(x), axis=-1, keepdims=keepdims).numpy().T
            assert rows.shape == expected.shape
            assert rows.numpy().tobytes() == expected.tobytes()
        for axis in (None, 0, 1, (0, 1)):
            compiled = tk.function(lambda y, op=op, axis=axis: op(tk.transpose(y), axis=axis))
            eager = op(tk.transpose(tk.constant(x)), axis=axis).numpy()
            for _ in range(3):
                assert compiled(tk.constant(x)).numpy().tobytes() == eager.tobytes()


def test_whole_sums_of_what_is_not_finite():
    x = np.ones(FEWEST, "float32")
    x[5] = np.inf
    assert reductions_tuned.axis_sum(x, None, False) == np.inf
    x[-1] = -np.inf
    with np.errstate(invalid="ignore"):
        assert np.isnan(reductions_tuned.axis_sum(x, None, False))


@pytest.mark.parametrize(
    "size", [16_384, 16_385, 20_000, 20_479, 100_000, 262_144, 266_239, 266_240, 400_000]
)
def test_whole_sums_by_code_have_the_bits_of_the_kernel(mode, rng, size):
    if reductions_tuned.MIDDLE_SUMS.find((), 1.0) is None:
        pytest.skip("without the kernel BLAS adds up, in its own order")
    x = (rng.normal(size=size) * 10.0 ** rng.integers(-3, 4, size)).astype("float32")
    totals = []
    for values in (x, np.full(size, -0.0, "float32")):
        for is_on in (True, False):
            before = native.switch(is_on)
            try:
                totals.append(np.asarray(reductions_tuned.axis_sum(values, None, False)).tobytes())
            finally:
                native.switch(before)
    assert totals[0] == totals[1]
    assert totals[2] == totals[3]


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    "name", ["reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "cumsum"]
)
@pytest.mark.parametrize("shape", [(1 << 20,), (1000, 1000), (8, 300, 500)])
def test_arrays_that_nobody_may_write_to_are_read(name, shape):
    array = np.random.default_rng(0).normal(size=shape).astype("float32")
    function = getattr(tk, name)
    for axis in (0, len(shape) - 1):
        expected = function(tk.constant(array), axis).numpy()
        array.flags.writeable = False
        result = function(tk.array_api.from_dlpack(array), axis).numpy()
        array.flags.writeable = True
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((400, 7, 33), (0, 1)), ((3, 130, 65), 1), ((20000, 3), 0), ((2, 40, 50, 16), (1, 2))],
)
def test_sums_of_bfloat16_are_rounded_once(eager, rng, shape, axis):
    x = rng.normal(size=shape).astype(ml_dtypes.bfloat16)
    x.setflags(write=False)
    exact = x.astype("float64").sum(axis)
    wide = reductions_tuned.wide_axis_sum(x, axis, False)
    assert wide.dtype == np.float32
    np.testing.assert_allclose(wide, exact, rtol=1e-5, atol=1e-3)
    total = reductions_tuned.axis_sum(x, axis, True)
    assert total.dtype == x.dtype
    assert total.shape == x.astype("float32").sum(axis, keepdims=True).shape
    np.testing.assert_array_equal(
        total.ravel().astype("float32"), wide.ravel().astype(x.dtype).astype("float32")
    )
    means = tk.reduce_mean(tk.constant(x), axis)
    assert means.dtype == "bfloat16"
    np.testing.assert_allclose(
        np.asarray(tk.cast(means, "float64")), x.astype("float64").mean(axis), rtol=2**-8, atol=1e-6
    )


def test_other_sums_of_bfloat16_are_left_to_numpy(eager):
    x = np.ones((400, 400), ml_dtypes.bfloat16)
    assert reductions_tuned.axis_sum(x, 1, False) is None
    assert reductions_tuned.axis_sum(x, None, False) is None
    assert reductions_tuned.axis_sum(x.T, 0, False) is None
    assert reductions_tuned.axis_sum(x[:3], 0, False) is None


def sequential_sums(x):
    """The sum as it is defined: runs of 256 are added up 16 at a time, then all of them."""
    end = x.size // 4096 * 4096
    runs = x[:end].reshape(-1, 16, 256)
    sums = runs[:, 0].copy()
    for i in range(1, 16):
        sums += runs[:, i]
    total = np.add.reduce(sums, None)
    return total + np.add.reduce(x[end:]) if end < x.size else total


@pytest.mark.parametrize("size", [FEWEST, 64 * 4096, 65 * 4096, 65 * 4096 + 7, 300 * 4096 + 4095])
def test_sums_of_all_have_one_order_from_the_caches_and_from_memory(eager, rng, size):
    x = rng.normal(size=size).astype("float32")
    assert reductions_tuned.axis_sum(x, None, False) == sequential_sums(x)
    assert reductions_tuned.axis_square_sum(x, None, False) == sequential_sums(x * x)


SQUARED = [
    ((130, 127), None), ((300, 600), 0), ((300, 600), 1), ((5, 6, 600), 1), ((40, 3, 200), (1, 2)),
    ((2, 9000), 1), ((1, 70000), 0), ((70000,), 0), ((4, 4, 4), None), ((20, 30, 40), (0, 2)),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "axis"), SQUARED, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("keepdims", [False, True])
def test_sums_of_squares_have_the_bits_of_sums_of_squares(eager, rng, shape, axis, dtype, keepdims):
    x = tk.constant(rng.normal(size=shape), dtype)
    for operand in (x, tk.transpose(x)):
        at = axis if operand is x else None
        squares = tk.ops.sum(tk.square(operand), at, keepdims)
        found = square_sum(operand, axis=at, keepdims=keepdims)
        assert found.dtype == squares.dtype
        assert found.shape == squares.shape
        assert found.numpy().tobytes() == squares.numpy().tobytes()


@pytest.mark.parametrize("shape", [(4096,), (70, 300), (3, 5, 7001)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_of_all_are_as_exact_as_numpys(eager, rng, shape, dtype):
    x = np.exp(rng.normal(size=shape) / 100).astype(dtype)
    x[..., ::3] *= -1
    exact = np.prod(x.astype("longdouble"))
    for keepdims in (False, True):
        found = tk.ops.prod(x, keepdims=keepdims)
        assert found.shape == (len(shape) * (1,) if keepdims else ())
        assert found.dtype == dtype
        np.testing.assert_allclose(found, exact, rtol=np.finfo(dtype).eps * x.size**0.5)
    for special in (0.0, np.nan, np.inf):
        x.flat[x.size // 2] = special
        np.testing.assert_array_equal(tk.ops.prod(x).numpy(), np.prod(x.astype("longdouble")))


@pytest.mark.parametrize("shape", [(300, 60), (70, 300), (9, 7001)])
def test_products_of_rows(rng, shape):
    x = np.exp(rng.normal(size=shape) / 100).astype("float32")
    x[:, ::3] *= -1
    products = tk.ops.prod(x, 1)
    if shape[1] < 64:
        np.testing.assert_array_equal(products, np.prod(x, 1))
    np.testing.assert_allclose(products, np.prod(x.astype("float64"), 1), rtol=1e-5)
    np.testing.assert_array_equal(tk.ops.prod(x, 1, keepdims=True), products[:, None])
    np.testing.assert_array_equal(tk.function(lambda x: tk.ops.prod(x, 1))(x), products)
    np.testing.assert_array_equal(tk.ops.prod(x, 0), np.prod(x, 0))
    np.testing.assert_allclose(tk.ops.prod(x[:, ::2], 1), np.prod(x[:, ::2], 1), rtol=1e-5)


@pytest.mark.parametrize("shape", [(1, 32), (3, 64), (5, 95), (2, 7001), (0, 64)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_long_products_have_the_bits_of_their_plain_form(rng, monkeypatch, shape, dtype):
    x = np.exp(rng.normal(size=shape) / 10).astype(dtype)
    products = reductions_tuned._long_products(x)
    monkeypatch.setattr(reductions_tuned, "lane_products", lambda x: None)
    plain = reductions_tuned._long_products(x)
    assert products.dtype == plain.dtype == dtype
    assert products.tobytes() == plain.tobytes()


def test_large_arrays_leave_their_products_to_numpy_where_no_row_is_whole():
    x = np.ones((70, 300), "float32")
    assert reductions_tuned.axis_product(x.T, axis=None, keepdims=False) is None
    assert reductions_tuned.axis_product(x, axis=0, keepdims=False) is None
    assert reductions_tuned.axis_product(x.astype("int32"), axis=None, keepdims=False) is None
