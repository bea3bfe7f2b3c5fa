"""Which constants of a file are weights: floats that an operator multiplies, adds or looks up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from trainkit.core import dtypes
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.names import near_names
from trainkit.core.variable import Variable
from trainkit.onnx.graph_records import ImportedGraph, ImportedNode, all_nodes

# By operator, the inputs that are settings and no weights; the rest are weights if they are floats.
_SETTINGS: dict[str, tuple[int, ...]] = {
    "Clip": (1, 2), "Pad": (1, 2, 3), "Resize": (1, 2, 3), "Upsample": (1,), "Dropout": (1, 2),
    "QuantizeLinear": (1, 2), "DequantizeLinear": (1, 2), "QLinearMatMul": (1, 2, 4, 5, 6, 7),
    "QLinearConv": (1, 2, 4, 5, 6, 7), "Range": (0, 1, 2), "OneHot": (1, 2), "Where": (0,),
    "If": (0,), "Loop": (0, 1), "RoiAlign": (1, 2), "NonMaxSuppression": (0, 1, 2, 3, 4),
    **dict.fromkeys(("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"), (0, 1)),
    **dict.fromkeys(("Shape", "Size", "CastLike", "EyeLike", "IsNaN", "IsInf", "Not"), (0, 1)),
}  # fmt: skip
# Of these one number is a setting, as the root of a size that scores are divided by.
_SCALED_BY = {"Mul", "Div", "Sub", "Pow", "Max", "Min", "Mod", "Where", "Expand", "Sum"}
_FROZEN = {"BatchNormalization": (3, 4), "ai.onnx.ml:Scaler": (1, 2)}


class _Uses:
    """How a constant is used, by all nodes that read it."""

    def __init__(self) -> None:
        self.is_weight = False
        self.is_frozen = False

    def add(self, node: ImportedNode, position: int, array: Any) -> None:
        if position in _SETTINGS.get(node.op_type, ()):
            return
        if array.size == 1 and (array.ndim == 0 or node.op_type in _SCALED_BY):
            return
        self.is_weight = True
        self.is_frozen = self.is_frozen or position in _FROZEN.get(node.op_type, ())


def graphs_of(graph: ImportedGraph) -> list[ImportedGraph]:
    """A graph and those in its nodes."""
    inner = [
        g
        for node in all_nodes(graph)
        for g in node.attributes.values()
        if isinstance(g, ImportedGraph)
    ]
    return [graph, *inner]


def make_parameters(
    graph: ImportedGraph, trainable: bool | Iterable[str], file: str
) -> tuple[dict[int, dict[str, Any]], list[Variable]]:
    """The constants of each graph, those that are weights as variables.

    Args:
        graph: of the file.
        trainable: whether weights are, or the names of those that are.
        file: its name for errors.

    Returns:
        By the number of a graph its constants, and all variables in the order of the file.

    Raises:
        InvalidArgumentError: a name is that of no float constant.
    """
    names = None if isinstance(trainable, bool) else set(trainable)
    constants: dict[int, dict[str, Any]] = {}
    variables: list[Variable] = []
    for number, each in enumerate(graphs_of(graph)):
        each.number = number
        uses = _uses(each)
        values: dict[str, Any] = {}
        for name, array in each.constants.items():
            use = uses[name]
            is_named = names is not None and name in names
            is_float = dtypes.as_dtype(array.dtype).is_floating
            values[name] = array
            if is_float and (use.is_weight or is_named):
                trains = bool(trainable) and not use.is_frozen if names is None else is_named
                values[name] = Variable(array, trainable=trains, name=name)
                variables.append(values[name])
        constants[number] = values
    _check_names(names, [v._name for v in variables], file)
    return constants, variables


def _uses(graph: ImportedGraph) -> defaultdict[str, _Uses]:
    uses: defaultdict[str, _Uses] = defaultdict(_Uses)
    for node in all_nodes(graph):
        for position, name in enumerate(node.inputs):
            if name in graph.constants:
                uses[name].add(node, position, graph.constants[name])
    return uses


def _check_names(names: set[str] | None, weight_names: list[str], file: str) -> None:
    for name in sorted((names or set()) - set(weight_names)):
        near = near_names(name, weight_names) or weight_names[:3]
        raise InvalidArgumentError(
            f"onnx.load: {file} has no weight {name!r}, which trainable= names; it has "
            f"{len(weight_names)}, such as {', '.join(map(repr, near)) or 'none at all'}"
        )
