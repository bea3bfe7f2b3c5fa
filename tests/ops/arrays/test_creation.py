"""New tensors: shapes, dtypes, ranges, windows and grids."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trainkit as tk
from tests.ops.numpy_compare import assert_same, example_settings
from trainkit import ops
from trainkit.core.dtypes import floatx, set_floatx
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.tensor import convert_to_tensor


@pytest.fixture
def double_floatx():
    before = floatx()
    set_floatx("float64")
    yield
    set_floatx(before)


@pytest.mark.parametrize("op", [ops.zeros, ops.ones, ops.empty])
@pytest.mark.parametrize(
    "shape", [(), 3, (2, 3), [2, 0], np.array([2, 2]), convert_to_tensor([1, 2])]
)
def test_filled_tensor_has_the_shape(op, shape):
    expected = tuple(np.atleast_1d(np.asarray(shape, int)))
    y = op(shape)
    assert tuple(y.shape) == expected
    assert y.dtype == "float32"
    assert op(shape, "int8").dtype == "int8"


def test_default_float_can_change(double_floatx):
    assert ops.zeros(2).dtype == "float64"
    assert ops.eye(2).dtype == "float64"


def test_full_takes_numbers_and_tensors():
    assert ops.full((2,), 3).dtype == "float32"
    np.testing.assert_array_equal(ops.full((2, 2), [1, 2], "int32").numpy(), [[1, 2], [1, 2]])
    np.testing.assert_array_equal(ops.full_like([[1, 2]], 7).numpy(), [[7, 7]])
    assert ops.full_like([1], 2.5, "float32").numpy().tolist() == [2.5]
    with pytest.raises(InvalidArgumentError, match=r"\(2,\)"):
        ops.full((2,), [1.0, 2.0, 3.0])


def test_like_keeps_shape_and_dtype():
    x = np.zeros((2, 3), "int16")
    assert (ops.ones_like(x).shape, ops.ones_like(x).dtype) == ((2, 3), "int16")
    assert ops.zeros_like(x, "float16").dtype == "float16"
    assert ops.empty_like(x).shape == (2, 3)


def test_negative_and_unknown_sizes_raise():
    with pytest.raises(InvalidArgumentError, match="negative"):
        ops.zeros((2, -1))
    with pytest.raises(InvalidArgumentError, match="ones_like"):
        ops.ones((None, 2))


@pytest.mark.parametrize("k", [-1, 0, 2])
def test_matrices(k):
    np.testing.assert_array_equal(ops.eye(3, 4, k).numpy(), np.eye(3, 4, k))
    np.testing.assert_array_equal(ops.tri(3, 4, k).numpy(), np.tri(3, 4, k))
    np.testing.assert_array_equal(ops.identity(3).numpy(), np.eye(3))


@example_settings
@given(st.integers(-20, 20), st.integers(-20, 20), st.integers(-5, 5).filter(bool))
def test_arange_of_integers(start, stop, step):
    result = ops.arange(start, stop, step)
    np.testing.assert_array_equal(result.numpy(), np.arange(start, stop, step))
    assert result.dtype == "int32"


def test_arange_of_floats():
    assert ops.arange(3.0).dtype == "float32"
    np.testing.assert_allclose(ops.arange(0, 1, 0.1).numpy(), np.arange(0, 1, 0.1), rtol=1e-6)
    assert ops.arange(3, dtype="float64").dtype == "float64"
    np.testing.assert_array_equal(ops.arange(convert_to_tensor(4)).numpy(), [0, 1, 2, 3])
    with pytest.raises(InvalidArgumentError, match="step is 0"):
        ops.arange(0, 3, 0)


@example_settings
@given(st.floats(-5, 5), st.floats(-5, 5), st.integers(0, 9), st.booleans())
def test_linspace_agrees_with_numpy(start, stop, num, endpoint):
    assert_same(
        ops.linspace(start, stop, num, endpoint), np.linspace(start, stop, num, endpoint), atol=1e-5
    )


@pytest.mark.parametrize(
    ("start", "stop"),
    [(0.0, 1.0), (0.1, 0.7), (-3.0, 5.0), (2.0, 2.0), (1e30, -1e30), (0.0, np.inf), (0.0, 3e38)],
)
@pytest.mark.parametrize("count", [0, 1, 2, 3, 10, 1001])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_linspace_of_numbers_has_the_bits_of_the_operation(start, stop, count):
    line = ops.linspace(start, stop, count)
    expected = ops.linspace(tk.constant(start), tk.constant(stop), count)
    compiled = tk.function(lambda: ops.linspace(start, stop, count))()
    assert line.dtype == expected.dtype == compiled.dtype == "float32"
    assert line.numpy().tobytes() == expected.numpy().tobytes() == compiled.numpy().tobytes()


@pytest.mark.usefixtures("double_floatx")
@pytest.mark.parametrize("count", [1, 5])
def test_linspace_of_numbers_is_float32_whatever_the_default_is(count):
    assert ops.linspace(0.0, 1.0, count).dtype == tk.linspace(0.0, 1.0, count).dtype


def test_linspace_of_numbers_under_tensorflows_name():
    assert tk.linspace(0.0, 1.0, 3).dtype == "float32"
    assert tk.linspace(0, 1, 3).dtype == "float64"
    assert tk.linspace(0.0, 1.0, 1).numpy().tolist() == [0.0]
    with pytest.raises(InvalidArgumentError, match="num=-1 is negative"):
        tk.linspace(0.0, 1.0, -1)
    with pytest.raises(ShapeError, match="more than any memory"):
        ops.linspace(0.0, 1.0, 2**62)


@pytest.mark.parametrize("limit", [5, 5.0, np.int64(5), np.float64(5), True])
def test_ranges_of_one_number_are_those_of_three(limit):
    one, three = tk.range(limit), ops.arange(0, limit, 1)
    assert one.dtype == three.dtype
    np.testing.assert_array_equal(one.numpy(), three.numpy())
    assert tk.range(limit, dtype="float64").dtype == "float64"


def test_linspace_between_tensors():
    low, high = np.array([0.0, 1.0]), np.array([2.0, 5.0])
    values, step = ops.linspace(low, high, 5, retstep=True, axis=-1)
    want, want_step = np.linspace(low, high, 5, retstep=True, axis=-1)
    np.testing.assert_allclose(values.numpy(), want)
    np.testing.assert_allclose(step.numpy(), want_step)
    assert ops.linspace(0, 10, 5, dtype="int32").numpy().tolist() == [0, 2, 5, 7, 10]
    with pytest.raises(InvalidArgumentError, match="num"):
        ops.linspace(0, 1, -1)


def test_other_spaces():
    np.testing.assert_allclose(ops.logspace(0, 2, 5).numpy(), np.logspace(0, 2, 5), rtol=1e-5)
    np.testing.assert_allclose(
        ops.logspace(0, 3, 4, base=2).numpy(), np.logspace(0, 3, 4, base=2), rtol=1e-5
    )
    np.testing.assert_allclose(
        ops.geomspace(1, 1000, 4).numpy(), np.geomspace(1, 1000, 4), rtol=1e-5
    )
    np.testing.assert_allclose(ops.geomspace(-1, -8, 4).numpy(), np.geomspace(-1, -8, 4), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_many_classes_are_those_of_few(dtype, axis):
    x = (np.arange(300).reshape(20, 15) % 140).astype(dtype)
    if dtype != "uint8":
        x[::3] -= 60
    hot = ops.one_hot(x, 100, axis=axis, dtype="float16")
    expected = np.moveaxis(x[..., None] == np.arange(100), -1, axis)
    assert hot.dtype == tk.float16
    np.testing.assert_array_equal(hot.numpy(), expected)
    with pytest.raises(tk.errors.InvalidArgumentError):
        ops.one_hot(x, 100, axis=3)


def test_one_hot():
    np.testing.assert_array_equal(
        ops.one_hot([0, 2, 5], 3).numpy(), [[1, 0, 0], [0, 0, 1], [0, 0, 0]]
    )
    assert ops.one_hot([[0, 1]], 4, axis=1, dtype="int32").shape == (1, 4, 2)
    np.testing.assert_array_equal(ops.one_hot([-1], 2).numpy(), [[0, 0]])
    np.testing.assert_array_equal(ops.one_hot([0.5, 2.0], 3).numpy(), [[1, 0, 0], [0, 0, 1]])
    with pytest.raises(InvalidArgumentError, match="integers"):
        ops.one_hot([1j], 3)
    with pytest.raises(ShapeError, match="axis"):
        ops.one_hot([1], 3, axis=2)
    with pytest.raises(InvalidArgumentError, match="sparse"):
        ops.one_hot([1], 3, sparse=True)


@pytest.mark.parametrize("name", ["bartlett", "blackman", "hamming", "hanning"])
@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_windows(name, n):
    assert_same(getattr(ops, name)(n), getattr(np, name)(n))


@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_kaiser_window(n):
    assert_same(ops.kaiser(n, 8.6), np.kaiser(n, 8.6))


@pytest.mark.parametrize("indexing", ["xy", "ij"])
def test_meshgrid(indexing):
    axes = [np.arange(2), np.arange(3), np.arange(4)]
    for count in (1, 2, 3):
        grids = ops.meshgrid(*axes[:count], indexing=indexing)
        for got, want in zip(grids, np.meshgrid(*axes[:count], indexing=indexing), strict=True):
            np.testing.assert_array_equal(got.numpy(), want)
    with pytest.raises(InvalidArgumentError, match="indexing"):
        ops.meshgrid([1], indexing="yx")
    plain = ops.meshgrid([1, 2, 3, 4], [5, 6, 7], indexing=indexing)
    flattened = ops.meshgrid([[1, 2], [3, 4]], [5, 6, 7], indexing=indexing)
    for got, want in zip(flattened, plain, strict=True):
        np.testing.assert_array_equal(got.numpy(), want.numpy())


def test_vander():
    x = np.array([2, 3, 5])
    np.testing.assert_array_equal(ops.vander(x).numpy(), np.vander(x))
    np.testing.assert_array_equal(ops.vander(x, 2, True).numpy(), np.vander(x, 2, True))
    with pytest.raises(ShapeError, match="one axis"):
        ops.vander([[1.0]])


# ---------------------------------------------------------------------- conversion


def test_convert_casts_and_keeps_tensors():
    x = convert_to_tensor([1.5, 2.5])
    assert ops.convert_to_tensor(x) is x
    assert ops.convert_to_tensor(x, "int32").numpy().tolist() == [1, 2]
    assert ops.array([1, 2], dtype="float16").dtype == "float16"
    with pytest.raises(InvalidArgumentError, match="sparse"):
        ops.convert_to_tensor([1], sparse=True)


def test_convert_to_numpy_gives_memory_of_its_own():
    x = convert_to_tensor([1.0, 2.0])
    array = ops.convert_to_numpy(x)
    array[0] = 7
    assert x.numpy().tolist() == [1, 2]


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (1.5, "float64"),
        (1, "int64"),
        (True, "bool"),
        ([1, 2], "int64"),
        ((1, 2.0), "float64"),
        ([[np.float32(1)]], "float32"),
        (np.float16(1), "float16"),
        ([convert_to_tensor(1.5), 2], "float32"),
        (np.ones(2, "float32"), "float32"),
    ],
)
def test_numbers_of_python_become_arrays_of_numpys_dtypes(value, dtype):
    array = ops.convert_to_numpy(value)
    assert array.dtype == dtype
    np.testing.assert_array_equal(array, np.array(value, dtype))


def test_what_is_no_tensor_is_no_array_either():
    for value in ([1, None], [[1, 2], [3]]):
        with pytest.raises((TypeError, ValueError)):
            ops.convert_to_numpy(value)


def test_copy_and_dtype():
    x = convert_to_tensor([1.0])
    y = ops.copy(x)
    assert y is not x
    assert y.numpy().tolist() == [1]
    assert ops.dtype(x) == "float32"
    assert ops.dtype(3) == "int32"


def test_view_reads_the_same_bits():
    x = np.array([1.0, -2.0], "float32")
    np.testing.assert_array_equal(ops.view(x, "int32").numpy(), x.view("int32"))
    np.testing.assert_array_equal(ops.view(x, "uint8").numpy(), x.view("uint8"))
    np.testing.assert_array_equal(ops.view(x.view("uint8"), "float32").numpy(), x)
    with pytest.raises(ShapeError, match="multiple"):
        ops.view(np.zeros(3, "uint8"), "float32")


def test_select_takes_the_first_true():
    x = np.arange(5)
    result = ops.select([x < 2, x < 4], [x * 10, x * 100], -1)
    np.testing.assert_array_equal(result.numpy(), [0, 10, 200, 300, -1])
    with pytest.raises(InvalidArgumentError, match="conditions"):
        ops.select([x < 2], [])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool", "complex64", "bfloat16"])
@pytest.mark.parametrize("dims", [(), (0,), (2, 3), [2, 3]])
def test_zeros_and_ones_have_shape_and_dtype(dims, dtype):
    for make, value in ((tk.zeros, 0), (tk.ones, 1)):
        tensor = make(dims, dtype)
        assert (tuple(tensor.shape), tensor.dtype.name) == (tuple(dims), dtype)
        np.testing.assert_array_equal(tensor.numpy(), np.full(dims, value, tensor.numpy().dtype))


def test_sizes_that_no_tensor_has_are_refused_by_every_way():
    for dims in [(-1, 2), (2, None), (1 << 40, 1 << 40), (2, "x")]:
        with pytest.raises((tk.errors.InvalidArgumentError, TypeError, ValueError)):
            tk.zeros(dims)


def test_a_number_that_fills_a_shape_is_read_only():
    filled = np.asarray(tk.fill((2, 3), 2.5))
    np.testing.assert_array_equal(filled, np.full((2, 3), 2.5, "float32"))
    assert not filled.flags.writeable


@pytest.mark.parametrize("dtype", [None, "float32", "int64", "bool"])
def test_one_hot_without_values_is_that_with_ones_and_zeros(dtype):
    indices = [[0, 2], [5, -1]]
    for axis in (None, -1, 0, 1):
        hot = tk.one_hot(indices, 3, axis=axis, dtype=dtype)
        values = {"on_value": 1.0, "off_value": 0.0} if dtype != "bool" else {}
        other = tk.one_hot(indices, 3, axis=axis, dtype="float32", **values)
        assert hot.dtype.name == (dtype or "float32")
        np.testing.assert_array_equal(hot.numpy(), other.numpy())


@pytest.mark.parametrize("dims", [(), (3,), (2, 3), (0, 3)])
@pytest.mark.parametrize("added", [(), (4,), (1,), (0,), (2, 5)])
def test_axes_in_front_are_repeated_as_numpy_does(dims, added):
    x = np.arange(np.prod(dims), dtype="float32").reshape(dims)
    for values in (x, x.astype("int64"), x.astype("bool"), x.astype("complex64")):
        for array in (values, values[::-1] if values.ndim else values):
            repeated = np.asarray(tk.broadcast_to(tk.constant(array), added + dims))
            expected = np.broadcast_to(array, added + dims)
            assert repeated.shape == expected.shape
            assert not added or not repeated.flags.writeable
            np.testing.assert_array_equal(repeated, expected)
