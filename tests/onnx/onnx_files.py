"""Small ONNX files, made of messages, and a function whose file has all control flow."""

import numpy as np

import trainkit as tk
from trainkit.saved_graph.onnx.onnx_messages import (
    GraphProto,
    ModelProto,
    fill_attribute,
    fill_tensor,
    fill_value,
)


def fill_graph(graph, nodes, inputs, outputs, constants=None):
    """Write a graph: nodes are (operator, inputs, outputs, attributes), inputs (name, shape)."""
    for op_type, ins, outs, attributes in nodes:
        domain, _, op_type = op_type.rpartition(":")
        node = graph.node.add(
            op_type=op_type, domain=domain, input=ins.split(), output=outs.split()
        )
        for name, value in attributes.items():
            attribute = node.attribute.add()
            if isinstance(value, np.ndarray):
                attribute.name, attribute.type = name, 4
                fill_tensor(attribute.t, "", value)
            elif isinstance(value, GraphProto):
                attribute.name, attribute.type = name, 5
                attribute.g.CopyFrom(value)
            else:
                fill_attribute(attribute, name, value)
    for name, array in (constants or {}).items():
        fill_tensor(graph.initializer.add(), name, np.asarray(array))
    for name, shape, *dtype in inputs:
        fill_value(graph.input.add(), name, *(dtype or ["float32"]), shape)
    for name in outputs.split():
        fill_value(graph.output.add(), name, "float32", [])
    return graph


def onnx_model(nodes, inputs, outputs, constants=None, version=18):
    """A `ModelProto`."""
    model = ModelProto(ir_version=8)
    model.opset_import.add(domain="", version=version)
    fill_graph(model.graph, nodes, inputs, outputs, constants)
    return model


def write(path, *args, **kwargs):
    """Such a model as a file; its path."""
    path.write_bytes(onnx_model(*args, **kwargs).SerializeToString())
    return path


def branches(x):
    if tk.reduce_mean(x) > 0.5:
        x = x * 0.5
    total = tk.zeros_like(x[0])
    for row in x:
        total = total * 0.5 + row
    steps = tk.constant(0)
    while tk.reduce_sum(total) < 50.0:
        total = total * 2.0 + 1.0
        steps += 1
    array = tk.TensorArray(tk.float32, size=0, dynamic_size=True)
    for i in tk.range(tk.shape(x)[0]):
        array = array.write(i, x[i] + tk.cast(i, tk.float32))
    return total, steps, array.stack(), tk.scan(lambda a, b: 0.9 * a + b, x)
