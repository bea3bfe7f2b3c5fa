"""The bytes of an ONNX file, from a concrete function."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

from trainkit.core import dtypes, nest
from trainkit.core.errors import UnimplementedError
from trainkit.graph.ir.graph import GraphTensor
from trainkit.graph.ir.passes import optimised, without_copies
from trainkit.graph.tracing.concrete import ConcreteFunction
from trainkit.saved_graph.onnx import rules as rules  # gives operations their facet
from trainkit.saved_graph.onnx.graph_builder import GraphBuilder
from trainkit.saved_graph.onnx.graph_values import Value
from trainkit.saved_graph.onnx.onnx_messages import ELEMENT_TYPES, ModelProto, content_of
from trainkit.saved_graph.onnx.translation import translate

LARGEST_FILE = 2**31 - 1  # bytes; no reader of the format takes a longer message
OTHER_PARTS = 2**24  # bytes that nodes, names and small constants may take
SMALLEST_OUTSIDE = 1024  # bytes; smaller constants stay in the file, where shapes are read


class EncodedModel:
    """What is written of a model.

    Attributes:
        data: the bytes of the file.
        outside: name and array of the weights that another file beside it has, in their order.
        location: the name of that file.
    """

    def __init__(self, data: bytes, outside: Sequence[tuple[str, Any]], location: str) -> None:
        self.data = data
        self.outside = outside
        self.location = location

    def contents(self) -> Iterator[Any]:
        """What the other file holds, array by array."""
        return (content_of(array) for _, array in self.outside)


def encode(
    concrete: ConcreteFunction,
    opset_version: int,
    ir_version: int,
    batch_name: str | None = None,
    name: str | None = None,
    location: str = "",
) -> EncodedModel:
    """The bytes of the file.

    Args:
        concrete: the function.
        opset_version: of ONNX's operators.
        ir_version: of the format.
        batch_name: what the first axis of all inputs is called, where they share it.
        name: of the graph; by default that of the function.
        location: the beginning of the name of a second file, which has the weights if they are more
            than a message may hold.

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
    outside, location = _outside(to.record.constants, location)
    model = ModelProto(ir_version=ir_version, producer_name="trainkit")
    model.opset_import.add(domain="", version=opset_version)
    to.record.fill(model.graph, new_names, _locations(outside, location))
    return EncodedModel(model.SerializeToString(deterministic=True), outside, location)


def _outside(
    constants: Sequence[tuple[str, Any]], location: str
) -> tuple[list[tuple[str, Any]], str]:
    """The weights that do not fit into the file, and the name of the one that has them.

    The name has their fingerprint: a file that is there already is never another one's.
    """
    if sum(array.nbytes for _, array in constants) <= LARGEST_FILE - OTHER_PARTS:
        return [], ""
    large = [(name, array) for name, array in constants if array.nbytes >= SMALLEST_OUTSIDE]
    digest = hashlib.sha256()
    for _, array in large:
        digest.update(memoryview(content_of(array)).cast("B"))
    return large, f"{location}.{digest.hexdigest()[:16]}.data"


def _locations(outside: Sequence[tuple[str, Any]], location: str) -> dict[str, tuple[str, int]]:
    locations, offset = {}, 0
    for name, array in outside:
        locations[name] = location, offset
        offset += array.nbytes
    return locations


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
    for tensors, verb in ((graph.inputs, "takes"), (graph.outputs, "gives")):
        for x in tensors:
            _check_dtype(name, x, verb)
    return graph


def _check_dtype(name: str, x: GraphTensor, verb: str) -> None:
    if x.dtype is dtypes.string:
        raise UnimplementedError(
            f"export to ONNX: {name!r} {verb} text ({x.node.name!r}), and trainkit writes numbers "
            "alone; turn text into numbers outside of what is exported"
        )
    if x.dtype.name not in ELEMENT_TYPES:
        raise UnimplementedError(
            f"export to ONNX: {name!r} {verb} {x.dtype.name} ({x.node.name!r}), which ONNX does "
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
