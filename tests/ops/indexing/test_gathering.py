import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import trainkit as tk
from tests.ops.numpy_compare import arrays, assert_same
from trainkit import ops
from trainkit.autodiff.tape import GradientTape
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.tensor import convert_to_tensor
from trainkit.ops.indexing.gathering import gather, gather_nd

X = np.arange(24.0).reshape(2, 3, 4)


@given(arrays(min_dims=1, min_side=1), st.data())
def test_take_agrees_with_numpy(x, data):
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    n = x.shape[axis]
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3))
    where = data.draw(hnp.arrays("int64", shape, elements=st.integers(-n, n - 1)))
    assert_same(ops.take(x, where, axis), np.take(x, where, axis))
    assert_same(ops.take(x, where % n), np.take(x, where % n))


@given(arrays(min_dims=1, min_side=1), st.data())
def test_take_along_axis_agrees_with_numpy(x, data):
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    n = x.shape[axis]
    shape = list(x.shape)
    shape[axis] = data.draw(st.integers(0, 5))
    where = data.draw(hnp.arrays("int32", tuple(shape), elements=st.integers(-n, n - 1)))
    assert_same(ops.take_along_axis(x, where, axis), np.take_along_axis(x, where, axis))


def test_rows_picked_twice_add_their_gradients():
    table = convert_to_tensor(np.zeros((4, 3), np.float32))
    with GradientTape() as tape:
        tape.watch(table)
        y = ops.sum(ops.take(table, [[1, 3], [1, -1]], axis=0))
    assert_same(tape.gradient(y, table), np.outer([0, 2, 0, 2], np.ones(3)))


def test_gather_nd_picks_rows_of_positions():
    where = np.array([[[0, 1], [1, 2]], [[0, 0], [-1, -1]]])
    assert_same(gather_nd(X, where), X[tuple(np.moveaxis(where, -1, 0))])
    assert_same(gather_nd(X, np.zeros((2, 0), int)), np.stack([X, X]))


def test_unravel_index_agrees_with_numpy():
    for ours, numpys in zip(
        ops.unravel_index([5, 0, -1], (2, 3)), np.unravel_index([5, 0, 5], (2, 3)), strict=True
    ):
        assert_same(ours, numpys)


ERRORS = [
    (lambda: gather([1.0], [2]), r"gather: indices\[0\] = 2 is not in \[0, 1\) \[Op:GatherV2\]"),
    (lambda: gather([1.0], [-1]), r"indices\[0\] = -1 is not in \[0, 1\)"),
    (lambda: ops.take([1.0], [2], 0), r"take: indices\[0\] = 2 is not in \[0, 1\)"),
    (lambda: ops.take(X, [[0, 0], [0, 3]], 1), r"indices\[1,1\] = 3 is not in \[0, 3\)"),
    (lambda: ops.take(X, -4, 1), r"indices = -4 is not in \[0, 3\)"),
    (lambda: ops.take([], [0]), r"indices\[0\] = 0 is not in \[0, 0\)"),
    (lambda: ops.take(X, [0.5], 1), "positions are integers, got float32"),
    (lambda: ops.take_along_axis(X, X.astype(int), 1), r"indices\[0,0,3\] = 3 is not in"),
    (
        lambda: gather_nd(X, [[0, 3]]),
        r"indices\[0\] = \[0, 3\] does not index into shape \[2, 3, 4\]",
    ),
    (lambda: ops.unravel_index([6], (2, 3)), r"indices\[0\] = 6 is not in \[0, 6\)"),
]


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize(("call", "message"), ERRORS)
def test_positions_outside_are_named(call, message):
    with pytest.raises(InvalidArgumentError, match=message):
        call()


def test_ranks_must_fit():
    with pytest.raises(ShapeError, match="axis 3 is out of range"):
        ops.take(X, [0], 3)
    with pytest.raises(ShapeError, match="need as many axes"):
        ops.take_along_axis(X, [0], 1)
    with pytest.raises(ShapeError, match="name 4 axes"):
        gather_nd(X, [[0, 0, 0, 0]])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("turned", [False, True])
def test_rows_of_positions_of_every_integer_pick_and_add_up(rng, dtype, depth, turned):
    array = rng.normal(size=(4, 3, 2)).astype("float32")
    x = array.transpose(2, 1, 0) if turned else array
    rows = np.stack([rng.integers(0, n, (5, 2)) for n in x.shape[:depth]], -1).astype(dtype)
    index = tuple(rows[..., i].astype("int64") for i in range(depth))
    np.testing.assert_array_equal(ops.gather_nd(x, rows).numpy(), x[index], strict=True)
    sums = x.copy()
    np.add.at(sums, index, 1.0)
    ones = np.ones((5, 2, *x.shape[depth:]), "float32")
    np.testing.assert_array_equal(ops.scatter_nd_add(x, rows, ones).numpy(), sums)


@pytest.mark.parametrize("dims", [(5,), (4, 6), (3, 4, 5), (3, 0), (0, 3)])
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "int8"])
@pytest.mark.parametrize("layout", ["C", "F"])
def test_take_along_axis_picks_as_numpy_does(rng, dims, dtype, layout):
    x = np.asarray(rng.normal(size=dims), order=layout)
    for axis in range(-len(dims), len(dims)):
        n, shape = dims[axis], list(dims)
        shape[axis] = 7 if n else 0
        indices = rng.integers(0 if dtype == "uint8" else -n, max(n, 1), shape).astype(dtype)
        expected = np.take_along_axis(x, indices.astype("int64"), axis)
        for value in (tk.constant(x), tk.transpose(tk.constant(x.T.copy()))):
            picks = tk.ops.take_along_axis(value, indices, axis)
            np.testing.assert_array_equal(picks, expected, strict=True)
        strided = tk.constant(np.repeat(indices, 2, 0))[::2]
        np.testing.assert_array_equal(tk.ops.take_along_axis(x, strided, axis), expected)
    one = tk.ops.take_along_axis(x, np.zeros((1,) * len(dims), dtype), 0) if x.size else x[:1]
    np.testing.assert_array_equal(one, x[:1])
