"""Listings, Graphviz text and TensorBoard's page of a graph."""

import pytest

import trainkit as tk


@pytest.fixture
def graph():
    w = tk.Variable(tk.ones([3, 2]), name="weights")

    @tk.function
    def f(x):
        if tk.reduce_sum(x) > 0:
            x = x * 2.0
        w.assign_add(tk.ones([3, 2]))
        return tk.matmul(x, w)

    return f.get_concrete_function(tk.TensorSpec([None, 3])).graph


def test_the_listing_shows_each_node_with_types_and_branches(graph):
    text = str(graph)
    assert "%x = input  : float32[?x3]" in text
    assert "%weights = variable 'weights:0'  : float32[3x2]" in text
    assert "matmul(%If, %Identity)" in text or "matmul(%If" in text
    assert "      %Mul = multiply(%x, 2.0)" in text
    assert "assign 'weights:0' = " in text
    assert text.splitlines()[-1].startswith("  return %MatMul")


def test_dot_text_has_a_box_per_node_and_an_arrow_per_input(graph):
    text = graph.to_dot()
    assert text.startswith('digraph "f" {')
    assert text.endswith("}")
    assert text.count("[label=") == len(graph.nodes)
    assert '"x" -> "Sum";' in text


def test_nodes_and_tensors_are_found_by_name(graph):
    node = graph.get_operation_by_name("MatMul")
    assert node.type == "MatMul"
    assert graph.get_tensor_by_name("MatMul:0") is node.outputs[0]
    assert next(n.name for n in graph.get_operations()) == "x"
    with pytest.raises(KeyError, match="no operation 'Nope'"):
        graph.get_operation_by_name("Nope")


def test_the_graph_def_has_the_nodes_inputs_and_shapes(graph):
    definition = graph.as_graph_def()
    nodes = {node.name: node for node in definition.node}
    assert nodes["MatMul"].op == "MatMul"
    assert nodes["x"].op == "Placeholder"
    sizes = [d.size for d in nodes["x"].attr["_output_shapes"].list.shape[0].dim]
    assert sizes == [-1, 3]
    assert any(name.startswith("If/true/") for name in nodes)
    known = set(nodes)
    for node in definition.node:
        assert all(name.split(":")[0] in known for name in node.input)


def test_tensorboard_reads_the_graph_of_a_two_layer_network(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    model = tk.Sequential([tk.layers.Dense(4, activation="relu"), tk.layers.Dense(2)])
    model(tk.zeros([1, 3]))
    f = tk.function(model)
    concrete = f.get_concrete_function(tk.TensorSpec([None, 3]))
    writer = tk.summary.create_file_writer(str(tmp_path))
    with writer.as_default(step=0):
        assert tk.summary.graph(concrete.graph)
    writer.close()
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    names = [node.op for node in events.Graph().node]
    assert names.count("Dense") == 2
    assert names.count("ReadVariableOp") == 4
