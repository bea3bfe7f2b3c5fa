"""Which layers call an operation: for errors of what is written from traced graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from trainkit.core.dispatch import trace_state
from trainkit.core.trackable import set_silently
from trainkit.graph.tracing.function import function
from trainkit.layers.base.layer import Layer


def named_error(error: Exception, traced: Any, resources: Sequence[Any]) -> Exception:
    """`error` with the layers that call the operation it is about, if it is about one.

    Args:
        error: whatever was raised.
        traced: the `tk.function` whose graph it was raised for; it is traced again.
        resources: the models and layers that the function calls.
    """
    primitive, within = getattr(error, "primitive", None), getattr(error, "within", None)
    if primitive is None or within is None:
        return error
    names = calling_layers(primitive, traced, resources)
    named: Exception = within(names) if names else error
    return named


def calling_layers(primitive: Any, traced: Any, resources: Sequence[Any]) -> list[str]:
    """The innermost layers that call `primitive`, as `"layer 'name' (Class)"`."""
    layers = {id(x): x for r in resources if isinstance(r, Layer) for x in r._flatten_layers()}
    before = {key: layer.__dict__.get("call") for key, layer in layers.items()}
    calls = _Calls(primitive)
    try:
        for layer in layers.values():
            set_silently(layer, call=calls.counted(layer, layer.call))
        signature = traced.input_signature
        function(traced.python_function, input_signature=signature).get_concrete_function()
    finally:
        for key, layer in layers.items():
            if before[key] is None:
                layer.__dict__.pop("call", None)
            else:
                set_silently(layer, call=before[key])
    return calls.names


class _Calls:
    """Counts the nodes of a primitive that each layer adds to the graph being traced.

    Attributes:
        names: the layers that add some which no layer inside them adds.
    """

    def __init__(self, primitive: Any) -> None:
        self.names: list[str] = []
        self._primitive = primitive
        self._of_inner = [0]

    def counted(self, layer: Any, call: Callable[..., Any]) -> Callable[..., Any]:
        """`call` of `layer`, which takes note of the nodes."""

        def hook(*args: Any, **kwargs: Any) -> Any:
            graph: Any = trace_state.current_trace()
            if graph is None:
                return call(*args, **kwargs)
            before = self._count(graph.nodes)
            self._of_inner.append(0)
            result = call(*args, **kwargs)
            of_inner = self._of_inner.pop()
            added = self._count(graph.nodes) - before
            self._of_inner[-1] += added
            name = f"layer {layer.name!r} ({type(layer).__name__})"
            if added > of_inner and name not in self.names:
                self.names.append(name)
            return result

        return hook

    def _count(self, nodes: Iterable[Any]) -> int:
        return sum(
            (node.primitive is self._primitive) + sum(map(self._count, _parts(node)))
            for node in nodes
        )


def _parts(node: Any) -> list[Any]:
    return [graph.nodes for graph in node.subgraphs()]
