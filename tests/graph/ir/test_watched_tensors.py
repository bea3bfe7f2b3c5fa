"""Gradients by tensors with values that branches and bodies of loops refer to."""

import pytest

import trainkit as tk

X, S, W = tk.constant([1.0, 2.0]), tk.constant(3.0), tk.Variable(2.0)


def _branches(z):
    if z > 0.0:
        return X * z + (X * 2.0) * z + tk.reduce_sum(X * X) * z * S
    return X * S


def _loop(z):
    y = z * tk.ones([2])
    for _ in tk.range(3):
        y = y * S + (X * X) * z
    return y


def _branches_in_a_loop(z):
    y, i = z * tk.ones([2]), tk.constant(0)
    while i < 3:
        if tk.reduce_sum(y) > 10.0:
            y = y + X * S * S
        else:
            y = y * S + (X * X) * z
        i += 1
    return y


def _of_several_results(z):
    def yes():
        a, b = tk.split(X, 2)
        return a * z + b * b * S

    return tk.cond(z > 0.0, yes, lambda: X[:1])


def _of_values_alone(z):
    return tk.cond(z > 0.0, lambda: X * X, lambda: X)


def _beside_a_variable(z):
    return tk.cond(z > 0.0, lambda: X * W * z, lambda: X * W)


def _computed_outside(z):
    u = X * 3.0
    return tk.cond(z > 0.0, lambda: u * z, lambda: X)


CASES = [  # the gradients are TensorFlow's
    (_branches, 2.0, [[30.0, 54.0], 20.0, None]),
    (_branches, -2.0, [[3.0, 3.0], 3.0, None]),
    (_loop, 2.0, [[52.0, 104.0], 178.0, None]),
    (_branches_in_a_loop, 2.0, [[22.0, 26.0], 40.0, None]),
    (_of_several_results, 2.0, [[2.0, 12.0], 4.0, None]),
    (_of_values_alone, 2.0, [[2.0, 4.0], None, None]),
    (_of_values_alone, -2.0, [[1.0, 1.0], None, None]),
    (_beside_a_variable, 2.0, [[4.0, 4.0], None, 6.0]),
    (_computed_outside, 2.0, [[6.0, 6.0], None, None]),
]


@pytest.mark.parametrize(("function", "z", "expected"), CASES)
def test_a_tape_of_the_function_knows_them(function, z, expected):
    @tk.function
    def gradients(z):
        with tk.GradientTape() as tape:
            tape.watch([X, S])
            y = function(z)
        return tape.gradient(y, [X, S, W])

    for _ in range(2):
        grads = gradients(tk.constant(z))
        assert [None if g is None else g.numpy().tolist() for g in grads] == expected


# What is computed of such tensors alone is computed once, while tracing, out of the tape's sight.
SEEN_FROM_OUTSIDE = [case for case in CASES if case[0] is not _of_several_results]


@pytest.mark.parametrize(("function", "z", "expected"), SEEN_FROM_OUTSIDE)
def test_a_tape_outside_of_the_function_knows_what_branches_and_bodies_refer_to(
    function, z, expected
):
    traced = tk.function(function)
    nested = tk.function(lambda z: traced(z) * 1.0)
    value = traced(tk.constant(z)).numpy().tolist()  # the graph is there before the tape
    for call in (traced, nested):
        with tk.GradientTape() as tape:
            tape.watch([X, S])
            y = call(tk.constant(z))
        assert y.numpy().tolist() == value
        grads = tape.gradient(y, [X, S, W])
        assert [None if g is None else g.numpy().tolist() for g in grads] == expected
    assert traced(tk.constant(z)).numpy().tolist() == value


def test_gradients_of_gradients():
    @tk.function
    def second(z):
        with tk.GradientTape() as outer:
            outer.watch(S)
            with tk.GradientTape() as inner:
                inner.watch(S)
                y = tk.cond(z > 0.0, lambda: S * S * S * z, lambda: S)
            slope = inner.gradient(y, S)
        return outer.gradient(slope, S)

    assert float(second(tk.constant(2.0))) == 36.0


def test_a_tape_inside_of_a_branch():
    def slope(z):
        with tk.GradientTape() as tape:
            tape.watch(X)
            y = X * X * z
        return tk.reduce_sum(tape.gradient(y, X))

    inside = tk.function(lambda z: tk.cond(z > 0.0, lambda: slope(z), lambda: z))
    assert float(inside(tk.constant(2.0))) == 12.0


def test_tensors_that_no_tape_tracks_stay_constants():
    graph = tk.function(_branches).get_concrete_function(tk.TensorSpec((), "float32")).graph
    cond = next(node for node in graph.nodes if node.type == "If")
    assert not any(x.node.kind == "constant" for x in cond.inputs[1:])
