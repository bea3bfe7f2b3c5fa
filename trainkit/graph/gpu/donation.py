"""Which kernels of a program may write a variable's new value over the old one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from trainkit.core import devices
from trainkit.graph.gpu.fused_on_gpu import CudaKernel
from trainkit.graph.ir.graph import Graph, GraphTensor, Node, needed_nodes
from trainkit.graph.runtime.program import Program

Over = dict[int, int]
"""Places of outputs of a node, each with that of the input over which it is written."""


def writing_in_place(
    program: Program, variables: Sequence[Any], assigned: Sequence[Sequence[Any]]
) -> Program:
    """`program`, its kernels writing over the arrays of variables where nothing can see it.

    Args:
        program: a function of arrays, which stores nothing.
        variables: for each of its first inputs the variable whose value it is, else `None`.
        assigned: for each of its results the variables that take it.
    """
    donations = _find_donations(program.graph, variables, assigned)
    if not donations:
        return program

    def watch(node: Node, kernel: Callable[..., Any]) -> Callable[..., Any]:
        over = donations.get(node)
        return kernel if over is None else functools.partial(_run_over, node.primitive, over)

    return Program(program.graph, on_gpu=True, watched=watch)


def _run_over(kernel: CudaKernel, over: Over, *arrays: Any) -> Any:
    return kernel.run(devices.on_one_device(arrays), {}, over)


def _find_donations(
    graph: Graph, variables: Sequence[Any], assigned: Sequence[Sequence[Any]]
) -> dict[Node, Over]:
    nodes = [node for node in needed_nodes(graph) if node.kind == "op"]
    positions = {node: i for i, node in enumerate(nodes)}
    old = {id(v): x for v, x in zip(variables, graph.inputs, strict=False) if v is not None}
    donations: dict[Node, Over] = {}
    for y, takers in zip(graph.outputs, assigned, strict=True):
        x = old.get(id(takers[0])) if len(takers) == 1 else None
        if x is None or not isinstance(y.node.primitive, CudaKernel):
            continue
        inputs = [i for i, z in enumerate(y.node.inputs) if z is x]
        reusable = y.node.primitive.code.reusable
        alone = len(inputs) == 1 and sum(z is y for z in graph.outputs) == 1
        if (
            alone
            and (y.index, inputs[0]) in reusable
            and _is_over(x, y.node, nodes, positions, graph)
        ):
            donations.setdefault(y.node, {})[y.index] = inputs[0]
    return donations


def _is_over(
    x: GraphTensor, last: Node, nodes: list[Node], positions: dict[Node, int], graph: Graph
) -> bool:
    """Whether nothing after the node `last` reads `x`, or what may be a view of it."""
    aliases = {x}
    for node in nodes:
        if any(isinstance(z, GraphTensor) and z in aliases for z in node.inputs):
            if positions[node] > positions[last]:
                return False
            if node.primitive.facets.memory == "view":
                aliases.update(node.outputs)
    return not any(y in aliases for y in graph.outputs)
