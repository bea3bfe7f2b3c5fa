"""Gradients of loops are loops: values against eager code, and what the graph looks like."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import ops
from trainkit.graph.ir.passes import optimised

W = tk.Variable(np.array([[0.5, -0.3], [0.2, 0.4]]))


def accumulated(x, n):
    """A captured tensor and a variable, used in each round."""
    h, total = x, tk.constant(0.0, tk.float64)
    for i in tk.range(n):
        h = tk.tanh(h @ W + x * tk.cast(i, tk.float64))
        total += tk.reduce_sum(h * x)
    return total


def with_while(x, n):
    i, y = tk.constant(0), x
    while i < n:
        y = y * x + tk.sin(y)
        i += 1
    return tk.reduce_sum(y)


def with_break(x, n):
    y = x
    for _ in tk.range(n):
        y = y * x + x
        if tk.reduce_sum(tk.abs(y)) > 3.0:
            break
    return tk.reduce_sum(y)


def with_continue(x, n):
    y = x
    for i in tk.range(n):
        if i % 2 == 0:
            continue
        y = y * x + tk.cos(y)
    return tk.reduce_sum(y)


def with_return(x, n):
    y = x
    for _ in tk.range(n):
        y = y * x + 1.0
        if tk.reduce_sum(y) > 2.0:
            return tk.reduce_sum(y * y)
    return tk.reduce_sum(y)


def return_from_inner_loop(x, n):
    y = x
    for _ in tk.range(n):
        for _ in tk.range(n):
            y = y * x + 0.5
            if tk.reduce_sum(y) > 2.0:
                return tk.reduce_sum(y * y)
    return tk.reduce_sum(y)


def nested(x, n):
    y = x
    for i in tk.range(n):
        z = y * x
        for j in tk.range(i + 1):
            z = z * x + tk.cast(j, tk.float64) * y
        y = y + tk.tanh(z)
    return tk.reduce_sum(y)


def nested_while(x, n):
    y, i = x, tk.constant(0)
    while i < n:
        j = tk.constant(0)
        while j < i:
            y = tk.sin(y) * x
            j += 1
        y = y + x
        i += 1
    return tk.reduce_sum(y)


def cond_inside(x, n):
    y = x
    for i in tk.range(n):
        if tk.reduce_sum(y) > 1.0:
            y = y * x * 0.5
        elif i % 2 == 0:
            y = y + x * x
        else:
            y = y - W[0] @ x[0]
    return tk.reduce_sum(y)


def growing(x, n):
    y = x
    for _ in tk.range(n):
        shape = tk.TensorShape([None, *x.shape[1:]])
        tk.autograph.experimental.set_loop_options(shape_invariants=[(y, shape)])
        y = tk.concat([y * y, x], axis=0)
    return tk.reduce_sum(y * y)


def over_rows(x, n):
    total = tk.constant(0.0, tk.float64)
    for row in x:
        total = total * 0.5 + tk.reduce_sum(row * row)
    return total


def gathered(x, n):
    total = tk.constant(0.0, tk.float64)
    for i in tk.range(n):
        total = total * x[0, 0] + tk.reduce_sum(x[i % 2] ** 3)
    return total


def collected(x, n):
    array = tk.TensorArray(tk.float64, size=n)
    y = x
    for i in tk.range(n):
        y = y * x
        array = array.write(i, y)
    return tk.reduce_sum(array.stack() ** 2)


def unused_state(x, n):
    y, other = x, x
    for _ in tk.range(n):
        other = other * 2.0
        y = tk.stop_gradient(y) * x
    return tk.reduce_sum(y)


FUNCTIONS = [
    accumulated,
    with_while,
    with_break,
    with_continue,
    with_return,
    return_from_inner_loop,
    nested,
    nested_while,
    cond_inside,
    growing,
    over_rows,
    gathered,
    collected,
    unused_state,
]


def two_gradients(f, x, n):
    with tk.GradientTape() as outer:
        outer.watch(x)
        with tk.GradientTape() as inner:
            inner.watch(x)
            y = f(x, n)
        first = inner.gradient(y, [x, W], unconnected_gradients="zero")
        length = tk.reduce_sum(first[0] ** 2) + tk.reduce_sum(first[1] ** 3)
    return (y, *first, *outer.gradient(length, [x, W], unconnected_gradients="zero"))


X = np.array([[0.7, -0.4], [0.3, 0.6]])


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_first_and_second_gradients_agree_with_eager_ones(f):
    x = tk.constant(X)
    inside = tk.function(lambda x, n: two_gradients(f, x, n))
    around = tk.function(f)
    for rounds in (3, 1, 5, 0):  # one graph for all of them
        if f is collected and not rounds:
            continue  # an array without elements can't be stacked eagerly
        n = tk.constant(rounds)
        expected = two_gradients(f, x, n)
        for a, b, c in zip(expected, inside(x, n), two_gradients(around, x, n), strict=True):
            np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-10, atol=1e-12)
            np.testing.assert_allclose(c.numpy(), a.numpy(), rtol=1e-10, atol=1e-12)
    assert inside.experimental_get_tracing_count() == 1


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_sizes_that_are_not_known_while_tracing(f):
    spec = [tk.TensorSpec([None, 2], tk.float64), tk.TensorSpec([], tk.int32)]
    traced = tk.function(lambda x, n: two_gradients(f, x, n), input_signature=spec)
    x, n = tk.constant(X), tk.constant(3)
    for a, b in zip(two_gradients(f, x, n), traced(x, n), strict=True):
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-10, atol=1e-12)


def nodes_of(function, *args):
    graph = optimised(function.get_concrete_function(*args).graph)
    return [node.primitive.name for node in graph.nodes if node.kind == "op"]


def test_the_gradient_of_a_loop_is_one_loop_there_and_one_back():
    @tk.function
    def slope(x, n):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = with_while(x, n)
        return y, tape.gradient(y, x)

    names = nodes_of(slope, tk.constant(X), tk.constant(3))
    assert names.count("while_loop") == 1
    assert names.count("scan") == 1


def test_the_second_gradient_keeps_one_loop_there():
    traced = tk.function(lambda x, n: two_gradients(with_while, x, n))
    names = nodes_of(traced, tk.constant(X), tk.constant(3))
    assert names.count("while_loop") == 1
    assert names.count("scan") == 3  # back, there again along it, and back from that


def test_first_gradients_have_the_bits_of_eager_ones():
    def slopes(x, n):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = accumulated(x, n)
        return (y, *tape.gradient(y, [x, W]))

    x, n = tk.constant(X), tk.constant(7)
    for a, b in zip(slopes(x, n), tk.function(slopes)(x, n), strict=True):
        np.testing.assert_array_equal(b.numpy(), a.numpy())


def test_what_has_no_gradient_is_not_carried_back():
    @tk.function
    def slope(x, n):
        with tk.GradientTape() as tape:
            y, count = x[0], tk.constant(0)
            for i in tk.range(n):
                y = y * W[0] + x[i]
                count += 1
            loss = tk.reduce_sum(y)
        return tape.gradient(loss, W)

    graph = optimised(slope.get_concrete_function(tk.constant(X), tk.constant(2)).graph)
    back = [node for node in graph.nodes if node.kind == "op" and node.type == "Scan"][-1]
    # the gradient of y and the sum for W; x and the integers need none
    assert back.settings["count"] == 2


def test_prints_and_assertions_in_a_loop_happen_once(capsys):
    @tk.function
    def slope(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = x
            for i in tk.range(2):
                tk.print("round", i)
                y = y * x
        return tape.gradient(y, x)

    x = tk.constant(2.0)
    assert float(slope(x)) == 12.0
    assert capsys.readouterr().err == "round 0\nround 1\n"
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = slope(x)
    assert float(tape.gradient(y, x)) == 12.0
    assert capsys.readouterr().err == "round 0\nround 1\n"


def test_a_loop_that_prints_is_not_run_again_for_its_gradient():
    @tk.function
    def slope(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = x
            for i in tk.range(2):
                tk.print("round", i)
                y = tk.exp(y) * x
        return y, tape.gradient(y, x)

    graph = optimised(slope.get_concrete_function(tk.constant(2.0)).graph)
    loops = [node for node in graph.nodes if node.kind == "op" and node.type == "Scan"]
    assert [loop.effect for loop in loops] == [True, False]  # there and back


def test_random_numbers_in_a_loop_are_drawn_once():
    generator = tk.random.Generator.from_seed(3)

    @tk.function
    def slope(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y, drawn = x, x * 0.0
            for _ in tk.range(3):
                r = generator.uniform([], dtype=tk.float64)
                drawn += r
                y = y + r * x
        return tape.gradient(y, x), drawn + 1.0

    slopes = [slope(tk.constant(2.0, tk.float64)) for _ in range(2)]
    for slope_found, by_hand in slopes:
        assert float(slope_found) == pytest.approx(float(by_hand))
    assert float(slopes[0][0]) != float(slopes[1][0])


def test_a_variable_assigned_in_a_loop():
    v = tk.Variable(1.0)

    def run(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in tk.range(3):
                v.assign_add(1.0)
                y = y * v
        return y, tape.gradient(y, x)

    x = tk.constant(2.0)
    expected = [float(t) for t in run(x)]
    v.assign(1.0)
    assert [float(t) for t in tk.function(run)(x)] == expected
    assert float(v) == 4.0


def test_custom_gradients_in_a_loop():
    @tk.custom_gradient
    def doubled_slope(x):
        return x * x, lambda g: g * 4.0 * x

    @tk.function
    def slope(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in tk.range(2):
                y = doubled_slope(y)
        return tape.gradient(y, x)

    assert float(slope(tk.constant(3.0))) == 4.0 * 9.0 * 4.0 * 3.0


def test_jacobian_of_a_loop():
    def run(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in tk.range(3):
                y = tk.sin(y) * x
        return tape.jacobian(y, x)

    x = tk.constant(X)
    np.testing.assert_allclose(tk.function(run)(x).numpy(), run(x).numpy(), rtol=1e-10)


def test_an_outer_tape_keeps_what_it_needs_in_the_first_run():
    calls = []

    def seen(x):
        calls.append(1)
        return x

    @tk.function
    def f(x):
        y = x
        for _ in tk.range(3):
            y = y * x
            tk.numpy_function(seen, [y], tk.float64)
        return y

    x = tk.constant(2.0, tk.float64)
    f(x)
    assert len(calls) == 3


def test_a_loop_whose_results_differ_in_size_can_not_be_stacked():
    @tk.function
    def f(n):
        return ops.scan(lambda c, i: (c, tk.zeros([i])), 0.0, tk.range(n))[1]

    with pytest.raises(tk.errors.InvalidArgumentError, match=r"shapes \(0,\) and \(1,\)"):
        f(tk.constant(3))
