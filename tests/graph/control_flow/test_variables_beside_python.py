"""Variables that a function assigns, beside Python that runs in it and assigns them, too."""

import numpy as np
import pytest

import trainkit as tk

V, W = tk.Variable(0.0), tk.Variable([1.0, 2.0])


def add():
    V.assign_add(100.0)


def call():
    tk.py_function(add, [], [])


def before(n):
    V.assign_add(1.0)
    call()
    return V.read_value()


def after(n):
    read = V.read_value()
    call()
    V.assign_add(1.0)
    return read, V.read_value()


def both_sides(n):
    V.assign_add(1.0)
    call()
    read = V * 1.0
    V.assign(read * 2.0)
    call()
    return read


def old_value_assigned(n):
    old = V + 1.0
    call()
    V.assign(old)


def arrays(n):
    x = tk.cast(n, "float32")
    V.assign_add(1.0)
    W.assign(W * 2.0)
    one = tk.numpy_function(lambda x: np.float32(float(V) + x + W.numpy().sum()), [x], tk.float32)
    V.assign_add(2.0)
    two = tk.numpy_function(lambda x: np.float32(float(V) + x), [x], tk.float32)
    return one, two, W.read_value()


def in_a_branch(n):
    V.assign_add(1.0)
    if n > 1:
        V.assign_add(2.0)
        call()
        read = V * 1.0
        V.assign_add(4.0)
    else:
        read = V * 2.0
        V.assign_add(8.0)
    V.assign_add(16.0)
    return read, V.read_value()


def read_behind_a_branch(n):
    tk.cond(n > 1, lambda: [call(), 1][1], lambda: 0)
    return V.read_value()


def in_while(n):
    V.assign_add(1.0)
    i, total = tk.constant(0), tk.constant(0.0)
    while i < n:
        total += V
        V.assign_add(2.0)
        call()
        total += V
        V.assign_add(4.0)
        i += 1
    V.assign_add(8.0)
    return total, V.read_value()


def in_a_condition(n):
    def test(i, total):
        known = tk.py_function(lambda: [add(), float(V)][1], [], tk.float32)
        return tk.logical_and(i < n, known > 0.0)

    return tk.while_loop(test, lambda i, total: (i + 1, total + V), (0, 0.0)), V.read_value()


def read_in_rounds(n):
    start, total = V.read_value(), tk.constant(0.0)
    for i in tk.range(n):
        total += V * start
        if i > 0:
            call()
    return total, V.read_value()


def nested_loops(n):
    total = tk.constant(0.0)
    for _ in tk.range(n):
        for j in tk.range(2):
            if j > 0:
                call()
            V.assign_add(1.0)
            total += V
        V.assign(V * 0.5)
    return total, V.read_value()


def over_a_dataset(n):
    V.assign_add(1.0)
    dataset = tk.data.Dataset.range(3).map(lambda i: [add(), tk.cast(i, "float32")][1])
    total = tk.constant(0.0)
    for x in dataset:
        total += V + x
        V.assign_add(2.0)
        total += V
    read = V + 0.0
    V.assign_add(4.0)
    return total, read


def by_an_iterator(n):
    elements = iter(tk.data.Dataset.range(3).map(lambda i: [add(), i][1]))
    V.assign_add(1.0)
    x = next(elements)
    read = V + tk.cast(x, "float32")
    V.assign_add(2.0)
    return read


def functions_inside(n):
    V.assign_add(1.0)
    one = tk.function(both_sides)(n)
    call()
    return one, V.read_value(), tk.function(in_while)(n)


def unknown_rank(n):
    V.assign_add(1.0)
    y = tk.py_function(lambda: [add(), tk.constant([1.0, 2.0])][1], [], tk.float32)
    V.assign_add(2.0)
    return y, V.read_value()


CASES = [
    before,
    after,
    both_sides,
    old_value_assigned,
    arrays,
    in_a_branch,
    read_behind_a_branch,
    in_while,
    in_a_condition,
    read_in_rounds,
    nested_loops,
    over_a_dataset,
    by_an_iterator,
    functions_inside,
    unknown_rank,
]


def results_of(f, n, calls=2):
    V.assign(3.0)
    W.assign([1.0, 2.0])
    results = [[np.asarray(y).tolist() for y in tk.nest.flatten(f(n))] for _ in range(calls)]
    return results, float(V), W.numpy().tolist()


@pytest.mark.parametrize("f", CASES, ids=lambda f: f.__name__)
def test_order_is_that_of_python(f):
    for n in (0, 1, 3):
        eager, traced = results_of(f, tk.constant(n)), results_of(tk.function(f), tk.constant(n))
        assert traced == eager


def squares(n):
    total = V * V
    call()
    return total + V * V * V


def squares_in_rounds(n):
    total = tk.constant(0.0)
    start = V.read_value()
    for _ in tk.range(n):
        total += V * V * start
        call()
        total += V * V * V
    return total


def squares_in_a_branch(n):
    total = V * V
    if n > 1:
        total += V * V
        call()
        total += V * V * V
    return total + V


@pytest.mark.parametrize("f", [squares, squares_in_rounds, squares_in_a_branch])
def test_gradients_by_all_reads(f):
    def gradient(n):
        with tk.GradientTape() as tape:
            y = f(n)
        return y, tape.gradient(y, V)

    n = tk.constant(2)
    eager = results_of(gradient, n, 1)
    assert results_of(tk.function(gradient), n, 1) == eager
    traced = tk.function(f)
    V.assign(3.0)
    with tk.GradientTape() as tape:
        y = traced(n)
    assert float(tape.gradient(y, V)) == eager[0][0][1]


@tk.function
def value_beside_its_variable(n):
    """A value that is read before a loop stays, whatever the loop assigns."""
    start, total = V.read_value(), tk.constant(0.0)
    for _ in tk.range(n):
        total += start
        V.assign_add(1.0)
        total += start * V
    return total


def test_a_value_read_before_a_loop_stays():
    n = tk.constant(3)
    eager = results_of(value_beside_its_variable.python_function, n)
    assert results_of(value_beside_its_variable, n) == eager


def test_graphs_without_python_have_no_nodes_for_it():
    def f(n):
        for _ in tk.range(n):
            V.assign_add(1.0)
        return V * 2.0

    text = str(tk.function(f).get_concrete_function(tk.constant(2)).graph)
    assert "Load" not in text
    assert "Store" not in text
    text = str(tk.function(before).get_concrete_function(tk.constant(2)).graph)
    assert "LoadVariable" in text
    assert "StoreVariable" in text
