"""Arrays as TensorProtos, the messages that summaries and TensorBoard's plugins hold, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core import dtypes
from trainkit.core.dtypes import PROTO_NUMBERS
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import convert_to_tensor
from trainkit.core.values.type_aliases import DTypeLike
from trainkit.records.tensor_messages import message_of

_BY_NUMBER = {number: name for name, number in PROTO_NUMBERS.items()}
# Fields that hold a value each: bits of halves as ints, parts of complex numbers in turns.
_FIELDS = {
    "float32": "float_val", "float64": "double_val", "int64": "int64_val", "bool": "bool_val",
    "string": "string_val", "complex64": "scomplex_val", "complex128": "dcomplex_val",
    "float16": "half_val", "bfloat16": "half_val", "uint32": "uint32_val", "uint64": "uint64_val",
}  # fmt: skip


def make_tensor_proto(
    values: Any,
    dtype: DTypeLike | None = None,
    shape: Any = None,
    verify_shape: bool = False,
    allow_broadcast: bool = False,
) -> Any:
    """A TensorProto with the values of an array, a list or a tensor.

    Args:
        values: numbers or texts.
        dtype: element type; by default that of the values.
        shape: sizes that the values are brought to: they have as many elements, or one for all.
        verify_shape: whether the values must have `shape` as they are.
        allow_broadcast: whether fewer values than `shape` has may be broadcast to it.

    Raises:
        ValueError: the values do not fit the shape.

    Example:
        >>> proto = tk.make_tensor_proto([[1.0, 2.0]])
        >>> tk.make_ndarray(proto)
        array([[1., 2.]], dtype=float32)
    """
    array = np.asarray(convert_to_tensor(values).numpy())
    if dtype is not None:
        array = np.asarray(convert_to_tensor(values, dtype).numpy())
    if shape is not None:
        array = _shape(array, tuple(int(n) for n in shape), verify_shape, allow_broadcast)
    return message_of(array)


def _shape(array: Any, shape: tuple[int, ...], verify: bool, broadcast: bool) -> Any:
    if array.shape == shape:
        return array
    count = int(np.prod(shape))
    if not verify and (array.size == count or array.size == 1):
        return (
            array.reshape(shape)
            if array.size == count
            else np.full(shape, array.item(), array.dtype)
        )
    if broadcast and not verify:
        return np.broadcast_to(array, shape)
    raise ValueError(f"make_tensor_proto: values of shape {array.shape} do not fit {shape}")


def make_ndarray(tensor: Any) -> Any:
    """The array that a TensorProto holds; texts as an array of bytes objects.

    Args:
        tensor: the message, of TensorBoard's, tensorboardX's or TensorFlow's classes.

    Raises:
        InvalidArgumentError: its dtype is none that tensors have, or it holds more or fewer values
            than its shape says.

    Example:
        >>> tk.make_ndarray(tk.make_tensor_proto([1, 2])).tolist()
        [1, 2]
    """
    name = _BY_NUMBER.get(tensor.dtype)
    if name is None:
        raise InvalidArgumentError(f"make_ndarray: the dtype number {tensor.dtype} is not known")
    shape = tuple([dim.size for dim in tensor.tensor_shape.dim])
    count, dtype = int(np.prod(shape)), dtypes.as_dtype(name).dtype
    values = _content(tensor, name, dtype)
    if values.size == 1 and count > 1:  # one for all
        values = np.repeat(values, count)
    if values.size == 0 and count and not tensor.tensor_content:
        values = np.full(count, b"" if name == "string" else 0, dtype)
    if values.size != count:
        raise InvalidArgumentError(
            f"make_ndarray: the message has {values.size} values for the shape {shape}"
        )
    return values.reshape(shape)


def _content(tensor: Any, name: str, dtype: Any) -> Any:
    if tensor.tensor_content and name != "string":
        data = bytes(tensor.tensor_content)
        full_size = len(data) - len(data) % dtype.itemsize
        values = np.frombuffer(data[:full_size], dtype.newbyteorder("<"))
        return values.astype(dtype)
    items = list(getattr(tensor, _FIELDS.get(name, "int_val")))
    if name in ("float16", "bfloat16"):
        return np.array(items, np.uint16).view(dtype)
    if name.startswith("complex"):
        return np.array(items, np.float64).view(np.complex128).astype(dtype)
    values = np.empty(len(items), dtype)
    values[:] = items
    return values
