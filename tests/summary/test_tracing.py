"""`trace_on` and `trace_export`: the graph of a traced function in an event file."""

import pytest

import trainkit as tk
from trainkit import summary


@pytest.fixture(autouse=True)
def _off_afterwards():
    yield
    summary.trace_off()


def test_the_graph_that_was_traced_last_is_exported(writer, events):
    inner = tk.function(lambda x: tk.sqrt(x))
    f = tk.function(lambda x: tk.exp(inner(x)))
    summary.trace_on(graph=True)
    f(tk.constant(1.0))
    summary.trace_export("traced", step=3)
    writer.flush()
    (event,) = [event for event in events().raw if event.graph_def]
    assert event.step == 3
    names = [node.op for node in events().accumulator.Graph().node]
    assert {"Exp", "Sqrt"} <= set(names)


def test_what_is_missing_is_said(writer):
    with pytest.raises(ValueError, match="before"):
        summary.trace_export("none")
    f = tk.function(lambda x: x + 1.0)
    f(tk.constant(1.0))
    summary.trace_on()
    f(tk.constant(2.0))  # traced before
    with pytest.raises(ValueError, match="no function was traced since"):
        summary.trace_export("none")
    with pytest.warns(UserWarning, match="already"):
        summary.trace_on()
    summary.trace_off()
    with pytest.raises(tk.errors.UnimplementedError, match="profiler"):
        summary.trace_on(profiler=True)


def test_an_export_without_a_writer_is_refused():
    summary.trace_on()
    with pytest.raises(ValueError, match="no default writer"):
        summary.trace_export("none")
