"""Coefficients that are attributes of a node become constants, and so weights of the model."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core.errors import InvalidArgumentError
from trainkit.onnx.graph_records import ImportedGraph

WEIGHTS = {
    "ai.onnx.ml:LinearRegressor": ("coefficients", "intercepts"),
    "ai.onnx.ml:LinearClassifier": ("coefficients", "intercepts"),
    "ai.onnx.ml:Scaler": ("offset", "scale"),
}
"""By operator, the attributes that are weights; a node has their names as `weight_names`."""


def weights_of_attributes(graph: ImportedGraph) -> None:
    """Put such attributes among the constants of a graph, as further inputs of their nodes.

    Raises:
        InvalidArgumentError: an attribute is no list of numbers.
    """
    for node in graph.nodes:
        present = [name for name in WEIGHTS.get(node.op_type, ()) if name in node.attributes]
        for attribute in present:
            value: Any = node.attributes.pop(attribute)
            if not isinstance(value, tuple) or not all(isinstance(x, float | int) for x in value):
                raise InvalidArgumentError(f"{node}: the attribute {attribute!r} is no list")
            name = f"{next(filter(None, node.outputs), node.name)}.{attribute}"
            while name in graph.constants:
                name += "_"
            graph.constants[name] = np.array(value, np.float32)
            node.inputs.append(name)
        if present:
            node.attributes["weight_names"] = tuple(present)
