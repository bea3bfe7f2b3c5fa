"""The bytes of an ONNX file, from a concrete function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainkit.core import dtypes, nest
from trainkit.core.errors import UnimplementedError
from trainkit.graph.ir.graph import GraphTensor
from trainkit.graph.ir.passes import optimised, without_copies
from trainkit.graph.tracing.concrete import ConcreteFunction
from trainkit.saved_graph.onnx import rules as rules  # gives operations their facet
from trainkit.saved_graph.onnx.graph_builder import GraphBuilder
from trainkit.saved_graph.onnx.graph_values import Value
from trainkit.saved_graph.onnx.onnx_messages import ELEMENT_TYPES, ModelProto
from trainkit.saved_graph.onnx.translation import translate

LARGEST_FILE = 2**31 - 1  # bytes; no reader of the format takes a longer message


def encode(
    concrete: ConcreteFunction,
    opset_version: int,
    ir_version: int,
    batch_name: str | None = None,
    name: str | None = None,
) -> bytes:
    """The bytes of the file.

    Args:
        concrete: the function.
        opset_version: of ONNX's operators.
        ir_version: of the format.
        batch_name: what the first axis of all inputs is called, where they share it.
        name: of the graph; by default that of the function.

    Raises:
        UnimplementedError: it can't be written, and why.
    """
    name = name or concrete.name
    graph = _graph(concrete, name)
    to = GraphBuilder(name, opset_version=opset_version)
    inputs = [_input(to, x, batch_name) for x in graph.inputs]
    results = translate(to, graph, inputs)
    new_names = _name_outputs(to, results, output_names(concrete))
    to.record.prune()
    size = sum(array.nbytes for _, array in to.record.constants)
    if size > LARGEST_FILE - (1 << 20):
        raise UnimplementedError(
            f"export to ONNX: {name!r} has {size} bytes of weights, and a file holds "
            f"{LARGEST_FILE} at most; export parts of it"
        )
    model = ModelProto(ir_version=ir_version, producer_name="trainkit")
    model.opset_import.add(domain="", version=opset_version)
    to.record.fill(model.graph, new_names)
    data: bytes = model.SerializeToString(deterministic=True)
    return data


def _graph(concrete: ConcreteFunction, name: str) -> Any:
    """The graph that is written.

    Raises:
        UnimplementedError: it needs or does more than a file can hold.
    """
    if concrete.closed:
        raise UnimplementedError(
            f"export to ONNX: {name!r} refers to tensors of a function around it; export that one"
        )
    graph = without_copies(optimised(concrete.graph))
    assigned = [slot.variable._name for slot in graph.assigned]
    if assigned:
        raise UnimplementedError(
            f"export to ONNX: {name!r} assigns {', '.join(map(repr, assigned))}, and a file has no "
            "variables; give what changes as an argument and a result, and call layers with "
            "training=False"
        )
    for tensors, what in ((graph.inputs, "takes"), (graph.outputs, "gives")):
        for x in tensors:
            _check_dtype(name, x, what)
    return graph


def _check_dtype(name: str, x: GraphTensor, what: str) -> None:
    if x.dtype is dtypes.string:
        raise UnimplementedError(
            f"export to ONNX: {name!r} {what} text ({x.node.name!r}), and trainkit writes numbers "
            "alone; turn text into numbers outside of what is exported"
        )
    if x.dtype.name not in ELEMENT_TYPES:
        raise UnimplementedError(
            f"export to ONNX: {name!r} {what} {x.dtype.name} ({x.node.name!r}), which ONNX does "
            f"not have; it has {', '.join(ELEMENT_TYPES)}"
        )


def _input(to: GraphBuilder, x: GraphTensor, batch_name: str | None) -> Value:
    name = to.unique_name(x.node.name)
    sizes: list[Any] = [
        f"{name}_{axis}" if size is None else size for axis, size in enumerate(x._spec.shape)
    ]
    if batch_name is not None and sizes and x._spec.shape[0] is None:
        sizes[0] = batch_name
    to.record.inputs.append((name, x.dtype.name, sizes))
    return Value(to, x._spec.shape, x.dtype.name, name)


def output_names(concrete: ConcreteFunction) -> list[str]:
    """What the results are called: by their keys in a dict, else by their numbers."""
    outputs = concrete.structured_outputs
    leaves = [y for y in nest.flatten(outputs) if isinstance(y, GraphTensor)]
    if isinstance(outputs, dict) and len(outputs) == len(leaves):
        names = {id(y): str(key) for key, y in outputs.items()}
        return [names.get(id(y), f"output_{i}") for i, y in enumerate(leaves)]
    return [f"output_{i}" for i in range(len(leaves))]


def _name_outputs(to: GraphBuilder, results: Sequence[Value], names: list[str]) -> dict[str, str]:
    """Make the results the graph's outputs, under new names of nodes' results."""
    new_names: dict[str, str] = {}
    for value, name in zip(results, names, strict=True):
        name = to.unique_name(name)
        inner = to.node("Identity", [to.name_of(value)])
        new_names[inner] = name
        to.record.outputs.append((inner, value.dtype, value.shape))
    return new_names
