"""`Model`: a layer that can be trained, evaluated, used and saved."""

from __future__ import annotations

import copy
import functools
import inspect
import os
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from trainkit.checkpoints import weights
from trainkit.core import nest
from trainkit.core.names import explain_attribute, unique_name
from trainkit.core.process.console import say
from trainkit.core.process.garbage import collect_large
from trainkit.core.process.later_imports import DeferredModule
from trainkit.core.registry import CustomObjectScope, deserialize_object
from trainkit.core.trackable import Trackable, set_silently, traverse
from trainkit.core.values import torch_names
from trainkit.core.values.python_signatures import signature_of
from trainkit.layers.base import tracking
from trainkit.layers.base.config import LAYERS
from trainkit.layers.base.keras_tensor import KerasTensor
from trainkit.layers.base.layer import Layer
from trainkit.layers.base.operation import Operation
from trainkit.layers.base.output_specs import Replaceable
from trainkit.models.functional import FunctionalGraph
from trainkit.models.functional_config import graph_config, graph_from_config
from trainkit.models.functional_inputs import check_keys, drawing
from trainkit.models.model_html import model_html
from trainkit.models.repeated_calls import outputs_of
from trainkit.models.saving import model_to_json, save_model, written_once
from trainkit.models.served_inputs import default_signatures, export_model
from trainkit.models.summarizing import summary_text
from trainkit.models.training import fit_arguments, state_tree
from trainkit.models.training.state_tree import set_state_tree
from trainkit.models.training.trainer import Trainer

_quantizing = DeferredModule("trainkit.models.quantizing")


class Model(Trainer):
    """A layer with a training loop.

    Made in three ways: from symbolic tensors, `Model(inputs, outputs)`; as a stack,
    `Sequential([...])`; or as a subclass with layers as attributes and its own `call`.

    Args:
        inputs: nest of symbolic tensors, made by `Input`.
        outputs: nest of symbolic tensors computed from them.
        **kwargs: see `Layer`.

    Attributes:
        stop_training: a callback sets it to end training after the batch.
        history: the `History` of the last `fit`.
        training_run: the run of `fit` under way, `None` outside.

    Raises:
        ValueError: the outputs do not depend on the inputs alone, or only one of the two is given.

    Example:
        >>> x = tk.Input((4,))
        >>> model = tk.models.Model(x, tk.layers.Dense(2)(x))
        >>> model.compile("sgd", "mse")
        >>> history = model.fit(tk.ones((8, 4)), tk.zeros((8, 2)), verbose=0)
        >>> model.predict(tk.ones((3, 4)), verbose=0).shape
        (3, 2)
    """

    _init_arguments: Any

    _warns_of_lost_masks = False  # the layers inside do
    _rematerialized_by_scopes = False  # likewise
    _built_by_running = True

    def __init__(self, inputs: Any = None, outputs: Any = None, **kwargs: Any) -> None:
        collect_large()  # the model of before, which may be gone by now
        if inputs is not None and type(self) is Model and kwargs.get("name") is None:
            kwargs["name"] = unique_name("functional")  # as in Keras, where it is a class
        super().__init__(**kwargs)
        if (inputs is None) != (outputs is None):
            raise ValueError("Model needs both inputs and outputs, or neither of them")
        if inputs is not None:
            self._draw(inputs, outputs)

    if not TYPE_CHECKING:  # names that are not there are errors in editors

        def __getattr__(self, name: str) -> Any:
            return explain_attribute(self, name, torch_names.MODEL, is_named=True)

    def _draw(self, inputs: Any, outputs: Any) -> None:
        if isinstance(inputs, dict):
            check_keys(inputs)
        graph = FunctionalGraph(inputs, outputs)
        set_silently(self, _graph=graph)
        self._drop_symbols()
        self._layers = list(graph.operations)
        self.built = True

    def _drop_symbols(self) -> None:
        """Forget arguments that are symbolic: the graph has them, and can be copied."""
        if any(isinstance(x, KerasTensor) for x in nest.flatten(self._init_arguments)):
            set_silently(self, _init_arguments=((), {}))

    @classmethod
    def _takes_ends(cls) -> bool:
        return _made_from_ends(cls)  # type: ignore[arg-type]

    @property
    def _counts_its_drawing(self) -> bool:
        """Whether Keras counts the drawing up of this model as a call of it."""
        return self._graph is not None

    @property
    def _config_identity(self) -> tuple[str, str, str | None] | None:
        if type(self) is not Model:
            return None
        if self._graph is None:
            return ("keras", "Model", None)
        return ("keras.src.models.functional", "Functional", "Functional")

    def call(self, *args: Any, **kwargs: Any) -> Any:
        graph = self._graph
        if graph is None:
            raise NotImplementedError(f"{type(self).__name__} has no method call(self, inputs)")
        inputs = args[0] if args else kwargs["inputs"]
        mask = args[2] if len(args) > 2 else kwargs.get("mask")
        return outputs_of(self, inputs) if mask is None else graph.run(inputs, mask)

    def _run_layers(self, inputs: Any) -> Any:
        """The outputs of a drawn model, layer by layer."""
        assert self._graph is not None
        return self._graph.run(inputs)

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        with drawing():
            return super().compute_output_spec(*args, **kwargs)

    def _build_for(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super()._build_for(args, kwargs)
        if args and "_build_shapes" not in self.__dict__:
            shape = nest.map_structure(fit_arguments.shape_of_any_batch, args[0])
            set_silently(self, _build_shapes={"input_shape": shape})

    # ------------------------------------------------------------------ what it is made of

    @property
    def layers(self) -> list[Any]:
        """The layers directly in this model, in order."""
        if self._graph is not None:
            return list(self._graph.layers)
        parts = tracking.sublayers(self, Layer)
        return [layer for layer in parts if not isinstance(layer, Operation)]

    @property
    def operations(self) -> list[Layer]:
        """The layers, and the operations on symbolic tensors that the model was drawn up of."""
        return self.layers if self._graph is None else list(self._graph.operations)

    _operations = operations

    def get_layer(self, name: str | None = None, index: int | None = None) -> Any:
        """One layer by its name or its position.

        Raises:
            ValueError: there is none, or not exactly one of the two is given.
        """
        if (name is None) == (index is None):
            raise ValueError("get_layer needs either a name or an index")
        layers = self.layers
        if index is not None:
            if not -len(layers) <= index < len(layers):
                raise ValueError(
                    f"model {self.name!r} has {len(layers)} layers, there is no {index}"
                )
            return layers[index]
        for layer in layers:
            if layer.name == name:
                return layer
        names = ", ".join(layer.name for layer in layers)
        raise ValueError(f"model {self.name!r} has no layer {name!r}; it has {names}")

    @property
    def submodules(self) -> tuple[Layer, ...]:
        """All layers in this model, those inside other layers included, each once."""
        parts = [part for _, part in traverse(self)]
        return tuple(part for part in parts if isinstance(part, Layer) and part is not self)

    @Replaceable
    def inputs(self) -> list[KerasTensor]:
        """The symbolic inputs of a model that was drawn up."""
        return list(self._drawn("inputs").flat_inputs)

    @Replaceable
    def outputs(self) -> list[KerasTensor]:
        """The symbolic outputs of a model that was drawn up."""
        return list(self._drawn("outputs").flat_outputs)

    @Replaceable
    def input_names(self) -> list[str]:
        """The name of each input of a functional model, as in TensorFlow 2."""
        return list(self._drawn("input_names").names)

    @Replaceable
    def output_names(self) -> list[str]:
        """The name of the layer that makes each output."""
        return self._drawn("output_names").output_operations

    @property
    def input(self) -> Any:
        """The symbolic input, nested as it was given."""
        return self._drawn("input").inputs

    @property
    def output(self) -> Any:
        """The symbolic output, nested as it was given."""
        return self._drawn("output").outputs

    @Replaceable
    def input_shape(self) -> Any:
        """The shape of the input, a nest of tuples."""
        return _alone(nest.map_structure(lambda x: tuple(x.shape), self.input))

    @Replaceable
    def output_shape(self) -> Any:
        """The shape of the output, a nest of tuples."""
        return _alone(nest.map_structure(lambda x: tuple(x.shape), self.output))

    def _drawn(self, attribute: str) -> FunctionalGraph:
        if self._graph is None:
            raise AttributeError(
                f"model {self.name!r} has no {attribute}: only models made from symbolic "
                "tensors have"
            )
        return self._graph

    def parts(self) -> dict[str, Trackable]:
        """The trackable attributes by name, without the underscore in front of private ones."""
        return {name.removeprefix("_"): part for name, part in super().parts().items()}

    def summary(
        self,
        line_length: int | None = None,
        positions: list[float] | None = None,
        print_fn: Callable[[str], Any] | None = None,
        expand_nested: bool = False,
        show_trainable: bool = False,
        layer_range: Any = None,
    ) -> None:
        """Print the layers with their output shapes and numbers of weights.

        Below the table stand "Total params", "Trainable params", "Non-trainable params" and, of a
        model that was trained, "Optimizer params", which count in the total.

        Args:
            line_length: characters in a line; by default what the table needs, and the terminal
                has.
            positions: where each column ends, as shares of the line or in characters.
            print_fn: called with the whole text, in place of `print`.
            expand_nested: show the layers of models inside as well.
            show_trainable: show whether each layer is trained.
            layer_range: names of the first and the last layer to show, or patterns of them.

        Raises:
            ValueError: the line is too short, or `positions` or `layer_range` do not fit the model.
        """
        (print_fn or say)(
            summary_text(self, line_length, positions, expand_nested, show_trainable, layer_range)
        )

    # ------------------------------------------------------------------ saving

    def _repr_html_(self) -> str:
        """What notebooks show: the summary, with models inside folded away."""
        return model_html(self)

    def save_weights(
        self,
        filepath: str | os.PathLike[str],
        overwrite: bool = True,
        max_shard_size: float | None = None,
        objects_to_skip: Any = None,
    ) -> None:
        """Write all weights into one file, which appears whole or not at all.

        Args:
            filepath: its ending says the format: `.weights.h5` for Keras's layout, with the state
                of the optimizer; `.safetensors` or `.npz` for the weights alone; any other for a
                checkpoint.
            overwrite: whether a file that exists is replaced.
            max_shard_size: split Keras's layout into several files of so many GB, 10**9 bytes, at
                most; `filepath` ends in `.weights.json` then, and names them all.
            objects_to_skip: layers and optimizers that are left out, in Keras's layout.

        Raises:
            FailedPreconditionError: the model has no weights yet.
            FileExistsError: the file exists and is not to be replaced.
        """
        if not overwrite and os.path.exists(filepath):
            raise FileExistsError(f"{filepath} exists already; pass overwrite=True to replace it")
        with written_once(self) as writes:
            if writes:
                weights.save_weights(
                    self, filepath, max_shard_size=max_shard_size, skipped=objects_to_skip or ()
                )

    def load_weights(
        self,
        filepath: str | os.PathLike[str],
        skip_mismatch: bool = False,
        objects_to_skip: Any = None,
        by_name: bool | None = None,
    ) -> None:
        """Read what `save_weights` wrote, here or in Keras 2 or 3.

        Args:
            filepath: a file of weights, or the `.keras` or `.h5` file of a whole model.
            skip_mismatch: leave weights alone that do not fit the file, rather than fail.
            objects_to_skip: layers and optimizers that keep what they have, for Keras 3's layout.
            by_name: for Keras 2's layout alone: match layers by their names, and leave those alone
                that the file does not have; by default the order says which is which.

        Raises:
            NotFoundError: there is no such file.
            CheckpointError: the file is damaged, or does not fit; nothing is changed.
        """
        weights.load_weights(self, filepath, skip_mismatch, objects_to_skip or (), by_name)

    def save(
        self,
        filepath: str | os.PathLike[str],
        overwrite: bool = True,
        zipped: bool | None = None,
        **kwargs: Any,
    ) -> None:
        """Write the whole model: how it is made, its weights, and how it is compiled.

        Args:
            filepath: ends in `.keras`, or in `.h5` or `.hdf5` for the format of Keras 2.
            overwrite: whether a file that exists is replaced; otherwise it is an error.
            zipped: `False` writes a folder in place of one file.
            **kwargs: those of `keras.saving.save_model`.
        """
        save_model(self, filepath, overwrite, zipped, **kwargs)

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
        export_model(self, filepath, format, verbose, input_signature, kwargs)

    def _default_signatures(self) -> dict[str, Any]:
        """What `tk.saved_model.save` serves the model by; nothing if its inputs are not known."""
        return default_signatures(self)

    def get_state_tree(self, value_format: str = "backend_tensor") -> dict[str, Any]:
        """The values of all variables, nested by their paths.

        Args:
            value_format: `"backend_tensor"` or `"numpy_array"`.

        Returns:
            A dict with `trainable_variables`, `non_trainable_variables`, `optimizer_variables` and
            `metrics_variables`.

        Raises:
            ValueError: two variables of one of these have the same path.
        """
        return state_tree.state_tree(self, value_format)

    def set_state_tree(self, state_tree: dict[str, Any]) -> None:
        """Take values for variables, nested as `get_state_tree` gives them.

        Args:
            state_tree: some or all of them; what the model has no variable for is left out.

        Raises:
            ValueError: a group that does not exist, or a value of another shape; nothing is
                changed then.
        """
        set_state_tree(self, state_tree)

    def quantize(  # type: ignore[override]
        self,
        mode: Any = None,
        config: Any = None,
        filters: Any = None,
        verbose: bool = True,
        **kwargs: Any,
    ) -> Any:
        """Quantize all layers that can be; an error leaves the model as it was.

        Args:
            mode: `"int8"`, `"int4"`, `"float8"`, `"ternary"`, `"gptq"` or `"awq"`.
            config: a `QuantizationConfig` in place of the mode's own; `"gptq"` and `"awq"` need
                theirs, with data, and quantize the layers of the blocks that it or
                `get_quantization_layer_structure` names.
            filters: only layers in whose name this regular expression is found, or one of a list of
                such, or for which this function of a layer is true.
            verbose: whether the report is printed.
            **kwargs: `type_check`, whether classes derived from layers are left alone.

        Returns:
            A `QuantizationReport`.

        Raises:
            ValueError: an argument is none that there is, or a layer is not built.
        """
        return _quantizing.quantize_model(self, mode, config, filters, verbose, kwargs)

    def get_quantization_layer_structure(self, mode: Any = None) -> Any:
        """What modes that look at data calibrate; a class with blocks says it.

        Args:
            mode: of the quantization.

        Returns:
            `{"pre_block_layers": layers, "sequential_blocks": blocks}`, or `None`.
        """
        return None

    def quantization_summary(self, verbose: bool = True) -> str:
        """A text about the quantized layers: dtype policies, bytes, how much smaller they are.

        Args:
            verbose: whether it is printed.
        """
        text: str = _quantizing.summary_of_quantization(self)
        if verbose:
            print(text)
        return text

    def to_json(self, **kwargs: Any) -> str:
        """How the model is made, without weights, as JSON; `kwargs` are those of `json.dumps`."""
        return model_to_json(self, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        twin = type(self).__new__(type(self))
        memo[id(self)] = twin
        twin.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        return twin

    def get_config(self) -> dict[str, Any]:
        if self._graph is None or not self._takes_ends():
            return super().get_config()
        return graph_config(self._graph, self.name, self.trainable)

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """A new model made by what `get_config` gave; its weights are new.

        Args:
            config: what `get_config` gave.
            custom_objects: classes and functions that it may name, by name.

        Raises:
            ConfigError: it names a class that is not known, or lacks something.
        """
        with CustomObjectScope(custom_objects):
            if "input_layers" not in config or not cls._takes_ends():
                return super().from_config(config)
            inputs, outputs = graph_from_config(config)
            drawn = ("layers", "input_layers", "output_layers")
            more = {name: value for name, value in config.items() if name not in drawn}
            return cls(inputs, outputs, **more)

    def get_build_config(self) -> dict[str, Any] | None:
        if self._graph is not None:
            return {"input_shape": self.input_shape}
        return super().get_build_config()

    def build_from_config(self, config: dict[str, Any]) -> None:
        try:
            super().build_from_config(config)
        except Exception as error:
            warnings.warn(
                f"model {self.name!r} can't be built by {config!r}, so it has no weights yet: "
                f"{error}. Let its class have a method build_from_config(config), and "
                "get_build_config() to go with it",
                stacklevel=2,
            )

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Compile the model by what `get_compile_config` gave.

        A class with a `compile` of its own has to have this method too; the model stays as it is
        otherwise, with a warning.
        """
        if type(self).compile is not Model.compile:
            warnings.warn(
                "`compile()` was not called as part of model loading because the model's "
                f"`compile()` method is custom. {type(self).__name__} needs get_compile_config() "
                "and compile_from_config(config) to go with it; or call compile() yourself",
                stacklevel=2,
            )
            return
        self.compile(**deserialize_object(config))
        if self.optimizer is not None and self.built:
            self.optimizer.build(self.trainable_variables)


LAYERS.add(Model, "Functional")  # what Keras calls a model that was drawn up


def _alone(shapes: Any) -> Any:
    """The one shape of a list of one."""
    return shapes[0] if isinstance(shapes, list) and len(shapes) == 1 else shapes


@functools.cache
def _made_from_ends(kind: Any) -> bool:
    """Whether a class is made by `kind(inputs, outputs, name=...)`, as `Model` itself."""
    parameters = list(signature_of(kind.__init__).parameters.values())[1:]
    kinds = {p.kind for p in parameters}
    if {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD} <= kinds:
        return True
    return [p.name for p in parameters][:2] == ["inputs", "outputs"]
