"""Files as `flax.serialization.to_bytes` writes them, made without Flax."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np


def _sized(code: int, data: bytes) -> bytes:
    return bytes([code]) + struct.pack(">I", len(data)) + data


def packed(value: Any) -> bytes:
    """A value as MessagePack has it: a dict, list, text, byte string, number or None.

    Args:
        value: with arrays as in `flax_bytes`.
    """
    if value is None or isinstance(value, bool):
        return {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[value]
    if isinstance(value, int):
        return bytes([value]) if 0 <= value < 128 else b"\xd3" + struct.pack(">q", value)
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, str):
        data = value.encode()
        return bytes([0xA0 + len(data)]) + data if len(data) < 32 else _sized(0xDB, data)
    if isinstance(value, bytes):
        return _sized(0xC6, value)
    if isinstance(value, dict):
        entries = b"".join(packed(key) + packed(item) for key, item in value.items())
        return bytes([0x80 + len(value)]) + entries
    if isinstance(value, tuple):
        return bytes([0x90 + len(value)]) + b"".join(map(packed, value))
    return extension(value)


def extension(value: Any) -> bytes:
    """An array, a NumPy scalar or a complex number as Flax has it.

    Args:
        value: one of these.
    """
    if isinstance(value, complex) and not isinstance(value, np.generic):
        kind, data = 2, packed((value.real, value.imag))
    else:
        kind = 1 if isinstance(value, np.ndarray) else 3
        data = packed((tuple(np.shape(value)), value.dtype.name, value.tobytes()))
    return bytes([0xC9]) + struct.pack(">Ib", len(data), kind) + data


def flax_bytes(tree: Any, chunk_size: int = 1 << 30) -> bytes:
    """The bytes of a tree of arrays, as `flax.serialization.to_bytes` gives them.

    Args:
        tree: dicts and lists of arrays, numbers, texts and None.
        chunk_size: arrays of more bytes are cut.
    """

    def prepared(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: prepared(item) for key, item in value.items()}
        if isinstance(value, list):
            return {str(number): prepared(item) for number, item in enumerate(value)}
        if isinstance(value, np.ndarray) and value.nbytes > chunk_size:
            count = chunk_size // value.itemsize
            flat = value.reshape(-1)
            chunks = [flat[at : at + count] for at in range(0, flat.size, count)]
            return {
                "__msgpack_chunked_array__": True,
                "shape": prepared(list(value.shape)),
                "chunks": prepared(chunks),
            }
        return value

    return packed(prepared(tree))
