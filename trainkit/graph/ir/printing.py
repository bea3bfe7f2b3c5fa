"""A graph as text, in Graphviz's language, and as TensorBoard's `GraphDef`."""

from __future__ import annotations

from typing import Any

from trainkit.core.dtypes import PROTO_NUMBERS
from trainkit.core.values.python_values import short_text
from trainkit.graph.ir.graph import ABOVE, Graph, GraphTensor, Node


def _spec_text(x: GraphTensor) -> str:
    sizes = "x".join("?" if n is None else str(n) for n in x.shape) or "scalar"
    return f"{x.dtype.name}[{sizes}]"


def _argument(x: Any) -> str:
    if not isinstance(x, GraphTensor):
        return repr(x)
    return f"%{x.node.name}" + (f":{x.index}" if x.index else "")


def _line(node: Node) -> str:
    if node.kind == "input":
        call = "input"
    elif node.kind == "constant":
        call = f"constant {short_text(node.value.numpy().tolist())}"
    elif node.kind == "variable":
        call = f"variable {node.value.name!r}"
    else:
        parts = [_argument(x) for x in node.inputs]
        parts += [
            f"{name}={value.name if isinstance(value, Graph) else short_text(value)}"
            for name, value in node.settings.items()
        ]
        call = f"{node.primitive.name}({', '.join(parts)})"
    specs = ", ".join(_spec_text(y) for y in node.outputs)
    return f"%{node.name} = {call}  : {specs}"


def printed(graph: Graph, indent: str = "") -> str:
    """One line per node, branches and loop bodies indented below their node."""
    lines = [f"{indent}graph {graph.name}:"]
    for node in graph.nodes:
        lines.append(f"{indent}  {_line(node)}")
        lines += [printed(inner, indent + "    ") for inner in node.subgraphs()]
    for slot in graph.assigned:
        lines.append(f"{indent}  assign {slot.variable.name!r} = {_argument(slot.now)}")
    lines.append(f"{indent}  return {', '.join(_argument(y) for y in graph.outputs)}")
    return "\n".join(lines)


def dot(graph: Graph) -> str:
    """A `digraph` with a box per node."""
    lines = [f'digraph "{graph.name}" {{', "  node [shape=box, fontname=monospace];"]
    for node in graph.nodes:
        label = f"{node.name}\\n{', '.join(_spec_text(y) for y in node.outputs)}"
        lines.append(f'  "{node.name}" [label="{label}"];')
        for x in node.inputs:
            if isinstance(x, GraphTensor):
                lines.append(f'  "{x.node.name}" -> "{node.name}";')
    return "\n".join([*lines, "}"])


def graph_def(graph: Graph) -> Any:
    """The graph as tensorboardX's `GraphDef`; nodes of branches have their node as a scope."""
    from tensorboardX.proto.graph_pb2 import GraphDef
    from tensorboardX.proto.versions_pb2 import VersionDef

    definition = GraphDef(versions=VersionDef(producer=22))
    _fill(definition, graph, "")
    return definition


def _fill(definition: Any, graph: Graph, scope: str) -> None:
    for node in graph.nodes:
        node_def = definition.node.add(name=scope + node.name, op=node.type)
        for x in node.inputs:
            if isinstance(x, GraphTensor):
                node_def.input.append(scope + x.node.name + (f":{x.index}" if x.index else ""))
        node_def.attr["T"].type = (
            PROTO_NUMBERS.get(node.outputs[0].dtype.name, 0) if node.outputs else 0
        )
        for y in node.outputs:
            shape = node_def.attr["_output_shapes"].list.shape.add()
            for n in y.shape:
                shape.dim.add(size=-1 if n is None else n)
        for inner in node.subgraphs():
            _fill(definition, inner, f"{scope}{node.name}/{inner.name}/")


ABOVE.text, ABOVE.dot, ABOVE.graph_def = printed, dot, graph_def
