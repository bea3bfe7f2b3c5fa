"""A user's gradient rule inside a graph: the results as a node that carries the rule as a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainkit.autodiff.custom_vjp import CustomGradient
from trainkit.core import nest
from trainkit.core.dispatch.facets import CONTROL
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor
from trainkit.graph.ir.graph import ABOVE, Graph, replay
from trainkit.graph.ir.subgraphs import trace_into
from trainkit.ops.core.vmap import stacked


def _rule(*inputs: Any, backward: Graph, results: int, sources: int, given: Any) -> Any:
    return tuple(Spec(x.shape, x.dtype) for x in inputs[:results])


@primitive(_rule, name="with_gradient", semantics=CONTROL, export=True)
def with_gradient(
    xp: Any, *arrays: Any, backward: Graph, results: int, sources: int, given: tuple[bool, ...]
) -> tuple[Any, ...]:
    """The first `results` arrays as they are.

    The next `sources` are what the graph `backward` gives gradients for, where `given` says so; the
    rest is what it uses besides the upstream gradients.
    """
    return tuple(arrays[:results])


@with_gradient.joint_gradient
def _gradient(
    g: Any, y: Any, *inputs: Any, backward: Graph, results: int, sources: int, given: Any
) -> list[Any]:
    gs = list(g) if isinstance(g, tuple) else [g]
    captures = list(inputs[results + sources :])
    # A replay, no call of a program: tapes see its operations, so second gradients go through the
    # upstream gradients and through what the rule has captured.
    gradients = iter(replay(backward, gs + captures))
    by_source = [next(gradients) if has_gradient else None for has_gradient in given]
    # The results are the same tensors that the sources made. Their own path is cut here, or the
    # gradient of the operations inside would come on top of the user's.
    return [None] * results + by_source + [None] * len(captures)


@with_gradient.batch_by
def _stacks(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    return tuple(stacked(x, count) for x in inputs[: settings["results"]])


def traced_rule(
    outer: Graph,
    function: Callable[..., Any],
    result: Any,
    backward: Callable[..., Any],
    sources: list[Tensor],
    variables: list[Any],
) -> Any:
    """Add a node for a call of a `custom_gradient` function that was traced into `outer`.

    Args:
        outer: the graph being traced.
        function: the user's function, for error texts.
        result: what it returned: symbolic tensors, nested.
        backward: its gradient function.
        sources: the tensor arguments, then the values of the variables that it read.
        variables: those variables.

    Returns:
        The results as outputs of the node, nested like `result`.
    """
    leaves = [outer.lift(y) for y in nest.flatten(result)]
    graph = Graph("backward", outer)
    upstream = [graph.add_input(Spec(y.shape, y.dtype), "upstream") for y in leaves]
    rule = CustomGradient(function, backward, variables)
    g = upstream[0] if len(upstream) == 1 else tuple(upstream)
    # The rule is traced now, while the tensors that it refers to belong to a graph around.
    grads = trace_into(graph, lambda: rule.joint(g, None, *sources))
    with graph:
        # Outputs are tensors; where there is no gradient, `given` says so.
        graph.outputs = [graph.lift(gx) for gx in grads if gx is not None]
    outputs = with_gradient(
        *leaves,
        *sources,
        *graph.captures,
        backward=graph,
        results=len(leaves),
        sources=len(sources),
        given=tuple(gx is not None for gx in grads),
    )
    return nest.pack(result, list(outputs))


ABOVE.with_gradient = traced_rule
