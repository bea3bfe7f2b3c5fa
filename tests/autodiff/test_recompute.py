"""`recompute_grad`: the second call is the first one again, and only the inputs are kept."""

import tracemalloc

import numpy as np
import pytest

import trainkit as tk
from trainkit.autodiff.recompute import recompute_grad


@pytest.fixture(params=["eager", "compiled", "compiled inside"])
def differentiate(request):
    """Loss and gradients of a function without arguments, by variables."""

    def run(loss, variables):
        forward = tk.function(loss) if request.param == "compiled inside" else loss

        def step():
            with tk.GradientTape() as tape:
                y = forward()
            return y, tape.gradient(y, variables)

        return (tk.function(step) if request.param == "compiled" else step)()

    return run


def test_it_calls_again_and_gives_the_same_gradients(differentiate):
    w = tk.Variable([[1.0, 2.0], [3.0, 4.0]])
    x = tk.Variable([[0.1, 0.2]])
    calls = []

    def block(x):
        calls.append(1)
        return tk.tanh(tk.matmul(x, w))

    expected = differentiate(lambda: tk.reduce_sum(block(x.value()) ** 2.0), [x, w])
    plain = len(calls)
    found = differentiate(lambda: tk.reduce_sum(recompute_grad(block)(x.value()) ** 2.0), [x, w])
    assert len(calls) - plain == 2 * plain
    for a, b in zip(tk.nest.flatten(found), tk.nest.flatten(expected), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)


def test_random_numbers_of_the_second_call_are_those_of_the_first(differentiate):
    x = tk.Variable(np.ones(1000, "float32"))
    generator = tk.random.Generator.from_seed(3)

    def loss():
        return tk.reduce_sum(recompute_grad(lambda x: x * generator.uniform([1000]) * x)(x.value()))

    y, [g] = differentiate(loss, [x])
    np.testing.assert_allclose(float(y), g.numpy().sum() / 2.0, rtol=1e-5)
    fresh = tk.random.Generator.from_seed(3)
    fresh.uniform([1000])
    np.testing.assert_array_equal(generator.state.numpy(), fresh.state.numpy())


def test_what_is_assigned_inside_is_assigned_once(differentiate):
    total, w = tk.Variable(0.0, trainable=False), tk.Variable(3.0)

    def block(x):
        total.assign_add(1.0)
        return x * total.value() * x

    y, [g] = differentiate(lambda: recompute_grad(block)(w.value()), [w])
    assert (float(total), float(y), float(g)) == (1.0, 9.0, 6.0)


def test_weights_assigned_after_the_call_do_not_change_its_gradient(differentiate):
    x, w = tk.Variable(2.0), tk.Variable(3.0)

    def loss():
        y = recompute_grad(lambda x: tk.square(x * w))(x.value())
        w.assign(100.0)
        return y

    y, [by_x, by_w] = differentiate(loss, [x, w])
    assert (float(y), float(by_x), float(by_w), float(w)) == (36.0, 36.0, 24.0, 100.0)


def test_arguments_by_keyword_nested_results_and_other_values(differentiate):
    x, scale = tk.Variable([1.0, 2.0]), tk.Variable(3.0)

    def block(x, flags, *, scale, offset=None):
        assert offset is None
        return {"y": x * scale * flags["a"], "n": tk.constant(7), "nothing": None, "again": x}

    def loss():
        found = recompute_grad(block)(x.value(), {"a": 2.0}, scale=scale.value())
        assert found["nothing"] is None
        assert found["n"].dtype == tk.int32
        return tk.reduce_sum(found["y"]) + tk.reduce_sum(found["again"])

    y, [by_x, by_scale] = differentiate(loss, [x, scale])
    assert (float(y), float(by_scale)) == (21.0, 6.0)
    assert by_x.numpy().tolist() == [7.0, 7.0]


def test_calls_inside_of_calls(differentiate):
    x = tk.Variable(0.5)
    inner = recompute_grad(tk.sin)
    outer = recompute_grad(lambda x: inner(inner(x)) * 2.0)
    _, [g] = differentiate(lambda: outer(x.value()), [x])
    assert float(g) == pytest.approx(2 * np.cos(np.sin(0.5)) * np.cos(0.5), rel=1e-6)


@pytest.mark.parametrize("compiled", [False, True])
def test_second_order(compiled):
    x = tk.Variable(0.5)

    def step():
        with tk.GradientTape() as outer:
            with tk.GradientTape() as tape:
                y = recompute_grad(tk.sin)(x.value())
            g = tape.gradient(y, x)
        return outer.gradient(g, x)

    assert float((tk.function(step) if compiled else step)()) == pytest.approx(-np.sin(0.5))


def test_in_a_loop_of_a_graph():
    w = tk.Variable(1.5)

    @tk.function
    def step(n):
        with tk.GradientTape() as tape:
            y = tk.constant(1.0)
            for _ in tk.range(n):
                y = recompute_grad(lambda y: y * w)(y)
        return tape.gradient(y, w)

    assert float(step(tk.constant(4))) == pytest.approx(4 * 1.5**3)


def test_control_flow_of_the_function_is_converted():
    @tk.function
    def step(x):
        def block(x):
            if tk.reduce_sum(x) > 0.0:
                return x * 2.0
            return x

        with tk.GradientTape() as tape:
            tape.watch(x)
            y = recompute_grad(block)(x)
        return tape.gradient(y, x)

    assert float(step(tk.constant(1.0))) == 2.0
    assert float(step(tk.constant(-1.0))) == 1.0


@pytest.mark.parametrize("how", ["ops.cond", "tk.while_loop", "tk.cond"])
def test_branches_and_loops_see_the_variables_of_the_first_call(how):
    total, w = tk.Variable(0.0, trainable=False), tk.Variable(3.0)

    def counted(x):
        total.assign_add(1.0)
        return x * w * total

    def block(x):
        if how == "tk.while_loop":
            return tk.while_loop(lambda i, x: i < 2, lambda i, x: (i + 1, counted(x)), (0, x))[1]
        cond = tk.keras.ops.cond if how == "ops.cond" else tk.cond
        return cond(x > 0.0, lambda: counted(counted(x)), lambda: x)

    def step(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = recompute_grad(block)(x)
        total.assign_add(10.0)
        return y, *tape.gradient(y, [x, w])

    for f in (step, tk.function(step)):
        total.assign(0.0)
        assert [float(v) for v in f(tk.constant(1.0))] == [18.0, 18.0, 12.0]
        assert float(total) == 12.0


def test_without_a_tape_it_is_the_function():
    assert float(recompute_grad(lambda x, k=2.0: x * k)(3.0)) == 6.0


ROWS, COLUMNS, DEPTH = 512, 256, 4


def peak_bytes(wrap, way):
    weights = [tk.Variable(np.eye(COLUMNS, dtype="float32") * 0.9) for _ in range(DEPTH)]
    x = tk.constant(np.ones((ROWS, COLUMNS), "float32"))

    def block(x, w):
        for _ in range(3):
            x = tk.tanh(tk.matmul(x, w))
        return x

    def forward(x):
        for w in weights:
            x = wrap(block)(x, w.value())
        return tk.reduce_sum(x)

    inside = tk.function(forward, jit_compile=False) if way == "compiled inside" else forward

    def step(x):
        with tk.GradientTape() as tape:
            y = inside(x)
        return tape.gradient(y, weights)

    if way == "compiled":
        step = tk.function(step, jit_compile=False)
    step(x)
    tracemalloc.start()
    step(x)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


@pytest.mark.parametrize("way", ["eager", "compiled", "compiled inside"])
def test_only_the_inputs_of_the_calls_are_kept(way):
    one = ROWS * COLUMNS * 4
    plain = peak_bytes(lambda f: f, way)
    frugal = peak_bytes(recompute_grad, way)
    assert plain > 3 * DEPTH * one
    assert frugal < plain - (2 * DEPTH - 3) * one
