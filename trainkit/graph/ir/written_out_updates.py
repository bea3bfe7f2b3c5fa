"""Steps of optimizers written out: an operation for each step of a rule, in place of one node.

Where one loop over all weights is of no use, an optimizer's step is what its rule says, weight by
weight: on a GPU, whose fused kernels take it in, in saved graphs, which hold no rules, and in
branches and bodies of loops, where gradients go through it as through any other operations.
"""

from __future__ import annotations

from typing import Any

from trainkit.core.dispatch import trace_state
from trainkit.graph.ir.graph import Graph, Node
from trainkit.graph.ir.passes import rebuild
from trainkit.ops.math.update_weights import update_weights


def with_updates_written_out(graph: Graph) -> Graph:
    """`graph` with operations in place of `update_weights`; itself where there is none.

    Args:
        graph: stays as it is.
    """
    if not any(node.primitive is update_weights.primitive for node in graph.nodes):
        return graph
    return rebuild(graph, _written_out)


def _written_out(new: Graph, node: Node, inputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
    if node.primitive is not update_weights.primitive:
        return None
    first = len(new.nodes)
    with new, trace_state.silence():
        results = node.settings["rule"].as_operations(inputs)
    for operation in new.nodes[first:]:
        operation.where = node.where
    return tuple(results)
