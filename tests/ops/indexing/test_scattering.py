import numpy as np
import pytest

from tests.ops.numpy_compare import assert_same
from trainkit import ops
from trainkit.autodiff.tape import GradientTape
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.tensor import convert_to_tensor
from trainkit.core.variable import Variable
from trainkit.ops.indexing.scattering import scatter_max, scatter_nd_add

X = np.arange(12.0).reshape(3, 4)
CELLS = np.array([[0, 1], [2, 2], [0, 1]])


def test_scatter_adds_up_equal_rows():
    assert_same(ops.scatter([[0], [2], [0]], [1.0, 2.0, 3.0], (4,)), [4, 0, 2, 0])
    assert_same(ops.scatter([[1]], np.ones((1, 2), int), (2, 2)), [[0, 0], [1, 1]])


@pytest.mark.parametrize(
    ("reduction", "at"),
    [("add", np.add.at), ("max", np.maximum.at), ("min", np.minimum.at), ("mul", np.multiply.at)],
)
def test_reductions_agree_with_numpy(reduction, at):
    expected = X.copy()
    updates = np.array([5.0, -1.0, 7.0])
    at(expected, tuple(CELLS.T), updates)
    x = convert_to_tensor(X)
    assert_same(ops.scatter_update(x, CELLS, updates, reduction=reduction), expected)
    assert_same(x, X)


def test_of_equal_rows_the_last_stays():
    assert_same(ops.scatter_update([0.0, 0.0], [[1], [1]], [2.0, 3.0]), [0, 3])


def test_negative_positions_count_from_the_end():
    assert_same(scatter_nd_add([0.0, 0.0, 0.0], [[-1]], [2.0]), [0, 0, 2])


@pytest.mark.parametrize("reduction", [None, "add", "max", "min", "mul"])
def test_tensors_that_are_not_in_row_major_order(reduction):
    base = convert_to_tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    column, row = base[:, :1], base[0]
    wide = {
        "transposed": ops.transpose(base),
        "repeated": ops.broadcast_to(row, (3, 3)),
        "one column repeated": ops.broadcast_to(column, (2, 3)),
    }
    for x in wide.values():
        plain = convert_to_tensor(np.ascontiguousarray(x.numpy()))
        given = [[1, 0], [1, 1]], [7.0, 0.5], reduction
        assert_same(ops.scatter_update(x, *given), ops.scatter_update(plain, *given).numpy())


def test_variables_scatter_in_place():
    v = Variable([1.0, 2.0, 3.0])
    v.scatter_nd_add([[0], [0]], [1.0, 2.0])
    v.scatter_nd_update([[2]], [9.0])
    v.scatter_nd_sub([[1]], [0.5])
    assert_same(v, [4.0, 1.5, 9.0])


def test_equal_extremes_share_the_gradient():
    x, u = convert_to_tensor([2.0, 0.0]), convert_to_tensor([2.0, 2.0, 1.0])
    with GradientTape() as tape:
        tape.watch([x, u])
        y = ops.sum(scatter_max(x, [[0], [0], [1]], u) * [3.0, 1.0])
    gx, gu = tape.gradient(y, [x, u])
    assert_same(gx, [1, 0])
    assert_same(gu, [1, 1, 1])


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("reduction", [None, "add", "max", "min", "mul"])
def test_a_row_outside_is_named(reduction):
    with pytest.raises(
        InvalidArgumentError, match=r"indices\[0\] = \[7\] does not index into shape"
    ):
        ops.scatter_update(convert_to_tensor(np.zeros(3)), [[7]], [1.0], reduction=reduction)


def test_errors_show_the_shapes():
    with pytest.raises(ShapeError, match=r"updates of shape \(2,\) do not fit"):
        ops.scatter_update(X, CELLS, [1.0, 2.0])
    with pytest.raises(ValueError, match="reduction 'mean' is none of"):
        ops.scatter_update(X, CELLS, [1.0, 2.0, 3.0], reduction="mean")
