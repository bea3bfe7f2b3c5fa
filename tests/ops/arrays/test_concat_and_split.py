import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ops.numpy_compare import arrays, assert_same
from trainkit import ops
from trainkit.core.errors import ShapeError
from trainkit.core.tensor import convert_to_tensor

X = np.arange(24.0).reshape(2, 3, 4)


@st.composite
def same_shapes(draw):
    first = draw(arrays(min_dims=1))
    more = draw(st.lists(arrays((first.dtype.name,), shape=first.shape), max_size=2))
    return [first, *more], draw(st.integers(-first.ndim, first.ndim - 1))


@given(same_shapes())
def test_joins_agree_with_numpy(drawn):
    xs, axis = drawn
    assert_same(ops.concatenate(xs, axis), np.concatenate(xs, axis))
    assert_same(ops.concatenate(xs, None), np.concatenate(xs, None))
    assert_same(ops.stack(xs, axis), np.stack(xs, axis))
    for ours, numpys in ((ops.hstack, np.hstack), (ops.vstack, np.vstack), (ops.dstack, np.dstack)):
        assert_same(ours(xs), numpys(xs))
    assert_same(ops.append(xs[0], xs[-1], axis), np.append(xs[0], xs[-1], axis))


@given(arrays(min_dims=1, min_side=1), st.data())
def test_pieces_agree_with_numpy(x, data):
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    n = x.shape[axis]
    cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=3)))
    parts = data.draw(st.sampled_from([k for k in range(1, n + 1) if n % k == 0]))
    count = data.draw(st.integers(1, 5))
    for ours, numpys in (
        (ops.split(x, cuts, axis), np.split(x, cuts, axis)),
        (ops.split(x, parts, axis), np.split(x, parts, axis)),
        (ops.array_split(x, count, axis), np.array_split(x, count, axis)),
        (ops.unstack(x, axis=axis), list(np.moveaxis(x, axis, 0))),
    ):
        assert len(ours) == len(numpys)
        for one, two in zip(ours, numpys, strict=True):
            assert_same(one, two)


def test_dtypes_promote_when_joined():
    assert ops.concatenate([np.float32([1]), np.int64([2])]).dtype == "float32"
    assert ops.stack([[1, 2], [1.5, 2.5]]).dtype == "float32"


def test_split_takes_a_tensor_of_cuts():
    pieces = ops.split(X, convert_to_tensor([1, 2]), axis=2)
    assert [tuple(p.shape) for p in pieces] == [(2, 3, 1), (2, 3, 1), (2, 3, 2)]


def test_directed_splits_agree_with_numpy():
    for ours, numpys in ((ops.hsplit, np.hsplit), (ops.vsplit, np.vsplit), (ops.dsplit, np.dsplit)):
        for one, two in zip(ours(X, [1]), numpys(X, [1]), strict=True):
            assert_same(one, two)


def test_scalars_gain_axes():
    assert [tuple(f(3.0).shape) for f in (ops.atleast_1d, ops.atleast_2d, ops.atleast_3d)] == [
        (1,),
        (1, 1),
        (1, 1, 1),
    ]
    assert tuple(ops.atleast_3d(np.ones((2, 3))).shape) == (2, 3, 1)


def test_a_list_with_tensors_converts_by_stacking():
    row = convert_to_tensor([1.0, 2.0])
    assert_same(convert_to_tensor([row, [3.0, 4.0]]), [[1, 2], [3, 4]])


ERRORS = [
    (
        lambda: ops.concatenate([X, X[:, :2]], 0),
        r"axis 0 must be equal\n.*\(2, 3, 4\)\n.*\(2, 2, 4\)",
    ),
    (lambda: ops.concatenate([X], 3), "axis 3 is out of range"),
    (lambda: ops.concatenate([]), "at least one tensor"),
    (lambda: ops.stack([X, X[0]]), "all shapes must be equal"),
    (lambda: ops.stack([X], 5), "axis 5 is out of range"),
    (lambda: ops.split(X, 2, 1), "has size 3, which 2 does not divide"),
    (lambda: ops.split(X, 0, 1), "which 0 does not divide"),
    (lambda: ops.split(X, 2, 7), "axis 7 is out of range"),
    (lambda: ops.array_split(X, 0), "into 0 pieces"),
    (lambda: ops.unstack(X, num=3), "has size 2, num=3"),
    (lambda: ops.vsplit([1.0], 1), "vsplit: needs 2 axes"),
]


@pytest.mark.parametrize(("call", "message"), ERRORS)
def test_errors_show_the_shapes(call, message):
    with pytest.raises(ShapeError, match=message):
        call()
