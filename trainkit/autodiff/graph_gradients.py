"""Gradients of what a graph has computed, while it is being traced: no tape has recorded it.

A graph is a record of itself. A tape hears of its operations afterwards, as if it had been there.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from trainkit.autodiff.tape import GradientTape
from trainkit.core import nest
from trainkit.core.dispatch import trace_state
from trainkit.core.errors import UnimplementedError
from trainkit.core.variable import Variable


def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    stop_gradients: Any = None,
    unconnected_gradients: str = "none",
) -> list[Any]:
    """The derivative of the sum of `ys` by each of `xs`; see `tf.control_flow.gradients`."""
    sources, targets = nest.flatten(xs), nest.flatten(ys)
    graph = _graph_for("gradients", [*sources, *targets])
    tape = _tape_of(graph, sources, nest.flatten(stop_gradients))
    seeds = None if grad_ys is None else nest.flatten(grad_ys)
    results: list[Any] = tape.gradient(targets, sources, seeds, unconnected_gradients)
    return results


def hessians(ys: Any, xs: Any) -> list[Any]:
    """The second derivatives of the sum of `ys` by each of `xs`; see `tf.control_flow.hessians`."""
    sources, targets = nest.flatten(xs), nest.flatten(ys)
    graph = _graph_for("hessians", [*sources, *targets])
    results = []
    for x in sources:
        slope = _tape_of(graph, [x], ()).gradient(targets, [x], None, "zero")[0]
        # the operations of the slope are a part of the graph by now
        results.append(_tape_of(graph, [x], ()).jacobian(slope, x, "zero"))
    return results


def _graph_for(name: str, tensors: list[Any]) -> Any:
    """The graph being traced, which has computed all that there is of `tensors`.

    Raises:
        RuntimeError: operations run at once here.
        UnimplementedError: it is the body of a branch or loop, or a function inside of another that
            has computed some of them.
    """
    graph = trace_state.current_graph()
    if graph is None:
        advice = {
            "gradients": "`with tk.GradientTape() as tape:` and ask for `tape.gradient(ys, xs)`",
            "hessians": "`tk.autodiff.hessian(f, x)`, or `tape.jacobian` of a gradient",
        }[name]
        raise RuntimeError(
            f"tk.{name} works on graphs alone, in a tk.function or of version 1: it looks back at "
            f"operations that nobody records where they run at once. Use {advice}"
        )
    graphs = {x.node.graph for x in tensors if hasattr(x, "node")}
    if graph.outer is not None or graphs - {graph}:
        raise UnimplementedError(
            f"tk.{name} can't look out of the body of a branch or loop, or of a function inside of "
            "another, where a part of the operations is. Use tk.GradientTape, or call it outside "
            "of the body"
        )
    return graph


def _tape_of(graph: Any, sources: list[Any], stopped: Collection[Any]) -> GradientTape:
    """A tape that knows all operations of a graph which lead on from `sources`."""
    tape = GradientTape(watch_accessed_variables=False)
    results = {id(x) for x in sources if not isinstance(x, Variable) and _is_result(x, graph)}
    tape.watch([x for x in sources if id(x) not in results])
    for source in sources:
        if isinstance(source, Variable):  # what it had at first, beside what it has now
            tape.note_variable(source, graph.slot_of(source).first)
    ends = set(map(id, stopped))
    for node in graph.nodes:
        if node.kind != "op":
            continue
        ids = set(map(id, node.outputs))
        if not ends & ids:
            result = node.outputs if node.many else node.outputs[0]
            tape.note_operation(node.primitive, node.inputs, result, node.settings or None)
        if results & ids:  # after its operation, through which gradients go on to others
            tape.watch([x for x in node.outputs if id(x) in results])
    return tape


def _is_result(tensor: Any, graph: Any) -> bool:
    """Whether an operation of the graph has computed a tensor."""
    node = getattr(tensor, "node", None)
    return node is not None and node.graph is graph and node.kind == "op"
