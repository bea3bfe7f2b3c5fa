"""A loop's test that does something is run once a round and once more, in a graph as well."""

import numpy as np
import pytest

import trainkit as tk


def assigning(v, w, log):
    i = tk.constant(0)
    while v.assign_add(1) < 4:
        i += 1
    return i


def calling(v, w, log):
    def test():
        v.assign_add(1)
        return v < 4

    while test():
        w.assign_add(v)
    return v


def logging(v, w, log):
    i = tk.constant(0)
    while tk.numpy_function(log, [i], tk.int32) < 3:
        i += 1
    return i


def taking(v, w, log):
    waiting, total = iter(tk.data.Dataset.range(9)), tk.constant(0, tk.int64)
    while next(waiting) < 4:
        total += 1
    return total, next(waiting)


def breaking(v, w, log):
    x = tk.constant(2.0)
    while v.assign_add(1) < 9:
        x -= 1.0
        if x < 0.0:
            break
        if v > 1:
            continue
        w.assign_add(10)
    return x


def either(v, w, log):
    x = tk.constant(3)
    while x > 0 and v.assign_add(1) < 9:
        x -= 1
    return x


def nested(v, w, log):
    i = tk.constant(0)
    while v.assign_add(1) < 4:
        while w.assign_add(1) % 3 != 0:
            i += 1
    return i


def without_variables(v, w, log):
    while w.assign_add(1) < 3:
        v.assign_add(w)
    return v, w


def drawn(v, w, log):
    i = tk.constant(0)
    while log.generator.uniform([]) < 0.8 and i < 50:
        i += 1
    return i


def called(v, w, log):
    def test(i, pair):
        return v.assign_add(1) < 5

    i, pair = tk.while_loop(test, lambda i, pair: [i + 1, (pair[0], i)], [tk.constant(0), (v, w)])
    return i, pair


def limited(v, w, log):
    return tk.while_loop(
        lambda x: v.assign_add(1) < 9, lambda x: [x + 1.0], [0.0], maximum_iterations=3
    )


LOOPS = [
    assigning, calling, logging, taking, breaking, either, nested, without_variables, drawn, called,
    limited,
]  # fmt: skip


class Log(list):
    """What a function was called with, which it gives back."""

    def __init__(self):
        super().__init__()
        self.generator = tk.random.Generator.from_seed(7)

    def __call__(self, n):
        self.append(int(n))
        return np.int32(n)


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.__name__)
def test_a_test_with_effects_runs_as_often_as_without_a_graph(loop):
    def runs(function):
        v, w, log = tk.Variable(0), tk.Variable(0), Log()
        compiled = tk.function(lambda: loop(v, w, log)) if function else lambda: loop(v, w, log)
        found = []
        for _ in range(3):  # the second and third run are of the graph that the first one made
            result = [np.array(x).tolist() for x in tk.nest.flatten(compiled())]
            found.append((result, int(v), int(w), list(log), log.generator.state.numpy().tolist()))
            v.assign(0)
            w.assign(0)
            log.clear()
        return found

    assert runs(True) == runs(False)


def test_gradients_of_a_loop_whose_test_has_an_effect():
    v = tk.Variable(0)

    @tk.function
    def f(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = x
            while v.assign_add(1) < 4:
                y *= x
        return tape.gradient(y, x)

    assert float(f(tk.constant(2.0))) == 32.0  # of x**4
    assert int(v) == 4


def test_a_body_that_gives_another_nest_is_told_before_its_test_is_run():
    v = tk.Variable(0)

    @tk.function
    def f():
        return tk.while_loop(lambda x: v.assign_add(1) < 4, lambda x: [x, x], [tk.constant(1)])

    with pytest.raises(ValueError, match="the body returns 2 values for 1 loop variables"):
        f()
