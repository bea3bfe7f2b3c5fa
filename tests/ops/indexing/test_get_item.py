import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.ops.numpy_compare import assert_same
from trainkit import ops
from trainkit.autodiff.tape import GradientTape
from trainkit.core.dispatch.eval_shape import result_specs
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.variable import Variable

X = np.arange(120.0).reshape(2, 3, 4, 5)
ROWS = np.array([0, 1, 1])
MASK = np.zeros((3, 4), bool)
MASK[1, 2] = MASK[0, 0] = True

KEYS = [
    0,
    -1,
    slice(None),
    slice(1, 100),
    slice(None, None, -1),
    (0, 1),
    (slice(None), 1),
    (..., 0),
    (None, 0, ..., None),
    (0, 0, 0, 0),
    (),
    ROWS,
    [0, 1],
    np.int64(1),
    np.array(1),
    np.array([], int),
    (slice(None), ROWS),
    (ROWS, slice(None), ROWS),
    (slice(None), ROWS, ROWS),
    (0, slice(None), ROWS),
    (ROWS[:2, None], ROWS),
    (ROWS, None, ...),
    (slice(None), MASK),
    (slice(None), MASK, 2),
    X > 50,
    (..., np.array([True, False, True, False, True])),
]


def as_tensors(key):
    """`key` with tensors in place of its arrays."""
    if isinstance(key, tuple):
        return tuple(as_tensors(k) for k in key)
    return convert_to_tensor(key) if isinstance(key, np.ndarray) else key


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_items_agree_with_numpy(key):
    x = convert_to_tensor(X)
    assert_same(x[key], X[key])
    assert_same(x[as_tensors(key)], X[key])
    assert_same(Variable(X)[key], X[key])
    assert_same(ops.get_item(X, key), X[key])


@pytest.mark.parametrize("key", KEYS, ids=repr)
@pytest.mark.parametrize("known", [True, False])
def test_promised_shape_fits_the_result(key, known):
    dims = X.shape if known else (None,) * 4
    promised = result_specs(lambda x: x[as_tensors(key)], Spec(dims, "float64"))
    actual = X[key].shape
    assert len(promised.shape) == len(actual)
    assert all(n in (None, m) for n, m in zip(promised.shape, actual, strict=True))


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_gradient_goes_back_to_where_elements_came_from(key):
    x = convert_to_tensor(X)
    weights = np.cos(np.arange(X[key].size)).reshape(X[key].shape)
    with GradientTape() as tape:
        tape.watch(x)
        y = ops.sum(x[as_tensors(key)] * weights)
    expected = np.zeros_like(X)
    np.add.at(expected, key, weights)
    assert_same(tape.gradient(y, x), expected)


@settings(max_examples=50)
@given(st.data())
def test_any_basic_key_agrees_with_numpy(data):
    x = data.draw(hnp.arrays("int32", hnp.array_shapes(min_dims=1, max_dims=4, max_side=4)))
    key = data.draw(hnp.basic_indices(x.shape, allow_newaxis=True))
    assert_same(convert_to_tensor(x)[key], x[key])


@settings(max_examples=50)
@given(st.data())
def test_any_integer_arrays_agree_with_numpy(data):
    x = data.draw(hnp.arrays("int32", hnp.array_shapes(min_dims=1, max_dims=3, max_side=4)))
    key = data.draw(hnp.integer_array_indices(x.shape))
    assert_same(convert_to_tensor(x)[tuple(convert_to_tensor(k) for k in key)], x[key])


def test_bounds_of_slices_may_be_tensors():
    x = convert_to_tensor([1.0, 2.0, 3.0, 4.0])
    assert_same(x[convert_to_tensor(1) : Variable(3)], [2.0, 3.0])


def test_scalars_come_out_of_vectors_as_scalars():
    item = convert_to_tensor([1.0, 2.0])[1]
    assert type(item) is Tensor
    assert (tuple(item.shape), float(item)) == ((), 2.0)


def test_a_variable_keeps_items_apart_from_assignments():
    v = Variable([1.0, 2.0])
    item = v[0:1]
    v.assign([5.0, 6.0])
    assert_same(item, [1.0])


ERRORS = [
    (5, r"slice index 5 of dimension 0 out of bounds.*\(2, 3, 4, 5\)"),
    ((slice(None), -4), "slice index -4 of dimension 1 out of bounds"),
    ((0,) * 5, "5 indices for a tensor of shape"),
    ((..., ...), "only one ellipsis"),
    ([7], "index 7 is out of bounds"),
    ("a", "'a' is no index"),
    (1.5, "1.5 is no index"),
    (slice(0.5, 2), "bound 0.5 of a slice"),
    (np.array([1.5]), "holds ints or bools, this one float64"),
    (np.array([True]), "boolean index did not match"),
]


@pytest.mark.parametrize(("key", "message"), ERRORS)
def test_errors_say_what_is_wrong(key, message):
    with pytest.raises(InvalidArgumentError, match=message):
        convert_to_tensor(X)[key]


def test_nonzero_agrees_with_numpy():
    for ours, numpys in zip(ops.nonzero(MASK), np.nonzero(MASK), strict=True):
        assert_same(ours, numpys)
        assert ours.dtype == "int32"
    with pytest.raises(ShapeError, match="got a scalar"):
        ops.nonzero(3)
