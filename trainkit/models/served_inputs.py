"""What a model takes when it is served, and what `Model.export` does."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable
from typing import Any

from trainkit.core import nest
from trainkit.core.process.later_imports import DeferredModule
from trainkit.core.tensor_spec import TensorSpec
from trainkit.core.values.python_signatures import signature_of
from trainkit.graph.tracing.function import function
from trainkit.layers.base.input_spec import any_batch

_exporting = DeferredModule("trainkit.models.exporting")
_onnx_export = DeferredModule("trainkit.saved_graph.onnx.onnx_export")

FORMATS = ("tf_saved_model", "onnx")
READERS = {
    "openvino": ". OpenVINO reads ONNX files: openvino.convert_model('model.onnx')",
    "litert": ". LiteRT takes what onnx2tf makes of an ONNX file: onnx2tf -i model.onnx",
}
"""Of further formats that Keras has, what makes them of an ONNX file."""

DEFAULT = "serving_default"


def export_model(
    model: Any,
    filepath: str | os.PathLike[str],
    format: str,
    verbose: bool | None,
    input_signature: Any,
    arguments: dict[str, Any],
) -> None:
    """Write `model` for inference; see `Model.export`, whose arguments these are."""
    if format not in FORMATS:
        raise ValueError(
            f"export: the format {format!r} is not supported; 'tf_saved_model' is, for "
            "tk.saved_model.load, and 'onnx', for onnxruntime" + READERS.get(format, "")
        )
    is_onnx = format == "onnx" or _onnx_export.is_onnx_path(filepath)
    if is_onnx:
        _exporting.check_onnx_arguments(filepath, arguments)
    signature = served_inputs(model) if input_signature is None else input_signature
    archive = _exporting.ExportArchive()
    archive.track_and_add_endpoint("serve", model, signature, **({} if is_onnx else arguments))
    if is_onnx:
        archive.write_onnx(filepath, verbose=verbose is not False, **arguments)
    else:
        archive.write_out(filepath, verbose=verbose is not False)


def served_inputs(model: Any) -> list[Any]:
    """For each argument of a call a spec, or a nest of them, of a batch of any size.

    Raises:
        ValueError: the model is not built, so nothing is known of its inputs.
    """
    shapes: dict[str, Any] = model.__dict__.get("_build_shapes") or {}
    graph, ready_shape = model._graph, model.__dict__.get("_ready_shape")
    if not shapes and ready_shape is not None:  # a stack that was called, and can't be drawn up
        shapes = {"input_shape": tuple(ready_shape)}
    if not model.built or (graph is None and not shapes):
        raise ValueError(
            f"the model {model.name!r} has not been built, so its inputs are not known; call it "
            "on data first"
        )
    if graph is not None:
        symbols = model.input
        return [nest.map_structure(lambda x: any_batch(x.shape, x.dtype, x.name), symbols)]
    needed = _needed_arguments(model.call)
    if len(needed) > len(shapes):
        raise ValueError(
            f"the call of {model.name!r} takes {', '.join(needed)}, and it was built for "
            f"{', '.join(shapes)}; give an input_signature with a spec for each"
        )
    if len(shapes) > 1 and {f"{name}_shape" for name in needed} == set(shapes):
        shapes = {f"{name}_shape": shapes[f"{name}_shape"] for name in needed}  # as called
    ready = model.__dict__.get("_ready_dtype")
    dtype = model.input_dtype if ready is None or len(shapes) > 1 else ready.name
    return [
        _specs(shape, dtype, name.removesuffix("_shape") if len(shapes) > 1 else None)
        for name, shape in shapes.items()
    ]


def default_signatures(model: Any) -> dict[str, Any]:
    """What `tk.saved_model.save` serves the model by; nothing if its inputs are not known."""
    try:
        parts = served_inputs(model)
    except ValueError as error:
        warnings.warn(f"saved without a signature: {error}", stacklevel=6)
        return {}
    if len(parts) > 1:
        return {DEFAULT: function(lambda *inputs: model(*inputs), input_signature=parts)}
    # named as TensorFlow does: inputs, inputs_1 …, or by the keys of a dict
    unnamed = nest.map_structure(lambda x: TensorSpec(x.shape, x.dtype), parts[0])
    if isinstance(unnamed, dict):
        unnamed = {k: TensorSpec(x.shape, x.dtype, k) if isinstance(x, TensorSpec) else x
                   for k, x in unnamed.items()}  # fmt: skip
    return {DEFAULT: function(lambda inputs: model(inputs), input_signature=[unnamed])}


def _needed_arguments(call: Callable[..., Any]) -> list[str]:
    """The arguments that a call can't do without."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = signature_of(call).parameters.values()
    return [p.name for p in parameters if p.kind in kinds and p.default is p.empty]


def _specs(shapes: Any, dtype: Any, name: str | None) -> Any:
    """A spec for each shape in a nest of them."""
    if isinstance(shapes, dict):
        return {key: _specs(shape, dtype, str(key)) for key, shape in shapes.items()}
    if all(n is None or isinstance(n, int) for n in shapes):
        return any_batch(shapes, dtype, name)
    return [_specs(shape, dtype, name) for shape in shapes]
