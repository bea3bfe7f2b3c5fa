"""Nodes and graphs of ONNX as plain records, and how they become messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from trainkit.saved_graph.onnx.onnx_messages import fill_attribute, fill_tensor, fill_value


class NodeRecord:
    """One node.

    Attributes:
        kind: ONNX's name of the operator.
        inputs: names of values, "" for one that is left out.
        outputs: names of values.
        attributes: settings by name; those that are a `GraphRecord` are bodies.
        label: the name of the node.
    """

    __slots__ = ("attributes", "inputs", "kind", "label", "outputs")

    def __init__(
        self,
        kind: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        attributes: dict[str, Any],
        label: str,
    ) -> None:
        self.kind = kind
        self.inputs = list(inputs)
        self.outputs = list(outputs)
        self.attributes = attributes
        self.label = label

    def bodies(self) -> list[GraphRecord]:
        """The graphs that it runs."""
        return [value for value in self.attributes.values() if isinstance(value, GraphRecord)]

    def reads(self) -> Iterator[str]:
        """All names that it needs, those that its bodies take from around included."""
        yield from self.inputs
        for body in self.bodies():
            for node in body.nodes:
                yield from node.reads()
            for name, _, _ in body.outputs:
                yield name


class GraphRecord:
    """Nodes in order, with what goes in and comes out as `(name, dtype, shape)`.

    Attributes:
        name: of the graph.
        nodes: inputs of a node before it.
        inputs: values that are given to it.
        outputs: values that it gives.
        constants: values that are known, as pairs of name and array.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes: list[NodeRecord] = []
        self.inputs: list[tuple[str, str, Any]] = []
        self.outputs: list[tuple[str, str, Any]] = []
        self.constants: list[tuple[str, Any]] = []

    def prune(self) -> None:
        """Leave out nodes and constants that no output needs."""
        needed = {name for name, _, _ in self.outputs}
        remaining = []
        for node in reversed(self.nodes):
            if needed.isdisjoint(node.outputs):
                continue
            for body in node.bodies():
                body.prune()
            needed.update(node.reads())
            remaining.append(node)
        self.nodes = remaining[::-1]
        self.constants = [pair for pair in self.constants if pair[0] in needed]

    def fill(
        self,
        message: Any,
        new_names: Mapping[str, str],
        outside: Mapping[str, tuple[str, int]] | None = None,
    ) -> None:
        """Write the graph into a `GraphProto`.

        Args:
            message: to fill.
            new_names: what values are called in place of the names here.
            outside: for constants in another file its name, and where they begin there.
        """
        message.name = self.name
        for node in self.nodes:
            _fill_node(message.node.add(), node, new_names)
        for name, array in self.constants:
            location = (outside or {}).get(name)
            fill_tensor(message.initializer.add(), new_names.get(name, name), array, location)
        for values, field in ((self.inputs, message.input), (self.outputs, message.output)):
            for name, dtype, shape in values:
                fill_value(field.add(), new_names.get(name, name), dtype, shape)


def _fill_node(message: Any, node: NodeRecord, new_names: Mapping[str, str]) -> None:
    message.op_type, message.name = node.kind, node.label
    message.input.extend(new_names.get(name, name) for name in node.inputs)
    message.output.extend(new_names.get(name, name) for name in node.outputs)
    for name, value in node.attributes.items():
        content = _filler(value, new_names) if isinstance(value, GraphRecord) else value
        fill_attribute(message.attribute.add(), name, content)


def _filler(graph: GraphRecord, new_names: Mapping[str, str]) -> Callable[[Any], None]:
    return lambda message: graph.fill(message, new_names)
