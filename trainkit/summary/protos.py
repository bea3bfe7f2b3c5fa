"""Parts of summary protos, filled in the form that TensorFlow 2 writes and TensorBoard reads."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from trainkit.core.dtypes import PROTO_NUMBERS

STRING_TYPE = PROTO_NUMBERS["string"]
_HELD = [name for name in PROTO_NUMBERS if name != "string"]


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
    if array.dtype.name not in _HELD:
        raise ValueError(
            f"summary {value.tag!r}: data has dtype {array.dtype}, expected one of "
            f"{', '.join(_HELD)}."
        )
    _set_shape(value.tensor, PROTO_NUMBERS[array.dtype.name], array.shape)
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
    """A field of a protocol buffer that holds bytes, a string or a message."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def number_field(number: int, value: int) -> bytes:
    """A field of a protocol buffer that holds a whole number, 0 or more."""
    return varint(number << 3) + varint(value)


def varint(value: int) -> bytes:
    """A whole number, 0 or more, as protocol buffers store it."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
