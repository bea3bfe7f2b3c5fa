"""Gradients of branches: nothing is computed twice, and what a branch keeps fits the other."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.graph.ir.graph import Graph
from trainkit.graph.ir.passes import optimised

W = tk.Variable([[0.5, -0.25], [0.125, 1.5]])
V = tk.Variable([[1.0, 2.0], [-1.0, 0.5]])
X = tk.constant([[1.0, -2.0], [0.5, 0.25]])


def both_chains(x, flag):
    if flag:
        y = tk.tanh(tk.matmul(tk.tanh(tk.matmul(x, W)), V))
    else:
        y = tk.exp(tk.matmul(x, V) * W)
    return tk.reduce_sum(y)


def step_of(loss):
    def step(x, flag):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = loss(x, flag)
        return y, tape.gradient(y, [x, W, V], unconnected_gradients="zero")

    return step


def all_nodes(graph):
    for node in graph.nodes:
        yield node
        for part in node.subgraphs():
            yield from all_nodes(part)


def operations(function, *args):
    graph = optimised(function.get_concrete_function(*args).graph)
    return [node.primitive.name for node in all_nodes(graph) if node.kind == "op"]


def assert_same(found, expected):
    for a, b in zip(tk.nest.flatten(found), tk.nest.flatten(expected), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize("flag", [True, False])
def test_gradients_of_both_branches_have_the_bits_of_eager_ones(flag):
    flag = tk.constant(flag)
    expected = step_of(both_chains)(X, flag)
    assert_same(tk.function(step_of(both_chains))(X, flag), expected)
    assert_same(step_of(tk.function(both_chains))(X, flag), expected)


def test_the_way_back_computes_no_branch_again():
    names = operations(tk.function(step_of(both_chains)), X, tk.constant(True))
    assert names.count("cond") == 2
    assert names.count("matmul") == 3 + 6  # one there, two back
    assert names.count("tanh") == 2
    assert names.count("exp") == 1


def test_what_an_eager_tape_sees_is_computed_once(monkeypatch):
    run = []
    program = Graph.program
    monkeypatch.setattr(Graph, "program", lambda graph: run.append(graph.name) or program(graph))
    step_of(tk.function(both_chains))(X, tk.constant(True))
    assert run == ["true", "true_gradient"]


def test_a_tensor_that_both_branches_use_has_one_gradient():
    names = operations(tk.function(step_of(both_chains)), X, tk.constant(True))
    assert "zeros_like" not in names
    assert "add" not in names


def test_what_branches_keep_shares_places_where_it_fits():
    graph = optimised(
        tk.function(step_of(both_chains)).get_concrete_function(X, tk.constant(True)).graph
    )
    choice = next(node for node in graph.nodes if node.kind == "op" and node.type == "If")
    # tanh and its product in one branch, exp and the product in the other; y is a result
    assert len(choice.outputs) < 5
    assert all(tuple(y.shape) == (2, 2) for y in choice.outputs)


def of_other_shapes(x, flag):
    if flag:
        y = tk.reduce_sum(tk.exp(tk.concat([x, x], 0)) ** 2)
    else:
        y = tk.reduce_mean(tk.tanh(x[0]) * W[0, 0]) * tk.sin(V[0, 0])
    return y


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("rows", [2, None])
def test_what_only_one_branch_keeps_may_have_any_shape(flag, rows):
    flag = tk.constant(flag)
    expected = step_of(of_other_shapes)(X, flag)
    signature = [tk.TensorSpec([rows, 2]), tk.TensorSpec([], tk.bool)]
    assert_same(tk.function(step_of(of_other_shapes), input_signature=signature)(X, flag), expected)
    assert_same(step_of(tk.function(of_other_shapes, input_signature=signature))(X, flag), expected)


def nested(x, flag):
    y = x
    if flag:
        if x[0, 0] > 0:
            y = tk.matmul(tk.exp(x), W)
        else:
            y = tk.sin(x)
    for i in tk.range(3):
        if i % 2 == 0:
            y = tk.tanh(y) * V
        else:
            y = tk.concat([y[:1], tk.exp(-y[1:])], 0)
    return tk.reduce_sum(y)


@pytest.mark.parametrize("flag", [True, False])
def test_branches_in_branches_and_loops(flag):
    flag = tk.constant(flag)
    for x in (X, -X):
        expected = step_of(nested)(x, flag)
        for step in (tk.function(step_of(nested)), step_of(tk.function(nested))):
            found = step(x, flag)
            for a, b in zip(tk.nest.flatten(found), tk.nest.flatten(expected), strict=True):
                np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6, atol=1e-7)


def derivatives(f, x, order):
    if not order:
        return [f(x)]
    with tk.GradientTape() as tape:
        tape.watch(x)
        found = derivatives(f, x, order - 1)
    return [*found, tape.gradient(found[-1], x)]


def sine_or_exp(x):
    if x > 0:
        return tk.sin(x) * x
    return tk.exp(x) * tk.tanh(x)


@pytest.mark.parametrize("x", [0.75, -0.5])
def test_third_derivatives_inside_and_outside(x):
    x = tk.constant(x, tk.float64)
    expected = [float(y) for y in derivatives(sine_or_exp, x, 3)]
    inside = tk.function(lambda x: derivatives(sine_or_exp, x, 3))(x)
    outside = derivatives(tk.function(sine_or_exp), x, 3)
    assert [float(y) for y in inside] == pytest.approx(expected, rel=1e-12)
    assert [float(y) for y in outside] == pytest.approx(expected, rel=1e-12)


def test_a_persistent_tape_takes_both_gradients_from_what_was_kept():
    @tk.function
    def both(x, flag):
        with tk.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = both_chains(x, flag)
        return tape.gradient(y, W), tape.gradient(y, [x, V])

    by_w, (by_x, by_v) = both(X, tk.constant(True))
    assert_same((by_x, by_w, by_v), step_of(both_chains)(X, tk.constant(True))[1])


def test_prints_and_assertions_in_a_branch_happen_once(capsys):
    def loss(x, flag):
        y = x
        if flag:
            tk.print("taken")
            y = tk.sin(x) * x
        return tk.reduce_sum(y)

    for step in (tk.function(step_of(loss)), step_of(tk.function(loss))):
        for _ in range(2):
            step(X, tk.constant(True))
            assert capsys.readouterr().err == "taken\n"


def test_a_branch_that_raises_raises_when_it_is_taken():
    def loss(x, flag):
        if flag:
            raise ValueError("not this way")
        return tk.reduce_sum(tk.exp(x) * W)

    for step in (tk.function(step_of(loss)), step_of(tk.function(loss))):
        assert_same(step(X, tk.constant(False)), step_of(loss)(X, False))
        with pytest.raises(ValueError, match="not this way"):
            step(X, tk.constant(True))


def test_a_branch_that_prints_is_not_computed_again():
    def loss(x, flag):
        y = x
        if flag:
            tk.print("taken")
            y = tk.exp(tk.sin(x))
        return tk.reduce_sum(y)

    names = operations(tk.function(step_of(loss)), X, tk.constant(True))
    assert names.count("exp") == 1
    assert names.count("print") == 1


def test_no_gradient_where_the_result_does_not_depend_on_it():
    @tk.function
    def slope(x, flag):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = tk.cond(flag, lambda: tk.stop_gradient(x), lambda: tk.zeros([2, 2]))
        assert tape.gradient(y, x) is None
        return y

    assert_same(slope(X, tk.constant(True)), X)


@pytest.mark.usefixtures("on_cpu")  # a GPU reads zeros outside, and raises nothing
def test_an_error_in_a_branch_with_gradients_names_the_line_of_the_operation():
    @tk.function
    def slope(x, i):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = x
            if x[0, 0] > 0:
                y = y * tk.gather(x, i)  # the culprit
            for _ in tk.range(2):
                y = y * tk.gather(x, i)
        return tape.gradient(y, x)

    line = slope.python_function.__code__.co_firstlineno + 6
    with pytest.raises(tk.errors.InvalidArgumentError, match=f"line {line}, in slope"):
        slope(X.cpu(), tk.constant(7))
    line += 2
    with pytest.raises(tk.errors.InvalidArgumentError, match=f"line {line}, in slope"):
        slope(-X.cpu(), tk.constant(7))


@pytest.mark.parametrize("jit_compile", [True, False])
def test_what_is_made_for_gradients_is_compiled_as_the_function_is(jit_compile):
    f = tk.function(step_of(nested), jit_compile=jit_compile)
    graph = optimised(f.get_concrete_function(X, tk.constant(True)).graph)
    parts = [part for node in all_nodes(graph) for part in node.subgraphs()]
    assert len(parts) > 6
    assert {part.jit_compile for part in parts} == {jit_compile}


def test_a_saved_graph_holds_branches_that_keep(tmp_path):
    signature = [tk.TensorSpec([2, 2]), tk.TensorSpec([], tk.bool)]
    f = tk.function(step_of(of_other_shapes), input_signature=signature)
    tk.saved_graph.save(f, tmp_path / "f.h5")
    again = tk.saved_graph.load(tmp_path / "f.h5")
    for flag in (tk.constant(True), tk.constant(False)):
        assert_same(again(X, flag), f(X, flag))
