"""Names of operations that say in which layer they stand, for graphs that people look at."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

from trainkit.core.dispatch import trace_state
from trainkit.graph.ir.graph import Graph
from trainkit.graph.tracing.function import function


def graph_by_layers(model: Any, x: Any) -> Graph:
    """The graph of the outputs for inputs like `x`, each operation named after its layer."""

    def outputs(x: Any) -> Any:
        return model(x, training=False)

    with _layer_scopes(model):
        graph = function(outputs).get_concrete_function(x).graph
    _shorten_names(graph)
    return graph


@contextlib.contextmanager
def _layer_scopes(model: Any) -> Iterator[None]:
    """Context in which operations of a graph are named after their layers: `block/dense/MatMul`.

    Calls of layers have no such names otherwise, which would cost each of them time.

    Args:
        model: whose layers, at any depth, give their names. Its own operations keep theirs.
    """
    layers = model._flatten_layers(include_self=False)
    before = {id(layer): vars(layer).get("call") for layer in layers}
    for layer in layers:
        vars(layer)["call"] = _scope(layer)
    try:
        yield
    finally:
        for layer in layers:
            if before[id(layer)] is None:
                del vars(layer)["call"]
            else:
                vars(layer)["call"] = before[id(layer)]


def _scope(layer: Any) -> Callable[..., Any]:
    call = layer.call

    def scoped(*args: Any, **kwargs: Any) -> Any:
        trace = trace_state.current_trace()
        graph = trace if isinstance(trace, Graph) else None  # where shapes are looked for: no nodes
        first = 0 if graph is None else len(graph.nodes)
        y = call(*args, **kwargs)
        for node in () if graph is None else graph.nodes[first:]:
            node.name = f"{layer.name}/{node.name}"  # an outer layer's name comes before it later
        return y

    return scoped


def _shorten_names(graph: Any) -> None:
    """Number the names within each scope, and not over the whole graph: `dense_1/kernel`."""
    used_names = set()
    for node in graph.nodes:
        scope, slash, last = node.name.rpartition("/")
        stem = re.sub(r"_\d+$", "", last) if scope else last
        name, count = scope + slash + stem, 0
        while name in used_names:
            count += 1
            name = f"{scope}{slash}{stem}_{count}"
        used_names.add(name)
        node.name = name
        for inner in node.subgraphs():
            _shorten_names(inner)
