"""The seal: a header that proves a file to be whole before any of it is interpreted.

A sealed file is HDF5 behind a user block of 512 bytes, which every HDF5 reader skips:

    offset  0  magic, 8 bytes
            8  version, uint32 (1); flags, uint32 (0)
           16  length of the file, uint64
           24  order, uint64: later saves have larger ones; nanoseconds since 1970 where clocks
           allow 32  offset and number of the extents, 2 x uint64
           48  BLAKE2b-256 of all bytes from 512 on that are outside of the extents
           80  BLAKE2b-128 of the rest of this block
           96  a line of text for those who look at the file

An extent, (offset, size) as 2 x uint64, is where a big array's values stand. Those have checksums
of their own, so that reading a checkpoint does not read them twice; the extents come after the HDF5
part. All numbers are little-endian.
"""

from __future__ import annotations

import hashlib
import os
import struct
from dataclasses import dataclass

import numpy as np

from trainkit.checkpoints.positioned import read_at, write_at
from trainkit.core.errors import CheckpointError

BLOCK = 512
MAGIC = b"\x89TKC\r\n\x1a\n"
VERSION = 1
_FIELDS = struct.Struct("<8sIIQQQQ32s")
_TEXT = (
    b"trainkit checkpoint: HDF5 behind a user block of 512 bytes; open it with any HDF5 reader.\n"
)
MAX_EXTENTS = 1 << 20
_STEP = 1 << 20


@dataclass(frozen=True)
class Header:
    """What a seal says of its file.

    Attributes:
        length: bytes of the file.
        order: grows with each save.
        table: offset of the extents.
        extents: how many there are.
        digest: BLAKE2b-256 of what is outside of the extents.
    """

    length: int
    order: int
    table: int
    extents: int
    digest: bytes

    def block(self) -> bytes:
        """The user block."""
        fields = _FIELDS.pack(
            MAGIC, VERSION, 0, self.length, self.order, self.table, self.extents, self.digest
        )
        text = _TEXT.ljust(BLOCK - _FIELDS.size - 16, b"\0")
        return fields + _short(fields + text) + text


def _short(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def write_seal(fd: int, extents: list[tuple[int, int]], order: int) -> None:
    """Seal the HDF5 file, with a user block, that `fd` is open on.

    Args:
        fd: open for reading and writing.
        extents: offset and size of the arrays with checksums of their own.
        order: what `Header.order` shall be.
    """
    table = os.fstat(fd).st_size
    write_at(fd, np.array(sorted(extents), "<u8").tobytes(), table)
    length = table + 16 * len(extents)
    digest = _outer_digest(fd, sorted(extents), length)
    write_at(fd, Header(length, order, table, len(extents), digest).block(), 0)


def _outer_digest(fd: int, extents: list[tuple[int, int]], length: int) -> bytes:
    """BLAKE2b-256 of the bytes from `BLOCK` to `length` that are in no extent."""
    digest = hashlib.blake2b(digest_size=32)
    here = BLOCK
    for offset, size in [*extents, (length, 0)]:
        while here < offset:
            part = read_at(fd, min(_STEP, offset - here), here)
            if not part:
                return b""
            digest.update(part)
            here += len(part)
        here = offset + size
    return digest.digest()


def is_sealed(start: bytes) -> bool:
    """Whether a file that begins with `start` claims to be sealed."""
    return start.startswith(MAGIC)


def read_header(fd: int, name: str) -> Header:
    """The seal of the file that `fd` is open on, with its own digest and the file's length checked.

    Raises:
        CheckpointError: it is damaged, of a later version, or the file has another length.
    """
    block = read_at(fd, BLOCK, 0)
    if len(block) < BLOCK or not is_sealed(block):
        raise CheckpointError(f"{name} is not a trainkit checkpoint, or its beginning is damaged")
    fields, short, text = (
        block[: _FIELDS.size],
        block[_FIELDS.size :][:16],
        block[_FIELDS.size + 16 :],
    )
    if _short(fields + text) != short:
        raise CheckpointError(f"{name} is damaged: its first 512 bytes do not fit their checksum")
    _, version, flags, length, order, table, extents, digest = _FIELDS.unpack(fields)
    if version != VERSION or flags:
        raise CheckpointError(
            f"{name} has format version {version}, this trainkit reads version {VERSION}; update it"
        )
    actual = os.fstat(fd).st_size
    if actual != length:
        what = "cut short" if actual < length else "longer than it was"
        raise CheckpointError(
            f"{name} is damaged: it is {what} ({actual} bytes, saved as {length})"
        )
    return Header(length, order, table, extents, digest)


def verify_seal(fd: int, name: str) -> tuple[Header, list[tuple[int, int]]]:
    """Check all of the file that is outside of the extents.

    Returns:
        The header, and offset and size of the extents.

    Raises:
        CheckpointError: something does not fit the seal.
    """
    header = read_header(fd, name)
    fits = 0 <= header.table and header.table + 16 * header.extents == header.length
    if not fits or header.table < BLOCK or header.extents > MAX_EXTENTS:
        raise CheckpointError(
            f"{name} is damaged: the list of its arrays is not where it should be"
        )
    table = np.frombuffer(read_at(fd, 16 * header.extents, header.table), "<u8").reshape(-1, 2)
    extents = [(int(offset), int(size)) for offset, size in table]
    end = BLOCK
    for offset, size in extents:
        if offset < end or offset + size > header.table:
            raise CheckpointError(f"{name} is damaged: the places of its arrays overlap")
        end = offset + size
    if _outer_digest(fd, extents, header.length) != header.digest:
        raise CheckpointError(f"{name} is damaged: its structure does not fit its checksum")
    return header, extents
