"""`tk.gradients` and `tk.hessians`: gradients of what a graph has computed, without a tape."""

import numpy as np
import pytest

import trainkit as tk

RNG = np.random.default_rng(8)


def run(function, *arrays):
    results = tk.function(function)(*(tk.constant(a) for a in arrays))
    return tk.nest.map_structure(lambda x: None if x is None else x.numpy(), results)


def test_gradients_by_several_of_several_and_with_given_ones():
    def f(x, y):
        z = x * x * y
        return (
            tk.gradients(z, [x, y]),
            tk.gradients([z, x], [x, y], grad_ys=[tk.constant(2.0), None]),
            tk.gradients(y, x),
            tk.gradients(y, x, unconnected_gradients="zero"),
        )

    both, given, none, zero = run(f, 3.0, 5.0)
    assert both == [30.0, 9.0]
    assert given == [61.0, 18.0]
    assert none == [None]
    assert zero == [0.0]


def test_gradients_by_what_is_on_the_way_go_on_to_what_is_before_it():
    def f(x):
        h = tk.sin(x)
        y = h * h
        return tk.gradients(y, [h, x]), tk.gradients(y, [h, x], stop_gradients=[h])

    way, stopped = run(f, np.float32(0.5))
    np.testing.assert_allclose(way, [2 * np.sin(0.5), np.sin(1.0)], rtol=1e-6)
    assert stopped == [way[0], None]


def test_gradients_by_a_variable_that_is_assigned_in_between():
    v = tk.Variable([1.0, 2.0])

    def f(x):
        loss = tk.reduce_sum(v * v * x)
        before = tk.gradients(loss, v)[0]
        v.assign_add(tk.ones(2))
        after = tk.gradients(loss + tk.reduce_sum(v * x), v)[0]
        return before, after, tk.gradients(before, v)[0]

    before, after, second = run(f, 3.0)
    np.testing.assert_array_equal(before, [6.0, 12.0])
    np.testing.assert_array_equal(after, [9.0, 15.0])
    np.testing.assert_array_equal(second, [6.0, 6.0])
    np.testing.assert_array_equal(v, [2.0, 3.0])


def test_gradients_are_those_of_a_tape_to_the_bit():
    layer = tk.layers.LSTM(3)
    x = RNG.normal(size=(2, 4, 5)).astype("float32")
    layer(x)

    def loss(x):
        return tk.reduce_sum(layer(x) ** 2)

    grads = run(lambda x: tk.gradients(loss(x), [x, *layer.trainable_weights]), x)
    with tk.GradientTape() as tape:
        x = tk.constant(x)
        tape.watch(x)
        y = loss(x)
    expected = tape.gradient(y, [x, *layer.trainable_weights])
    for grad, other in zip(grads, expected, strict=True):
        np.testing.assert_array_equal(grad, other)


def test_gradients_through_a_loop_and_beside_tapes():
    def f(x):
        y = x
        for _ in tk.range(3):
            y = y * x
        square = x * x
        with tk.GradientTape() as tape:
            tape.watch(x)  # it has not seen `square`
            cube = square * x
            slope = tk.gradients(cube, x)[0]
        return tk.gradients(y, x)[0], slope, tape.gradient(cube, x)

    assert run(f, 2.0) == (32.0, 12.0, 4.0)


def test_a_tape_records_the_gradients():
    def f(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            slope = tk.gradients(x**3, x)[0]
        return tape.gradient(slope, x)

    assert run(f, 2.0) == 12.0


def test_hessians():
    x, y = np.array([1.0, 2.0], "float32"), np.float32(3.0)
    by_x, by_y = run(lambda x, y: tk.hessians(tk.reduce_sum(x**3) * y**2, [x, y]), x, y)
    np.testing.assert_allclose(by_x, np.diag(6 * x) * 9)
    np.testing.assert_allclose(by_y, 18.0)
    assert run(lambda x, y: tk.hessians(x, y), x, y) == [0.0]


def test_a_program_of_version_1_trains_by_gradients():
    v1 = tk.compat.v1
    with v1.Graph().as_default():
        x = v1.placeholder(tk.float32, (2,))
        w = v1.get_variable("w", (2,), initializer=tk.ones_initializer())
        loss = tk.reduce_sum((w - x) ** 2)
        step = w.assign_sub(0.1 * tk.gradients(loss, [w])[0])
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            for _ in range(60):
                session.run(step, {x: [3.0, 4.0]})
            np.testing.assert_allclose(session.run(w), [3.0, 4.0], atol=1e-4)


def test_where_there_is_no_graph_to_look_back_at():
    with pytest.raises(RuntimeError, match="GradientTape"):
        tk.gradients(tk.constant(1.0), tk.constant(2.0))
    with pytest.raises(RuntimeError, match=r"autodiff\.hessian"):
        tk.hessians(1.0, 2.0)

    inner = tk.function(lambda y, x: tk.gradients(y, x)[0])

    def branch(x):
        return tk.cond(x > 0, lambda: tk.gradients(x * x, x)[0], lambda: x)

    def outside(x):
        y = x * x
        return tk.function(lambda: tk.gradients(y, x)[0])()

    for function in branch, outside:
        with pytest.raises(tk.errors.UnimplementedError, match="can't look out of the body"):
            run(function, 2.0)
    assert inner(tk.constant(1.0), tk.constant(1.0)) is None
