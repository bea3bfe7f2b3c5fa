"""Files of records and of lines, plain or compressed, read piece by piece.

No size that a file states is taken at its word: memory grows with the bytes that are there.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import zlib
from collections.abc import Iterator
from typing import Any

from trainkit.core.errors import DataLossError, InvalidArgumentError, OpError
from trainkit.core.files.readable_files import open_regular
from trainkit.records.framing import header_length, is_intact

COMPRESSIONS = ("", "GZIP", "ZLIB")
MOST_LINE_BYTES = 1 << 28
_PIECE = 1 << 20
_HEAD, _FOOT = 12, 4


def compression_of(compression_type: Any) -> str:
    """`""`, `"GZIP"` or `"ZLIB"`; `None` is the first.

    Raises:
        InvalidArgumentError: it is another.
    """
    kind = getattr(compression_type, "compression_type", compression_type)
    kind = kind.numpy() if hasattr(kind, "numpy") else kind
    kind = kind.decode() if isinstance(kind, bytes) else kind
    compression = "" if kind is None else str(kind).upper()
    if compression not in COMPRESSIONS:
        raise InvalidArgumentError(
            f"compression_type {compression_type!r} is not known; use 'GZIP', 'ZLIB' or ''"
        )
    return compression


class _Inflated(io.RawIOBase):
    """The content of a zlib stream."""

    def __init__(self, file: Any) -> None:
        self.file, self.inflate = file, zlib.decompressobj()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self.inflate.eof:
            source = self.inflate.unconsumed_tail or self.file.read(_PIECE)
            if not source:
                raise EOFError("the stream ends too early")
            part = self.inflate.decompress(source, len(buffer))
            if part:
                buffer[: len(part)] = part
                return len(part)
        return 0

    def close(self) -> None:
        self.file.close()
        super().close()


class _Unzipped(io.RawIOBase):
    """The content of a gzip file, which is closed with this one."""

    def __init__(self, file: Any) -> None:
        self.file, self.content = file, gzip.GzipFile(fileobj=file)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self.content.readinto(buffer)

    def close(self) -> None:
        self.file.close()
        super().close()


def opened(path: Any, compression: str = "", buffer_size: int | None = None) -> Any:
    """A file open for reading its content as bytes.

    Raises:
        NotFoundError: there is no such file.
        InvalidArgumentError: it can't be opened, or is a pipe, a device or a folder.
    """
    ahead = buffer_size if buffer_size and buffer_size > 1 else -1
    file = open_regular(path, buffering=ahead)
    if compression == "ZLIB":
        return io.BufferedReader(_Inflated(file))
    return io.BufferedReader(_Unzipped(file)) if compression == "GZIP" else file


@contextlib.contextmanager
def reading(path: Any, compression: str, buffer_size: int | None = None) -> Iterator[Any]:
    """A file open for reading; what is wrong with its content is a `DataLossError`."""
    file = opened(path, compression, buffer_size)
    try:
        with file:
            yield file
    except OpError:
        raise
    except (EOFError, zlib.error, OSError) as error:
        raise DataLossError(f"{os.fsdecode(path)} is damaged: {error}") from error


def exactly(file: Any, count: int) -> bytes:
    """The next `count` bytes of a file, fewer at its end, without room for more than there are."""
    parts, missing = [], count
    while missing and (part := file.read(min(missing, _PIECE))):
        parts.append(part)
        missing -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def records_of(path: Any, compression: str = "", buffer_size: int | None = None) -> Iterator[bytes]:
    """The records of a TFRecord file.

    Raises:
        DataLossError: a length or a record does not agree with its checksum, or the file is cut.
    """
    with reading(path, compression, buffer_size) as file:
        start = 0
        while head := exactly(file, _HEAD):
            length = header_length(head) if len(head) == _HEAD else None
            if length is None:
                raise DataLossError(f"{os.fsdecode(path)}: no record begins at byte {start}")
            body = exactly(file, length + _FOOT)
            if len(body) < length + _FOOT:
                raise DataLossError(f"{os.fsdecode(path)}: the record at byte {start} is cut short")
            record = body[:length]
            if not is_intact(record, body[length:]):
                raise DataLossError(
                    f"{os.fsdecode(path)}: the record at byte {start} does not agree with its "
                    "checksum"
                )
            yield record
            start += _HEAD + length + _FOOT


def lines_of(path: Any, compression: str = "", buffer_size: int | None = None) -> Iterator[bytes]:
    """The lines of a text file without their ends.

    Raises:
        DataLossError: a line has more than 256 MiB, or the compressed stream is damaged.
    """
    with reading(path, compression, buffer_size) as file:
        while line := file.readline(MOST_LINE_BYTES):
            if len(line) == MOST_LINE_BYTES:
                raise DataLossError(
                    f"{os.fsdecode(path)}: a line has {MOST_LINE_BYTES} bytes or more"
                )
            yield line.removesuffix(b"\n").replace(b"\r", b"")


def pieces_of(
    path: Any,
    size: int,
    header: int = 0,
    footer: int = 0,
    compression: str = "",
    buffer_size: int | None = None,
) -> Iterator[bytes]:
    """The records of a file in which all have `size` bytes, between a header and a footer.

    Raises:
        InvalidArgumentError: what lies between is no whole number of records.
    """
    with reading(path, compression, buffer_size) as file:
        exactly(file, header)
        ahead = exactly(file, footer)
        while piece := exactly(file, size):
            ahead += piece
            if len(piece) < size:
                raise InvalidArgumentError(
                    f"{os.fsdecode(path)}: the last record has {len(piece)} of {size} bytes"
                )
            yield ahead[:size]
            ahead = ahead[size:]
