"""How the layers of a subclassed model feed one another, read off its graph."""

from __future__ import annotations

import json
from typing import Any


class LayerLinks:
    """The layers of a model in the order in which they run, described as a functional model's.

    Args:
        model: subclassed.
        graph: of its outputs, traced within `layer_scopes`.
    """

    def __init__(self, model: Any, graph: Any) -> None:
        self._name = model.name
        self._kinds = {layer.name: type(layer).__name__ for layer in model.layers}
        self.inbound: dict[str, list[str]] = {}
        """For each layer, and each input of the model, the names that feed it."""
        self._read(graph)

    def _read(self, graph: Any) -> None:
        sources: dict[Any, list[str]] = {}  # the layers that a node's values come from
        for node in graph.nodes:
            feeding = [
                name for x in node.inputs for name in sources.get(getattr(x, "node", None), ())
            ]
            scope, slash, _ = node.name.partition("/")
            if slash and scope in self._kinds:
                self._feed(scope, feeding)
                sources[node] = [scope]
            elif node.kind == "input":
                self._feed(node.name, [])
                sources[node] = [node.name]
            else:  # an operation of the model's own passes on what it is given
                sources[node] = list(dict.fromkeys(feeding))

    def _feed(self, name: str, feeding: list[str]) -> None:
        """Note an arrow, unless it goes back, as where a layer is called twice."""
        sources = self.inbound.setdefault(name, [])
        order = list(self.inbound)
        ahead = [x for x in feeding if order.index(x) < order.index(name) and x not in sources]
        sources.extend(dict.fromkeys(ahead))

    def to_json(self) -> str:
        """The text that `summary.keras_model` records."""
        layers = [
            {
                "class_name": self._kinds.get(name, "InputLayer"),
                "name": name,
                "config": {"name": name},
                "inbound_nodes": [{"args": [_history(x) for x in feeding], "kwargs": {}}],
            }
            for name, feeding in self.inbound.items()
        ]
        inputs = [[name, 0, 0] for name, feeding in self.inbound.items() if not feeding]
        fed = {name for feeding in self.inbound.values() for name in feeding}
        outputs = [[name, 0, 0] for name in self.inbound if name not in fed]
        config = {"name": self._name, "layers": layers}
        config |= {"input_layers": inputs, "output_layers": outputs}
        return json.dumps({"class_name": "Functional", "config": config})


def _history(name: str) -> dict[str, Any]:
    return {"class_name": "__keras_tensor__", "config": {"keras_history": [name, 0, 0]}}
