"""Graphs of ONNX files as plain records: names are data, and each value is checked when it is read.

Source: the public format of ONNX, version 1.23.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from trainkit.core.errors import DataLossError, UnimplementedError
from trainkit.onnx.tensor_reading import HALF_BYTES, TEXT, ExternalFolder, array_from, dtype_name
from trainkit.saved_graph.onnx.onnx_messages import (
    FLOAT,
    FLOATS,
    GRAPH,
    INT,
    INTS,
    STRING,
    STRINGS,
    TENSOR,
)

_KINDS = {FLOAT: "f", INT: "i", STRING: "s", TENSOR: "t", GRAPH: "g", FLOATS: "floats",
          INTS: "ints", STRINGS: "strings"}  # fmt: skip
_OWN_DOMAINS = ("", "ai.onnx")
_MOST_NODES = 1_000_000  # once functions of the file stand where they are called


@dataclass(eq=False)
class ImportedNode:
    """One node.

    Attributes:
        op_type: the operator, with its domain in front unless that is ONNX's own.
        version: of the operators of that domain.
        name: of the node, for errors.
        inputs: names, "" for those left out.
        outputs: names, "" for those left out.
        attributes: their values by name: numbers, texts, tuples, arrays and graphs.
        last_uses: names of values that no later node of the graph needs.
    """

    op_type: str
    version: int
    name: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any]
    last_uses: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        name = self.name or next(filter(None, self.outputs), "")
        return f"node {name!r} ({self.op_type})"


@dataclass(eq=False)
class ImportedValue:
    """An input or result: its name, its dtype, and its shape, `None` where that is not known."""

    name: str
    dtype: str | None
    shape: tuple[int | None, ...] | None


@dataclass(eq=False)
class ImportedGraph:
    """A graph: its nodes in order, the arrays that it holds, and what it takes and gives.

    Attributes:
        nodes: each after those that it needs.
        constants: arrays by the names of their values.
        inputs: what a call gives.
        outputs: what a call gets.
        outer: names of values of graphs around it that it reads.
        number: which of the file's graphs it is; 0 is that of the file.
    """

    nodes: list[ImportedNode]
    constants: dict[str, Any]
    inputs: list[ImportedValue]
    outputs: list[ImportedValue]
    outer: list[str]
    number: int = 0


class ProtoReader:
    """Makes records of the graphs of one file."""

    def __init__(self, model: Any, folder: str, file: str) -> None:
        self._folder, self._file = ExternalFolder(folder), file
        self.versions = _versions(model.opset_import)
        self._functions = {(f.domain, f.name): f for f in model.functions}
        self._count = 0
        self._scopes = 0

    def graph(self, message: Any, known: Iterable[str] = ()) -> ImportedGraph:
        """The record of a `GraphProto`.

        Raises:
            DataLossError: it is no graph: a name is made twice, or used before it is made.
            UnimplementedError: it has something that is not supported.
        """
        if message.sparse_initializer:
            raise UnimplementedError(
                f"onnx.load: {self._file}: sparse initializers are not supported; store them dense"
            )
        constants = {t.name: array_from(t, self._folder, self._file) for t in message.initializer}
        inputs = [self._value(v) for v in message.input if v.name not in constants]
        names = {*constants, *(v.name for v in inputs)}
        if len(names) < len(constants) + len(inputs):
            raise DataLossError(f"onnx.load: {self._file}: two inputs have one name")
        scope = _Scope(self, names, set(known))
        nodes = scope.read(message.node, self.versions)
        _note_halves(nodes, _halves(message))
        for node in nodes:
            if node.op_type == "Constant" and "value" in node.attributes and any(node.outputs):
                constants[node.outputs[0]] = node.attributes["value"]
        nodes = [n for n in nodes if not n.outputs or n.outputs[0] not in constants]
        outputs = [self._value(v) for v in message.output]
        scope.check([v.name for v in outputs], "the results")
        _note_last_uses(nodes, {v.name for v in outputs})
        return ImportedGraph(nodes, constants, inputs, outputs, sorted(scope.outer))

    def _value(self, message: Any) -> ImportedValue:
        if message.HasField("type") and not message.type.HasField("tensor_type"):
            return ImportedValue(message.name, None, None)
        tensor = message.type.tensor_type
        if not tensor.elem_type:  # inputs of bodies of loops need no type
            return ImportedValue(message.name, None, None)
        label = f"onnx.load: {self._file}: {message.name!r}"
        is_text = tensor.elem_type == TEXT
        dtype = "string" if is_text else dtype_name(tensor.elem_type, label)
        if not tensor.HasField("shape"):
            return ImportedValue(message.name, dtype, None)
        sizes = (d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim)
        shape = tuple(n if n is None or n >= 0 else None for n in sizes)
        return ImportedValue(message.name, dtype, shape)

    def function(self, domain: str, op_type: str) -> Any:
        """The function of the file that a node calls, or `None`."""
        return self._functions.get((domain, op_type))

    def counted(self, label: str) -> None:
        """Count one more node.

        Raises:
            DataLossError: there are too many.
        """
        self._count += 1
        if self._count > _MOST_NODES:
            raise DataLossError(
                f"onnx.load: {self._file}: {label}: the file has more than {_MOST_NODES:,} nodes, "
                "those of its functions counted at each call"
            )

    def new_scope(self) -> str:
        """What stands in front of the names of a called function's values."""
        self._scopes += 1
        return f"{self._scopes}:"

    def attribute(self, message: Any, known: Iterable[str], values: Mapping[str, Any]) -> Any:
        """The value of an `AttributeProto`, `None` if it stands for one that a call left out."""
        if message.ref_attr_name:
            return values.get(message.ref_attr_name)
        kind = message.type or next(
            (n for n, name in _KINDS.items() if n < FLOATS and message.HasField(_KINDS[n])), INTS
        )
        if kind not in _KINDS:
            raise UnimplementedError(
                f"onnx.load: {self._file}: the attribute {message.name!r} is of type {kind}, which "
                "is not supported"
            )
        value = getattr(message, _KINDS[kind])
        if kind == TENSOR:
            return array_from(value, self._folder, self._file)
        if kind == GRAPH:
            return self.graph(value, known)
        if kind in (STRING, STRINGS):
            texts = (value,) if kind == STRING else tuple(value)
            decoded = tuple(text.decode("utf-8", "replace") for text in texts)
            return decoded[0] if kind == STRING else decoded
        return tuple(value) if kind in (FLOATS, INTS) else value

    def fault(self, text: str) -> DataLossError:
        """The error that a graph is none."""
        return DataLossError(f"onnx.load: {self._file}: {text}")


class _Scope:
    """The names that nodes of one graph have made so far."""

    def __init__(self, reader: ProtoReader, names: set[str], outer_names: set[str]) -> None:
        self._reader = reader
        self._names = names
        self._known = outer_names
        self.outer: set[str] = set()

    def read(
        self,
        messages: Iterable[Any],
        versions: Mapping[str, int],
        renamed: dict[str, str] | None = None,
        prefix: str = "",
        values: Mapping[str, Any] | None = None,
        depth: int = 0,
    ) -> list[ImportedNode]:
        """Records of nodes; a node that calls a function of the file becomes the nodes of that.

        Args:
            messages: of the nodes.
            versions: of the operators, by domain.
            renamed: of a called function, the names of its values by those within it.
            prefix: of a called function, what new names begin with.
            values: of a called function, its attributes.
            depth: how many functions call one another.
        """
        nodes: list[ImportedNode] = []
        for message in messages:
            label = f"node {message.name!r} ({message.op_type})"
            self._reader.counted(label)
            inputs = [self._name(x, renamed, prefix) for x in message.input]
            outputs = [x and self._made(x, renamed, prefix, label) for x in message.output]
            self.check(filter(None, inputs), label)
            attributes = {a.name: self._attribute(a, values or {}) for a in message.attribute}
            attributes = {name: x for name, x in attributes.items() if x is not None}
            self.outer |= self._read_inside(attributes)
            called = self._reader.function(message.domain, message.op_type)
            if called is not None:
                nodes += self._call(called, inputs, outputs, attributes, depth + 1, label)
            else:
                is_own = message.domain in _OWN_DOMAINS
                op_type = message.op_type if is_own else f"{message.domain}:{message.op_type}"
                version = versions.get("" if is_own else message.domain, 0)
                node = ImportedNode(op_type, version, message.name, inputs, outputs, attributes)
                nodes.append(node)
            self._names.update(filter(None, outputs))
        return nodes

    def _attribute(self, message: Any, values: Mapping[str, Any]) -> Any:
        # names are joined for graphs alone: for each node it would take the square of their number
        is_graph = message.type == GRAPH or message.HasField("g")
        visible_names = self._names | self._known if is_graph else ()
        return self._reader.attribute(message, visible_names, values)

    def _read_inside(self, attributes: Mapping[str, Any]) -> set[str]:
        graphs = [g for g in attributes.values() if isinstance(g, ImportedGraph)]
        return {name for g in graphs for name in g.outer} - self._names

    def _call(
        self, called: Any, inputs: list[str], outputs: list[str], attributes: dict[str, Any],
        depth: int, label: str,
    ) -> list[ImportedNode]:  # fmt: skip
        if depth > 30:
            raise self._reader.fault(f"{label}: functions of the file call one another for ever")
        prefix = self._reader.new_scope()
        renamed = dict(zip(called.input, inputs, strict=False))
        renamed |= {x: "" for x in called.input if x not in renamed}
        renamed |= {x: y for x, y in zip(called.output, outputs, strict=False) if y}
        own = self._reader
        defaults = {a.name: own.attribute(a, (), {}) for a in called.attribute_proto}
        return self.read(
            called.node, _versions(called.opset_import) or own.versions, renamed, prefix,
            {**defaults, **attributes}, depth,
        )  # fmt: skip

    @staticmethod
    def _name(name: str, renamed: dict[str, str] | None, prefix: str) -> str:
        if renamed is None or not name:
            return name
        return renamed.get(name, prefix + name)

    def _made(self, name: str, renamed: dict[str, str] | None, prefix: str, label: str) -> str:
        name = self._name(name, renamed, prefix)
        if name in self._names:
            raise self._reader.fault(f"{label} makes {name!r}, which is there already")
        return name

    def check(self, names: Iterable[str], label: str) -> None:
        """Check that values are made before they are used.

        Raises:
            DataLossError: one is not.
        """
        for name in names:
            if name in self._names:
                continue
            if name not in self._known:
                raise self._reader.fault(f"{label} needs {name!r}, which nothing before it makes")
            self.outer.add(name)


def _versions(imports: Iterable[Any]) -> dict[str, int]:
    return {"" if x.domain in _OWN_DOMAINS else x.domain: x.version for x in imports}


def _halves(message: Any) -> dict[str, int]:
    """The element types of constants and inputs of four bits, which arrays do not show."""
    types = {t.name: t.data_type for t in message.initializer}
    types |= {v.name: v.type.tensor_type.elem_type for v in message.input if v.name not in types}
    return {name: number for name, number in types.items() if number in HALF_BYTES}


def _note_halves(nodes: list[ImportedNode], halves: dict[str, int]) -> None:
    """Let nodes that quantize to the type of a zero point of four bits say so."""
    for node in nodes:
        if node.op_type == "QuantizeLinear" and node.inputs[2:] and node.inputs[2] in halves:
            node.attributes.setdefault("output_dtype", halves[node.inputs[2]])


def _note_last_uses(nodes: list[ImportedNode], needed: set[str]) -> None:
    later = set(needed)
    for node in reversed(nodes):
        inner = (g for g in node.attributes.values() if isinstance(g, ImportedGraph))
        names = {*node.inputs, *(name for g in inner for name in g.outer), *node.outputs} - {""}
        node.last_uses = sorted(names - later)
        later |= names


def part_for(graph: ImportedGraph, outputs: Iterable[str]) -> ImportedGraph:
    """What of a graph these values need, with the inputs among it."""
    needed = set(outputs)
    nodes: list[ImportedNode] = []
    for node in reversed(graph.nodes):
        if needed.isdisjoint(filter(None, node.outputs)):
            continue
        nodes.append(node)
        inner = (g for g in node.attributes.values() if isinstance(g, ImportedGraph))
        needed |= {*node.inputs, *(name for g in inner for name in g.outer)} - {""}
    nodes.reverse()
    _note_last_uses(nodes, set(outputs))
    constants = {name: array for name, array in graph.constants.items() if name in needed}
    inputs = [v for v in graph.inputs if v.name in needed]
    return ImportedGraph(nodes, constants, inputs, graph.outputs, graph.outer)


def all_nodes(graph: ImportedGraph) -> Iterable[ImportedNode]:
    """The nodes of a graph and of the graphs inside it."""
    for node in graph.nodes:
        yield node
        for value in node.attributes.values():
            if isinstance(value, ImportedGraph):
                yield from all_nodes(value)
