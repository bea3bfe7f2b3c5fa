"""Gradients of functions: the first eager API."""

import numpy as np
import pytest

import trainkit as tk
import trainkit.eager as tfe


def cube(x):
    return x * x * x


def weighed(a, b, scale=1.0):
    return scale * a * tk.reduce_sum(b * b)


def test_gradients_of_any_order():
    f, wanted = cube, [27.0, 27.0, 18.0, 6.0, 0.0, 0.0]
    assert float(f(3.0)) == wanted[0]
    for order in wanted[1:]:
        f = (lambda g: lambda x: tfe.gradients_function(g)(x)[0])(f)
        slope = f(3.0)
        assert isinstance(slope, tk.Tensor)  # a vanished derivative is a zero, not None
        assert float(slope) == order


def test_value_and_gradients():
    value, (by_a, by_b) = tfe.value_and_gradients_function(weighed)(2.0, tk.constant([1.0, 3.0]))
    assert float(value) == 20.0
    assert float(by_a) == 10.0
    assert by_b.tolist() == [4.0, 12.0]


@pytest.mark.parametrize(("params", "wanted"), [(["b"], [[4.0]]), ([0], [1.0]), ([1, 0], 2)])
def test_params_choose_arguments(params, wanted):
    grads = tfe.gradients_function(weighed, params)(2.0, tk.constant([1.0]))
    assert len(grads) == len(params)
    if wanted != 2:
        assert [np.asarray(g).tolist() for g in grads] == wanted


@pytest.mark.parametrize(
    ("params", "words"),
    [(["c"], "has no parameter 'c', only"), ([5], "position 5, but 2 arguments were given")],
)
def test_params_that_are_not_there(params, words):
    with pytest.raises(ValueError, match=words):
        tfe.gradients_function(weighed, params)(2.0, [1.0])


def test_keyword_arguments_and_weights_of_the_value():
    (slope,) = tfe.gradients_function(weighed, [0])(2.0, tk.constant([1.0, 1.0]), scale=5.0)
    assert float(slope) == 10.0
    (weighed_slope,) = tfe.gradients_function(lambda x: x * x)([1.0, 2.0], dy=[10.0, 1.0])
    assert weighed_slope.tolist() == [20.0, 4.0]


def test_an_argument_that_is_not_used_has_a_gradient_of_zeros():
    grads = tfe.gradients_function(lambda a, b: a)(1.0, [1.0, 2.0])
    assert [np.asarray(g).tolist() for g in grads] == [1.0, [0.0, 0.0]]


def test_a_list_of_numbers_is_one_argument():
    (slope,) = tfe.gradients_function(lambda x: x * x)([1.0, 2.0])
    assert slope.tolist() == [2.0, 4.0]
    (slopes,) = tfe.gradients_function(lambda xs: xs[0] * xs[1])([tk.constant(2.0), 3.0])
    assert [float(s) for s in slopes] == [3.0, 2.0]


def test_nested_arguments():
    def f(both):
        return both["a"] * both["b"][0]

    (grads,) = tfe.gradients_function(f)({"a": tk.constant(2.0), "b": [tk.constant(5.0)]})
    assert float(grads["a"]) == 5.0
    assert float(grads["b"][0]) == 2.0


def test_wrapped_functions_keep_their_names():
    assert tfe.gradients_function(cube).__name__ == "cube"
    assert tfe.implicit_gradients(cube).__name__ == "cube"


@pytest.mark.parametrize(
    "wrapper", [tfe.value_and_gradients_function, tfe.implicit_value_and_gradients]
)
def test_a_function_that_returns_nothing(wrapper):
    with pytest.raises(ValueError, match="returns None, so it has no gradient"):
        wrapper(lambda x: None)(1.0)


def test_implicit_gradients_find_the_variables():
    v, w, still = tk.Variable(2.0), tk.Variable([1.0, 2.0]), tk.Variable(5.0, trainable=False)

    def loss(x):
        return v * v * tk.reduce_sum(w) * still * x

    value, pairs = tfe.implicit_value_and_gradients(loss)(1.0)
    assert float(value) == 60.0
    assert {id(variable) for _, variable in pairs} == {id(v), id(w)}
    by = {id(variable): g for g, variable in pairs}
    assert float(by[id(v)]) == 60.0
    assert by[id(w)].tolist() == [20.0, 20.0]
    assert len(tfe.implicit_gradients(loss)(1.0)) == 2


def test_implicit_gradients_need_a_variable():
    with pytest.raises(ValueError, match="variable"):
        tfe.implicit_gradients(lambda x: x * 2.0)(tk.constant(1.0))


def test_pairs_are_what_an_optimizer_takes():
    v = tk.Variable(3.0)
    optimizer = tk.train.GradientDescentOptimizer(learning_rate=0.5)
    optimizer.apply_gradients(tfe.implicit_gradients(lambda: v * v)())
    assert float(v) == 0.0


def test_jvp_gives_value_and_slope():
    value, slope = tk.ops.jvp(lambda a, b: a * b, [tk.constant(2.0), 3.0], [1.0, 10.0])
    assert (float(value), float(slope)) == (6.0, 23.0)
    value, slope, more = tk.ops.jvp(lambda a: (a**2, "aux"), [3.0], [1.0], has_aux=True)
    assert (float(value), float(slope), more) == (9.0, 6.0, "aux")
    _, zero = tk.ops.jvp(lambda a: tk.constant([1.0, 2.0]), [3.0], [1.0])
    assert zero.tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match=r"a primal has shape \(\), its tangent \(2,\)"):
        tk.ops.jvp(lambda a: a, [3.0], [tk.constant([1.0, 2.0])])


@pytest.mark.parametrize("same", [tk.constant, tk.Variable], ids=["tensor", "variable"])
def test_a_tensor_given_twice_has_a_gradient_for_each_argument(same):
    c = same(3.0)
    assert [float(g) for g in tfe.gradients_function(lambda x, y: x * x * y)(c, c)] == [18.0, 9.0]
    only_y = tfe.gradients_function(lambda x, y: x * x * y, params=["y"])
    assert [float(g) for g in only_y(c, c)] == [9.0]
    inside = tfe.gradients_function(lambda d: d["b"] * d["b"] * d["a"])({"b": c, "a": c})[0]
    assert {key: float(g) for key, g in inside.items()} == {"b": 18.0, "a": 9.0}


def test_a_tensor_given_twice_has_second_derivatives():
    c = tk.constant(3.0)

    def slope_of_x(x, y):
        return tfe.gradients_function(lambda a, b: a * a * b)(x, y)[0]  # 2 x y

    assert [float(g) for g in tfe.gradients_function(slope_of_x)(c, c)] == [6.0, 6.0]


def jvps_after_the_blocks(x):
    with tk.autodiff.ForwardAccumulator(x, tk.ones_like(x)) as first:
        with tk.autodiff.ForwardAccumulator(x, tk.ones_like(x)) as second:
            with tk.autodiff.ForwardAccumulator(x, tk.ones_like(x)) as third:
                y = tk.exp(2.0 * x)
    return third.jvp(y), second.jvp(third.jvp(y)), first.jvp(second.jvp(third.jvp(y)))


def test_nested_accumulators_are_asked_after_their_blocks():
    e2 = np.exp(2.0)
    for f in (jvps_after_the_blocks, tk.function(jvps_after_the_blocks)):
        found = [float(y) for y in f(tk.constant(1.0))]
        np.testing.assert_allclose(found, [2 * e2, 4 * e2, 8 * e2], rtol=1e-6)


def test_a_tape_around_differentiates_a_jvp_that_is_asked_later():
    x = tk.constant(2.0)
    with tk.GradientTape() as tape:
        tape.watch(x)
        with tk.autodiff.ForwardAccumulator(x, tk.constant(1.0)) as accumulator:
            y = x**3
    assert float(tape.gradient(accumulator.jvp(y), x)) == 12.0
