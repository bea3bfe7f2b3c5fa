"""A traced function has a graph for each device on which it makes tensors."""

import threading

import numpy as np
import pytest

import trainkit as tk
from trainkit.core import devices
from trainkit.graph.control_flow.while_loop import padded_like

pytestmark = pytest.mark.usefixtures("any_gpu")

MAKERS = {
    "ones": lambda x: x + tk.ones((3,)),
    "a list": lambda x: x * [1.0, 2.0, 3.0],
    "range": lambda x: x + tk.cast(tk.range(3), "float32"),
    "a draw": lambda x: x * tk.random.uniform((3,)),
    "eye": lambda x: tk.linalg.matvec(tk.eye(3), x),
}


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("order", [("/gpu:0", "/cpu:0"), ("/cpu:0", "/gpu:0")])
def test_what_was_traced_on_one_device_is_called_on_the_other(name, order):
    f = tk.function(MAKERS[name])
    for _ in range(6):
        for where in order:
            with tk.device(where):
                x = tk.constant([1.0, 2.0, 4.0])
                y = f(x)
            assert y.device == x.device
            if name != "a draw":
                np.testing.assert_array_equal(y, MAKERS[name](tk.constant([1.0, 2.0, 4.0])))
    assert f.experimental_get_tracing_count() == 2


@pytest.mark.parametrize("signature", [None, [tk.TensorSpec((None,), tk.float32)]])
def test_shapes_become_unknown_on_each_device_apart(signature):
    f = tk.function(
        lambda x: x + tk.ones((1,)), input_signature=signature, reduce_retracing=signature is None
    )
    for where in ("/gpu:0", "/cpu:0"):
        with tk.device(where):
            for n in range(1, 6):
                assert f(tk.zeros((n,))).numpy().tolist() == [1.0] * n
    assert f.experimental_get_tracing_count() == (4 if signature is None else 2)


def test_naming_the_default_device_makes_no_trace_of_its_own():
    f = tk.function(lambda x: x + tk.ones((3,)))
    f(tk.ones((3,)))
    with tk.device("/gpu:0"):
        assert not devices.ELSEWHERE
        f(tk.ones((3,)))
    with tk.device("/cpu:0"), tk.device("/gpu:0"):
        f(tk.ones((3,)))
    assert f.experimental_get_tracing_count() == 1


def test_a_context_of_another_thread_changes_nothing_here():
    f = tk.function(lambda x: x + tk.ones((3,)))
    f(tk.ones((3,)))
    entered, done = threading.Event(), threading.Event()

    def other():
        with tk.device("/cpu:0"):
            entered.set()
            done.wait()

    thread = threading.Thread(target=other)
    thread.start()
    entered.wait()
    try:
        assert "GPU" in f(tk.ones((3,))).device
        assert f.experimental_get_tracing_count() == 1
    finally:
        done.set()
        thread.join()
    assert not devices.ELSEWHERE


def test_a_function_inside_of_another_one_goes_to_the_device_of_the_call():
    inner = tk.function(lambda x: x + tk.ones((3,)))
    outer = tk.function(lambda x: inner(x) * tk.constant([1.0, 2.0, 3.0]))
    inner(tk.ones((3,)))
    for where in ("/cpu:0", "/gpu:0", "/cpu:0"):
        with tk.device(where):
            np.testing.assert_array_equal(outer(tk.ones((3,))), [2.0, 4.0, 6.0])


@pytest.mark.parametrize("where", ["/gpu:0", "/cpu:0"])
def test_numbers_of_text_go_to_the_device_of_the_call(where):
    layer = tk.layers.Hashing(5, output_mode="one_hot")
    f = tk.function(lambda text: tk.sort(layer(text), axis=-1))
    text = tk.constant([["a", "b"], ["c", "d"]])
    with tk.device(where):
        for _ in range(5):
            found = f(text)
    assert found.device[-5:].lower() == where[1:]
    np.testing.assert_array_equal(found, np.sort(layer(text).numpy(), axis=-1))


def test_jacobians_of_what_is_cut_to_sizes_are_computed_at_once():
    x, like = tk.constant([[1.0], [2.0]]), tk.zeros((3, 2))
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = padded_like(x, like)
    found = tape.jacobian(y, x).numpy()
    assert found.sum() == 2.0
    assert found[0, 0, 0, 0] == found[1, 0, 1, 0] == 1.0


def test_explain_names_the_device():
    f = tk.function(lambda x: x + tk.ones((3,)))
    f(tk.ones((3,)))
    with tk.device("/cpu:0"):
        f(tk.ones((3,)))
    text = f.explain()
    assert "tk.device: the default -> /device:CPU:0" in text
    assert "each device has a trace of its own" in text


def test_an_error_in_a_context_leaves_no_device_behind():
    with pytest.raises(ValueError, match="inside"), tk.device("/cpu:0"):
        raise ValueError("inside")
    assert not devices.ELSEWHERE
    assert devices.elsewhere() is None


def test_traces_of_another_device_are_not_counted_as_too_many():
    f = tk.function(lambda x: x + 1)
    for where in ("/gpu:0", "/cpu:0"):
        with tk.device(where):
            for n in range(1, 5):
                f(tk.zeros((n,)))
    with tk.device("/cpu:0"), pytest.warns(UserWarning, match="is being traced for the 5th time"):
        f(tk.zeros((9,)))


def test_a_repeated_call_on_another_device_than_the_default_looks_at_no_argument(monkeypatch):
    f = tk.function(lambda x: x + 1)
    for where in ("/gpu:0", "/cpu:0"):
        with tk.device(where):
            x = tk.zeros((3,))
            f(x)
            with monkeypatch.context() as patch:
                patch.setattr(type(f), "_key", None)  # the long way asks it
                assert f(x).device == x.device
