"""A function of tensors that a graph calls many times: traced once, and copied after that.

Tracing an operation takes its shape rule, promotion and a look at the stack; copying its node takes
a fifth of that. An optimizer has a dozen operations for each of hundreds of weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from trainkit.core.dispatch.facets import ELEMENTWISE
from trainkit.core.shapes import Spec
from trainkit.graph.ir.graph import Graph, GraphTensor, Node


class _Pattern(NamedTuple):
    """What a function adds to a graph.

    Attributes:
        inputs: what it was called with.
        steps: the operations, and for each whether its result has the shape of the inputs; a single
            number, if not.
        results: what it gave.
    """

    inputs: Sequence[GraphTensor]
    steps: list[tuple[Node, bool]]
    results: list[GraphTensor]


class CopiedCalls:
    """Calls functions while a graph is traced, and copies the nodes of a call that is alike.

    That is one with an equal key, and inputs of the same types, each of the first one's shape or a
    single number as there. A function is copied where all that it adds are operations on elements.

    Args:
        trace: the graph, or what else is being traced, where functions are called as they are.
    """

    def __init__(self, trace: Any) -> None:
        self._graph: Graph | None = trace if isinstance(trace, Graph) else None
        self._patterns: dict[Any, _Pattern | None] = {}

    def results(
        self, function: Callable[..., Sequence[Any]], inputs: Sequence[Any], key: Any
    ) -> Sequence[Any]:
        """What `function` gives.

        Args:
            function: has no effects, and refers to no other tensors than single numbers.
            inputs: what it is called with.
            key: functions with equal ones do the same.
        """
        kinds = None if self._graph is None else _kinds_of(inputs)
        if kinds is None:
            return function(*inputs)
        key = (key, kinds)
        pattern = self._patterns.get(key)
        if pattern is not None:
            return self._copy(pattern, inputs)
        if key in self._patterns:
            return function(*inputs)
        return self._traced(function, inputs, key)

    def _traced(
        self, function: Callable[..., Sequence[Any]], inputs: Sequence[Any], key: Any
    ) -> Sequence[Any]:
        assert self._graph is not None
        first = len(self._graph.nodes)
        results = function(*inputs)
        self._patterns[key] = _pattern_of(inputs, self._graph.nodes[first:], results)
        return results

    def _copy(self, pattern: _Pattern, inputs: Sequence[GraphTensor]) -> list[GraphTensor]:
        graph, shape = self._graph, inputs[0]._spec.shape
        assert graph is not None
        env = dict(zip(pattern.inputs, inputs, strict=True))
        for node, is_full in pattern.steps:
            spec, name = node.outputs[0]._spec, node.primitive.facets.graph_name
            if is_full:
                spec = Spec(shape, spec.dtype)
            operands = tuple(
                env.get(x, x) if isinstance(x, GraphTensor) else x for x in node.inputs
            )
            twin = Node(graph, "op", name, (spec,), node.primitive, operands, node.settings)
            twin.where = node.where
            graph.nodes.append(twin)
            env[node.outputs[0]] = twin.outputs[0]
        return [env[y] for y in pattern.results]


def _kinds_of(inputs: Sequence[Any]) -> tuple[Any, ...] | None:
    """For each input its type and whether it has the shape of the first; `None` for other ones."""
    if not all(isinstance(x, GraphTensor) for x in inputs):
        return None
    shape = tuple(inputs[0].shape)
    if not shape or None in shape:
        return None
    shapes = [tuple(x.shape) for x in inputs]
    if any(other not in (shape, ()) for other in shapes):
        return None
    return tuple((x.dtype, other == shape) for x, other in zip(inputs, shapes, strict=True))


def _pattern_of(
    inputs: Sequence[GraphTensor], nodes: list[Node], results: Sequence[Any]
) -> _Pattern | None:
    """What can be copied for inputs of other shapes; `None` where something can't."""
    shape = tuple(inputs[0].shape)
    full = {x: tuple(x.shape) == shape for x in inputs}  # of all that a copy replaces
    steps: list[tuple[Node, bool]] = []
    for node in nodes:
        if node.kind == "op":
            is_full = _is_full(node, full, shape)
            if is_full is None:
                return None
            full[node.outputs[0]] = is_full
            steps.append((node, is_full))
        elif tuple(node.outputs[0].shape):
            return None
    is_copyable = all(isinstance(y, GraphTensor) and y in full for y in results)
    return _Pattern(inputs, steps, list(results)) if is_copyable else None


def _is_full(node: Node, full: dict[GraphTensor, bool], shape: Any) -> bool | None:
    """Whether a result has the shape of the inputs; `None` for what can't be copied."""
    if node.primitive.facets.semantics is not ELEMENTWISE or node.many or node.effect:
        return None
    tensors = [x for x in node.inputs if isinstance(x, GraphTensor)]
    if any(x not in full and tuple(x.shape) for x in tensors):
        return None
    is_full = any(full.get(x, False) for x in tensors)
    fits = tuple(node.outputs[0].shape) == (shape if is_full else ())
    return is_full if fits else None
