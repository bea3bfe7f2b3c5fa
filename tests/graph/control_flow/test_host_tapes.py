"""Gradients of Python functions that a graph calls come from the tape of the call."""

import gc

import pytest

import trainkit as tk
from trainkit.graph.control_flow import host_tapes


def _counted(function):
    """`function` as one that notes its calls, and the notes."""
    calls = []

    def counted(*xs):
        calls.append(xs)
        return function(*xs)

    return counted, calls


def _slope(call, x):
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = call(x)
    return tape.gradient(y, x)


def _square_in_python(function):
    return lambda x: tk.py_function(function, [x], tk.TensorSpec((), x.dtype))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64"])
def test_gradients_of_a_traced_call_run_it_once(dtype):
    square, calls = _counted(lambda x: x * x)
    slope = tk.function(lambda x: _slope(_square_in_python(square), x))
    for run in range(1, 4):
        x = tk.constant(run, dtype)
        assert slope(x).numpy() == 2 * run
        assert len(calls) == run


def test_gradients_of_a_function_that_is_called_under_a_tape_run_it_once():
    square, calls = _counted(lambda x: x * x)
    call = tk.function(_square_in_python(square))
    for run in range(1, 4):
        assert float(_slope(call, tk.constant(float(run)))) == 2 * run
        assert len(calls) == run


def _slope_of_three_calls(square):
    """A function of x: the gradient of what a loop makes of it by three calls."""

    @tk.function
    def slope(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in tk.range(3):
                y = _square_in_python(square)(y)
        return tape.gradient(y, x)

    return slope


def test_gradients_of_calls_in_a_loop_run_each_once():
    square, calls = _counted(lambda x: x * x)

    slope = _slope_of_three_calls(square)

    for run in range(1, 3):
        assert float(slope(tk.constant(1.5))) == 8 * 1.5**7
        assert len(calls) == 3 * run


def test_gradients_of_a_loop_with_more_calls_than_tapes_are_held_come_from_new_calls(monkeypatch):
    monkeypatch.setattr(host_tapes, "MOST_ORPHANS", 2)
    square, calls = _counted(lambda x: x * x)

    slope = _slope_of_three_calls(square)

    assert float(slope(tk.constant(1.5))) == 8 * 1.5**7
    assert len(calls) == 4


def test_gradients_of_gradients_of_a_traced_call():
    cube, calls = _counted(lambda x: x * x * x)
    call = _square_in_python(cube)
    second = tk.function(lambda x: _slope(lambda x: _slope(call, x), x))
    assert float(second(tk.constant(2.0))) == 12.0
    assert len(calls) == 2


def test_several_inputs_and_results_of_a_traced_call_have_gradients():
    both, calls = _counted(lambda a, n, b: [a * b, n + 1, [a, b]])

    @tk.function
    def slopes(a, b):
        with tk.GradientTape(persistent=True) as tape:
            tape.watch([a, b])
            announced = [tk.TensorSpec((), "float32"), tk.int32, tk.TensorSpec((2,), "float32")]
            product, number, pair = tk.py_function(both, [a, tk.constant(3), b], announced)
        return (
            number,
            tape.gradient(product, [a, b]),
            tape.gradient(pair, [a, b], output_gradients=tk.constant([5.0, 7.0])),
        )

    number, of_product, of_pair = slopes(tk.constant(2.0), tk.constant(3.0))
    assert int(number) == 4
    assert [float(g) for g in of_product] == [3.0, 2.0]
    assert [float(g) for g in of_pair] == [5.0, 7.0]
    assert len(calls) == 1


def test_tapes_of_traced_calls_end_with_their_runs():
    square, _ = _counted(lambda x: x * x)
    orphans = len(host_tapes._CALLS.orphans)
    tk.function(lambda x: _slope(_square_in_python(square), x))(tk.constant(2.0))
    tk.function(_square_in_python(square))(tk.constant(2.0))
    gc.collect()
    assert not host_tapes._CALLS.by_number
    assert not host_tapes._CALLS.references
    assert len(host_tapes._CALLS.orphans) == orphans


def test_a_result_of_another_rank_than_expected_is_not_computed_again_for_gradients():
    double, calls = _counted(lambda x: x * 2)

    @tk.function
    def slope(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = tk.py_function(double, [x], tk.float32)
        return tape.gradient(y, x)

    assert slope(tk.constant([1.0, 2.0])).tolist() == [2.0, 2.0]
    assert len(calls) == 1
