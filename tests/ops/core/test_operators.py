"""Python operators of tensors and variables."""

import operator

import numpy as np
import pytest

from trainkit.core.tensor import convert_to_tensor
from trainkit.core.variable import Variable

A, B = np.array([5.0, -3.0, 2.0], "float32"), np.array([2.0, 2.0, -4.0], "float32")
ARITHMETIC = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
    operator.eq,
    operator.ne,
]
MAKERS = [convert_to_tensor, Variable]


@pytest.mark.parametrize("op", ARITHMETIC)
@pytest.mark.parametrize("make", MAKERS)
def test_binary_operator_on_either_side(op, make):
    want = op(A, B)
    for one, two in ((make(A), make(B)), (make(A), B), (A, make(B)), (make(A), B.tolist())):
        np.testing.assert_array_equal(op(one, two).numpy(), want)
    np.testing.assert_array_equal(op(make(A), 2.0).numpy(), op(A, 2))
    np.testing.assert_array_equal(op(2.0, make(B)).numpy(), op(2, B))


def test_power_and_matrix_product():
    x = convert_to_tensor([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal((x**2).numpy(), [[1, 4], [9, 16]])
    np.testing.assert_array_equal((2**x).numpy(), [[2, 4], [8, 16]])
    np.testing.assert_array_equal((x @ x).numpy(), [[7, 10], [15, 22]])
    np.testing.assert_array_equal((np.eye(2, dtype="float32") @ x).numpy(), x.numpy())


def test_unary_operators():
    x = convert_to_tensor([1.5, -2.5])
    np.testing.assert_array_equal((-x).numpy(), [-1.5, 2.5])
    np.testing.assert_array_equal(abs(x).numpy(), [1.5, 2.5])
    np.testing.assert_array_equal(round(x).numpy(), [2, -2])
    assert +x is x
    np.testing.assert_array_equal((~convert_to_tensor([True, False])).numpy(), [False, True])
    np.testing.assert_array_equal((~convert_to_tensor([0, 5])).numpy(), [-1, -6])


def test_bits_and_logic_share_operators():
    p, q = convert_to_tensor([True, True, False]), convert_to_tensor([True, False, False])
    assert (p & q).numpy().tolist() == [True, False, False]
    assert (p | q).numpy().tolist() == [True, True, False]
    assert (p ^ q).numpy().tolist() == [False, True, False]
    n = convert_to_tensor([6, 5])
    assert (n & 3).numpy().tolist() == [2, 1]
    assert (n | 8).numpy().tolist() == [14, 13]
    assert (n << 1).numpy().tolist() == [12, 10]
    assert (n >> 1).numpy().tolist() == [3, 2]
    assert (1 << n).numpy().tolist() == [64, 32]


@pytest.mark.parametrize(
    ("dtype", "quotient"),
    [("int8", "float32"), ("uint16", "float32"), ("int32", "float64"), ("int64", "float64")],
)
def test_quotient_of_integers_is_a_wide_float(dtype, quotient):
    x = convert_to_tensor(np.array([1, 3], dtype))
    assert (x / x).dtype == quotient
    assert (x / 2).dtype == quotient
    np.testing.assert_array_equal((x / 2).numpy(), [0.5, 1.5])


def test_comparison_with_what_is_no_number():
    x = convert_to_tensor([1.0])
    assert (x == None) is False  # noqa: E711
    assert (x != None) is True  # noqa: E711
    assert (x == "text") is False
    assert (x != object()) is True


def test_comparison_with_another_shape_is_false():
    assert (convert_to_tensor([1.0, 2.0]) == convert_to_tensor([1.0, 2.0, 3.0])) is False


def test_tensors_stay_hashable():
    x = convert_to_tensor([1.0])
    assert len({x, x, convert_to_tensor([1.0])}) == 2
