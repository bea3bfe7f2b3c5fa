"""What stands for a tensor while a graph runs, and how one becomes another.

A value is an array where it is known, a `Variable` or a `Tensor`; `Elements` where only some of a
few numbers are known, as in shapes with free sizes; `ChannelsLast` where a tensor of ONNX, whose
channels come first, is here with its channels last; a list where it is a sequence; `None` where an
input was left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core import dtypes
from trainkit.core.dispatch import trace_state
from trainkit.core.errors import InvalidArgumentError, UnimplementedError
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.variable import Variable


class Elements:
    """A small tensor of which each element is a number or a scalar tensor.

    Attributes:
        array: of objects.
        dtype: name of what it stands for.
    """

    __slots__ = ("array", "dtype")

    def __init__(self, array: Any, dtype: str) -> None:
        self.array = array
        self.dtype = dtype


class ChannelsLast:
    """A tensor (batch, channels, spatial...) of ONNX, as (batch, spatial..., channels).

    Attributes:
        tensor: with the channels last.
    """

    __slots__ = ("_first", "_trace", "tensor")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self._first: Tensor | None = None
        self._trace: Any = None

    def first(self) -> Tensor:
        """The tensor as ONNX has it; transposed once in each graph that is traced."""
        trace = trace_state.current_trace()
        if self._first is None or self._trace is not trace:
            self._trace = trace
            self._first = ops.transpose(self.tensor, first_order(len(self.tensor.shape)))
        return self._first


def first_order(count: int) -> tuple[int, ...]:
    """For each of ONNX's `count` axes, where it stands with the channels last."""
    return (0, count - 1, *range(1, count - 1))


def channels_last(value: Any) -> Tensor:
    """A value (batch, channels, spatial...) as a tensor with its channels last."""
    if isinstance(value, ChannelsLast):
        return value.tensor
    x = tensor(value)
    return ops.transpose(x, (0, *range(2, len(x.shape)), 1))


def tensor(value: Any) -> Tensor:
    """A value as a tensor.

    Raises:
        InvalidArgumentError: it was left out, or is a sequence.
    """
    if isinstance(value, Tensor):
        return value
    if isinstance(value, ChannelsLast):
        return value.first()
    if isinstance(value, Elements):
        parts = [ops.cast(x, value.dtype) for x in value.array.ravel()]
        return ops.reshape(ops.stack(parts), value.array.shape)
    if value is None or isinstance(value, list):
        kind = "a sequence" if isinstance(value, list) else "nothing"
        raise InvalidArgumentError(f"an input is {kind}, and has to be a tensor")
    return convert_to_tensor(value)


def known_array(value: Any) -> Any:
    """The array of a value, or `None` where it is not known before the graph runs."""
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, Tensor) and not is_later(value):
        return value.numpy()
    return None


def is_later(x: Any) -> bool:
    """Whether a tensor's value is not known yet: it is of a graph that is being traced."""
    return isinstance(x, SymbolicTensor)


def numbers(value: Any, what: str) -> tuple[int, ...]:
    """A known vector, or scalar, of integers.

    Raises:
        UnimplementedError: its values are not known.
    """
    array = known_array(value)
    if array is None:
        raise UnimplementedError(
            f"{what} depends on values that are known only when the graph runs; that is supported "
            "in eager calls alone"
        )
    return tuple(int(n) for n in np.ravel(array))


def sizes(value: Any) -> Any:
    """A shape as a tuple of ints, and of scalar tensors where sizes are not known."""
    array = known_array(value)
    if array is not None:
        return tuple(int(n) for n in array.ravel())
    if isinstance(value, Elements):
        return tuple(value.array.ravel())
    x = tensor(value)
    count = x.shape[0]
    if count is None:
        raise UnimplementedError("the length of a shape is known only when the graph runs")
    return tuple(x[i] for i in range(count))


def dims(value: Any) -> tuple[int | None, ...]:
    """The shape of a value in ONNX's order, `None` for sizes that are not known."""
    if isinstance(value, ChannelsLast):
        first, *trailing = tuple(value.tensor.shape)
        return (first, trailing[-1], *trailing[:-1])
    if isinstance(value, Elements):
        return tuple(value.array.shape)
    return tuple(value.shape) if hasattr(value, "shape") else tuple(tensor(value).shape)


def rank(value: Any) -> int:
    """The number of axes of a value."""
    return len(dims(value))


def live_sizes(value: Any) -> tuple[Any, ...]:
    """The shape of a value in ONNX's order; scalar tensors for sizes that are not known."""
    if isinstance(value, ChannelsLast):
        first, *trailing = ops.shape(value.tensor)
        return (first, trailing[-1], *trailing[:-1])
    if isinstance(value, Elements):
        return tuple(value.array.shape)
    return tuple(ops.shape(value if isinstance(value, Variable) else tensor(value)))


def dtype_of(value: Any) -> str:
    """The name of the dtype of a value."""
    if isinstance(value, Elements):
        return value.dtype
    if isinstance(value, ChannelsLast):
        value = value.tensor
    return dtypes.as_dtype(value.dtype).name


def objects(elements: Sequence[Any], shape: Sequence[int]) -> Any:
    """An array of numbers and scalar tensors, none of which NumPy looks into."""
    array = np.empty(len(elements), object)
    for i, x in enumerate(elements):
        array[i] = x
    return array.reshape(tuple(shape))


def packed(elements: Any, dtype: str) -> Any:
    """An array of objects as `Elements`, or as an array where all of them are known."""
    if any(isinstance(x, Tensor) for x in elements.ravel()):
        return Elements(elements, dtype)
    return np.array(elements.tolist(), dtypes.as_dtype(dtype).dtype).reshape(elements.shape)


def axis_of(axis: int, count: int) -> int:
    """An axis counted from 0.

    Raises:
        InvalidArgumentError: there is none.
    """
    if not -count <= axis < count:
        raise InvalidArgumentError(f"axis {axis} is none of a tensor with {count} axes")
    return axis % count


def axes_of(axes: Sequence[int], count: int) -> tuple[int, ...]:
    """Axes counted from 0."""
    return tuple(axis_of(int(a), count) for a in axes)
