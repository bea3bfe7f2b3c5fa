"""The checksum of an array's bytes: as fast as memory is read, and sure to notice accidents.

Up to 64 KiB it is BLAKE2b with a digest of 16 bytes. Longer data is cut into chunks of 512 rows of
1031 little-endian 64-bit words (the last row filled up with zeros); the rows of a chunk are summed
modulo 2**64, column by column, and the digest is BLAKE2b of the length and of all these sums, in
order.

One changed word always changes a sum, and 1031 shares no factor with a page, so that exchanged or
repeated pages do too. It guards against damage, not against forgery.
Source for BLAKE2: RFC 7693. For sums as checksums: Fletcher 1982, "An arithmetic checksum for
serial transmissions".
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

SMALL = 1 << 16
WORDS = 1031
_ROWS = 512
CHUNK = _ROWS * WORDS * 8
PART = CHUNK
"""Bytes to read and sum at a time: few calls, and two threads' buffers stay in the cache."""
_WORD = np.dtype("<u8")

Sums = list[Any]
"""Arrays of column sums, uint64."""


class Checksum:
    """A digest that is fed with consecutive parts of the data.

    Args:
        size: length of all the data in bytes; it decides how the digest is made.
    """

    def __init__(self, size: int) -> None:
        self._small = size <= SMALL
        self._hash = hashlib.blake2b(
            b"" if self._small else size.to_bytes(8, "little"), digest_size=16
        )

    def update(self, part: Any) -> None:
        """Take the next `part`, uint8 (n,); n is a multiple of `CHUNK` but in the last one."""
        if self._small:
            self._hash.update(part)
            return
        for sums in sums_of(part):
            self._hash.update(sums)

    def update_sums(self, sums: Sums) -> None:
        """Take `sums_of` the next part instead of the part; not for small data."""
        for each in sums:
            self._hash.update(each)

    def hexdigest(self) -> str:
        """The digest, 32 hexadecimal digits."""
        return self._hash.hexdigest()


def sums_of(part: Any) -> Sums:
    """What of `part`, uint8 (n,), goes into the digest; n as for `Checksum.update`."""
    chunk_count = part.size // CHUNK
    sums = []
    if chunk_count:  # many chunks in one call: threads wait for each other between calls
        rows = part[: chunk_count * CHUNK].view(_WORD).reshape(chunk_count, _ROWS, WORDS)
        sums.append(np.add.reduce(rows, axis=1))
    tail = part[chunk_count * CHUNK :]
    if tail.size:
        sums.append(_column_sums(tail, np.empty(WORDS, _WORD)))
    return sums


def _column_sums(chunk: Any, out: Any) -> Any:
    """Sums of the columns of `chunk`, uint8 (n,), as rows of words."""
    row_count = chunk.size // (8 * WORDS)
    rows = chunk[: row_count * 8 * WORDS].view(_WORD).reshape(row_count, WORDS)
    np.add.reduce(rows, axis=0, out=out)
    tail = chunk[row_count * 8 * WORDS :]
    if tail.size:
        last = np.zeros(8 * WORDS, np.uint8)
        last[: tail.size] = tail
        np.add(out, last.view(_WORD), out=out)
    return out


def as_bytes(array: Any) -> Any:
    """The bytes of a contiguous array as uint8 (n,), without a copy."""
    return array.reshape(-1).view(np.uint8) if array.size else np.empty(0, np.uint8)


def checksum(array: Any) -> str:
    """The digest of a contiguous NumPy array's bytes, 32 hexadecimal digits."""
    data = as_bytes(array)
    digest = Checksum(data.size)
    digest.update(data)
    return digest.hexdigest()
