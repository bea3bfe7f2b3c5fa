import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ops.numpy_compare import arrays, assert_same
from trainkit import ops
from trainkit.core.errors import ShapeError


@pytest.mark.parametrize("shape", [(3, 5), (300, 299), (0, 4)], ids=str)
@pytest.mark.parametrize("k", [-1, 0, 2])
def test_triangles_are_the_same_at_the_second_call(shape, k):
    x = np.full(shape, np.nan, np.float32)
    for _ in range(2):
        np.testing.assert_array_equal(ops.tril(x, k).numpy(), np.tril(x, k))
        np.testing.assert_array_equal(ops.triu(x, k).numpy(), np.triu(x, k))


@given(arrays(min_dims=2), st.integers(-3, 3), st.sampled_from([(0, 1), (1, 0), (-1, 0)]))
def test_diagonals_agree_with_numpy(x, offset, axes):
    one, two = axes
    assert_same(ops.diagonal(x, offset, one, two), np.diagonal(x, offset, one, two))
    assert_same(ops.tril(x, offset), np.tril(x, offset))
    assert_same(ops.triu(x, offset), np.triu(x, offset))


@given(arrays(low=-9, high=9, min_dims=2), st.integers(-3, 3))
def test_trace_agrees_with_numpy(x, offset):
    assert_same(ops.trace(x, offset), np.trace(x.astype("float64"), offset))


@given(arrays(min_dims=1), st.integers(-3, 3))
def test_vectors_become_matrices(x, k):
    assert_same(ops.diagflat(x, k), np.diagflat(x, k))
    if x.ndim <= 2:
        assert_same(ops.diag(x, k), np.diag(x, k))


def test_bools_are_counted_by_trace():
    assert ops.trace(np.eye(3, dtype=bool)).dtype == "int32"


ERRORS = [
    (lambda: ops.diagonal([1.0]), "needs two axes at least"),
    (lambda: ops.diagonal(np.eye(2), 0, 1, 1), "names an axis twice"),
    (lambda: ops.diagonal(np.eye(2), 0, 0, 2), "axis 2 is out of range"),
    (lambda: ops.diag(np.ones((1, 1, 1))), r"a vector or a matrix, got shape \(1, 1, 1\)"),
    (lambda: ops.tril([1.0]), "need two axes at least"),
]


@pytest.mark.parametrize(("call", "message"), ERRORS)
def test_errors_show_the_shapes(call, message):
    with pytest.raises(ShapeError, match=message):
        call()
