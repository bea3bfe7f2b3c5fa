"""Tensors as values: texts, numbers, arrays, and what can't be done with them."""

import copy
import operator
import pickle

import ml_dtypes
import numpy as np
import pytest

import trainkit as tk
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import convert_to_tensor, wrap
from trainkit.core.values.python_values import array_of, short_text

REPRS = [
    (3, "<tf.Tensor: shape=(), dtype=int32, numpy=3>"),
    (True, "<tf.Tensor: shape=(), dtype=bool, numpy=True>"),
    ([1.0, 2.0], "<tf.Tensor: shape=(2,), dtype=float32, numpy=array([1., 2.], dtype=float32)>"),
    (
        [[1, 2], [3, 4]],
        "<tf.Tensor: shape=(2, 2), dtype=int32, numpy=\n"
        "array([[1, 2],\n       [3, 4]], dtype=int32)>",
    ),
]
STRS = [
    (3, "tf.Tensor(3, shape=(), dtype=int32)"),
    ([1.0, 2.0], "tf.Tensor([1. 2.], shape=(2,), dtype=float32)"),
    ([[1], [2]], "tf.Tensor(\n[[1]\n [2]], shape=(2, 1), dtype=int32)"),
]
DTYPES = [
    (1, "int32"),
    (2**40, "int64"),
    (1.5, "float32"),
    (True, "bool"),
    (1j, "complex128"),
    ([1, 2.5], "float32"),
    ([], "float32"),
    (np.float64(1.0), "float64"),
    ([np.float64(1.0)], "float64"),
    (np.arange(2), "int64"),
    (np.ones(2, ml_dtypes.bfloat16), "bfloat16"),
]


@pytest.mark.parametrize(("value", "text"), REPRS)
def test_repr_is_tensorflows(value, text):
    assert repr(tk.constant(value)) == text


@pytest.mark.parametrize(("value", "text"), STRS)
def test_str_is_tensorflows(value, text):
    assert str(tk.constant(value)) == text


def test_format_takes_the_codes_of_numbers():
    assert f"{tk.constant(3.14159):.2f}" == "3.14"
    assert f"{tk.constant(3)}" == "3"
    assert f"{tk.constant([3])}" == "[3]"


@pytest.mark.parametrize(("value", "dtype"), DTYPES)
def test_values_get_their_dtype(value, dtype):
    assert convert_to_tensor(value).dtype == dtype


def test_facts():
    x = tk.zeros([2, 3], tk.float16)
    assert (x.shape, x.ndim, x.rank, x.size, x.nbytes) == ((2, 3), 2, 2, 6, 12)
    assert x.get_shape().as_list() == [2, 3]
    assert x.device == tk.config.list_logical_devices()[-1].name


# ------------------------------------------------------------------ numbers


def test_scalars_become_python_numbers():
    assert (float(tk.constant(1.5)), int(tk.constant(7)), complex(tk.constant(2.0))) == (1.5, 7, 2)
    assert float(tk.constant([[2.0]])) == 2.0
    assert bool(tk.constant(0.0)) is False
    assert bool(tk.constant([3])) is True
    assert operator.index(tk.constant(2)) == 2
    assert "abc"[tk.constant(1)] == "b"
    assert list(range(tk.constant(3))) == [0, 1, 2]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: bool(tk.constant([1, 2])), ValueError, r"shape \(2,\) is ambiguous; use tk"),
        (lambda: float(tk.constant([1, 2])), ValueError, r"float\(\) needs .* shape \(2,\)"),
        (lambda: int(tk.constant([1, 2])), ValueError, r"int\(\) needs .* shape \(2,\)"),
        (lambda: complex(tk.constant([1, 2])), ValueError, r"complex\(\) needs"),
        (lambda: operator.index(tk.constant(1.0)), TypeError, "scalar tensor of integers"),
        (lambda: operator.index(tk.constant([1])), TypeError, r"shape \(1,\)"),
        (lambda: len(tk.constant(1)), TypeError, "a scalar tensor has no length"),
        (lambda: iter(tk.constant(1)), TypeError, "can't be iterated"),
    ],
)
def test_what_is_no_number_says_so(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_items_lists_and_members():
    x = tk.constant([[1, 2], [3, 4]])
    assert (len(x), x.tolist(), x[1, 0].item()) == (2, [[1, 2], [3, 4]], 3)
    assert [row.tolist() for row in x] == [[1, 2], [3, 4]]
    assert 3 in x
    assert 7 not in x
    a, b = tk.constant([5, 6])
    assert (int(a), int(b)) == (5, 6)


# ------------------------------------------------------------------ arrays


@pytest.mark.parametrize("make", [tk.constant, tk.Variable])
@pytest.mark.parametrize("shape", [(2,), (3, 0), (2, 20_000)])
def test_numpy_gives_an_array_of_ones_own(make, shape):
    x = make(tk.ones(shape))
    array = x.numpy()
    array[...] = 5
    array.resize(array.size, refcheck=False)
    assert float(tk.reduce_sum(x)) == np.prod(shape)


@pytest.mark.parametrize("x", [tk.constant([[1.0, 2.0], [3.0, 4.0]]), tk.constant(["a", "b"])])
def test_numpy_of_a_part_in_another_order_can_be_written_to(x):
    array = tk.transpose(x)[::-1].numpy()
    before = x.tolist()
    array[0] = array[-1]
    assert x.tolist() == before


@pytest.mark.usefixtures("on_cpu")
def test_asarray_is_a_read_only_view():
    x = tk.constant([1.0, 2.0])
    array = np.asarray(x)
    assert np.shares_memory(array, x._array)
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 5
    assert x.tolist() == [1.0, 2.0]


def test_numpy_of_a_scalar_is_a_numpy_scalar():
    value = tk.reduce_sum(tk.constant([1.0, 2.0])).numpy()
    assert type(value) is np.float32
    assert value == 3.0


def test_a_tensor_keeps_no_hold_of_the_array_it_came_from():
    array = np.ones(3, np.float32)
    x = tk.constant(array)
    y = tk.convert_to_tensor(array)
    array[:] = 7
    assert x.tolist() == y.tolist() == [1, 1, 1]


def test_array_protocol():
    x = tk.constant([1, 2])
    assert np.asarray(x).dtype == np.int32
    assert np.asarray(x, np.float64).dtype == np.float64
    copied = np.array(x)
    copied[0] = 9
    assert x.tolist() == [1, 2]
    with pytest.raises(ValueError, match="without a copy"):
        x.__array__(np.float64, copy=False)


def test_numpy_functions_take_tensors():
    x = tk.constant([1.0, 4.0])
    np.testing.assert_array_equal(np.sqrt(x), [1, 2])
    np.testing.assert_array_equal(np.concatenate([x, x]), [1, 4, 1, 4])
    assert np.ones(2) @ np.asarray(x) == 5


def test_an_array_on_the_left_leaves_operators_to_the_tensor():
    y = np.ones(2, np.float32) + tk.constant([1.0, 2.0])
    assert isinstance(y, tk.Tensor)
    assert y.tolist() == [2, 3]


@pytest.mark.usefixtures("on_cpu")
def test_dlpack_shares_memory():
    x = tk.constant([1.0, 2.0])
    array = np.from_dlpack(x)
    assert np.shares_memory(array, x._array)
    assert x.__dlpack_device__()[0] == 1


def test_python_numbers_are_weak():
    for dtype in ("float16", "bfloat16", "float32", "float64"):
        x = tk.constant([1.0], dtype)
        assert {(x + 1).dtype.name, (2.5 * x).dtype.name, (x**2).dtype.name} == {dtype}
    assert (tk.constant([1], tk.int8) + 1).dtype == tk.int8
    assert (tk.constant([1]) + 1.5).dtype == tk.float32


# ------------------------------------------------------------------ conversion


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: tk.constant([[1], [1, 2]]), tk.errors.InvalidArgumentError, "same length"),
        (lambda: tk.constant(["a", 1]), tk.errors.InvalidArgumentError, "it holds int, str"),
        (lambda: tk.constant(object()), tk.errors.InvalidArgumentError, "it holds object"),
        (lambda: tk.constant([1.5], "int32"), TypeError, "can't be had as int32 without rounding"),
        (lambda: tk.constant([1j], "float32"), TypeError, "as float32 without its imaginary parts"),
        (lambda: tk.Variable([1.0]).assign([1j]), TypeError, "without its imaginary parts"),
        (lambda: tk.constant([300], "int8"), ValueError, "300 doesn't fit int8, which holds"),
        (
            lambda: tk.convert_to_tensor(tk.constant(1.0), "int32"),
            ValueError,
            "has dtype float32, int32 was asked for; use tk.cast",
        ),
    ],
)
def test_what_does_not_convert_says_why(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_a_list_with_tensors_is_stacked_and_gradients_flow():
    x = tk.constant(2.0)
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = convert_to_tensor([x, 3.0, [x * x, x][1]])
    assert y.tolist() == [2, 3, 2]
    assert float(tape.gradient(y, x)) == 2.0


def test_dtype_hint_is_used_where_values_fit():
    assert convert_to_tensor(1, dtype_hint=tk.float64).dtype == tk.float64
    assert convert_to_tensor(1.5, dtype_hint=tk.int32).dtype == tk.float32


def test_a_tensor_converts_to_itself():
    x = tk.constant(1.0)
    assert convert_to_tensor(x) is x


def test_an_object_may_convert_itself():
    class Temperature:
        def __tensor__(self, dtype=None):
            return tk.constant(21.0)

    assert float(convert_to_tensor(Temperature())) == 21.0


def test_array_of_and_short_text():
    assert array_of([1, 2]).dtype == np.int32
    assert short_text(list(range(100))).endswith("...")
    assert len(short_text("x" * 500)) == 80


# ------------------------------------------------------------------ identity


def test_tensors_are_hashed_by_identity_and_compared_by_value():
    x, y = tk.constant([1, 2]), tk.constant([1, 3])
    assert (x == y).tolist() == [True, False]
    assert len({x, y, x}) == 2
    assert x.ref() == x.ref()
    assert x.ref() != tk.constant([1, 2]).ref()
    assert x.ref().deref() is x
    assert repr(x.ref()).startswith("<Reference wrapping <tf.Tensor")
    assert {x.ref(): 1}[x.ref()] == 1


def test_tensors_take_no_attributes():
    with pytest.raises(AttributeError):
        tk.constant(1.0).color = "red"


def test_copies_share_and_pickles_do_not():
    x = tk.constant([1.0, 2.0])
    assert copy.copy(x) is x
    assert copy.deepcopy(x) is x
    again = pickle.loads(pickle.dumps(x))
    assert again.tolist() == [1.0, 2.0]
    assert not np.shares_memory(again._array, x._array)
    assert (again.dtype, pickle.loads(pickle.dumps(x.dtype))) == (tk.float32, tk.float32)


def test_cpu_is_the_tensor_itself_there():
    with tk.device("/cpu:0"):
        x = tk.constant(1.0)
    assert x.cpu() is x


# ------------------------------------------------------------------ symbols


@pytest.mark.parametrize(
    "look",
    [bool, float, int, complex, list, np.asarray, lambda x: 1 in x, pickle.dumps, operator.index],
)
def test_a_symbol_has_no_value(look):
    from trainkit.core.shapes import Spec

    x = SymbolicTensor(Spec((None,), "float32"))
    with pytest.raises(TypeError, match="needs a value"):
        look(x)


def test_a_symbol_has_a_shape_and_no_numpy():
    from trainkit.core.shapes import Spec

    x = SymbolicTensor(Spec((None, 2), "float32"))
    assert (x.shape.as_list(), x.dtype, x.ndim) == ([None, 2], tk.float32, 2)
    assert not hasattr(x, "numpy")
    assert str(x) == "Tensor(shape=(None, 2), dtype=float32)"
    assert copy.deepcopy(x) is x
    with pytest.raises(TypeError, match=r"len\(\) needs a value"):
        len(x)
    with pytest.raises(ValueError, match="belongs to a graph and has no value here"):
        tk.exp(x)


def test_wrap_makes_no_copy():
    array = np.ones(2, np.float32)
    assert wrap(array)._array is array
