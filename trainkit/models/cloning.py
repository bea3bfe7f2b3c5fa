"""Models like others, of new layers."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

from trainkit.core import nest
from trainkit.core.config_values import SafeModeScope
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.registry import CustomObjectScope, deserialize_object, serialize_object
from trainkit.layers.base.keras_tensor import Input, KerasTensor
from trainkit.layers.base.layer import Layer
from trainkit.layers.core import InputLayer
from trainkit.layers.quantized.forms_inside import forms_inside
from trainkit.models.functional_inputs import alike
from trainkit.models.model import Model
from trainkit.models.sequential import Sequential

ModelT = TypeVar("ModelT", bound=Model)


_Clone = Callable[[Layer], Layer]


def clone_model(
    model: ModelT,
    input_tensors: Any = None,
    clone_function: _Clone | None = None,
    call_function: Callable[..., Any] | None = None,
    recursive: bool = False,
) -> ModelT:
    """A model of new layers like those of `model`, with new weights, compiled as it is.

    Args:
        model: made from symbolic tensors, a `Sequential`, or a subclass with `get_config`.
        input_tensors: symbolic tensors for the model to begin at, nested as its inputs; new ones by
            default.
        clone_function: gives the layer to stand in the place of one; by default a new one from its
            config. Inputs are not asked for.
        call_function: `call_function(layer, *args, **kwargs)` gives the symbolic result of a layer;
            by default it is called. Not for a `Sequential`.
        recursive: whether the layers of models inside are cloned one by one, too.

    Raises:
        ValueError: the arguments do not go with this kind of model.

    Example:
        >>> model = tk.Sequential([tk.Input((4,)), tk.layers.Dense(2)])
        >>> tk.models.clone_model(model).output_shape
        (None, 2)
    """
    if isinstance(model, Sequential):
        if call_function is not None:
            raise InvalidArgumentError(
                f"clone_model: call_function is for functional models, {model.name!r} is Sequential"
            )
        return _clone_stack(model, input_tensors, _Cloner(clone_function, None, recursive, {}))
    drawn = model._graph is not None
    if drawn and (clone_function or input_tensors is not None or _default_config(model)):
        cloner = _Cloner(clone_function, call_function, recursive, {})
        return _clone_drawn(model, input_tensors, cloner)
    if clone_function or call_function or input_tensors is not None:
        raise InvalidArgumentError(
            "clone_model: clone_function, call_function and input_tensors are for functional and "
            f"Sequential models, {model.name!r} is a {type(model).__name__}"
        )
    kind = type(model)
    return deserialize_object(serialize_object(model), {kind.__name__: kind})


def _default_config(model: Model) -> bool:
    return type(model).get_config is Model.get_config


class _Cloner:
    """Gives a new layer for each, the same one each time.

    Args:
        function: what the user gave, or `None`.
        call: what the user gave to call layers, or `None`.
        recursive: whether models inside are taken apart.
        clones: the new layers by the `id` of the old ones.
    """

    def __init__(
        self,
        function: _Clone | None,
        call: Callable[..., Any] | None,
        recursive: bool,
        clones: dict[int, Layer],
    ) -> None:
        self.function, self.call, self.recursive, self.known = function, call, recursive, clones

    def __call__(self, layer: Layer) -> Layer:
        if id(layer) not in self.known:
            self.known[id(layer)] = self._new(layer)
        return self.known[id(layer)]

    def _new(self, layer: Layer) -> Layer:
        if self.recursive and isinstance(layer, Sequential):
            inside = _Cloner(self.function, None, True, self.known)
            return _clone_stack(layer, None, inside)
        if self.recursive and isinstance(layer, Model) and layer._graph is not None:
            return _clone_drawn(layer, None, self)
        if self.function is not None:
            return self.function(layer)
        return _like(layer)


def _like(layer: Layer) -> Layer:
    """A new layer with this config, and the user's functions, which need not be registered."""
    inner = (vars(each).values() for each in layer._flatten_layers())
    functions = [f for values in inner for f in values if isinstance(f, FunctionType)]
    named = {f.__name__: f for f in functions if f.__name__ != "<lambda>"}
    # A living layer is no file of a stranger: what its config names is what it has read already.
    with CustomObjectScope(named), SafeModeScope(False), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "a lambda goes into the config")  # it is not stored
        config = layer.get_config()
        for name in config:
            own = vars(layer).get(name)
            if isinstance(own, FunctionType):
                config[name] = own
        clone: Layer = type(layer).from_config(config)
        if forms_inside(layer):  # its weights are to fit those of `layer`
            clone.build_from_config(layer.get_build_config() or {})
    return clone


def _clone_stack(model: Sequential, input_tensors: Any, clone: _Cloner) -> Any:
    layers: list[Any] = [clone(layer) for layer in model.layers]
    if input_tensors is not None:
        flat = nest.flatten(input_tensors)
        if len(flat) != 1 or not isinstance(flat[0], KerasTensor):
            raise InvalidArgumentError(
                f"clone_model: a Sequential begins at one symbolic tensor, got {input_tensors!r}"
            )
        layers.insert(0, _entrance_at(flat[0]))
    else:
        layers = [*_new_entrance(model), *layers]
    return _compile_as(model, Sequential(layers, trainable=model.trainable, name=model.name))


def _new_entrance(model: Sequential) -> list[InputLayer]:
    """An `InputLayer` like the one the stack begins at; none if nothing has said its input yet."""
    first: Any = model._layers[0] if model._layers else None
    if not isinstance(first, InputLayer):
        # what an input_shape, build or a call made is no layer of the stack
        first = model._ends[0].node.operation if model._ends is not None else None  # type: ignore[union-attr]
    return [] if first is None else [InputLayer.from_config(first.get_config())]


def _entrance_at(x: KerasTensor) -> Any:
    if x.node is not None and isinstance(x.node.operation, InputLayer):
        return x
    return Input(batch_shape=tuple(x.shape), dtype=x.dtype)


def _clone_drawn(model: Model, input_tensors: Any, clone: _Cloner) -> Any:
    graph = model._graph
    assert graph is not None
    if input_tensors is None:
        inputs = nest.map_structure(_new_input, graph.inputs)
    else:
        inputs = input_tensors
        if not all(isinstance(x, KerasTensor) for x in nest.flatten(inputs)):
            raise InvalidArgumentError(
                f"clone_model: input_tensors must be symbolic tensors, got {inputs!r}"
            )
        if isinstance(inputs, list | tuple) and isinstance(graph.inputs, KerasTensor):
            inputs = inputs[0] if len(inputs) == 1 else inputs
        if not alike(inputs, graph.inputs):
            raise InvalidArgumentError(
                f"clone_model: input_tensors must be nested as the inputs {graph.inputs!r} of the "
                f"model, they are {inputs!r}"
            )
    outputs = graph.redrawn(inputs, clone, clone.call)
    kind: Any = type(model) if _default_config(model) and model._takes_ends() else Model
    return _compile_as(model, kind(inputs, outputs, name=model.name))


def _new_input(x: KerasTensor) -> KerasTensor:
    node = x.node
    assert node is not None
    layer: Any = node.operation
    return Input(
        batch_shape=tuple(x.shape), dtype=x.dtype, name=layer.name, optional=layer.optional
    )


def _compile_as(model: Model, clone: Model) -> Model:
    config = model.get_compile_config() if model.compiled else None
    if config is not None:
        clone.compile_from_config(config)
    return clone
