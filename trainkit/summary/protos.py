"""Parts of summary protos, filled in the form that TensorFlow 2 writes and TensorBoard reads."""

from collections.abc import Sequence
from typing import Any

import numpy as np

# tensorboardX's and TensorFlow's numbers of element types (DataType in types.proto)
DATA_TYPES = {
    "float32": 1,
    "float64": 2,
    "int32": 3,
    "uint8": 4,
    "int16": 5,
    "int8": 6,
    "complex64": 8,
    "int64": 9,
    "bool": 10,
    "bfloat16": 14,
    "uint16": 17,
    "complex128": 18,
    "float16": 19,
    "uint32": 22,
    "uint64": 23,
}
STRING_TYPE = 7


def set_metadata(
    value: Any, plugin: str, content: bytes = b"", description: str | None = None
) -> None:
    """Say which dashboard shows a value, and its description, in Markdown."""
    value.metadata.plugin_data.plugin_name = plugin
    value.metadata.plugin_data.content = content
    if description is not None:
        value.metadata.summary_description = description


def set_numbers(value: Any, array: np.ndarray) -> None:
    """Make an array of numbers the content of a value.

    Raises:
        ValueError: the dtype cannot be stored.
    """
    if array.dtype.name not in DATA_TYPES:
        raise ValueError(
            f"summary {value.tag!r}: data has dtype {array.dtype}, expected one of "
            f"{', '.join(DATA_TYPES)}."
        )
    _set_shape(value.tensor, DATA_TYPES[array.dtype.name], array.shape)
    value.tensor.tensor_content = array.tobytes()


def set_strings(value: Any, strings: Sequence[bytes], shape: Sequence[int]) -> None:
    """Make strings, in row-major order of an array of that shape, the content of a value."""
    _set_shape(value.tensor, STRING_TYPE, shape)
    value.tensor.string_val.extend(strings)


def _set_shape(tensor: Any, data_type: int, shape: Sequence[int]) -> None:
    tensor.dtype = data_type
    tensor.tensor_shape.SetInParent()  # a tensor without axes still has a known shape
    for size in shape:
        tensor.tensor_shape.dim.add().size = size


def message_field(number: int, content: bytes) -> bytes:
    """A field of a protocol buffer that holds bytes, a string or a message.

    Args:
        number: of the field.
        content: serialized.
    """
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(value: int) -> bytes:
    """A whole number, 0 or more, as protocol buffers store it."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
