import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.ops.numpy_compare import arrays, assert_same
from trainkit import ops
from trainkit.core.dispatch.eval_shape import result_specs
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import convert_to_tensor
from trainkit.core.variable import Variable

X = np.arange(24.0).reshape(2, 3, 4)


@st.composite
def permutations(draw):
    x = draw(arrays())
    return x, tuple(draw(st.permutations(range(x.ndim))))


@given(permutations())
def test_transpose_agrees_with_numpy(drawn):
    x, axes = drawn
    assert_same(ops.transpose(x, axes), np.transpose(x, axes))
    assert_same(ops.transpose(x), np.transpose(x))


@given(arrays(min_dims=1), st.data())
def test_moveaxis_and_swapaxes_agree_with_numpy(x, data):
    one = data.draw(st.integers(-x.ndim, x.ndim - 1))
    two = data.draw(st.integers(-x.ndim, x.ndim - 1))
    assert_same(ops.moveaxis(x, one, two), np.moveaxis(x, one, two))
    assert_same(ops.swapaxes(x, one, two), np.swapaxes(x, one, two))


@given(arrays(), st.data())
def test_expand_dims_and_squeeze_undo_each_other(x, data):
    axes = data.draw(hnp.valid_tuple_axes(x.ndim + 2, min_size=2, max_size=2))
    wider = ops.expand_dims(x, axes)
    assert_same(wider, np.expand_dims(x, axes))
    assert_same(ops.squeeze(wider, axes), x)


@given(arrays(min_side=1), st.data())
def test_broadcast_to_agrees_with_numpy(x, data):
    lead = data.draw(hnp.array_shapes(min_dims=0, max_dims=2, max_side=3))
    shape = lead + tuple(3 if n == 1 else n for n in x.shape)
    assert_same(ops.broadcast_to(x, shape), np.broadcast_to(x, shape))


@pytest.mark.parametrize("shape", [(4, 6), (-1,), (2, -1, 2), [3, 8], np.array([8, 3])])
def test_reshape_agrees_with_numpy(shape):
    assert_same(ops.reshape(X, shape), np.reshape(X, tuple(shape)))


def test_reshape_takes_tensors_variables_and_lists():
    wanted = (6, 4)
    for shape in (convert_to_tensor([6, 4]), [Variable(6), 4], (np.int64(6), convert_to_tensor(4))):
        assert tuple(ops.reshape(Variable(X), shape).shape) == wanted


def test_reshape_of_nothing_fills_the_free_size():
    assert tuple(ops.reshape(np.zeros((0, 3)), (-1, 3)).shape) == (0, 3)


def test_sizes_are_python_numbers_eagerly():
    assert ops.shape(X) == (2, 3, 4)
    assert (int(ops.size(X)), ops.ndim(X)) == (24, 3)
    assert ops.size(X).dtype == "int32"


def test_broadcast_shapes_gives_the_common_shape():
    assert ops.broadcast_shapes((2, 1), (3,)) == [2, 3]


def test_functional_symbols_show_unknown_sizes_as_none():
    spec = result_specs(lambda x: ops.reshape(x, (-1, 4)), Spec((None, 3, 4), "float32"))
    assert spec.shape == (None, 4)


def test_squeeze_without_axes_keeps_unknown_sizes():
    assert result_specs(ops.squeeze, Spec((None, 1, 3), "float32")).shape == (None, 3)


@pytest.mark.usefixtures("on_cpu")
def test_a_reshaped_tensor_shares_memory():
    x = convert_to_tensor(X)
    assert np.shares_memory(np.asarray(ops.reshape(x, (-1,))), np.asarray(x))


ERRORS = [
    (lambda: ops.reshape(X, (5, 5)), "reshape: .*24 elements.*needs 25"),
    (lambda: ops.reshape(X, (5, -1)), "do not divide into"),
    (lambda: ops.reshape(X, (-1, -1)), "one size may be -1"),
    (lambda: ops.reshape(X, (2.5, -1)), "whole numbers"),
    (lambda: ops.transpose(X, (0, 1)), "each of the 3 axes"),
    (lambda: ops.transpose(X, (0, 1, 1)), "names an axis twice"),
    (lambda: ops.expand_dims(X, 5), "axis 5 is out of range"),
    (lambda: ops.squeeze(X, 0), "has size 2; only axes of size 1"),
    (lambda: ops.swapaxes(X, 0, 3), "swapaxes: axis 3"),
    (lambda: ops.moveaxis(X, (0, 1), 0), "2 axes to move, 1 places"),
    (lambda: ops.broadcast_to(X, (3, 4, 4)), "does not broadcast"),
    (lambda: ops.broadcast_to(X, (4,)), "does not broadcast"),
    (lambda: ops.broadcast_shapes((2,), (3,)), "do not broadcast"),
]


@pytest.mark.parametrize(("call", "message"), ERRORS)
def test_errors_show_the_shapes(call, message):
    with pytest.raises(InvalidArgumentError, match=message):
        call()


def test_shape_errors_are_value_errors():
    assert issubclass(ShapeError, ValueError)
