"""`ExportArchive`: functions of models in a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from trainkit.core import nest
from trainkit.core.files.local_paths import local_path
from trainkit.core.process.console import say
from trainkit.core.trackable import Trackable
from trainkit.core.variable import Variable
from trainkit.graph.tracing.function import function
from trainkit.layers.base.call_spec import inference
from trainkit.layers.base.input_spec import tensor_spec
from trainkit.layers.base.layer import Layer
from trainkit.models.calling_layers import named_error
from trainkit.saved_graph.model_saving import save_model
from trainkit.saved_graph.onnx.onnx_export import check_arguments, is_onnx_path, write_onnx
from trainkit.saved_graph.saved_model_options import SaveOptions
from trainkit.saved_graph.saving import concrete_function
from trainkit.saved_graph.signatures import DEFAULT, is_traced

ONNX_ARGUMENTS = ("opset_version", "ir_version", "verify")
_COLLECTIONS = ("variables", "trainable_variables", "non_trainable_variables")


class ExportArchive:
    """Functions that are saved together with their variables, as a folder.

    The folder is what `tk.saved_model.save` writes, in trainkit's own format, and
    `tk.saved_model.load` reads it: each endpoint is an attribute and a signature of what is loaded.
    It is no SavedModel of TensorFlow.

    Example:
        >>> model = tk.Sequential([tk.Input((3,)), tk.layers.Dense(2)])
        >>> archive = tk.keras.export.ExportArchive()
        >>> archive.track(model)
        >>> serve = archive.add_endpoint(
        ...     "serve", model.call, [tk.layers.InputSpec(shape=(None, 3), dtype="float32")]
        ... )
        >>> archive.write_out("artifact", verbose=False)
        >>> tk.saved_model.load("artifact").serve(tk.ones((4, 3))).shape
        TensorShape([4, 2])
    """

    def __init__(self) -> None:
        self._resources: list[Trackable] = []
        self._endpoints: dict[str, Any] = {}
        self._collections: dict[str, list[Variable]] = {}

    @property
    def variables(self) -> list[Any]:
        """The variables of all that is tracked, each once."""
        return self._of_resources("variables")

    @property
    def trainable_variables(self) -> list[Any]:
        """Those that are trained."""
        return self._of_resources("trainable_variables")

    @property
    def non_trainable_variables(self) -> list[Any]:
        """The others."""
        return self._of_resources("non_trainable_variables")

    def _of_resources(self, name: str) -> list[Any]:
        variables = {id(v): v for resource in self._resources for v in getattr(resource, name, ())}
        return list(variables.values())

    def track(self, resource: Any) -> None:
        """Let the variables of a layer, model or module be those of the artifact.

        Args:
            resource: built, if it is a layer.

        Raises:
            ValueError: it has no variables to track, or is not built.
        """
        if not isinstance(resource, Trackable):
            raise ValueError(
                f"ExportArchive: {resource!r} can't be tracked; give a layer, model or tk.Module"
            )
        if isinstance(resource, Layer) and not resource.built:
            raise ValueError(
                f"ExportArchive: {resource.name!r} has not been built; call it on data first"
            )
        if not any(resource is tracked for tracked in self._resources):
            self._resources.append(resource)

    def add_endpoint(
        self, name: str, fn: Callable[..., Any], input_signature: Any = None, **kwargs: Any
    ) -> Any:
        """Add a function under a name.

        Args:
            name: of the attribute and signature.
            fn: a function of tensors, for inference: a layer's `call`, a `tk.function` or a plain
                function.
            input_signature: for each argument of `fn` an `InputSpec`, `TensorSpec`, symbolic tensor
                or tensor, or a nest of these. Sizes that are `None` stay free. By default what
                `fn`, a `tk.function` then, has been called with.
            **kwargs: Keras's for other backends; there are none here.

        Returns:
            `fn` as a `tk.function`.

        Raises:
            ValueError: the name is taken, or there is neither an input signature nor a trace.
            TypeError: an argument of another backend is given.
        """
        if kwargs:
            raise TypeError(
                f"ExportArchive: {', '.join(kwargs)}: these arguments are for other backends; take "
                "name, fn and input_signature"
            )
        if name in self._endpoints or name in self._collections or name in _COLLECTIONS:
            raise ValueError(f"ExportArchive: the name {name!r} is taken")
        if not (isinstance(name, str) and name.isidentifier()):
            raise ValueError(
                f"ExportArchive: {name!r} is no name of an endpoint; give an identifier"
            )
        if input_signature is not None:
            signature = [
                nest.map_structure(tensor_spec, part) for part in _sequence(input_signature)
            ]
            traced: Any = function(fn, input_signature=signature)
            traced.get_concrete_function()  # errors of the model come here
        else:
            traced = fn
            if not is_traced(fn) or not fn.concrete_functions():  # type: ignore[attr-defined]
                raise ValueError(
                    f"ExportArchive: the endpoint {name!r} needs an input_signature, or a "
                    "tk.function that has been called"
                )
        self._endpoints[name] = traced
        return traced

    def track_and_add_endpoint(
        self, name: str, resource: Any, input_signature: Any, **kwargs: Any
    ) -> Any:
        """Track a layer or model, and add its call, for inference, as an endpoint.

        Args:
            name: of the endpoint.
            resource: built.
            input_signature: as for `add_endpoint`.
            **kwargs: as for `add_endpoint`.
        """
        self.track(resource)
        with inference():
            return self.add_endpoint(name, resource.__call__, input_signature, **kwargs)

    def add_variable_collection(self, name: str, variables: Any) -> None:
        """Add a list of variables, which is an attribute of what is loaded.

        Args:
            name: of the attribute.
            variables: a list, tuple or set of them.

        Raises:
            ValueError: something in it is no variable, or the name is taken.
        """
        if not isinstance(variables, list | tuple | set):
            raise ValueError(f"ExportArchive: {variables!r} is no list, tuple or set of variables")
        for v in variables:
            if not isinstance(v, Variable):
                raise ValueError(f"ExportArchive: {v!r} in {name!r} is no variable")
        if name in self._endpoints or name in self._collections:
            raise ValueError(f"ExportArchive: the name {name!r} is taken")
        if not (isinstance(name, str) and name.isidentifier()) or name == "signatures":
            raise ValueError(f"ExportArchive: {name!r} is no name of a collection")
        self._collections[name] = list(variables)

    def write_out(
        self,
        filepath: str | os.PathLike[str],
        options: SaveOptions | None = None,
        verbose: bool = True,
    ) -> None:
        """Write the folder, or, to a path that ends in ".onnx", the one endpoint as an ONNX file.

        Args:
            filepath: the folder, which is made if need be, or the file.
            options: of a folder, see `tk.saved_model.SaveOptions`.
            verbose: whether the endpoints are printed.

        Raises:
            ValueError: there is no endpoint, or one gives something else than tensors; or options
                are given for a file, which has none.
            UnimplementedError: an endpoint calls Python or takes text, which no file holds.
        """
        if is_onnx_path(filepath):
            if options is not None:
                raise ValueError("ExportArchive: options are for folders, an ONNX file has none")
            self.write_onnx(filepath, verbose=verbose)
            return
        if not self._endpoints:
            raise ValueError("ExportArchive: there is nothing to write; add_endpoint comes first")
        signatures = dict(self._endpoints)
        signatures.setdefault(DEFAULT, next(iter(self._endpoints.values())))
        save_model(Exported(self), filepath, signatures, options)
        if verbose:
            say(f"Saved artifact at '{local_path(filepath)}'. These endpoints are available:\n")
            for name, traced in self._endpoints.items():
                say(f"* Endpoint {name!r}")
                say(traced.pretty_printed_concrete_signatures() + "\n")

    def _name(self, endpoint: str) -> str:
        """What to call a graph: as the one model or layer that is tracked, else as the endpoint."""
        names = [str(getattr(x, "name", endpoint)) for x in self._resources]
        return names[0] if len(names) == 1 else endpoint

    def write_onnx(
        self,
        filepath: str | os.PathLike[str],
        opset_version: int = 18,
        ir_version: int = 8,
        verify: bool = False,
        verbose: bool = True,
    ) -> Any:
        """Write the one endpoint as an ONNX file.

        Args:
            filepath: the file, which ends in ".onnx".
            opset_version: as for `tk.saved_graph.export_onnx`.
            ir_version: the same.
            verify: the same.
            verbose: whether inputs and results are printed.

        Returns:
            What `tk.saved_graph.export_onnx` does.

        Raises:
            ValueError: there is no endpoint or more than one, or the path or a version does not
                serve.
            UnimplementedError: an operation has no form in ONNX; the layers that call it are named.
        """
        check_arguments(filepath, opset_version, ir_version)
        if len(self._endpoints) != 1:
            raise ValueError(
                f"ExportArchive: an ONNX file holds one endpoint, there are {len(self._endpoints)}"
                f" ({', '.join(self._endpoints) or 'none'}); make an archive for each"
            )
        ((name, traced),) = self._endpoints.items()
        concrete = concrete_function(traced, (), {}, "ExportArchive")
        try:
            check = write_onnx(
                concrete, filepath, opset_version, ir_version, verify, "batch", self._name(name)
            )
        except Exception as error:
            reason = named_error(error, traced, self._resources)
            if reason is error:
                raise
            raise reason from None
        if verbose:
            say(f"Saved the endpoint {name!r} as '{local_path(filepath)}':\n")
            say(traced.pretty_printed_concrete_signatures() + "\n")
            if check is not None:
                say(f"{check}\n")
        return check


class Exported(Trackable):
    """The object that an archive saves: endpoints and lists of variables as attributes."""

    def __init__(self, archive: ExportArchive) -> None:
        lists = {name: getattr(archive, name) for name in _COLLECTIONS}
        for name, variables in {**lists, **archive._collections}.items():
            setattr(self, name, list(variables))
        for name, traced in archive._endpoints.items():
            setattr(self, name, traced)


def check_onnx_arguments(filepath: str | os.PathLike[str], arguments: dict[str, Any]) -> None:
    """Refuse what an ONNX file does not take, before anything is traced.

    Raises:
        TypeError: an argument is not known.
        ValueError: the path or a version does not serve.
    """
    unknown = [name for name in arguments if name not in ONNX_ARGUMENTS]
    if unknown:
        raise TypeError(
            f"export: {', '.join(unknown)}: an ONNX file takes {', '.join(ONNX_ARGUMENTS)}"
        )
    versions = {"opset_version": 18, "ir_version": 8, **arguments}
    check_arguments(filepath, versions["opset_version"], versions["ir_version"])


def _sequence(signature: Any) -> Iterable[Any]:
    return signature if isinstance(signature, list | tuple) else [signature]
