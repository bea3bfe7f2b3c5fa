import numpy as np
import pytest

from tests.ops.numpy_compare import assert_same
from trainkit import ops
from trainkit.core.errors import ShapeError
from trainkit.core.tensor import convert_to_tensor

X = np.arange(12.0).reshape(3, 4)


def test_slice_takes_a_block():
    assert_same(ops.slice(X, (1, 0), (2, 3)), X[1:3, :3])
    assert_same(ops.slice(X, convert_to_tensor([0, 2]), (1, -1)), X[:1, 2:])


def test_slice_update_replaces_a_block_and_keeps_the_input():
    x = convert_to_tensor(X)
    y = ops.slice_update(x, (1, 1), [[7, 8]])
    expected = X.copy()
    expected[1, 1:3] = 7, 8
    assert_same(y, expected)
    assert_same(x, X)
    assert y.dtype == "float64"


ERRORS = [
    (lambda: ops.slice(X, (2, 0), (2, 1)), "positions 2 to 4 of axis 0 are outside"),
    (lambda: ops.slice(X, (-1, 0), (1, 1)), "positions -1 to 0 of axis 0"),
    (lambda: ops.slice(X, (0,), (1,)), "needs 2 start indices and sizes"),
    (lambda: ops.slice_update(X, (0, 3), np.ones((1, 2))), "positions 3 to 5 of axis 1"),
    (lambda: ops.slice_update(X, (0, 0), np.ones(2)), "needs 2 start indices"),
]


@pytest.mark.parametrize(("call", "message"), ERRORS)
def test_blocks_stay_inside(call, message):
    with pytest.raises(ShapeError, match=message):
        call()
