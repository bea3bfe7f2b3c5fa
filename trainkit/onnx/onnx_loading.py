"""`load`: an ONNX file as a model."""

from __future__ import annotations

import importlib
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainkit.core.errors import InvalidArgumentError, UnimplementedError
from trainkit.core.files.local_paths import local_path
from trainkit.core.names import near_names
from trainkit.core.process.later_imports import DeferredModule
from trainkit.models.functional_inputs import drawing
from trainkit.models.model import Model
from trainkit.onnx.attribute_weights import weights_of_attributes
from trainkit.onnx.graph_parameters import make_parameters
from trainkit.onnx.graph_records import (
    ImportedGraph,
    ImportedValue,
    ProtoReader,
    all_nodes,
    part_for,
)
from trainkit.onnx.message_reading import read_model
from trainkit.onnx.onnx_graph import GraphParts, OnnxGraph
from trainkit.onnx.operator_rules import OPSET_VERSIONS, RULES

_models = DeferredModule("trainkit.models")


def load(
    path: str | os.PathLike[str],
    *,
    trainable: bool | Iterable[str] = True,
    outputs: Sequence[str] | None = None,
    input_shapes: Mapping[str, Sequence[int | None]] | None = None,
    name: str | None = None,
) -> Model:
    """Read an ONNX file as a model whose weights are variables, to be trained or run.

    Float constants that operators multiply, add or look up are variables, with their names and
    shapes in the file; the moving averages of batch normalization are not trained. Integers,
    shapes and single numbers stay constants. Nothing in the file is executed, what it asks for is
    checked first, and external data has to lie in its folder, or below.

    Args:
        path: of the file; its operators are of version 7 or later.
        trainable: whether weights are trained, or the names of those that are.
        outputs: names of the values that the model gives, of any node; by default the results of
            the file. What they do not need is left out, inputs too.
        input_shapes: shapes by the names of inputs, instead of those in the file: `None` for sizes
            that are to be free.
        name: of the model.

    Returns:
        A functional model. One input is a tensor, several are a dict by their names, and so are
        its results.

    Raises:
        NotFoundError: there is no such file.
        DataLossError: it is no ONNX file, is damaged, or refers to data outside of its folder.
        UnimplementedError: it has operators, versions or types that are not supported; all of
            them are named.
        InvalidArgumentError: an argument names what the file does not have, or a node does not fit
            its inputs.

    Example:
        >>> model = tk.Sequential([tk.Input((3,)), tk.layers.Dense(2)])
        >>> model.export("model.onnx", verbose=False)
        >>> loaded = tk.onnx.load("model.onnx")
        >>> loaded(tk.ones((4, 3))).shape, len(loaded.trainable_variables)
        (TensorShape([4, 2]), 2)
    """
    layer = graph_layer(path, trainable, outputs, name)
    with drawing():
        return _model(layer, dict(input_shapes or {}), name)


def graph_layer(
    path: str | os.PathLike[str],
    trainable: bool | Iterable[str] = True,
    outputs: Sequence[str] | None = None,
    name: str | None = None,
) -> OnnxGraph:
    """The layer of the model that `load` gives, for the same arguments.

    Args:
        path: of the file.
        trainable: as for `load`.
        outputs: as for `load`.
        name: of the model.
    """
    message, file = read_model(path)
    folder = str(Path(local_path(path)).resolve().parent)
    reader = ProtoReader(message, folder, file)
    graph = reader.graph(message.graph)
    weights_of_attributes(graph)
    results = _results(graph, outputs, file)
    if outputs is not None:
        graph = part_for(graph, results)
    _check_operators(graph, reader.versions, file)
    constants, variables = make_parameters(graph, trainable, file)
    parts = GraphParts(graph, constants, results, file)
    return OnnxGraph(parts, variables, name=f"{name or 'onnx'}_graph")


def _results(graph: ImportedGraph, outputs: Sequence[str] | None, file: str) -> list[str]:
    """The names of the values that the model gives."""
    results = [v.name for v in graph.outputs] if outputs is None else list(outputs)
    inside = {x for node in graph.nodes for x in node.outputs if x}
    value_names = inside | graph.constants.keys() | {v.name for v in graph.inputs}
    for missing in [x for x in results if x not in value_names]:
        near = ", ".join(map(repr, near_names(missing, value_names)))
        raise InvalidArgumentError(
            f"onnx.load: {file} has no value {missing!r}, which outputs names"
            + (f"; it has {near}" if near else "")
        )
    if not results:
        raise InvalidArgumentError(f"onnx.load: {file} gives no results; name some by outputs=")
    return results


def _model(layer: OnnxGraph, shapes: dict[str, Any], name: str | None) -> Model:
    graph, file = layer.imported.graph, layer.imported.file
    for unknown in shapes.keys() - {v.name for v in graph.inputs}:
        raise InvalidArgumentError(
            f"onnx.load: {file} has no input {unknown!r}, which input_shapes names; it has "
            f"{', '.join(v.name for v in graph.inputs) or 'none'}"
        )
    if not graph.inputs:
        raise UnimplementedError(f"onnx.load: {file} has no inputs, so it is no model")
    symbols = {
        v.name: _models.Input(batch_shape=_shape(v, shapes, file), dtype=v.dtype, name=v.name)
        for v in graph.inputs
    }
    inputs = next(iter(symbols.values())) if len(symbols) == 1 else symbols
    model: Model = Model(inputs, layer(inputs), name=name)
    return model


def _shape(value: ImportedValue, shapes: dict[str, Any], file: str) -> tuple[int | None, ...]:
    if value.dtype is None:
        raise UnimplementedError(
            f"onnx.load: {file}: the input {value.name!r} is no tensor; sequences, maps and "
            "optional values are not supported as inputs"
        )
    shape = shapes.get(value.name, value.shape)
    if shape is None:
        raise InvalidArgumentError(
            f"onnx.load: {file} does not say the shape of {value.name!r}; give it as "
            f"input_shapes={{{value.name!r}: (None, ...)}}"
        )
    return tuple(shape)


def _check_operators(graph: ImportedGraph, versions: dict[str, int], file: str) -> None:
    """Name all operators that there is no rule for.

    Raises:
        UnimplementedError: there are such, or the operators are of a version that is not known.
    """
    importlib.import_module("trainkit.onnx.rules")  # registers them; loaded with the first file
    version = versions.get("")  # a file of other operators alone need not say it
    if version is not None and version not in OPSET_VERSIONS:
        raise UnimplementedError(
            f"onnx.load: {file} has operators of opset {version}, and {OPSET_VERSIONS[0]} to "
            f"{OPSET_VERSIONS[-1]} are supported; onnx.version_converter brings it to another"
        )
    missing = Counter(node.op_type for node in all_nodes(graph) if node.op_type not in RULES)
    if missing:
        counts = ", ".join(f"{op} ({count})" for op, count in sorted(missing.items()))
        raise UnimplementedError(
            f"onnx.load: {file} has operators that are not supported: {counts}; export the model "
            "without them, or load a part of it by outputs="
        )
