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


@tk.function
def in_a_loop(n):
    for i in tk.range(3):
        for j in tk.range(n - i):
            loss = tk.cast(i + j, tk.float32)
    return loss


@tk.function
def in_a_loop_of_another_kind(n):
    k = tk.constant(3)
    while k > 0:
        k -= 1
        for _ in tk.data.Dataset.range(2):
            while n > 0:
                losses = {"loss": tk.cast(n, tk.float32)}
                n -= 1
    return losses["loss"]


@tk.function
def used_in_the_loop(n):
    total = 0.0
    for i in tk.range(2):
        for j in tk.range(n - i):
            loss = tk.cast(i + j, tk.float32)
        if total >= 0.0:
            total += loss
    return total


@pytest.mark.parametrize(
    ("function", "expected"),
    [(in_a_loop, 3), (in_a_loop_of_another_kind, 1), (used_in_the_loop, 6)],
)
def test_a_loop_in_a_loop_that_never_has_a_round(function, expected):
    assert float(function(tk.constant(4))) == expected
    with pytest.raises(ERROR, match=r"'loss(es)?' must be defined before the loop"):
        function(tk.constant(0))
    # a name that one round of several has given its value
    assert float(function(tk.constant(1))) == {3: 0, 1: 1, 6: 0}[expected]


def test_an_empty_dataset_or_tensor_gives_no_name_a_value():
    @tk.function
    def last(source):
        for x in source:
            value = x
        return value

    @tk.function
    def first(source):
        for x in source:
            value = x
            if value > -5:
                break
        return value

    rows = tk.data.Dataset.range(3)
    assert [int(last(rows)), int(first(rows))] == [2, 0]
    for source in (rows.take(0), tk.zeros((0,))):
        for function in (last, first):
            with pytest.raises(ERROR, match="'value' must be defined before the loop"):
                function(source)


@tk.function
def in_a_branch(n, flag):
    for _ in tk.range(2):
        if flag:
            for j in tk.range(n):
                losses = (tk.constant(0), {"b": tk.cast(j, tk.float32), "a": tk.constant(2)})
        else:
            losses = (tk.constant(1), {"a": tk.constant(1), "b": tk.constant(3.0)})
    return losses[1]["b"]


@tk.function
def in_a_branch_of_a_branch(n, flag):
    k = tk.constant(2)
    while k > 0:
        k -= 1
        if n > 9:
            losses = [tk.constant(1.0)]
        elif flag:
            for j in tk.range(n):
                losses = [tk.cast(j, tk.float32)]
        else:
            losses = [tk.constant(3.0)]
    return losses[0]


@pytest.mark.parametrize("function", [in_a_branch, in_a_branch_of_a_branch])
def test_a_loop_in_a_branch_that_never_has_a_round(function):
    assert float(function(tk.constant(4), tk.constant(True))) == 3
    assert float(function(tk.constant(0), tk.constant(False))) == 3
    for _ in range(2):
        with pytest.raises(ERROR, match="'losses' must be defined before the loop"):
            function(tk.constant(0), tk.constant(True))


def test_gradients_go_through_a_branch_with_a_loop():
    @tk.function
    def run(x, n, flag):
        for _ in tk.range(2):
            if flag:
                for _ in tk.range(n):
                    y = x * x
            else:
                y = 2.0 * x
        return y

    x = tk.constant(3.0)
    for flag, slope in ((True, 6), (False, 2)):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = run(x, tk.constant(2), tk.constant(flag))
        np.testing.assert_allclose(tape.gradient(y, x), slope)
