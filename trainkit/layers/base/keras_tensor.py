"""`Input` and `KerasTensor`: symbolic tensors from which functional models are drawn up.

A `KerasTensor` remembers the node that made it: a layer, or an operation, with its arguments. A
model is what lies between some of them and others.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from trainkit.core import dtypes, nest
from trainkit.core.config_values import DECODERS
from trainkit.core.errors import InvalidArgumentError, NoValueError, UnimplementedError
from trainkit.core.names import unique_name
from trainkit.core.registry import deserialize_object, serialize_object
from trainkit.core.shapes import Spec
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import PRIMITIVES, convert_to_tensor, is_tensor
from trainkit.core.trackable import set_silently
from trainkit.graph.control_flow.operation_lookup import find_operation
from trainkit.layers.base import mask_propagation
from trainkit.layers.base.building import build_for_symbols
from trainkit.layers.base.config import LAYERS
from trainkit.layers.base.layer import Layer
from trainkit.layers.base.operation import Operation
from trainkit.layers.base.operation_configs.functions import call_as_keras
from trainkit.layers.base.operation_configs.keras_rules import Written
from trainkit.layers.base.operation_configs.writing import as_keras
from trainkit.layers.base.output_specs import described, note_symbolic_call
from trainkit.layers.core import InputLayer
from trainkit.ops.arrays.axes import squeeze
from trainkit.ops.arrays.shaping import reshape
from trainkit.ops.core.one_node import ONE_NODE


class CallNode:
    """One call of a layer while a model was drawn up.

    Attributes:
        operation: the layer.
        args, kwargs: what it was called with, `KerasTensor`s among them.
        outputs: nest of the `KerasTensor`s that it gave.
        index: how many calls of the layer on symbols went before.
    """

    index = 0

    def __init__(self, operation: Layer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.operation, self.args, self.kwargs = operation, args, kwargs
        self.outputs: Any = None

    @property
    def inputs(self) -> list[KerasTensor]:
        """The symbolic tensors among the arguments, in order."""
        return [x for x in nest.flatten((self.args, self.kwargs)) if isinstance(x, KerasTensor)]


class KerasHistory(NamedTuple):
    """Where a symbol of a model comes from.

    Attributes:
        operation: the layer, or the operation as a layer.
        node_index: how many calls of it on symbols went before.
        tensor_index: which of the tensors that the call gave.
    """

    operation: Layer
    node_index: int
    tensor_index: int


class NoKerasValueError(NoValueError, ValueError):
    """A symbolic tensor of a model was asked for a value."""


def known_sizes(shape: Any) -> tuple[int | None, ...]:
    """`shape` as a tuple of ints and `None`s.

    Raises:
        ValueError: it is no sequence, or has a size that is neither a whole number nor `None`.
    """
    if isinstance(shape, str) or not hasattr(shape, "__iter__"):
        raise ValueError(f"{shape!r} is no shape; give a sequence of whole numbers and Nones")
    sizes = tuple(shape)
    for n in sizes:
        if n is None:
            continue
        # `int` would read "3" and cut 2.5, which are mistakes of the caller's.
        if isinstance(n, str | float) or not hasattr(n, "__int__") or int(n) < 0:
            raise ValueError(
                f"the shape {sizes} has the size {n!r}; sizes are whole numbers of 0 or more, or "
                "None"
            )
    return tuple(None if n is None else int(n) for n in sizes)


class KerasTensor(SymbolicTensor):
    """A tensor of a model being drawn up: shape and dtype, and where it comes from.

    Layers and operations called on it give further ones. It has no value.

    Args:
        shape: sizes, `None` for those that vary.
        dtype: element type.
        sparse, ragged: must be false.
        record_history: kept as an attribute.
        name: for texts.

    Attributes:
        name: for texts.
        node: the call that made it.

    Example:
        >>> x = tk.layers.KerasTensor((None, 4), dtype="float32")
        >>> tk.layers.Dense(2)(x).shape
        TensorShape([None, 2])
    """

    unknown_sizes_fit = False

    def __init__(
        self,
        shape: Any,
        dtype: Any = "float32",
        sparse: bool = False,
        ragged: bool = False,
        record_history: bool = True,
        name: str | None = None,
    ) -> None:
        if sparse or ragged:
            raise UnimplementedError(
                f"KerasTensor: sparse={sparse}, ragged={ragged}: there are dense tensors only"
            )
        super().__init__(Spec(known_sizes(shape), dtypes.as_dtype(dtype or dtypes.floatx())))
        self.record_history = record_history
        self.name = name or unique_name("keras_tensor")
        self.node: CallNode | None = None

    def apply_layer(self, layer: Layer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Note a call of `layer`; the symbolic results."""
        return _noted(layer, args, kwargs)

    def apply_primitive(
        self, primitive: Any, inputs: tuple[Any, ...], settings: dict[str, Any]
    ) -> Any:
        """Note a call of an operation; the symbolic results."""
        return _noted(PrimitiveCall(primitive.name, settings), inputs, {})

    def apply_function(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Note a call of a function that is one operation; the symbolic results."""
        tensors: list[Any] = []

        def place(leaf: Any) -> Any:
            if not isinstance(leaf, KerasTensor):
                return leaf
            tensors.append(leaf)
            return Place(len(tensors) - 1)

        # Tensors may stand anywhere in the arguments; a node has them in a row, and the rest as it
        # is.
        arguments = nest.map_structure(place, (args, kwargs))
        return _noted(FunctionCall(name, *arguments), tuple(tensors), {})

    @property
    def _keras_history(self) -> KerasHistory:
        """Keras's name for where it comes from; what no layer gave has no such attribute."""
        if self.node is None:
            raise AttributeError(f"{self!r} was given by no layer, so it has no history")
        # `outputs.index(self)` would compare symbols, which is an operation of the model.
        tensor_index = [x is self for x in nest.flatten(self.node.outputs)].index(True)
        return KerasHistory(self.node.operation, self.node.index, tensor_index)

    sparse = property(lambda self: False, doc="Whether it is sparse: never.")
    ragged = property(lambda self: False, doc="Whether it is ragged: never.")

    def reshape(self, newshape: Any) -> Any:
        """The elements in another shape, as `keras.ops.reshape` gives them."""
        return reshape(self, newshape)

    def squeeze(self, axis: Any = None) -> Any:
        """Without axes of size 1, as `keras.ops.squeeze` gives it."""
        return squeeze(self, axis)

    def _no_value(self, usage: str) -> NoKerasValueError:
        return NoKerasValueError(
            f"{usage} needs a value, and {self!r} has none: it stands for data that a model will "
            "be given. Use operations of trainkit.ops on it, or do this step in the call of a "
            "layer."
        )

    def __iter__(self) -> Any:
        raise NotImplementedError(
            f"{self!r} is a symbol of a model, which is not iterated over; take its parts with "
            "ops.unstack, or by index"
        )

    def as_config(self, history: Any = None) -> dict[str, Any]:
        """The symbol as a config has it, with the place in its model that it comes from."""
        config = {"shape": list(self.shape), "dtype": self.dtype.name, "keras_history": history}
        return {"class_name": "__keras_tensor__", "config": config}

    def __repr__(self) -> str:
        shape, dtype = tuple(self.shape), self.dtype.name
        return f"<KerasTensor shape={shape}, dtype={dtype}, name={self.name}>"

    __str__ = __repr__
    __hash__ = object.__hash__


def node_of(layer: Layer, args: Any, kwargs: Any, outputs: Any) -> CallNode:
    """A call that has given `outputs`: those of them that are symbolic get to know it."""
    node = CallNode(layer, args, kwargs)
    node.outputs = outputs
    for x in nest.flatten(outputs):
        if isinstance(x, KerasTensor):
            x.node = node
    # An input layer is called on nothing: what it gives is its `input`, too.
    first = outputs if isinstance(layer, InputLayer) else (args, kwargs)
    node.index = note_symbolic_call(layer, first, outputs)
    return node


DECODERS["__keras_tensor__"] = lambda config, part: KerasTensor(config["shape"], config["dtype"])


def _noted(layer: Layer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    # The node has what the user wrote. Masks are filled in anew whenever the model runs, and only
    # serve here for the shapes.
    node = CallNode(layer, args, kwargs)
    facts = layer._facts
    with_masks = mask_propagation.filled_in(facts, args, kwargs) if facts.mask_names else kwargs
    # Running `call` on shapes builds a layer on the way; a class that says its output skips that.
    if layer._facts.own_output_shape or layer._facts.own_output_spec:
        build_for_symbols(layer, *nest.map_structure(described, (args, with_masks)))
    specs = layer.compute_output_spec(*args, **with_masks)

    def symbol(spec: Any) -> Any:
        if not isinstance(spec, Spec | SymbolicTensor):
            return spec
        tensor = KerasTensor(spec.shape, spec.dtype)
        tensor.node = node
        return tensor

    node.outputs = nest.map_structure(symbol, specs)
    # The number goes into configs, which name a symbol by layer, call and output.
    node.index = note_symbolic_call(layer, (args, kwargs), node.outputs)
    mask_propagation.pass_on(layer, args, with_masks, node.outputs)
    return node.outputs


def _spec_of(argument: Any) -> Spec | None:
    """Shape and dtype of an argument of an operation, `None` of one that is no tensor."""
    if argument is None:
        return None
    if hasattr(argument, "shape") and hasattr(argument, "dtype"):
        return Spec(tuple(argument.shape), dtypes.as_dtype(argument.dtype))
    return Spec((), dtypes.floatx() if isinstance(argument, float) else dtypes.int32)


class PrimitiveCall(Operation):
    """A call of a primitive on symbolic tensors, as an operation of a model.

    Args:
        primitive: its name.
        settings: its keyword settings.
        name: by default that of the operation, numbered.
    """

    settings: dict[str, Any]
    _shown_kind = _kind_in_configs = "Operation"

    def __init__(self, primitive: str, settings: Any = None, name: str | None = None) -> None:
        if find_operation(primitive) is None:
            raise InvalidArgumentError(f"there is no operation {primitive!r}")
        super().__init__(name=name or unique_name(primitive))
        self.primitive = primitive
        set_silently(self, settings=dict(settings or {}))  # as it is: tuples stay hashable

    def call(self, *inputs: Any) -> Any:
        return PRIMITIVES[self.primitive].op(*inputs, **self.settings)

    @property
    def _config_identity(self) -> tuple[str, str, str | None]:
        written = self._as_keras()
        if written is None:
            return ("keras.layers", self._kind_in_configs, None)
        return (written.module, written.kind, None)

    def _as_keras(self) -> Written | None:
        """How Keras calls the operation, `None` if it has none like it."""
        specs = None
        if self._symbolic_call is not None:
            # How Keras calls it can depend on the arguments: a convolution by channel is a class of
            # its own.
            (args, _), *_ = self._symbolic_call
            specs = tuple(map(_spec_of, args))
        return as_keras(self.primitive, self.settings, specs)

    def get_config(self) -> dict[str, Any]:
        settings = {name: _plain(value) for name, value in self.settings.items()}
        return {"name": self.name, "primitive": self.primitive, "settings": settings}

    def written_config(self) -> dict[str, Any]:
        """What stands in the config of a model: what Keras's class is made with, if it has one."""
        written = self._as_keras()
        return self.get_config() if written is None else {"name": self.name, **written.settings}

    def written_args(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments of a call as its config has them."""
        written = self._as_keras()
        return args if written is None else written.arguments(args)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> PrimitiveCall:
        settings = {name: _hashable(value) for name, value in config["settings"].items()}
        return cls(config["primitive"], settings, config.get("name"))


LAYERS.named["Operation"] = PrimitiveCall


class Place:
    """Stands for the input of that number in the arguments that a `FunctionCall` keeps."""

    def __init__(self, number: int) -> None:
        self.number = number


class FunctionCall(PrimitiveCall):
    """A call of a function of `ops` on symbolic tensors, as a layer without weights.

    Args:
        function: its name among `ONE_NODE`.
        args: its arguments, a `Place` for each tensor.
        kwargs: those given by keyword, likewise.
        name: by default that of the function, numbered.
    """

    _kind_in_configs = "FunctionCall"

    def __init__(self, function: str, args: Any, kwargs: Any, name: str | None = None) -> None:
        if function not in ONE_NODE:
            raise InvalidArgumentError(f"there is no function {function!r} that is one operation")
        # Past the __init__ of PrimitiveCall, which looks for a primitive of that name.
        Operation.__init__(self, name or unique_name(function.rpartition(".")[2]))
        self.primitive, self.__dict__["settings"] = "", {}
        self.function = function
        set_silently(self, arguments=(args, kwargs))  # as they are: no containers of parts

    def call(self, *inputs: Any) -> Any:
        args, kwargs = self._arguments_with(inputs)
        return ONE_NODE[self.function](*args, **kwargs)

    def _arguments_with(self, inputs: tuple[Any, ...]) -> Any:
        """The arguments by position and by keyword, with `inputs` in their places."""
        return nest.map_structure(
            lambda x: inputs[x.number] if isinstance(x, Place) else x, self.__dict__["arguments"]
        )

    def _as_keras(self) -> Written | None:
        return call_as_keras(self.function, ONE_NODE[self.function], *self.__dict__["arguments"])

    def written_args(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        call = self._arguments_with(args)
        written = call_as_keras(self.function, ONE_NODE[self.function], *call)
        return args if written is None else written.arguments(args)

    def get_config(self) -> dict[str, Any]:
        args, kwargs = self.__dict__["arguments"]
        return {
            "name": self.name,
            "function": self.function,
            "args": [_written(x) for x in args],
            "kwargs": {key: _written(x) for key, x in kwargs.items()},
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> FunctionCall:
        args = tuple(_read_back(x) for x in config["args"])
        kwargs = {key: _read_back(x) for key, x in config["kwargs"].items()}
        return cls(config["function"], args, kwargs, config.get("name"))


def _written(value: Any) -> Any:
    """An argument as JSON holds it; functions by the names under which they are registered."""
    if isinstance(value, Place):
        return {"input": value.number}
    if isinstance(value, tuple):
        return {"tuple": [_written(item) for item in value]}
    if isinstance(value, list):
        return [_written(item) for item in value]
    # Each dict of the user's is marked, so that none reads as a mark: {"input": 0} is one.
    if isinstance(value, dict):
        return {"dict": {key: _written(item) for key, item in value.items()}}
    if is_tensor(value) or isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        return {"array": array.tolist(), "dtype": dtypes.as_dtype(array.dtype).name}
    return serialize_object(value)


def _read_back(value: Any) -> Any:
    """What `_written` gave, as the argument it was."""
    if isinstance(value, list):
        return [_read_back(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "input" in value:
        return Place(int(value["input"]))
    if "tuple" in value:
        return tuple(_read_back(item) for item in value["tuple"])
    if "dict" in value:
        return {key: _read_back(item) for key, item in value["dict"].items()}
    if "array" in value:
        return convert_to_tensor(value["array"], dtype=value["dtype"])
    return deserialize_object(value)


def _plain(value: Any) -> Any:
    """A setting as JSON holds it."""
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, slice):
        return {"slice": [value.start, value.stop, value.step]}
    if value is Ellipsis:
        return {"ellipsis": True}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"the setting {value!r} of an operation can't be put into a config")


def _hashable(value: Any) -> Any:
    """What `_plain` gave, as the setting it was."""
    # Settings can be hashed, so what JSON has made a list of becomes a tuple again.
    if isinstance(value, list):
        return tuple(_hashable(item) for item in value)
    if isinstance(value, dict):
        return Ellipsis if "ellipsis" in value else slice(*value["slice"])
    return value


def _symbol_for(layer: InputLayer, tensor: KerasTensor | None) -> None:
    """Make `tensor`, or a new symbolic tensor, that of an input layer."""
    symbol = tensor
    if symbol is None:
        symbol = KerasTensor(layer.batch_shape, layer.dtype, name=layer.name)
    symbol.node = CallNode(layer, (), {})
    symbol.node.outputs = symbol
    symbol.node.index = note_symbolic_call(layer, symbol, symbol)


InputLayer._symbol_for = _symbol_for


def symbol_of(layer: InputLayer) -> KerasTensor:
    """The symbolic tensor of an input layer, made when it is asked for the first time."""
    symbol: KerasTensor = layer.output
    return symbol


def Input(
    shape: Any = None,
    batch_size: int | None = None,
    dtype: Any = None,
    sparse: bool | None = None,
    ragged: bool | None = None,
    batch_shape: Any = None,
    name: str | None = None,
    tensor: Any = None,
    optional: bool = False,
) -> KerasTensor:
    """A symbolic tensor that stands for the data a model is given.

    Args:
        shape: of one sample, without the batch axis; `None` for sizes that vary.
        batch_size: size of the batch axis, `None` for any.
        dtype: element type; the default float by default.
        sparse: must be false.
        ragged: must be false.
        batch_shape: shape with the batch axis, instead of `shape`.
        name: of the input; the key in dicts of data.
        tensor: a symbolic tensor, which is given back.
        optional: whether the model may be given `None` in its place.

    Raises:
        InvalidArgumentError: neither of `shape` and `batch_shape` is given, or one of them is no
            tuple or list, or `sparse` or `ragged` is true.

    Example:
        >>> x = tk.layers.Input((4,))
        >>> model = tk.Model(x, tk.layers.Dense(2)(x))
        >>> model.output_shape
        (None, 2)
    """
    if tensor is not None:
        return tensor
    layer = InputLayer(
        shape, batch_size, dtype, sparse, ragged, batch_shape, optional=optional, name=name
    )
    return symbol_of(layer)
