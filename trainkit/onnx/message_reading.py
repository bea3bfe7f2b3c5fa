"""From the bytes of an ONNX file to its messages, with bounds on what they may ask for.

A protocol buffer of two bytes can stand for an object of a hundred. So the parts of a file are
counted, and their nesting and lengths are looked at, before the messages are made.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

from trainkit.core.errors import DataLossError, InvalidArgumentError
from trainkit.core.files.readable_files import open_regular
from trainkit.saved_graph.onnx.onnx_messages import ModelProto

LARGEST_FILE = 1 << 31  # bytes; a protocol buffer has no more
MOST_PARTS = 4_000_000  # of a few hundred bytes of memory each
DEEPEST = 90  # messages in messages, about thirty graphs in graphs
_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5
_FIXED = {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}
_LONGEST_NUMBER = 10  # bytes


def read_model(path: str | os.PathLike[str]) -> tuple[Any, str]:
    """The `ModelProto` of a file, and the name of the file for errors.

    Raises:
        NotFoundError: there is no such file.
        InvalidArgumentError: it is no regular file, or has more than 2 GB.
        DataLossError: it is no ONNX file, or is damaged.
    """
    label = repr(os.fspath(path))
    with open_regular(path, "ONNX file") as file:
        size = os.fstat(file.fileno()).st_size
        if size >= LARGEST_FILE:
            raise InvalidArgumentError(
                f"onnx.load: {label} has {size} bytes, and an ONNX file has less than 2 GB; store "
                "its weights as external data"
            )
        data = file.read(size)
    return parsed_model(data, label), label


def parsed_model(data: bytes, label: str) -> Any:
    """The `ModelProto` in these bytes.

    Raises:
        DataLossError: they are none, or ask for more than the bounds.
    """
    from google.protobuf.message import DecodeError

    try:
        _check_parts(memoryview(data), ModelProto.DESCRIPTOR)
        model = ModelProto.FromString(data)
    except (_Malformed, DecodeError) as error:
        raise DataLossError(
            f"onnx.load: {label} is no ONNX file, or is damaged: {error}; write it again"
        ) from None
    if not model.HasField("graph"):
        raise DataLossError(f"onnx.load: {label} is no ONNX file: it has no graph")
    return model


class _Malformed(Exception):
    pass


def _check_parts(view: memoryview, kind: Any) -> None:
    """Go through all messages in `view`, of the kind of message described by `kind`."""
    waiting = [(0, len(view), kind, 0)]
    count = 0
    while waiting:
        at, end, kind, depth = waiting.pop()
        inner, texts = _fields(kind)
        while at < end:
            count += 1
            if count > MOST_PARTS:
                raise _Malformed(f"it has more than {MOST_PARTS:,} parts")
            tag, at = _number(view, at, end)
            wire_type = tag & 7
            if wire_type == _VARINT:
                _, at = _number(view, at, end)
            elif wire_type in _FIXED:
                at += _FIXED[wire_type]
            elif wire_type == _BYTES:
                size, at = _number(view, at, end)
                part = inner.get(tag >> 3)
                if part is not None:
                    if depth == DEEPEST:
                        raise _Malformed(f"its messages are nested more than {DEEPEST} deep")
                    if size <= end - at:
                        waiting.append((at, at + size, part, depth + 1))
                elif tag >> 3 in texts:
                    _check_text(view[at : min(at + size, end)])
                at += size
            else:
                raise _Malformed(f"byte {at} has a part of the unknown type {wire_type}")
            if at > end:
                raise _Malformed(f"a part ends at byte {at}, and the message around it at {end}")


@lru_cache(maxsize=64)
def _fields(kind: Any) -> tuple[dict[int, Any], frozenset[int]]:
    """The numbers of the fields of a message that are messages, and of those that are texts."""
    inner = {f.number: f.message_type for f in kind.fields if f.message_type is not None}
    return inner, frozenset(f.number for f in kind.fields if f.type == f.TYPE_STRING)


def _check_text(view: memoryview) -> None:
    try:
        str(view, "utf-8")
    except UnicodeDecodeError:
        raise _Malformed(f"the name {bytes(view[:40])!r} is no text") from None


def _number(view: memoryview, at: int, end: int) -> tuple[int, int]:
    """The number that begins at byte `at`, seven bits a byte, and where it ends."""
    value = 0
    for index in range(_LONGEST_NUMBER):
        if at >= end:
            break
        byte = view[at]
        at += 1
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, at
    raise _Malformed(f"a number before byte {at} does not end")
