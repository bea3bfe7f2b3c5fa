"""Assertions: what passes, what fails, and the words."""

import numpy as np
import pytest

import trainkit as tk

D = tk.debugging
HOLD = [
    (D.assert_equal, ([1, 2], [1, 2])),
    (D.assert_none_equal, ([1, 2], [2, 1])),
    (D.assert_less, ([1, 2], 3)),
    (D.assert_less_equal, ([1, 3], 3)),
    (D.assert_greater, (3, [1, 2])),
    (D.assert_greater_equal, (3, [3, 2])),
    (D.assert_positive, ([1.0, 2.0],)),
    (D.assert_negative, ([-1.0],)),
    (D.assert_non_negative, ([0, 1],)),
    (D.assert_non_positive, ([0, -1],)),
    (D.assert_near, (1.0, 1.0 + 1e-7)),
    (D.assert_all_finite, ([1.0, -2.0],)),
    (D.assert_rank, ([[1]], 2)),
    (D.assert_rank_at_least, ([[1]], 1)),
    (D.assert_rank_in, ([[1]], (1, 2))),
    (D.assert_scalar, (1.0,)),
    (D.assert_type, (tk.constant(1.0), tk.float32)),
    (D.assert_integer, (tk.constant(1),)),
    (D.assert_same_float_dtype, ([tk.constant(1.0), tk.constant([2.0])],)),
]
FAIL = [
    (D.assert_equal, ([1, 2], [1, 3])),
    (D.assert_none_equal, ([1, 2], [2, 2])),
    (D.assert_less, ([1, 3], 3)),
    (D.assert_less_equal, ([1, 4], 3)),
    (D.assert_greater, (2, [1, 2])),
    (D.assert_greater_equal, (1, [3, 2])),
    (D.assert_positive, ([0.0, 2.0],)),
    (D.assert_negative, ([0.0],)),
    (D.assert_non_negative, ([-1, 1],)),
    (D.assert_non_positive, ([1, -1],)),
    (D.assert_near, (1.0, 1.1)),
    (D.assert_all_finite, ([1.0, np.inf], "all_finite")),
    (D.assert_rank, ([[1]], 1)),
    (D.assert_rank_at_least, ([[1]], 3)),
    (D.assert_rank_in, ([[1]], (0, 1))),
    (D.assert_scalar, ([1.0],)),
]


@pytest.mark.parametrize(("check", "given"), HOLD, ids=lambda p: getattr(p, "__name__", ""))
def test_what_holds_passes(check, given):
    check(*given)


@pytest.mark.parametrize(("check", "given"), FAIL, ids=lambda p: getattr(p, "__name__", ""))
def test_what_does_not_hold_names_the_assertion(check, given):
    words = check.__name__.removeprefix("assert_")
    with pytest.raises(ValueError, match=words):
        check(*given)


@pytest.mark.parametrize(
    "call",
    [
        lambda: D.assert_type(tk.constant(1.0), tk.int32),
        lambda: D.assert_integer(tk.constant(1.0)),
        lambda: D.assert_same_float_dtype([tk.constant(1.0), tk.constant(1.0, "float64")]),
    ],
)
def test_dtypes_that_differ(call):
    with pytest.raises((TypeError, ValueError), match=r"dtype|float|integer|int32"):
        call()


def test_messages_stand_in_the_error():
    with pytest.raises(tk.errors.InvalidArgumentError, match="rows must agree"):
        D.assert_equal(1, 2, message="rows must agree")


def test_numeric_tensors():
    assert D.is_numeric_tensor(tk.constant(1))
    assert not D.is_numeric_tensor(tk.constant(True))
    assert not D.is_numeric_tensor(1)


def test_shapes_with_letters():
    x, y = tk.zeros([2, 3]), tk.zeros([3, 5])
    D.assert_shapes([(x, ("n", "k")), (y, ("k", 5)), (x, "n."), (x, (..., "k"))])
    D.assert_shapes({x.ref(): (None, 3)})
    with pytest.raises(ValueError, match=r"'n' is 2 in shape \(2, 3\) and 3 in shape \(3, 5\)"):
        D.assert_shapes([(x, ("n", "k")), (y, ("n", 5))])
    with pytest.raises(ValueError, match=r"shape \('n', 4\) is needed, it is \(2, 3\)"):
        D.assert_shapes([(x, ("n", 4))])
    with pytest.raises(ValueError, match="is needed"):
        D.assert_shapes([(x, (2,))])


def test_assertions_run_each_time_a_function_runs():
    @tk.function
    def f(x):
        D.assert_positive(x)
        return x * 2

    assert float(f(tk.constant(1.0))) == 2.0
    with pytest.raises(tk.errors.InvalidArgumentError, match="assert_positive"):
        f(tk.constant(-1.0))


def test_the_floats_of_a_tensor_without_elements_have_a_dtype():
    assert tk.debugging.assert_same_float_dtype(tk.zeros((0,))) == tk.float32


def test_lists_that_broadcast_are_compared_by_elements():
    tk.debugging.assert_equal([], [1.0])  # no element differs
    tk.debugging.assert_equal([2, 2], [2])
    for x, y in (([2, 3], [2]), ([1], [2, 2]), ([1, 2], [1, 2, 3])):
        with pytest.raises(tk.errors.InvalidArgumentError, match="assert_equal"):
            tk.debugging.assert_equal(x, y)
