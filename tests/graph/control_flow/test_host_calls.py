"""`py_function` and `numpy_function`: as decorators, without results, with lists of dtypes."""

import time

import numpy as np
import pytest

import trainkit as tk
from trainkit.graph.control_flow import host_calls
from trainkit.graph.tracing import function

EAGER_AND_TRACED = pytest.mark.parametrize(
    "wrap", [lambda f: f, tk.function], ids=["eager", "traced"]
)
CALLS = pytest.mark.parametrize("call", [tk.py_function, tk.numpy_function])


@EAGER_AND_TRACED
@CALLS
def test_as_a_decorator(call, wrap):
    @call(Tout=tk.float32)
    def scaled(x, by=2.0):
        """Scaled."""
        return np.float32(x * by)

    assert scaled.__doc__ == "Scaled."
    f = wrap(lambda x: (scaled(x), scaled(x, 3.0), scaled(x, by=tk.constant(5.0))))
    for value in (1.0, 2.0):
        assert [float(y) for y in f(tk.constant(value))] == [2 * value, 3 * value, 5 * value]


@EAGER_AND_TRACED
@CALLS
def test_without_results(call, wrap):
    seen = []

    @wrap
    def f(x):
        found = call(lambda v: seen.append(float(v)), [x], [])
        return (x, 0) if found in ([], None) else (x, 1)

    for value in (3.0, 4.0):
        y, other = f(tk.constant(value))
        assert (float(y), int(other)) == (value, 0)
    assert seen == [3.0, 4.0]


@EAGER_AND_TRACED
@CALLS
@pytest.mark.parametrize("kind", [list, tuple])
def test_lists_of_dtypes(call, wrap, kind):
    dtypes = kind([tk.float32, tk.int32])
    f = wrap(lambda x: call(lambda v: (v * 2, np.int32(7)), [x], dtypes))
    y, n = f(tk.constant(1.5))
    assert (float(y), int(n), n.dtype) == (3.0, 7, tk.int32)
    one = wrap(lambda x: call(lambda v: v, [x], [tk.float32]))(tk.constant(1.5))
    assert isinstance(one, list)
    assert float(one[0]) == 1.5


@EAGER_AND_TRACED
@CALLS
def test_another_number_of_results_is_refused(call, wrap):
    for result, told in (((1.0, 2.0), [tk.float32]), (None, tk.float32), (1.0, [])):
        f = wrap(lambda x, result=result, told=told: call(lambda v: result, [x], told))
        with pytest.raises(tk.errors.InvalidArgumentError, match="Tout"):
            f(tk.constant(1.0))


@CALLS
def test_arguments_that_are_missing(call):
    with pytest.raises(TypeError, match="Tout is missing"):
        call(lambda x: x, [tk.constant(1.0)])
    with pytest.raises(TypeError, match="inp is missing"):
        call(lambda x: x, Tout=tk.float32)


@CALLS
@pytest.mark.parametrize("say", ["set_shape", "ensure_shape"])
def test_the_shape_of_a_result_is_said_afterwards(call, say):
    @tk.function
    def f(x):
        y = call(lambda v: v * 2, [x], tk.float32)
        if say == "set_shape":
            y.set_shape([None, 2])
        else:
            y = tk.ensure_shape(y, [None, 2])
        assert y.shape == [None, 2]
        return tk.reduce_sum(y, axis=0)

    assert f(tk.ones((3, 2))).numpy().tolist() == [6.0, 6.0]
    with pytest.raises(tk.errors.InvalidArgumentError, match=r"gave shape \(3,\)"):
        f(tk.ones((3,)))


def test_gradients_go_through_a_decorated_function():
    @tk.py_function(Tout=tk.float32)
    def cube(x):
        return x * x * x

    def slope(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = cube(x)
        return tape.gradient(y, x)

    assert float(slope(tk.constant(2.0))) == float(tk.function(slope)(tk.constant(2.0))) == 12.0


def test_the_time_is_read_each_time_the_graph_runs():
    read = tk.function(lambda: (tk.timestamp(), tk.timestamp()))
    before, first, second = time.time(), read(), read()
    times = [float(t) for t in (*first, *second)]
    assert before <= times[0] <= times[1] < times[2] <= times[3] <= time.time()
    assert (first[0].dtype, first[0].shape) == (tk.float64, ())
    now = tk.timestamp(name="now")
    assert (now.dtype, now.shape) == (tk.float64, ())
    assert times[3] <= float(now) <= time.time()


def test_ranks_of_few_functions_are_remembered(monkeypatch):
    monkeypatch.setattr(host_calls, "_RANKS", {})
    monkeypatch.setattr(host_calls, "CALLS", 3)
    for i in range(6):
        # another code each time
        scope = {"np": np}
        exec(f"def made(x):\n    return np.full(2, {i}, np.float32)", scope)

        @tk.function
        def run(x, made=scope["made"]):
            return tk.numpy_function(made, [x], tk.float32) + 1.0

        np.testing.assert_array_equal(run(tk.constant(0.0)), [i + 1, i + 1])
    assert len(host_calls._RANKS) == 3
    assert set(host_calls._RANKS.values()) == {(1,)}


def test_a_call_whose_ranks_are_unknown_does_not_hold_the_variables_of_other_graphs(monkeypatch):
    def fails(x):
        raise ValueError("no result")

    unseen = tk.function(lambda x: tk.py_function(fails, [x], tk.float32))
    with pytest.raises(ValueError, match="no result"):
        unseen(tk.ones((2,)))
    assert len(host_calls.UNSEEN) > 0
    first_runs = []

    def run_first(run, again, variables):
        first_runs.append(variables)
        return run()

    monkeypatch.setattr(function, "run_first", run_first)
    v = tk.Variable(tk.zeros((2,)))
    add = tk.function(lambda x: v.assign_add(x))
    for _ in range(3):
        add(tk.ones((2,)))
    assert first_runs == []
    with pytest.raises(ValueError, match="no result"):
        unseen(tk.ones((3,)))
    assert first_runs == [()]
