"""The header, which proves a file to be whole before any of it is interpreted.

A checkpoint is HDF5 behind a user block of 512 bytes, which every HDF5 reader skips:

    offset  0  magic, 8 bytes
            8  version, uint32 (3); flags, uint32 (0)
           16  length of the file, uint64
           24  order, uint64: later saves have larger ones; nanoseconds since 1970 where clocks
               allow
           32  offset and number of the extents, 2 x uint64
           48  bytes of the table of contents (`index.py`) right before the extents, uint64
           56  BLAKE2b-256 of all bytes from 512 on that are outside of the extents
           88  BLAKE2b-128 of the rest of this block
          104  a line of text for those who look at the file

An extent, (offset, size) as 2 x uint64 and a checksum of 16 bytes (`checksum.py`), is where the
values of a big array stand, one of over 64 KiB; they are sorted and do not overlap. With the
checksums here, and not beside each array in the HDF5 part, all bytes of a file are covered,
whatever its structure says. All numbers are little-endian.
"""

from __future__ import annotations

import hashlib
import os
import struct
from dataclasses import dataclass
from typing import NamedTuple

from trainkit.checkpoints.format.checksum import SMALL
from trainkit.checkpoints.format.positioned_io import read_at, write_at
from trainkit.core.errors import CheckpointError

BLOCK = 512
MAGIC = b"\x89TKC\r\n\x1a\n"
VERSION = 3
_FIELDS = struct.Struct("<8sIIQQQQQ32s")
_TEXT = (
    b"trainkit checkpoint: HDF5 behind a user block of 512 bytes; open it with any HDF5 reader.\n"
)
MAX_EXTENTS = 1 << 20
_STEP = 1 << 20
_ENTRY = struct.Struct("<QQ16s")


class Extent(NamedTuple):
    """Where a big array's values stand.

    Attributes:
        offset: of the first byte in the file.
        size: in bytes.
        digest: the checksum, 32 hexadecimal digits.
    """

    offset: int
    size: int
    digest: str


@dataclass(frozen=True)
class Header:
    """What a header says of its file.

    Attributes:
        length: bytes of the file.
        order: grows with each save.
        table: offset of the extents.
        extents: how many there are.
        contents: bytes of the table of contents; 0 when there is none.
        digest: BLAKE2b-256 of what is outside of the extents.
    """

    length: int
    order: int
    table: int
    extents: int
    contents: int
    digest: bytes

    def block(self) -> bytes:
        """The user block."""
        fields = _FIELDS.pack(
            MAGIC,
            VERSION,
            0,
            self.length,
            self.order,
            self.table,
            self.extents,
            self.contents,
            self.digest,
        )
        text = _TEXT.ljust(BLOCK - _FIELDS.size - 16, b"\0")
        return fields + _short(fields + text) + text


def _short(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def write_header(fd: int, extents: list[Extent], order: int, contents: bytes = b"") -> None:
    """Write the header of the HDF5 file, with a user block, that `fd` is open on.

    Args:
        fd: open for reading and writing.
        extents: the big arrays, in any order.
        order: what `Header.order` shall be.
        contents: the table of contents, or nothing.
    """
    write_at(fd, contents, os.fstat(fd).st_size)
    table = os.fstat(fd).st_size
    extents = sorted(extents)
    entries = [_ENTRY.pack(e.offset, e.size, bytes.fromhex(e.digest)) for e in extents]
    write_at(fd, b"".join(entries), table)
    length = table + _ENTRY.size * len(extents)
    digest = _outer_digest(fd, extents, length)
    write_at(fd, Header(length, order, table, len(extents), len(contents), digest).block(), 0)


def _outer_digest(fd: int, extents: list[Extent], length: int) -> bytes:
    """BLAKE2b-256 of the bytes from `BLOCK` to `length` that are in no extent."""
    digest = hashlib.blake2b(digest_size=32)
    position = BLOCK
    for offset, size, _ in [*extents, Extent(length, 0, "")]:
        while position < offset:
            part = read_at(fd, min(_STEP, offset - position), position)
            if not part:
                return b""
            digest.update(part)
            position += len(part)
        position = offset + size
    return digest.digest()


def has_header(start: bytes) -> bool:
    """Whether a file that begins with `start` claims to have a header."""
    return start.startswith(MAGIC)


def read_header(fd: int, name: str) -> Header:
    """The header of the file that `fd` is open on; its digest and the file's length are checked.

    Raises:
        CheckpointError: it is damaged, of a later version, or the file has another length.
    """
    block = read_at(fd, BLOCK, 0)
    if len(block) < BLOCK or not has_header(block):
        raise CheckpointError(f"{name} is not a trainkit checkpoint, or its beginning is damaged")
    fields, short, text = (
        block[: _FIELDS.size],
        block[_FIELDS.size :][:16],
        block[_FIELDS.size + 16 :],
    )
    if _short(fields + text) != short:
        raise CheckpointError(f"{name} is damaged: its first 512 bytes do not fit their checksum")
    _, version, flags, length, order, table, extents, contents, digest = _FIELDS.unpack(fields)
    if version != VERSION or flags:
        raise CheckpointError(
            f"{name} has format version {version}, this trainkit reads version {VERSION}; "
            f"{'update trainkit' if version > VERSION else 'save it again'}"
        )
    actual = os.fstat(fd).st_size
    if actual != length:
        fault = "cut short" if actual < length else "longer than it was"
        raise CheckpointError(
            f"{name} is damaged: it is {fault} ({actual} bytes, saved as {length})"
        )
    return Header(length, order, table, extents, contents, digest)


def verify_header(fd: int, name: str) -> tuple[Header, list[Extent]]:
    """Check all of the file that is outside of the extents.

    Returns:
        The header, and the extents, which don't overlap, in the order of their places.

    Raises:
        CheckpointError: something does not fit the header.
    """
    header = read_header(fd, name)
    fits = 0 <= header.table and header.table + _ENTRY.size * header.extents == header.length
    fits = fits and BLOCK + header.contents <= header.table
    if not fits or header.extents > MAX_EXTENTS:
        raise CheckpointError(
            f"{name} is damaged: the list of its arrays is not where it should be"
        )
    table = read_at(fd, _ENTRY.size * header.extents, header.table)
    table = table[: len(table) // _ENTRY.size * _ENTRY.size]  # what is cut off fails the checksum
    extents = [Extent(o, size, digest.hex()) for o, size, digest in _ENTRY.iter_unpack(table)]
    end = BLOCK
    for offset, size, _ in extents:
        if offset < end or offset + size > header.table - header.contents:
            raise CheckpointError(f"{name} is damaged: the places of its arrays overlap")
        if size <= SMALL:
            raise CheckpointError(
                f"{name} is damaged: it lists {size} bytes as a big array, those have over {SMALL}"
            )
        end = offset + size
    if _outer_digest(fd, extents, header.length) != header.digest:
        raise CheckpointError(f"{name} is damaged: its structure does not fit its checksum")
    return header, extents
