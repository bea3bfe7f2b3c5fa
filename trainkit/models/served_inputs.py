"""What a model takes when it is served, and `export`, which writes it as a folder."""

from __future__ import annotations

import importlib
import inspect
import os
import warnings
from collections.abc import Callable
from typing import Any

from trainkit.core import nest
from trainkit.core.files.local_paths import local_path
from trainkit.core.tensor_spec import TensorSpec
from trainkit.graph.tracing.function import function
from trainkit.layers.base.input_spec import any_batch
from trainkit.layers.base.layer import Layer
from trainkit.saved_graph.onnx.onnx_export import SUFFIX

FORMATS = ("tf_saved_model", "onnx")
READERS = {
    "openvino": ". OpenVINO reads ONNX files: openvino.convert_model('model.onnx')",
    "litert": ". LiteRT takes what onnx2tf makes of an ONNX file: onnx2tf -i model.onnx",
}
"""Of further formats that Keras has, what makes them of an ONNX file."""

DEFAULT = "serving_default"


class Exportable(Layer):
    """What a model can be written as besides a file of Keras."""

    _graph: Any

    def export(
        self,
        filepath: str | os.PathLike[str],
        format: str = "tf_saved_model",
        verbose: bool | None = None,
        input_signature: Any = None,
        **kwargs: Any,
    ) -> None:
        """Write the model, for inference, as a folder or file that needs none of its Python code.

        As a folder, `tk.saved_model.load(filepath).serve(x)` calls it; so does `TFSMLayer`, and,
        with NumPy and h5py alone, `trainkit/saved_graph/standalone.py`. The size of the batch
        stays free. The folder is in trainkit's own format: TensorFlow and its servers can't read
        it. As an ONNX file, onnxruntime and whatever else reads ONNX calls it.

        Args:
            filepath: the folder, or, if it ends in ".onnx", the ONNX file; what is missing is made.
            format: `"tf_saved_model"`, the name that Keras has for such folders, or `"onnx"`, for
                which the path must end in ".onnx".
            verbose: whether the endpoints are printed; by default they are.
            input_signature: as for `ExportArchive.add_endpoint`; by default what the model was
                built for.
            **kwargs: of ONNX files `opset_version`, `ir_version` and `verify`, as for
                `tk.saved_graph.export_onnx`.

        Raises:
            ValueError: another format, a path that does not fit it, or the model is not built.
            TypeError: an argument that the format does not have.
            UnimplementedError: a layer calls Python or a lookup table, as `StringLookup` does:
                export the layers after it, and apply it to the data.

        Example:
            >>> model = tk.Sequential([tk.Input((3,)), tk.layers.Dense(2)])
            >>> model.export("served", verbose=False)
            >>> tk.saved_model.load("served").serve(tk.ones((4, 3))).shape
            TensorShape([4, 2])
        """
        if format not in FORMATS:
            raise ValueError(
                f"export: the format {format!r} is not supported; 'tf_saved_model' is, for "
                "tk.saved_model.load, and 'onnx', for onnxruntime" + READERS.get(format, "")
            )
        exporting: Any = importlib.import_module("trainkit.models.exporting")
        is_onnx = format == "onnx" or str(local_path(filepath)).endswith(SUFFIX)
        if is_onnx:
            exporting.check_onnx_arguments(filepath, kwargs)
        signature = self._served_inputs() if input_signature is None else input_signature
        archive = exporting.ExportArchive()
        archive.track_and_add_endpoint("serve", self, signature, **({} if is_onnx else kwargs))
        if is_onnx:
            archive.write_onnx(filepath, verbose=verbose is not False, **kwargs)
        else:
            archive.write_out(filepath, verbose=verbose is not False)

    def _served_inputs(self) -> list[Any]:
        """For each argument of a call a spec, or a nest of them, of a batch of any size.

        Raises:
            ValueError: the model is not built, so nothing is known of its inputs.
        """
        shapes: dict[str, Any] = self.__dict__.get("_build_shapes") or {}
        graph, ready_shape = self._graph, self.__dict__.get("_ready_shape")
        if not shapes and ready_shape is not None:  # a stack that was called, and can't be drawn up
            shapes = {"input_shape": tuple(ready_shape)}
        if not self.built or (graph is None and not shapes):
            raise ValueError(
                f"the model {self.name!r} has not been built, so its inputs are not known; call it "
                "on data first"
            )
        if graph is not None:
            symbols = self.input
            return [nest.map_structure(lambda x: any_batch(x.shape, x.dtype, x.name), symbols)]
        needed = _needed_arguments(self.call)
        if len(needed) > len(shapes):
            raise ValueError(
                f"the call of {self.name!r} takes {', '.join(needed)}, and it was built for "
                f"{', '.join(shapes)}; give an input_signature with a spec for each"
            )
        if len(shapes) > 1 and {f"{name}_shape" for name in needed} == set(shapes):
            shapes = {f"{name}_shape": shapes[f"{name}_shape"] for name in needed}  # as called
        ready = self.__dict__.get("_ready_dtype")
        dtype = self.input_dtype if ready is None or len(shapes) > 1 else ready.name
        return [
            _specs(shape, dtype, name.removesuffix("_shape") if len(shapes) > 1 else None)
            for name, shape in shapes.items()
        ]

    def _default_signatures(self) -> dict[str, Any]:
        """What `tk.saved_model.save` serves the model by; nothing if its inputs are not known."""
        try:
            parts = self._served_inputs()
        except ValueError as error:
            warnings.warn(f"saved without a signature: {error}", stacklevel=5)
            return {}
        if len(parts) > 1:
            return {DEFAULT: function(lambda *inputs: self(*inputs), input_signature=parts)}
        # named as TensorFlow does: inputs, inputs_1 …, or by the keys of a dict
        unnamed = nest.map_structure(lambda x: TensorSpec(x.shape, x.dtype), parts[0])
        if isinstance(unnamed, dict):
            unnamed = {k: TensorSpec(x.shape, x.dtype, k) if isinstance(x, TensorSpec) else x
                       for k, x in unnamed.items()}  # fmt: skip
        return {DEFAULT: function(lambda inputs: self(inputs), input_signature=[unnamed])}


def _needed_arguments(call: Callable[..., Any]) -> list[str]:
    """The arguments that a call can't do without."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(call).parameters.values()
    return [p.name for p in parameters if p.kind in kinds and p.default is p.empty]


def _specs(shapes: Any, dtype: Any, name: str | None) -> Any:
    """A spec for each shape in a nest of them."""
    if isinstance(shapes, dict):
        return {key: _specs(shape, dtype, str(key)) for key, shape in shapes.items()}
    if all(n is None or isinstance(n, int) for n in shapes):
        return any_batch(shapes, dtype, name)
    return [_specs(shape, dtype, name) for shape in shapes]
