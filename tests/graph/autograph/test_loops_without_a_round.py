"""Names that only the body of a loop gives a value, in loops that have no round."""

import numpy as np
import pytest

import trainkit as tk

ERROR = tk.errors.InvalidArgumentError


@tk.function
def by_rows(n):
    for i in tk.range(n):
        loss = tk.cast(i, tk.float32) * 2
    return loss


@tk.function
def by_while(n):
    while n > 0:
        loss = tk.cast(n, tk.float32) * 2
        n -= 1
    return loss


@tk.function
def with_break(n):
    for i in tk.range(n):
        loss = tk.cast(i, tk.float32) * 2
        if loss > 3:
            break
    return loss


@pytest.mark.parametrize(("function", "expected"), [(by_rows, 6), (by_while, 2), (with_break, 4)])
def test_a_name_without_a_value_is_an_error_and_not_zero(function, expected):
    assert float(function(tk.constant(4))) == expected
    for _ in range(2):
        with pytest.raises(ERROR, match="'loss' must be defined before the loop"):
            function(tk.constant(0))
    assert float(function(tk.constant(4))) == expected


def test_names_that_are_used_inside_alone_need_no_round():
    @tk.function
    def total(n):
        result = tk.constant(0)
        for i in tk.range(n):
            square = i * i
            result += square
        return result

    assert int(total(tk.constant(0))) == 0
    assert int(total(tk.constant(3))) == 5


def test_a_return_inside_a_loop_needs_no_round():
    @tk.function
    def first_above(x, bound):
        for value in x:
            if value > bound:
                return value
        return tk.constant(-1.0)

    assert float(first_above(tk.zeros((0,)), 1.0)) == -1
    assert float(first_above(tk.constant([1.0, 5.0]), 2.0)) == 5


def test_gradients_go_through_a_loop_with_a_name_of_its_own():
    @tk.function
    def run(x, n):
        for _ in tk.range(n):
            y = x * x
        return y

    x = tk.constant(3.0)
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = run(x, tk.constant(2))
    np.testing.assert_allclose(tape.gradient(y, x), 6)
