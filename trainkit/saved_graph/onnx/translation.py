"""From a traced graph to an ONNX graph: each operation is written by its facet `onnx`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from trainkit.core import devices
from trainkit.core.dispatch.facets import RANDOM
from trainkit.core.errors import UnimplementedError
from trainkit.core.user_frames import line_text
from trainkit.graph.control_flow.custom_gradient import with_gradient
from trainkit.graph.ir.graph import Graph, GraphTensor, Node, needed_nodes
from trainkit.graph.ir.passes import rebuild
from trainkit.saved_graph.onnx.graph_builder import GraphBuilder
from trainkit.saved_graph.onnx.graph_values import Value
from trainkit.saved_graph.onnx.onnx_messages import ELEMENT_TYPES
from trainkit.saved_graph.onnx.rules.onnx_form import COMPLEX_FORMS

GROWS = 16  # times the size of its inputs, from which on a constant is better computed than stored
FOLDED = 1 << 20  # bytes, up to which a constant is stored anyway


class NoOnnxForm(UnimplementedError):
    """An operation of a graph can't be written in ONNX.

    Attributes:
        primitive: what the operation calls.
        reason: why not.
        layers: the names of the layers that call it, where they are known.
    """

    def __init__(self, node: Node, reason: str, layers: Sequence[str] = ()) -> None:
        self.node = node
        self.primitive = node.primitive
        self.reason = reason
        self.layers = list(layers)
        where = f", made at {line_text(node.where)}" if node.where else ""
        of = f" of {', '.join(self.layers)}" if self.layers else ""
        super().__init__(
            f"export to ONNX: the operation {node.name!r} ({node.primitive.name}){of}{where} can't "
            f"be written: {reason}. Leave it out of what is exported, for example by exporting the "
            "layers before or after it, or write it with other operations; tk.saved_graph.save "
            "stores the whole for trainkit"
        )

    def within(self, layers: Sequence[str]) -> NoOnnxForm:
        """The same error, with the names of the layers that call the operation."""
        return NoOnnxForm(self.node, self.reason, layers)


class OperationCall:
    """A call of an operation while it is written.

    Attributes:
        node: of the traced graph.
        consumers: for each result the nodes that take it, `None` for the graph's own results.
    """

    def __init__(self, node: Node, consumers: Sequence[list[Node | None]]) -> None:
        self.node = node
        self.consumers = consumers

    @property
    def specs(self) -> list[Any]:
        """Shapes and dtypes of the results."""
        return [y._spec for y in self.node.outputs]

    def is_used(self, index: int) -> bool:
        """Whether anything takes this result."""
        return bool(self.consumers[index])


def translate(to: GraphBuilder, graph: Graph, inputs: Sequence[Value]) -> list[Value]:
    """Write the nodes of `graph`, and give its results.

    Raises:
        NoOnnxForm: an operation has no form in ONNX.
    """
    graph = _without_gradients(graph)
    env: dict[GraphTensor, Value] = dict(zip(graph.inputs, inputs, strict=True))
    nodes = needed_nodes(graph)
    consumers = _consumers(graph, nodes)
    for node in nodes:
        if node.kind == "constant":
            env[node.outputs[0]] = to.known(devices.to_numpy(node.value._array), label=node.name)
        elif node.kind == "variable":
            array = devices.to_numpy(node.value._value._array)
            env[node.outputs[0]] = to.known(array, label=_variable_label(node.value))
        elif node.kind == "op":
            values = [env[x] if isinstance(x, GraphTensor) else x for x in node.inputs]
            call = OperationCall(node, [consumers[y] for y in node.outputs])
            env.update(zip(node.outputs, _call(to, call, values), strict=True))
    return [env[y] for y in graph.outputs]


def _without_gradients(graph: Graph) -> Graph:
    """The graph without gradient rules of the user's, and without what they alone look at."""
    if not any(node.primitive is with_gradient.primitive for node in graph.nodes):
        return graph

    def visit(new: Graph, node: Node, inputs: tuple[Any, ...]) -> Any:
        if node.primitive is with_gradient.primitive:
            return inputs[: node.settings["results"]]
        return None

    return rebuild(graph, visit)


def _variable_label(variable: Any) -> str:
    return str(getattr(variable, "path", "") or variable._name)


def _consumers(graph: Graph, nodes: Sequence[Node]) -> dict[GraphTensor, list[Node | None]]:
    consumers: dict[GraphTensor, list[Node | None]] = defaultdict(list)
    for node in nodes:
        for x in node.inputs:
            if isinstance(x, GraphTensor):
                consumers[x].append(node)
    for y in graph.outputs:
        consumers[y].append(None)
    return consumers


def _call(to: GraphBuilder, call: OperationCall, values: list[Any]) -> list[Value]:
    node = call.node
    folded = _fold(to, node, values)
    if folded is not None:
        return folded
    rule = node.primitive.facets.onnx
    if _has_complex(values, call.specs):
        if node.primitive not in COMPLEX_FORMS and any(map(_is_complex, values)):
            raise NoOnnxForm(
                node, "ONNX has no complex numbers, and it has no form in real(x) and imag(x)"
            )
        rule = COMPLEX_FORMS.get(node.primitive, rule)
    if not rule:
        raise NoOnnxForm(node, rule.reason)
    before = to.label, to.call
    to.label, to.call = node.name, call
    try:
        results = rule(to, *values, **node.settings)
        results = list(results) if isinstance(results, tuple) else [results]
        return [_declare(to, y, spec) for y, spec in zip(results, call.specs, strict=True)]
    except NoOnnxForm:
        raise
    except UnimplementedError as error:
        raise NoOnnxForm(node, str(error)) from None
    finally:
        to.label, to.call = before


def _has_complex(values: list[Any], specs: list[Any]) -> bool:
    return any(map(_is_complex, values)) or any(spec.dtype.is_complex for spec in specs)


def _is_complex(x: Any) -> bool:
    return isinstance(x, Value) and x.dtype.startswith("complex")


def _declare(to: GraphBuilder, value: Value, spec: Any) -> Value:
    """A result, which has the shape and dtype of the traced graph."""
    if value.parts is not None and value.dtype == spec.dtype.name:
        return value
    if spec.dtype.name not in ELEMENT_TYPES:
        raise UnimplementedError(f"ONNX has no tensors of {spec.dtype.name}")
    if value.dtype != spec.dtype.name:
        value = to.cast(value, spec.dtype.name)
    source, last_step = value.source, value.last_step
    if not value.is_known:
        sizes = value.shape if value.rank == len(spec.shape) else (None,) * len(spec.shape)
        pairs = zip(sizes, spec.shape, strict=True)
        shape = tuple(size if n is None else n for size, n in pairs)
        if value.shape != shape:
            value = _same_tensor(value, shape)
        value.source, value.last_step = source, last_step
    return value


def _same_tensor(value: Value, shape: tuple[int | None, ...]) -> Value:
    return Value(value.owner, shape, value.dtype, value.name, channels_first=value.channels_first)


# ---------------------------------------------------------------------- what is known already


def _fold(to: GraphBuilder, node: Node, values: list[Any]) -> list[Value] | None:
    """The results of a node that depends on weights and constants alone."""
    tensors = [x for x in values if isinstance(x, Value)]
    facets = node.primitive.facets
    if not tensors or not all(x.is_known for x in tensors) or node.effect or node.subgraphs():
        return None
    if facets.semantics is RANDOM or _unpacks(tensors, node):
        return None
    arrays = [x.array if isinstance(x, Value) else x for x in values]
    size = sum(x.array.nbytes for x in tensors)
    counts = [np.prod(y.shape, dtype=float) for y in node.outputs if None not in y._spec.shape]
    if counts and 8 * max(counts) > max(FOLDED, GROWS * size):
        return None
    with np.errstate(all="ignore"):
        results = node.primitive.run(arrays, node.settings)
    results = results if isinstance(results, tuple | list) else (results,)
    label = tensors[0].label
    return [
        to.known(np.asarray(y, spec.dtype.dtype), label=label)
        for y, spec in zip(results, [y._spec for y in node.outputs], strict=True)
    ]


def _unpacks(tensors: Sequence[Value], node: Node) -> bool:
    """Whether weights of a byte or less would become wider ones, which a file keeps small."""
    narrow = any(x.array.dtype.itemsize == 1 and x.array.nbytes > 1024 for x in tensors)
    return narrow and any(y.dtype.size > 1 for y in node.outputs)
