"""Tensors as messages: TensorFlow's `TensorProto`, to bytes and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core.dtypes import PROTO_NUMBERS, as_dtype
from trainkit.core.errors import DataLossError, InvalidArgumentError
from trainkit.core.values.text_arrays import text_array

_NAMES = {number: name for name, number in PROTO_NUMBERS.items()}
_FIELDS = {
    "float32": "float_val", "float64": "double_val", "int32": "int_val", "uint8": "int_val",
    "int16": "int_val", "int8": "int_val", "uint16": "int_val", "int64": "int64_val",
    "bool": "bool_val",
}  # fmt: skip


def packed(array: Any) -> bytes:
    """An array of numbers or of texts as the bytes of a message."""
    data: bytes = message_of(array).SerializeToString()
    return data


def message_of(array: Any) -> Any:
    """An array of numbers or of texts as a TensorProto."""
    # Imported where it is used: tensorboardX looks for PyTorch, which takes seconds to load.
    from tensorboardX.proto.tensor_pb2 import TensorProto

    name = as_dtype(array.dtype).name
    message = TensorProto(dtype=PROTO_NUMBERS[name])
    message.tensor_shape.SetInParent()  # a tensor without axes still has a known shape
    for size in array.shape:
        message.tensor_shape.dim.add().size = size
    if name == "string":
        message.string_val.extend(array.ravel().tolist())
    else:
        message.tensor_content = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    return message


def unpacked(data: bytes) -> Any:
    """The array in the bytes of a message.

    Raises:
        DataLossError: the bytes are no such message, or its values do not fill its shape.
    """
    from google.protobuf.message import DecodeError
    from tensorboardX.proto.tensor_pb2 import TensorProto

    try:
        message = TensorProto.FromString(data)
    except DecodeError as error:
        raise DataLossError(f"the bytes are no serialized tensor: {error}") from None
    name = _NAMES.get(message.dtype)
    if name is None or message.tensor_shape.unknown_rank:
        raise DataLossError(f"the bytes hold a tensor of type {message.dtype}, which is not known")
    shape = tuple(int(dim.size) for dim in message.tensor_shape.dim)
    values = _values(message, name)
    element_count = 1
    for size in shape:
        element_count *= size
    if min(shape, default=0) < 0 or len(values) != element_count:
        raise DataLossError(
            f"the bytes hold {len(values)} values for a tensor of shape {shape}; one value for "
            "many elements is not supported"
        )
    return values.reshape(shape)


def _values(message: Any, name: str) -> Any:
    if name == "string":
        return text_array(list(message.string_val))
    dtype = as_dtype(name).dtype
    content = message.tensor_content
    if content:
        if len(content) % dtype.itemsize:
            raise DataLossError(f"{len(content)} bytes are no whole number of {name} values")
        return np.frombuffer(content, dtype).copy()
    if name in _FIELDS:
        try:
            return np.array(list(getattr(message, _FIELDS[name])), dtype)
        except OverflowError as error:
            raise DataLossError(f"the values do not fit {name}: {error}") from None
    return np.empty(0, dtype)


def checked(array: Any, out_type: Any) -> Any:
    """`array`, if it has the type that was asked for.

    Raises:
        InvalidArgumentError: it has another.
    """
    expected_dtype, dtype = as_dtype(out_type), as_dtype(array.dtype)
    if expected_dtype != dtype:
        raise InvalidArgumentError(
            f"parse_tensor: the tensor has dtype {dtype.name}, not {expected_dtype.name}"
        )
    return array
