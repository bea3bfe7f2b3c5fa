"""`trace_on` and `trace_export`: the graph of a traced function in an event file."""

import pytest

import trainkit as tk
from trainkit import summary


@pytest.fixture(autouse=True)
def _off_afterwards():
    yield
    summary.trace_off()


def graphs_under(found, name):
    """The graphs that the page Graphs offers under a name, as TensorBoard joins them."""
    from tensorboard.compat.proto.config_pb2 import RunMetadata
    from tensorboard.plugins.graph import graph_util

    assert found.plugin(name) == "graph_run_metadata_graph"
    ((step, content),) = found.tensors(name)
    metadata = RunMetadata.FromString(content.item())
    parts = [part.pre_optimization_graph for part in metadata.function_graphs]
    return step, graph_util.merge_graph_defs(parts)


def test_the_graphs_that_were_traced_are_exported(writer, events):
    inner = tk.function(lambda x: tk.sqrt(x))
    f = tk.function(lambda x: tk.exp(inner(x)))
    summary.trace_on(graph=True)
    f(tk.constant(1.0))
    summary.trace_export("first", step=3)
    summary.trace_on()
    tk.function(lambda x: tk.sin(x))(tk.constant(1.0))
    with summary.record_if(True):
        summary.experimental.set_step(7)
        summary.trace_export("second")
    writer.flush()
    step, joined = graphs_under(events(), "first")
    assert step == 3
    assert {"Exp", "Sqrt"} <= {node.op for node in joined.node}
    step, joined = graphs_under(events(), "second")
    assert step == 7
    assert "Sin" in {node.op for node in joined.node}


def test_a_profile_is_taken_meanwhile(writer, tmp_path):
    summary.trace_on(graph=False, profiler=True, profiler_outdir=tmp_path / "p")
    tk.exp(tk.constant(1.0))
    with pytest.raises(ValueError, match="trace_on was given"):
        summary.trace_export("run", step=0, profiler_outdir=tmp_path / "q")
    summary.trace_export("run", step=0)
    assert list((tmp_path / "p").rglob("*.trace.json.gz"))
    summary.trace_on(profiler=True, profiler_outdir=tmp_path / "r")
    summary.trace_off()
    assert not (tmp_path / "r").exists()


def test_the_folder_of_a_profile_may_be_named_at_the_end(writer, events, tmp_path):
    summary.trace_on(graph=True, profiler=True)
    tk.function(lambda x: tk.sqrt(x))(tk.constant(1.0))
    with pytest.raises(ValueError, match="name a folder for it by profiler_outdir"):
        summary.trace_export("run", step=0)
    summary.trace_export("run", step=0, profiler_outdir=tmp_path / "p")
    assert list((tmp_path / "p").rglob("*.trace.json.gz"))
    writer.flush()
    assert "Sqrt" in {node.op for node in graphs_under(events(), "run")[1].node}
    with pytest.raises(ValueError, match=r"call summary\.trace_on before"):
        summary.trace_export("run", step=1)


def test_what_is_missing_is_said(writer):
    with pytest.raises(ValueError, match="before"):
        summary.trace_export("none")
    f = tk.function(lambda x: x + 1.0)
    f(tk.constant(1.0))
    summary.trace_on()
    f(tk.constant(2.0))  # traced before
    with pytest.raises(ValueError, match="no function was traced since"):
        summary.trace_export("none")
    with pytest.warns(UserWarning, match="under way"):
        summary.trace_on()
    summary.trace_off()


def test_an_export_without_a_writer_is_refused():
    summary.trace_on()
    with pytest.raises(ValueError, match="no default writer"):
        summary.trace_export("none")
