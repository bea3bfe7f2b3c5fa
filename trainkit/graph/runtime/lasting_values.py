"""What a graph computes of weights alone, and anew only when these have changed.

A normalization with moments that a trained network has is a factor and a shift, each some
operations on vectors of a number for each channel. A network has a hundred of them, and an
inference of one sample would take a tenth of its time for what gives the same at each call. And a
network of mixed precision casts all of its weights, which takes a quarter of such a time.
"""

from __future__ import annotations

import math
from typing import Any

from trainkit.core.cpu.cost_model import CACHED_FLOATS
from trainkit.core.dispatch.facets import ELEMENTWISE, WHOLE_KERNEL, Absent, Semantics
from trainkit.core.dtypes import HALVES, string
from trainkit.graph.ir.graph import Graph, GraphTensor, Node, needed_nodes
from trainkit.graph.ir.passes import copied, prune, rebuild
from trainkit.graph.runtime.joined_normalization import JoinedOperation
from trainkit.graph.runtime.program import Program
from trainkit.kernels.jit import kernel_family
from trainkit.kernels.matmul.prepared_weights import PreparedResults
from trainkit.ops.arrays.shaping import _reshape
from trainkit.ops.math.elementwise import _cast

Array = Any

MOST_ELEMENTS = CACHED_FLOATS
"""Of a result, so that what is kept is small beside the weights, but for weights that are cast."""
FEWEST_NODES = 4
"""Fewer are done in the time that it takes to look at the weights."""

_SEMANTICS = Semantics(
    "values of weights alone",
    memory="view",  # they are there for the next call
    batch=Absent("graphs that are batched are not divided yet"),
    stackable=Absent("functions of datasets are not divided"),
    lowering=WHOLE_KERNEL,
    export=Absent("graphs are saved before they are divided"),
)


class LastingValues:
    """The results of a graph of weights, for those that it last was called with."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._program: Program | None = None
        self._results = PreparedResults(self._compute)

    def _compute(self, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
        if self._program is None:
            self._program = Program(self._graph)
        return tuple(self._program.run(*arrays))

    def __call__(self, *arrays: Array) -> tuple[Array, ...]:
        """The results, which nobody may write to."""
        return self._results(arrays)


def _shape_rule(*inputs: Any, values: LastingValues) -> Any:
    return tuple(y._spec for y in values._graph.outputs)


LASTING = JoinedOperation(
    "lasting_values",
    lambda xp, *arrays, values: values(*arrays),
    _shape_rule,
    bind=lambda values: values,
    semantics=_SEMANTICS,
)


def with_lasting_values(graph: Graph) -> Graph:
    """`graph` with one node for all that it computes of weights alone, element by element.

    The graph itself where it assigns variables or runs Python, which may, within loops and
    branches, without kernels, and where little is computed so.
    """
    if graph.outer is not None or graph.assigned or kernel_family.mode() == "off":
        return graph
    nodes = needed_nodes(graph)
    lasting = _lasting_nodes(nodes)
    is_little = len(lasting) < FEWEST_NODES and not any(map(_is_large_cast, lasting))
    if is_little or graph.runs_python:
        return graph
    return prune(rebuild(graph, _Divider(graph, nodes, lasting).visit))


def _lasting_nodes(nodes: list[Node]) -> set[Node]:
    lasting: set[Node] = set()
    for node in nodes:
        if node.kind != "op" or node.effect or node.subgraphs():
            continue
        sources = [x.node for x in node.inputs if isinstance(x, GraphTensor)]
        lasts = all(n in lasting or n.kind in ("constant", "variable") for n in sources)
        is_kept = _is_small(node) or _is_large_cast(node)
        if lasts and any(n.kind != "constant" for n in sources) and is_kept:
            lasting.add(node)
    return lasting


def _is_small(node: Node) -> bool:
    """Whether a node works element by element, and its results are small or a view."""
    is_view = node.primitive is _reshape.primitive
    if not is_view and node.primitive.facets.semantics is not ELEMENTWISE:
        return False
    return all(
        y.shape.is_fully_defined()
        and y.dtype is not string
        and (is_view or math.prod(y.shape) <= MOST_ELEMENTS)
        for y in node.outputs
    )


def _is_large_cast(node: Node) -> bool:
    """Whether a node makes many 16-bit floats of weights: half of the memory that these take."""
    y = node.outputs[0]
    return (
        node.primitive is _cast.primitive
        and y.dtype in HALVES
        and y.shape.is_fully_defined()
        and math.prod(y.shape) > MOST_ELEMENTS
    )


class _Divider:
    """Puts one node in the place of the first that lasts, and leaves out the others."""

    def __init__(self, graph: Graph, nodes: list[Node], lasting: set[Node]) -> None:
        self._lasting = lasting
        readers = [node for node in nodes if node not in lasting]
        read = {x for node in readers for x in node.inputs if isinstance(x, GraphTensor)}
        read.update(graph.outputs)
        ordered = [node for node in nodes if node in lasting]
        self._outputs = [y for node in ordered for y in node.outputs if y in read]
        self._weights = list(
            dict.fromkeys(
                x
                for node in ordered
                for x in node.inputs
                if isinstance(x, GraphTensor) and x.node.kind == "variable"
            )
        )
        self._values = LastingValues(self._part(graph, ordered))
        self._results: dict[GraphTensor, GraphTensor] | None = None

    def _part(self, graph: Graph, ordered: list[Node]) -> Graph:
        """The graph of what lasts, of weights as inputs."""
        part = Graph(f"{graph.name}_weights")
        env = {x: part.add_input(x._spec, x.node.name) for x in self._weights}
        for node in ordered:
            for x in node.inputs:
                if isinstance(x, GraphTensor) and x not in env:  # else it is the result of a node
                    env[x] = part.constant(x.node.value)
            inputs = tuple(env[x] if isinstance(x, GraphTensor) else x for x in node.inputs)
            env.update(zip(node.outputs, copied(part, node, inputs), strict=True))
        part.outputs = [env[y] for y in self._outputs]
        return part

    def visit(self, new: Graph, node: Node, inputs: tuple[Any, ...]) -> Any:
        """The outputs in the new graph of what lasts, else `None`."""
        if node not in self._lasting:
            return None
        if self._results is None:
            self._results = self._call(new, node)
        # what only those read that last as well is read by nobody in the new graph
        return tuple(self._results.get(y, y) for y in node.outputs)

    def _call(self, new: Graph, node: Node) -> dict[GraphTensor, GraphTensor]:
        weights = tuple(new.slot_of(x.node.value).now for x in self._weights)
        specs = tuple(y._spec for y in self._outputs)
        call = Node(new, "op", "lasting_values", specs, LASTING, weights, {"values": self._values})
        call.many, call.where = True, node.where
        new.nodes.append(call)
        return dict(zip(self._outputs, call.outputs, strict=True))
