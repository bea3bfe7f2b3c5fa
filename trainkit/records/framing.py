"""Records: each payload between its length and checksums, the framing of TFRecord files.

    8 bytes  length of the payload, little endian
    4 bytes  masked CRC-32C of those 8 bytes
    n bytes  the payload
    4 bytes  masked CRC-32C of the payload

The checksum is the polynomial of Castagnoli, as in RFC 3720; masked means turned right by 15
bits, plus a constant. A CRC is linear: it is the exclusive or of what each byte contributes, which
depends on the byte and on how many bytes follow it. So one table lookup for all bytes of many short
payloads, then one exclusive or for each, do in NumPy what a loop over bytes does far more slowly.
"""

import functools
import struct
from collections.abc import Iterator, Sequence

import numpy as np

CASTAGNOLI = 0x82F63B78
BLOCK_BYTES = 256
BLOCKS_AT_ONCE = 4096
MASK_DELTA = 0xA282EAD8
ALL_ONES = 0xFFFFFFFF


@functools.cache
def _tables() -> tuple[np.ndarray, np.ndarray]:
    """Contributions of a byte, by number of bytes after it, and of the start value, by length.

    Returns:
        `followed`, uint32 of shape (256 bytes after it, 256 values), and `start`, uint32 of shape
        (257,): what the initial register of ones becomes after that many zero bytes.
    """
    one = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        one = np.where(one & 1, one >> 1 ^ np.uint32(CASTAGNOLI), one >> 1)
    followed = np.empty((BLOCK_BYTES, 256), np.uint32)
    followed[0] = one
    start = np.empty(BLOCK_BYTES + 1, np.uint32)
    start[0] = ALL_ONES
    for i in range(BLOCK_BYTES):
        if i:
            followed[i] = one[followed[i - 1] & 255] ^ followed[i - 1] >> 8
        start[i + 1] = one[start[i] & 255] ^ start[i] >> 8
    return followed, start


def crc32c(data: bytes) -> int:
    """CRC-32C of some bytes."""
    if len(data) <= BLOCK_BYTES:
        return _crcs_of_short([data])[0] if data else 0
    followed, _ = _tables()
    head = len(data) % BLOCK_BYTES
    register = crc32c(data[:head]) ^ ALL_ONES
    # the register of one block passes through the next like its first four bytes
    a, b, c, d = (followed[BLOCK_BYTES - 1 - i].tolist() for i in range(4))
    for block in _block_contributions(data[head:]):
        register = (
            block
            ^ a[register & 255]
            ^ b[register >> 8 & 255]
            ^ c[register >> 16 & 255]
            ^ d[register >> 24]
        )
    return register ^ ALL_ONES


def _block_contributions(data: bytes) -> Iterator[int]:
    """What each block of data, whose length is a whole number of blocks, adds to the register."""
    followed, _ = _tables()
    after = np.arange(BLOCK_BYTES - 1, -1, -1)
    blocks = np.frombuffer(data, np.uint8).reshape(-1, BLOCK_BYTES)
    for i in range(0, len(blocks), BLOCKS_AT_ONCE):
        contributions = followed[after, blocks[i : i + BLOCKS_AT_ONCE]]
        yield from np.bitwise_xor.reduce(contributions, axis=1).tolist()


def _crcs_of_short(payloads: Sequence[bytes]) -> list[int]:
    """CRC-32C of each payload, none of them empty or longer than a block."""
    followed, start = _tables()
    lengths = np.array([len(payload) for payload in payloads])
    ends = np.cumsum(lengths)
    data = np.frombuffer(b"".join(payloads), np.uint8)
    after = np.repeat(ends, lengths) - np.arange(1, len(data) + 1)
    registers = np.bitwise_xor.reduceat(followed[after, data], ends - lengths) ^ start[lengths]
    return (registers ^ ALL_ONES).tolist()


def _mask(crc: int) -> int:
    return ((crc >> 15 | crc << 17) + MASK_DELTA) & ALL_ONES


@functools.lru_cache(maxsize=4096)
def _header(length: int) -> bytes:
    size = struct.pack("<Q", length)
    return size + struct.pack("<I", _mask(crc32c(size)))


def framed(payloads: Sequence[bytes]) -> bytes:
    """The records of some payloads, one after the other."""
    short = [payload for payload in payloads if 0 < len(payload) <= BLOCK_BYTES]
    short_crcs = iter(_crcs_of_short(short) if short else ())
    parts: list[bytes] = []
    for payload in payloads:
        is_short = 0 < len(payload) <= BLOCK_BYTES
        crc = next(short_crcs) if is_short else crc32c(payload)
        parts += (_header(len(payload)), payload, struct.pack("<I", _mask(crc)))
    return b"".join(parts)


def header_length(head: bytes) -> int | None:
    """The length of the payload that the 12 bytes before it state; `None` if they are damaged."""
    length, check = struct.unpack("<QI", head)
    return int(length) if _mask(crc32c(head[:8])) == check else None


def is_intact(payload: bytes, foot: bytes) -> bool:
    """Whether the 4 bytes behind a payload are its checksum."""
    return foot == struct.pack("<I", _mask(crc32c(payload)))
