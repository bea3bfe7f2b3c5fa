"""Layers that stand for something else: an input, a function, nothing, a mask."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterable
from types import FunctionType
from typing import Any

import numpy as np

from trainkit import ops, regularizers
from trainkit.core import dtypes, nest
from trainkit.core.config_values import SafeModeScope, described_lambda, function_of
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.registry import CustomObjectScope, deserialize_object
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.values.python_signatures import signature_of
from trainkit.layers.base.layer import Layer
from trainkit.layers.base.output_specs import Replaceable


class InputLayer(Layer):
    """The place where a model's input comes in.

    Args:
        shape: of a sample, without the batch.
        batch_size: of the batch; any by default.
        dtype: element type; the default float if not said.
        sparse, ragged: must be false.
        batch_shape: shape with the batch, in place of `shape`.
        input_tensor: a symbolic tensor that is this input, made by the functional model.
        optional: whether the input may be `None`.
        name: such as `"input_layer"`.

    Raises:
        InvalidArgumentError: neither shape, batch_shape nor a tensor is given, or `sparse` or
        `ragged` is true.

    Example:
        >>> model = tk.Sequential([tk.layers.InputLayer(shape=(4,)), tk.layers.Dense(2)])
        >>> model.output_shape
        (None, 2)
    """

    _symbolic_call: Any

    def __init__(
        self,
        shape: Any = None,
        batch_size: int | None = None,
        dtype: Any = None,
        sparse: bool | None = None,
        ragged: bool | None = None,
        batch_shape: Any = None,
        input_tensor: Any = None,
        optional: bool = False,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        if "input_shape" in kwargs:
            warnings.warn(
                "InputLayer: input_shape is an old name of shape, which is taken; use shape",
                UserWarning,
                stacklevel=2,
            )
            shape = kwargs.pop("input_shape")
        if "batch_input_shape" in kwargs:
            batch_shape = kwargs.pop("batch_input_shape")
        super().__init__(name=name, **kwargs)
        if sparse or ragged:
            raise InvalidArgumentError(
                "InputLayer: sparse and ragged inputs are not supported; only dense ones"
            )
        if shape is not None and batch_shape is not None:
            raise InvalidArgumentError("InputLayer: shape and batch_shape exclude each other")
        if batch_size is not None and batch_shape is not None:
            raise InvalidArgumentError("InputLayer: batch_size and batch_shape exclude each other")
        if shape is not None:
            shape = _sizes("shape", shape)
        if input_tensor is not None:
            shape_settings = {"shape": shape, "batch_shape": batch_shape, "batch_size": batch_size}
            _check_input_tensor(input_tensor, dtype, **shape_settings)
            batch_shape = tuple(input_tensor.shape)
        elif shape is not None:
            batch_shape = (batch_size, *shape)
        if batch_shape is None:
            raise InvalidArgumentError(
                "InputLayer: give the shape of a sample (without the batch), or batch_shape"
            )
        self.batch_shape = _sizes("batch_shape", batch_shape)
        self._dtype = _dtype_name(dtype, input_tensor)
        self.optional = optional
        self.sparse = self.ragged = False
        self.built = True
        if input_tensor is not None and self._symbol_for is not None:
            self._symbol_for(input_tensor)

    _symbol_for: Any = None  # makes the symbolic tensor; set where these are known

    @property
    def output(self) -> Any:
        """The symbolic tensor that stands for the input."""
        if self._symbolic_call is None and self._symbol_for is not None:
            self._symbol_for(None)
        return super().output

    @property
    def input(self) -> Any:
        """The symbolic tensor that stands for the input; it is `output`, too."""
        return self.output

    @Replaceable
    def input_shape(self) -> Any:
        """The shape of the input in a list, as in TensorFlow 2."""
        return [tuple(self.output.shape)]

    output_shape = input_shape

    @property
    def dtype(self) -> str:
        """Name of the element type of the input."""
        return self._dtype

    @property
    def batch_size(self) -> Any:
        """The size of the batch, `None` if any will do."""
        return self.batch_shape[0]

    def call(self, inputs: Any = None) -> Any:
        return inputs

    def get_config(self) -> dict[str, Any]:
        config: dict[str, Any] = {
            "batch_shape": self.batch_shape,
            "dtype": self.dtype,
            "name": self.name,
        }
        return {**config, "sparse": False, "optional": self.optional}


def _check_input_tensor(x: Any, dtype: Any, shape: Any, batch_shape: Any, batch_size: Any) -> None:
    """Refuse what is no symbolic tensor, and settings that contradict it.

    Raises:
        InvalidArgumentError: `x` is none, or a setting does.
    """
    if not isinstance(x, SymbolicTensor):
        raise InvalidArgumentError(f"InputLayer: input_tensor must be a KerasTensor, got {x!r}")
    have = tuple(x.shape)
    settings = {
        "shape": (shape, have[1:]),
        "batch_shape": (None if batch_shape is None else tuple(batch_shape), have),
        "batch_size": (batch_size, have[0] if have else None),
        "dtype": (None if dtype is None else _dtype_name(dtype, None), x.dtype.name),
    }
    for name, (setting, own) in settings.items():
        if setting is not None and setting != own:
            raise InvalidArgumentError(
                f"InputLayer: {name} is {setting!r}, that of input_tensor is {own!r}"
            )


def _sizes(argument: str, shape: Any) -> tuple[Any, ...]:
    """A shape as a tuple of ints and `None`."""
    if isinstance(shape, Iterable) and not isinstance(shape, str | dict):
        sizes = tuple(shape)
        if all(n is None or isinstance(n, int | np.integer) for n in sizes):
            return tuple(None if n is None else int(n) for n in sizes)
    hint = f"; did you mean {argument}=({shape},)?" if isinstance(shape, int) else ""
    raise InvalidArgumentError(
        f"Input: {argument} must be a tuple or list of ints and None, got {shape!r}{hint}"
    )


def _dtype_name(dtype: Any, tensor: Any) -> str:
    if dtype is None and tensor is not None:
        return str(tensor.dtype.name)
    return dtypes.as_dtype(dtype or dtypes.floatx()).name


class Identity(Layer):
    """The input itself.

    Example:
        >>> tk.layers.Identity()(tk.constant([1.0, 2.0])).numpy()
        array([1., 2.], dtype=float32)
    """

    _without_state = True

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, inputs: Any) -> Any:
        return inputs


class _Code:
    """A lambda in the state of a layer: copied as it is, pickled as its code and its module."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __deepcopy__(self, memo: Any) -> _Code:
        return self

    def __reduce__(self) -> Any:
        function = self.function
        return _code_from, (described_lambda(function)["config"], function.__module__)


def _code_from(config: dict[str, Any], module: str) -> _Code:
    return _Code(function_of(config, vars(importlib.import_module(module))))


def _as_code(value: Any) -> Any:
    is_lambda = isinstance(value, FunctionType) and value.__name__ == "<lambda>"
    return _Code(value) if is_lambda else value


def _as_function(value: Any) -> Any:
    return value.function if isinstance(value, _Code) else value


class Lambda(Layer):
    """A function of the input.

    A config names the function; to read one, register the function with
    `register_keras_serializable`, or pass it in `custom_objects`. A function without a name, a
    `lambda`, is stored as its code, which is only read again with `safe_mode=False`.

    Args:
        function: of the input; it may take `training` and `mask`.
        output_shape: shape of a sample of the output, or a function of the input shape; found out
            by itself when not given.
        mask: the output's mask, or a function of inputs and mask.
        arguments: keyword arguments for the function.

    Example:
        >>> tk.layers.Lambda(lambda x: x**2)(tk.constant([1.0, 3.0])).numpy()
        array([1., 9.], dtype=float32)
    """

    _stores_lambdas = True

    def __init__(
        self,
        function: Any,
        output_shape: Any = None,
        mask: Any = None,
        arguments: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not callable(function):
            function = deserialize_object(function)
        self.function = function
        self.mask = mask
        self.arguments = dict(arguments or {})
        if output_shape is not None:
            self._output_shape = output_shape
        self.supports_masking = mask is not None
        names = signature_of(function).parameters
        self._wants_mask = "mask" in names
        self._wants_training = "training" in names

    def __getstate__(self) -> dict[str, Any]:
        """With lambdas, which can't be pickled, as their code; pickles are code anyway."""
        state = super().__getstate__()
        return {name: nest.map_structure(_as_code, value) for name, value in state.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(
            {name: nest.map_structure(_as_function, value) for name, value in state.items()}
        )

    def call(self, inputs: Any, mask: Any = None, training: Any = None) -> Any:
        more = dict(self.arguments)
        if self._wants_mask:
            more["mask"] = mask
        if self._wants_training:
            more["training"] = training
        return self.function(inputs, **more)

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: Any = None, safe_mode: bool | None = None
    ) -> Any:
        """A new layer made by what `get_config` gave.

        Args:
            config: the arguments.
            custom_objects: functions that they may name, by name.
            safe_mode: whether lambdas, which are code, are refused; by default so unless a
                `SafeModeScope` around it says otherwise.
        """
        with CustomObjectScope(custom_objects), SafeModeScope(safe_mode):
            return super().from_config(config)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return self.mask(inputs, mask) if callable(self.mask) else self.mask

    def compute_output_shape(self, *input_shapes: Any, **more: Any) -> Any:
        output_shape = self.__dict__.get("_output_shape")
        if output_shape is None:
            return super().compute_output_shape(*input_shapes, **more)
        if callable(output_shape):
            return tuple(output_shape(*input_shapes))
        return (input_shapes[0][0], *output_shape)


class Masking(Layer):
    """Marks steps whose features all equal `mask_value`: later layers skip them, and they are 0.

    Shapes: input and output (batch, steps, features), mask (batch, steps).

    Args:
        mask_value: what marks a step.

    Example:
        >>> x = tk.constant([[[1.0], [0.0], [2.0]]])
        >>> tk.layers.Masking(mask_value=0.0).compute_mask(x).numpy()
        array([[ True, False,  True]])
    """

    _without_state = True

    def __init__(self, mask_value: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.mask_value = mask_value
        self.supports_masking = True

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return ops.any(ops.not_equal(inputs, self.mask_value), axis=-1)

    def call(self, inputs: Any) -> Any:
        unmasked = ops.any(ops.not_equal(inputs, self.mask_value), axis=-1, keepdims=True)
        return ops.multiply(inputs, ops.cast(unmasked, inputs.dtype))


class ActivityRegularization(Layer):
    """The input itself, with l1 * sum(abs(x)) + l2 * sum(x**2) as a loss.

    Args:
        l1, l2: factors, 0 or more.

    Example:
        >>> layer = tk.layers.ActivityRegularization(l2=0.5)
        >>> y = layer(tk.constant([[1.0, 2.0]]))
        >>> float(layer.losses[0])
        2.5
    """

    _without_state = True

    def __init__(self, l1: float = 0.0, l2: float = 0.0, **kwargs: Any) -> None:
        super().__init__(activity_regularizer=regularizers.L1L2(l1, l2), **kwargs)
        self.l1 = l1
        self.l2 = l2
        self.supports_masking = True

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        config.pop("activity_regularizer", None)
        return config

    def call(self, inputs: Any) -> Any:
        return inputs
