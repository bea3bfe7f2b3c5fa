"""Tensors of an ONNX file as arrays; those in another file stay inside the folder of the first."""

from __future__ import annotations

import math
import os
import stat
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from trainkit.core import dtypes
from trainkit.core.errors import DataLossError, UnimplementedError
from trainkit.core.files.folder_descent import OPEN_FLAGS
from trainkit.saved_graph.onnx.onnx_messages import ELEMENT_TYPES, OUTSIDE

_NAMES = {number: name for name, number in ELEMENT_TYPES.items()}
_OTHER_TYPES = {
    0: "no type", 8: "text", 14: "complex64", 15: "complex128", 17: "float8e4m3fn",
    18: "float8e4m3fnuz", 19: "float8e5m2", 20: "float8e5m2fnuz", 23: "float4e2m1",
    24: "float8e8m0", 25: "uint2", 26: "int2",
}  # fmt: skip
TEXT = 8
"""ONNX's number of text, which few operators take; the others name it."""

HALF_BYTES = {21: "uint8", 22: "int8"}
"""The numbers of ONNX's integers of four bits, and the dtypes that hold them here."""

_FIELDS = {
    "float32": "float_data", "float64": "double_data", "int64": "int64_data",
    "uint64": "uint64_data", "uint32": "uint64_data",
}  # fmt: skip
_MOST_AXES = 32
_MOST_SHARED = 4  # tied weights may lie in one place
_AT_ONCE = getattr(os, "O_NONBLOCK", 0)
_BITS = 8


def dtype_name(number: int, what: str) -> str:
    """trainkit's name of the element type with this number.

    Raises:
        UnimplementedError: there is none.
    """
    name = _NAMES.get(number) or HALF_BYTES.get(number)
    if name is None:
        supported = ", ".join(ELEMENT_TYPES)
        raise UnimplementedError(
            f"{what} is of {_OTHER_TYPES.get(number, f'element type {number}')}, which is not "
            f"supported; {supported}, uint4 and int4 are"
        )
    return name


def array_from(message: Any, folder: ExternalFolder, file: str) -> Any:
    """The array in a `TensorProto` of a file that nobody vouches for; it may not be written to.

    Raises:
        UnimplementedError: its element type is not supported.
        DataLossError: its values do not fill its shape, or lie outside of the folder or the file.
    """
    label = f"onnx.load: {file}: the tensor {message.name!r}"
    is_text = message.data_type == TEXT
    name = "string" if is_text else dtype_name(message.data_type, label)
    shape = tuple(message.dims)
    if len(shape) > _MOST_AXES or min(shape, default=0) < 0:
        raise DataLossError(f"{label} has the shape {shape[: _MOST_AXES + 1]}, which no tensor has")
    if is_text:
        return _texts(message, shape, label)
    count, dtype = math.prod(shape), dtypes.as_dtype(name).dtype
    is_half = message.data_type in HALF_BYTES
    size = (count + 1) // 2 if is_half else count * dtype.itemsize
    if message.data_location == OUTSIDE:
        values = np.frombuffer(folder.read(message.external_data, size, label), np.uint8)
    elif message.HasField("raw_data"):
        values = np.frombuffer(message.raw_data, np.uint8)
    else:
        return _list(message, name, count, label, is_half).reshape(shape)
    if values.size != size:
        raise DataLossError(
            f"{label} has {values.size} bytes, and a {name} tensor of shape {shape} has {size}"
        )
    if is_half:
        return _halves(values, count, name).reshape(shape)
    stored = dtype.newbyteorder("<") if dtype.kind in "iuf" else dtype
    # as `dtype` itself: kernels ask whether an array's is the one that they know
    return values.view(stored).astype(dtype, copy=False).view(dtype).reshape(shape)


def _list(message: Any, name: str, count: int, label: str, is_half: bool) -> Any:
    """The values that stand one by one in the message; 16-bit floats stand there as their bits."""
    values = getattr(message, _FIELDS.get(name, "int32_data"))
    needed = (count + 1) // 2 if is_half else count
    if len(values) != needed:
        raise DataLossError(f"{label} has {len(values)} values, and its shape asks for {needed}")
    dtype = dtypes.as_dtype(name).dtype
    field = _FIELDS.get(name, "int32_data")
    field_dtypes = {"float_data": np.float32, "double_data": np.float64, "int32_data": np.int32}
    kind = field_dtypes.get(field, np.uint64 if field == "uint64_data" else np.int64)
    array = np.fromiter(values, kind, len(values))
    if is_half:
        return _halves(array.astype(np.uint8), count, name)
    if name in ("float16", "bfloat16"):
        return array.astype(np.uint16).view(dtype)
    return array.astype(dtype, copy=False)


def _texts(message: Any, shape: tuple[int, ...], label: str) -> Any:
    """Text, whose bytes stand one by one in the message, and nowhere else."""
    items = list(message.string_data)
    if len(items) != math.prod(shape) or message.data_location == OUTSIDE:
        raise DataLossError(
            f"{label} has {len(items)} texts, and its shape asks for {math.prod(shape)}"
        )
    array = np.empty(len(items), object)
    array[:] = items
    return array.reshape(shape)


def _halves(values: Any, count: int, name: str) -> Any:
    """The integers of four bits in bytes, the lower half of each first."""
    pairs = np.stack([values & 0xF, values >> 4], axis=-1).ravel()[:count]
    if name == "uint8":
        return pairs
    return ((pairs ^ 8).astype(np.int8) - 8).astype(np.int8)


class ExternalFolder:
    """The folder of an ONNX file, where values of its tensors may lie in other files."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._asked: Counter[str] = Counter()

    def read(self, entries: Iterable[Any], size: int, what: str) -> bytes:
        """The bytes of a tensor.

        Raises:
            DataLossError: there are not as many, they are not inside the folder, or the tensors of
                the file ask for the same bytes over and over.
        """
        facts = {entry.key: entry.value for entry in entries}
        location = facts.get("location", "")
        offset = _whole(facts.get("offset", "0"), "offset", what)
        length = _whole(facts.get("length", str(size)), "length", what)
        if length != size:
            raise DataLossError(f"{what} has {length} bytes in {location!r}, and needs {size}")
        fd = _open_inside(self._path, location, what)
        try:
            total = os.fstat(fd).st_size
            if offset + length > total:
                raise DataLossError(
                    f"{what} ends at byte {offset + length} of {location!r}, which has {total}; "
                    "copy the whole file"
                )
            self._asked[location] += length
            if self._asked[location] > _MOST_SHARED * total:
                raise DataLossError(
                    f"{what} is one of several that share bytes of {location!r}: they ask for "
                    f"{self._asked[location]} bytes of its {total}, and {_MOST_SHARED} times as "
                    "many are read at most"
                )
            with os.fdopen(os.dup(fd), "rb") as file:
                file.seek(offset)
                return file.read(length)
        finally:
            os.close(fd)


def _whole(text: str, key: str, label: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise DataLossError(f"{label}: the {key} {text!r} of its external data is no number")
    return int(text)


def _open_inside(folder: str, location: str, label: str) -> int:
    """The descriptor of a regular file in the folder or below it, reached without a link.

    Raises:
        DataLossError: there is none under this name.
    """
    parts = location.split("/")
    if not location or "\\" in location or "\0" in location or ":" in location or (
        any(part in ("", "..") for part in parts)
    ):  # fmt: skip
        raise DataLossError(
            f"{label} is in {location!r}, which is no path below the folder of the file; external "
            "data has to lie beside it"
        )
    path = folder
    for part in parts:
        path = os.path.join(path, part)
        if os.path.islink(path):
            raise DataLossError(f"{label} is in {location!r}, which is reached by a link; copy it")
    try:
        fd = os.open(path, os.O_RDONLY | OPEN_FLAGS | _AT_ONCE)
    except OSError as error:
        raise DataLossError(
            f"{label} is in {location!r}, which can't be read: {error.strerror}; it belongs beside "
            "the file"
        ) from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise DataLossError(f"{label} is in {location!r}, which is no regular file")
    return fd
