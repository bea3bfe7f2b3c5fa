"""Branches, loops, scans and maps as nodes: values, gradients inside and outside, second order."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import ops


def cube_or_double(x):
    if x > 0:
        return x**3
    return x * 2.0


def power_by_range(x):
    y = x
    for _ in tk.range(2):
        y = y * x
    return y


def power_by_while(x):
    y, i = tk.ones([]), tk.constant(0)
    while i < 3:
        y, i = y * x, i + 1
    return y


def power_by_scan(x):
    return ops.scan(lambda c, t: (c * x + t, c), x * 0.0 + 1.0, tk.zeros([3]))[0]


def branch_in_loop(x):
    y = x
    for i in tk.range(4):
        if i % 2 == 0:
            y = y * x
        else:
            y = y + x
    return y


def loop_in_branch(x):
    y = x * 1.0
    if x > 0:
        for _ in tk.range(2):
            y = y * x
    return y


def collected(x):
    array = tk.TensorArray(tk.float32, size=3)
    y = x
    for i in tk.range(3):
        y = y * x
        array = array.write(i, y)
    return tk.reduce_sum(array.stack())


def mapped(x):
    return tk.reduce_sum(tk.map_fn(lambda t: t * x * t, tk.constant([1.0, 2.0])))


def switched(x):
    return ops.switch(tk.constant(1) * 1, [lambda t: t, lambda t: t**3, lambda t: -t], x)


FUNCTIONS = [
    cube_or_double,
    power_by_range,
    power_by_while,
    power_by_scan,
    branch_in_loop,
    loop_in_branch,
    collected,
    mapped,
    switched,
]


def two_gradients(f, x):
    with tk.GradientTape() as outer:
        outer.watch(x)
        with tk.GradientTape() as inner:
            inner.watch(x)
            y = f(x)
        first = inner.gradient(y, x)
    second = outer.gradient(first, x, unconnected_gradients="zero")
    return y, first, second


@pytest.mark.parametrize("x", [2.0, -1.5])
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_gradients_inside_and_outside_of_a_function_agree_with_eager_ones(f, x):
    x = tk.constant(x)
    eager = two_gradients(f, x)
    outside = two_gradients(tk.function(f), x)
    inside = tk.function(lambda x: two_gradients(f, x))(x)
    for a, b, c in zip(eager, outside, inside, strict=True):
        assert float(b) == pytest.approx(float(a), rel=1e-6)
        assert float(c) == pytest.approx(float(a), rel=1e-6)


def test_gradients_by_variables_read_in_branches_and_loops():
    v, w = tk.Variable(3.0), tk.Variable(2.0)

    def step(x):
        with tk.GradientTape() as tape:
            y = x
            for _ in tk.range(2):
                if x > 0:
                    y = y * v
                else:
                    y = y * w * v
        return tape.gradient(y, [v, w])

    for x in (tk.constant(1.0), tk.constant(-1.0)):
        expected = [0.0 if g is None else float(g) for g in step(x)]
        got = tk.function(step)(x)
        assert [float(g) for g in got] == pytest.approx(expected)


def test_gradient_through_a_variable_that_a_branch_assigns():
    w = tk.Variable(2.0)
    v = tk.Variable(3.0)

    @tk.function
    def f(x):
        with tk.GradientTape() as tape:
            if x > 0:
                w.assign_add(1.0)
                y = v * v * w
            else:
                y = w * x
        return tape.gradient(y, v)

    assert float(f(tk.constant(1.0))) == 18.0
    assert float(w) == 3.0


def test_a_tape_around_a_function_sees_the_values_before_its_assignments():
    v = tk.Variable(3.0)

    @tk.function
    def f(x):
        y = v * x
        v.assign(10.0)
        return y

    with tk.GradientTape() as tape:
        y = f(tk.constant(2.0))
    assert float(y) == 6.0
    assert float(tape.gradient(y, v)) == 2.0
    assert float(v) == 10.0


def test_jacobians_and_persistent_tapes_inside_a_function():
    @tk.function
    def f(x):
        with tk.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = x * x
            z = tk.reduce_sum(y * x)
        return tape.jacobian(y, x), tape.gradient(z, x), tape.gradient(y, x)

    jacobian, of_z, of_y = f(tk.constant([1.0, 2.0]))
    assert jacobian.numpy().tolist() == [[2.0, 0.0], [0.0, 4.0]]
    assert of_z.numpy().tolist() == [3.0, 12.0]
    assert of_y.numpy().tolist() == [2.0, 4.0]


def test_stop_gradient_survives_the_graph():
    @tk.function
    def f(x):
        return x * tk.stop_gradient(x)

    x = tk.constant(3.0)
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    assert float(tape.gradient(y, x)) == 3.0


def test_custom_gradients_inside_functions_and_branches():
    @tk.custom_gradient
    def doubled_slope(x):
        return x * 1.0, lambda g: g * 2.0

    @tk.function
    def f(x):
        if x > 0:
            return doubled_slope(x) * 3.0
        return x

    for value, slope in [(2.0, 6.0), (-2.0, 1.0)]:
        x = tk.constant(value)
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        assert float(tape.gradient(y, x)) == slope


def test_custom_gradient_with_variables_inside_a_function():
    v = tk.Variable(2.0)

    @tk.custom_gradient
    def scaled(x):
        def backward(g, variables=None):
            assert variables == [v]
            return g * 100.0, [g * 10.0]

        return x * v, backward

    @tk.function
    def f(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = scaled(x)
        return tape.gradient(y, [x, v])

    assert [float(g) for g in f(tk.constant(3.0))] == [100.0, 10.0]


def test_a_training_step_with_a_recurrent_loop_gives_the_eager_gradients(rng):
    w = tk.Variable(rng.normal(size=(4, 4)).astype("float32") * 0.5)
    u = tk.Variable(rng.normal(size=(3, 4)).astype("float32"))

    def step(xs):
        with tk.GradientTape() as tape:
            h = tk.zeros([2, 4])
            for x in xs:
                h = tk.tanh(x @ u + h @ w)
            loss = tk.reduce_mean(h * h)
        return (loss, *tape.gradient(loss, [w, u]))

    xs = tk.constant(rng.normal(size=(6, 2, 3)).astype("float32"))
    for a, b in zip(step(xs), tk.function(step)(xs), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-7)


# ---------------------------------------------------------------------- the functions themselves


def test_cond_takes_captured_tensors_and_python_results():
    @tk.function
    def f(x, y):
        return tk.cond(x > y, lambda: x + 1, lambda: 0)

    assert int(f(tk.constant(3), tk.constant(2))) == 4
    assert int(f(tk.constant(1), tk.constant(2))) == 0


def test_while_loop_with_a_limit():
    @tk.function
    def f(x):
        return tk.while_loop(lambda x: x < 100, lambda x: x * 2, [x], maximum_iterations=3)

    assert int(f(tk.constant(1))[0]) == 8
    assert int(f(tk.constant(60))[0]) == 120


def test_fori_loop_over_a_tensor_bound():
    @tk.function
    def f(n, x):
        return ops.fori_loop(0, n, lambda i, v: v + ops.cast(i, "float32"), x)

    assert float(f(tk.constant(4), tk.constant(1.0))) == 7.0


def test_loops_that_run_zero_times_give_their_start():
    @tk.function
    def f(n, x):
        for _ in tk.range(n):
            x = x * 2
        return x

    assert int(f(tk.constant(0), tk.constant(5))) == 5


def test_switch_over_a_tensor_takes_the_nearest_end():
    branches = [lambda x: x, lambda x: x * 10, lambda x: x * 100]
    f = tk.function(lambda i, x: ops.switch(i, branches, x))
    got = [int(f(tk.constant(i), tk.constant(3))) for i in (-5, 0, 1, 2, 9)]
    assert got == [3, 3, 30, 300, 300]


def test_a_structure_of_loop_variables_is_kept():
    @tk.function
    def f(n):
        start = {"i": tk.constant(0), "pair": (tk.constant(1.0), tk.constant([2.0]))}

        def body(state):
            a, b = state["pair"]
            return {"i": state["i"] + 1, "pair": (a * 2, b + a)}

        return tk.while_loop(lambda s: s["i"] < n, body, start)

    result = f(tk.constant(3))
    assert int(result["i"]) == 3
    assert float(result["pair"][0]) == 8.0
    assert result["pair"][1].numpy().tolist() == [9.0]


def test_no_gradient_goes_back_through_a_loop_over_a_dataset():
    data = tk.data.Dataset.from_tensor_slices(np.ones(3, "float32"))

    @tk.function
    def f(x):
        y = x
        for a in data:
            y = y * a
        return y

    x = tk.constant(2.0)
    with pytest.raises(tk.errors.InvalidArgumentError, match="put the tape inside"):  # noqa: PT012
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        tape.gradient(y, x)
