"""Targets (n,) that meet outputs (n, 1) element by element in a graph; see `crossed_samples`."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

from trainkit.core.dispatch.crossed_samples import ADVICE, are_crossed
from trainkit.core.dispatch.facets import ELEMENTWISE, VIEW
from trainkit.graph.ir.nodes import GraphTensor, Node
from trainkit.graph.ir.user_lines import place_text


class Origin(NamedTuple):
    """What a tensor of a graph is made from.

    Attributes:
        arguments: the arguments that it depends on.
        plain: the one argument of which it is a view, another dtype or the like, else `None`.
        varies: whether it depends on a variable.
    """

    arguments: frozenset[GraphTensor]
    plain: GraphTensor | None
    varies: bool


_NOTHING = Origin(frozenset(), None, False)


def warn_of_crossed_batches(graph: Any) -> None:
    """Warn of the first such node in a graph that assigns variables, as steps of training do.

    A tape that was there while the graph was traced has warned of what it recorded.
    """
    if graph.crossing_was_shown or not any(slot.assigned for slot in graph.slots.values()):
        return
    captured = set(graph.captures.values())
    sources: dict[GraphTensor, Origin] = {}
    for node in graph.nodes:
        inputs = [x for x in node.inputs if isinstance(x, GraphTensor)]
        if _crosses(node, inputs, sources):
            a, b = (tuple(x.shape) for x in inputs)
            warnings.warn(
                f"{graph.name}: tensors of shapes {a} and {b}, one an argument and one computed "
                "from variables, are combined to a number for each pair of samples"
                f"{place_text(node.where, ', at ')}: {ADVICE}",
                stacklevel=2,
            )
            return
        source = _source_of(node, inputs, sources, captured)
        for y in node.outputs:
            sources[y] = source


def _source_of(node: Node, inputs: list[GraphTensor], sources: Any, captured: Any) -> Origin:
    if node.kind == "variable":
        return Origin(frozenset(), None, True)
    if node.kind == "input":
        own = node.outputs[0]
        return _NOTHING if own in captured else Origin(frozenset({own}), own, False)
    parts = [sources.get(x, _NOTHING) for x in inputs]
    of_each_sample = (
        node.kind == "op"
        and len(inputs) == 1
        and node.primitive.facets.semantics in (VIEW, ELEMENTWISE)
    )
    return Origin(
        frozenset().union(*(part.arguments for part in parts)),
        parts[0].plain if of_each_sample else None,
        any(part.varies for part in parts),
    )


def _crosses(node: Node, inputs: list[GraphTensor], sources: Any) -> bool:
    """Whether an argument and what variables and another argument give are crossed."""
    if node.kind != "op" or len(inputs) != 2 or node.primitive.facets.semantics is not ELEMENTWISE:
        return False
    short, long = sorted(inputs, key=lambda x: len(x.shape))
    if not are_crossed(tuple(short.shape), tuple(long.shape)):
        return False
    for a, b in ((short, long), (long, short)):
        plain, other = sources.get(a, _NOTHING).plain, sources.get(b, _NOTHING)
        if plain is not None and other.varies and other.arguments - {plain}:
            return plain not in other.arguments
    return False
