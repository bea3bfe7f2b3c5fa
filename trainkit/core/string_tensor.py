"""`StringTensor`: tensors of text, which stay on the CPU and take no part in arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trainkit.core import devices, dtypes
from trainkit.core.dispatch import trace_state
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import STRING_TENSORS, Tensor, wrap
from trainkit.core.values.text_arrays import OBJECTS, as_text

_CALLS = "control flow"
"""The kind of operations that call functions, graphs or Python's, on what they are given."""


class StringTensor(Tensor):
    """A tensor whose elements are texts, given as bytes.

    Its array has NumPy's object dtype, since a text may hold any bytes. Operations that move
    elements, `==`, `!=` and `+`, which joins, take it; `tk.strings` and `tk.io` do the rest.
    """

    __slots__ = ()

    def apply_primitive(
        self, primitive: Any, inputs: tuple[Any, ...], settings: dict[str, Any]
    ) -> Any:
        """The result of an operation with this tensor among its inputs.

        Raises:
            InvalidArgumentError: the operation is none for text.
        """
        text = primitive.facets.text
        if not text:
            raise InvalidArgumentError(
                f"{primitive.name}: takes numbers, an input is a string tensor of shape "
                f"{tuple(self.shape)}; see tk.strings, such as tk.strings.to_number"
            )
        if text == "alone":
            _check_texts(primitive.name, inputs)
        if any(isinstance(x, SymbolicTensor) for x in inputs):
            return trace_state.current_trace().apply(primitive, inputs, settings)
        arrays = [x._array if isinstance(x, Tensor) else x for x in inputs]
        return string_results(run_beside_text(primitive, arrays, settings))

    def _on(self, where: Any) -> Tensor:
        return self  # devices other than the CPU have no text


def _check_texts(name: str, inputs: tuple[Any, ...]) -> None:
    numbers = [x for x in inputs if isinstance(x, Tensor) and x.dtype is not dtypes.string]
    if numbers:
        raise InvalidArgumentError(
            f"{name}: one input is text, another has dtype {numbers[0].dtype.name}; see "
            "tk.strings.to_number and tk.strings.as_string"
        )


def string_tensor(array: Any) -> StringTensor:
    """A tensor on an array of bytes objects, which must never be written to again."""
    tensor = StringTensor()
    tensor._array = array
    return tensor


def run_beside_text(primitive: Any, arrays: Sequence[Any], settings: dict[str, Any]) -> Any:
    """A kernel's result on text and numbers: it runs on the CPU, its numbers go where others are.

    Args:
        primitive: the operation; what calls functions, as control flow does, gets arrays as they
            are.
        arrays: its inputs, some of them text.
        settings: the other arguments.
    """
    if primitive.facets.semantics.name == _CALLS:
        return _each(as_text, primitive.run(arrays, settings))
    host = [devices.to_numpy(x) if hasattr(x, "dtype") else x for x in arrays]
    return _each(_place, primitive.run(host, settings))


def _each(function: Any, result: Any) -> Any:
    return tuple(map(function, result)) if isinstance(result, tuple) else function(result)


def _place(result: Any) -> Any:
    """Text as it is, numbers on the current device."""
    array = as_text(result)
    if getattr(array, "dtype", None) == OBJECTS:
        return array
    return devices.to_device(np.asarray(array), devices.current())


def string_results(result: Any) -> Any:
    """A kernel's result as tensors: text or numbers, one or a tuple of them."""
    if isinstance(result, tuple):
        return tuple(string_results(item) for item in result)
    array = as_text(result)
    if getattr(array, "dtype", None) == OBJECTS:
        return string_tensor(np.asarray(array))
    return wrap(array if hasattr(array, "dtype") else np.asarray(array))  # a GPU's stays there


STRING_TENSORS.append(string_tensor)
