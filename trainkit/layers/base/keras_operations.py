"""Operations in the configs of functional models that Keras wrote, as calls of functions of `ops`.

Keras has a class for each operation, such as `keras.src.ops.numpy.Multiply`; here the function of
that name is called. It is only called on symbols, so that a config makes no arrays by itself; or on
scalars, where it gives one: the size of a tensor is a number here where all of its sizes are known.
"""

from __future__ import annotations

import functools
from typing import Any

from trainkit import ops
from trainkit.core import nest
from trainkit.core.errors import ConfigError
from trainkit.core.registry import FOREIGN
from trainkit.core.tensor import Tensor
from trainkit.layers.base.keras_tensor import KerasTensor, PrimitiveCall

_MODULE = "keras.src.ops."
_PLACES = ("", "nn", "numpy", "linalg", "image")
_OF_SCALARS = frozenset(
    "Absolute Add Cast Divide Exp FloorDivide Log Maximum Minimum Mod Multiply Negative Power "
    "Reciprocal Rsqrt Sqrt Square Subtract TrueDivide".split()
)


class KerasOperation:
    """A function of `ops` with settings, to be called on symbols.

    Args:
        function: of `ops`.
        settings: its other arguments by name.
        name: of the operation in the model.
        kind: of the class in Keras.
    """

    def __init__(self, function: Any, settings: dict[str, Any], name: str, kind: str) -> None:
        self.function, self.settings, self.name, self.kind = function, settings, name, kind

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        operands = nest.flatten((args, kwargs))
        has_symbol = any(isinstance(x, KerasTensor) for x in operands)
        if not has_symbol and not (self.kind in _OF_SCALARS and all(map(_is_scalar, operands))):
            raise ConfigError(f"the config calls {self.name!r} on no tensor of the model")
        try:
            outputs = self.function(*args, **self.settings, **kwargs)
        except TypeError as error:
            raise ConfigError(f"the operation {self.name!r} can't be called: {error}") from error
        # Only a call that is one operation can take the name of the config; a function made of
        # several has given each its own, and its last node is not the whole.
        node = outputs.node if isinstance(outputs, KerasTensor) else None
        if node is not None and type(node.operation) is PrimitiveCall:
            node.operation.name = self.name
        return outputs


def _is_scalar(x: Any) -> bool:
    return isinstance(x, int | float) or (isinstance(x, Tensor) and x.shape.rank == 0)


def _einsum(*operands: Any, subscripts: Any) -> Any:
    return ops.einsum(subscripts, *operands)


def _pad(x: Any, constant_values: Any = None, *, pad_width: Any, mode: str = "constant") -> Any:
    return ops.pad(x, pad_width, mode, constant_values)


def _item(x: Any, key: Any) -> Any:
    """A part of a tensor; JSON has made a list of the tuple of positions."""
    return x[tuple(key) if isinstance(key, list) else key]


_NAMED_OTHERWISE = {
    "GetItem": _item,
    "Einsum": _einsum,
    "Pad": _pad,
    "BatchNorm": lambda x, mean, variance, offset=None, scale=None, *, axis, epsilon=0.001: (
        ops.batch_normalization(x, mean, variance, axis, offset, scale, epsilon)
    ),
    "LayerNorm": ops.layer_normalization,
    "RMSNorm": ops.rms_normalization,
}


def _found(config: dict[str, Any]) -> KerasOperation | None:
    """The operation of a config, if it is one of Keras's."""
    module, kind = config.get("module"), config.get("class_name")
    if not (isinstance(module, str) and module.startswith(_MODULE) and isinstance(kind, str)):
        return None
    function = _NAMED_OTHERWISE.get(kind) or _function(kind)
    settings = config.get("config")
    if function is None or not isinstance(settings, dict):
        return None
    settings = {key: _tuples(value) for key, value in settings.items()}
    name = str(settings.pop("name", kind))
    settings.pop("dtype" if settings.get("dtype") is None else "", None)
    return KerasOperation(function, settings, name, kind)


# Each operation of a file asks for its function, so the search is made once; bounded, since the
# names come from files.
@functools.lru_cache(1000)
def _function(kind: str) -> Any:
    plain_name = kind.lower()
    for namespace in _PLACES:
        space = getattr(ops, namespace, None) if namespace else ops
        for name in getattr(space, "__all__", None) or dir(space or ()):
            if name.replace("_", "") == plain_name:
                function = getattr(space, name)
                if callable(function) and not isinstance(function, type):
                    return function
    return None


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


FOREIGN.append(_found)
