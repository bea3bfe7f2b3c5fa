"""Who listens to operations: tapes of this thread, nobody, a trace."""

import threading

import pytest

import trainkit as tk
from trainkit.core.dispatch import trace_state
from trainkit.core.dispatch.eval_shape import ShapeTrace, eagerly, result_specs
from trainkit.core.shapes import Spec


def test_silence_suspends_the_tapes_and_brings_them_back():
    x = tk.constant(2.0)
    with tk.GradientTape(persistent=True) as tape:
        tape.watch(x)
        with trace_state.silence():
            assert trace_state.TAPES == []
            quiet = x * x
        loud = x * x
    assert trace_state.TAPES == []
    assert float(tape.gradient(loud, x)) == 4.0
    assert tape.gradient(quiet, x) is None


def test_silence_ends_with_an_error_too():
    with tk.GradientTape() as tape:
        with pytest.raises(KeyError), trace_state.silence():
            raise KeyError
        assert trace_state.TAPES == [tape]


def test_a_tape_hears_its_own_thread_only():
    x = tk.constant(3.0)
    results = []
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        worker = threading.Thread(target=lambda: results.append(x * x * x))
        worker.start()
        worker.join()
    assert len(tape.entries) == 1
    assert float(tape.gradient(y, x)) == 6.0
    assert float(results[0]) == 27.0


def test_tapes_of_two_threads_do_not_mix():
    barrier = threading.Barrier(2, timeout=20)
    slopes = {}

    def work(n):
        x = tk.constant(float(n))
        with tk.GradientTape() as tape:
            tape.watch(x)
            barrier.wait()
            y = x * x
            barrier.wait()
        slopes[n] = float(tape.gradient(y, x))

    workers = [threading.Thread(target=work, args=(n,)) for n in (2, 5)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert slopes == {2: 4.0, 5: 10.0}


def test_execution_is_eager_unless_something_is_traced():
    assert tk.executing_eagerly()
    seen = []

    @tk.function
    def f(x):
        seen.append((tk.executing_eagerly(), tk.inside_function(), tk.is_symbolic_tensor(x)))
        with tk.init_scope():
            seen.append(tk.executing_eagerly())
        return x

    f(tk.constant(1.0))
    assert seen == [(False, True, True), True]
    assert tk.executing_eagerly()


def test_shapes_can_be_asked_for_inside_of_a_trace():
    trace = ShapeTrace()
    trace_state.THREAD.traces.append(trace)
    try:
        assert trace_state.current_trace() is trace
        with eagerly():
            assert trace_state.current_trace() is None
            assert float(tk.constant(1.0) + 1) == 2.0
        assert trace_state.current_trace() is trace
        with pytest.raises(RuntimeError, match="a graph is being traced"):
            tk.enable_eager_execution()
    finally:
        trace_state.THREAD.traces.pop()
    tk.enable_eager_execution()


def test_shape_runs_read_variables_and_change_none():
    v = tk.Variable([1.0, 2.0])

    def f(x):
        v.assign(v + 1)
        return x + v

    assert result_specs(f, Spec((None, 2), "float32")) == Spec((None, 2), "float32")
    assert v.numpy().tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="do not broadcast"):
        result_specs(f, Spec((3,), "float32"))
    assert trace_state.current_trace() is None


def test_follows_tells_whether_a_tape_of_this_thread_tracks_a_tensor():
    x, other = tk.constant(2.0), tk.constant(3.0)
    found = []
    with tk.GradientTape() as tape:
        tape.watch(x)
        assert trace_state.follows(x)
        assert trace_state.follows(x * other)
        assert not trace_state.follows(other)
        thread = threading.Thread(target=lambda: found.append(trace_state.follows(x)))
        thread.start()
        thread.join()
    assert found == [False]
    assert not trace_state.follows(x)
