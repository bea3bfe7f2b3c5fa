"""Hashes of texts: the same numbers on every machine and in every run, as TensorFlow has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.core.rng import WORD_BITS as _WORD

Array = Any

_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F
_MURMUR = 0xC6A4A7935BD1E995
_START = 0xDECAFCAFFE

State = tuple[int, int, int, tuple[int, int], tuple[int, int]]


def hashed(texts: Array, buckets: int, function: Callable[[bytes], int]) -> Array:
    """The hashes of an array of bytes objects, modulo `buckets`, as int64; each text once."""
    items = texts.ravel().tolist()
    hashes = {text: function(text) % buckets for text in set(items)}
    return np.array([hashes[text] for text in items], np.int64).reshape(texts.shape)


# ---------------------------------------------------------------------- FarmHash


def fingerprint64(text: bytes) -> int:
    """FarmHash's Fingerprint64, behind `tk.strings.to_hash_bucket_fast`.

    Source: Pike and Alakuijala, FarmHash, function farmhashna::Hash64.
    """
    n = len(text)
    if n <= 16:
        return _of_16(text)
    factor = _K2 + 2 * n
    if n <= 32:
        return _join(*_ends(text, _K1, factor), factor)
    if n > 64:
        return _of_many(text)
    y, last = _ends(text, _K2, factor)
    z = _join(y, last, factor)
    e, f = _word(text, 16) * factor, _word(text, 24)
    g, h = (y + _word(text, n - 32)) * factor, (z + _word(text, n - 24)) * factor
    a = _word(text, 0) * _K2
    return _join(_turn(e + f, 43) + _turn(g, 30) + h, e + _turn(f + a, 18) + g, factor)


def _word(text: bytes, at: int) -> int:
    return int.from_bytes(text[at : at + 8], "little")


def _turn(x: int, right: int) -> int:
    x &= _WORD
    return x >> right | x << (64 - right) & _WORD


def _mix(x: int) -> int:
    x &= _WORD
    return x ^ x >> 47


def _join(u: int, v: int, factor: int) -> int:
    a = _mix((u ^ v) * factor)
    return _mix((v ^ a) * factor) * factor & _WORD


def _of_16(text: bytes) -> int:
    n = len(text)
    factor = _K2 + 2 * n
    if n >= 8:
        a, b = _word(text, 0) + _K2, _word(text, n - 8)
        return _join(_turn(b, 37) * factor + a, (_turn(a, 25) + b) * factor, factor)
    if n >= 4:
        first, last = (int.from_bytes(text[i : i + 4], "little") for i in (0, n - 4))
        return _join(n + (first << 3), last, factor)
    if n:
        y, z = text[0] + (text[n >> 1] << 8), n + (text[-1] << 2)
        return _mix(y * _K2 ^ z * _K0) * _K2 & _WORD
    return _K2


def _ends(text: bytes, first: int, factor: int) -> tuple[int, int]:
    """The first and the last 16 bytes as two words."""
    n = len(text)
    a, b = _word(text, 0) * first, _word(text, 8)
    c, d = _word(text, n - 8) * factor, _word(text, n - 16) * _K2
    return _turn(a + b, 43) + _turn(c, 30) + d & _WORD, a + _turn(b + _K2, 18) + c & _WORD


def _of_many(text: bytes) -> int:
    """Blocks of 64 bytes change a state of 56; the last block is the end, so it may overlap."""
    y = 81 * _K1 + 113
    state: State = (81 * _K2 + _word(text, 0), y, _mix(y * _K2 + 113) * _K2, (0, 0), (0, 0))
    tail_size = (len(text) - 1) & 63
    for at in range(0, len(text) - 1 - tail_size, 64):
        state = _block(state, text, at, _K1, 1)
    x, y, z, v, w = state
    factor = _K1 + ((z & 0xFF) << 1)
    v = (v[0] + w[0] + tail_size, v[1])
    w = (w[0] + tail_size + v[0], w[1])
    x, y, z, v, w = _block((x, y, z, v, w), text, len(text) - 64, factor, 9)
    return _join(
        _join(v[0], w[0], factor) + _mix(y) * _K0 + z, _join(v[1], w[1], factor) + x, factor
    )


def _block(state: State, text: bytes, at: int, factor: int, weight: int) -> State:
    """The state after the 64 bytes from `at` on; `weight` is 9 for the last ones, else 1."""
    x, y, z, v, w = state
    x = _turn(x + y + v[0] + _word(text, at + 8), 37) * factor & _WORD
    y = _turn(y + v[1] + _word(text, at + 48), 42) * factor & _WORD
    x ^= w[1] * weight & _WORD
    y += v[0] * weight + _word(text, at + 40)
    z = _turn(z + w[0], 33) * factor & _WORD
    v = _halve(text, at, v[1] * factor, x + w[0])
    w = _halve(text, at + 32, z + w[1], y + _word(text, at + 16))
    return z, y & _WORD, x, v, w


def _halve(text: bytes, at: int, a: int, b: int) -> tuple[int, int]:
    """32 bytes and two seeds as two words."""
    first, second, third, last = (_word(text, at + i) for i in (0, 8, 16, 24))
    a += first
    b, c = _turn(b + a + last, 21), a
    a += second + third
    return a + last & _WORD, b + _turn(a, 44) + c & _WORD


# ---------------------------------------------------------------------- the others


def murmur64(text: bytes) -> int:
    """MurmurHash64A from TensorFlow's start, behind `tk.strings.to_hash_bucket`.

    Source: Appleby, MurmurHash2.
    """
    body_size = len(text) // 8 * 8
    h = _START ^ len(text) * _MURMUR & _WORD
    for at in range(0, body_size, 8):
        k = _word(text, at) * _MURMUR & _WORD
        h = (h ^ _mix(k) * _MURMUR & _WORD) * _MURMUR & _WORD
    if len(text) > body_size:
        h = (h ^ int.from_bytes(text[body_size:], "little")) * _MURMUR & _WORD
    return _mix(_mix(h) * _MURMUR)


def siphash(text: bytes, key: tuple[int, int]) -> int:
    """SipHash-2-4, which can't be foreseen without its key, two words of 64 bits.

    Source: Aumasson and Bernstein 2012, SipHash: a fast short-input PRF.
    """
    a, b = (k & _WORD for k in key)
    v = [a ^ 0x736F6D6570736575, b ^ 0x646F72616E646F6D,
         a ^ 0x6C7967656E657261, b ^ 0x7465646279746573]  # fmt: skip
    padded = text + bytes(7 - len(text) % 8) + bytes([len(text) & 0xFF])
    for at in range(0, len(padded), 8):
        word = _word(padded, at)
        v[3] ^= word
        _rounds(v, 2)
        v[0] ^= word
    v[2] ^= 0xFF
    _rounds(v, 4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def _rounds(v: list[int], count: int) -> None:
    for _ in range(count):
        for i, j, left, turn in ((0, 1, 13, 1), (2, 3, 16, 0), (0, 3, 21, 0), (2, 1, 17, 1)):
            v[i] = v[i] + v[j] & _WORD
            v[j] = _turn(v[j], 64 - left) ^ v[i]
            if turn:
                v[i] = _turn(v[i], 32)


def crossed(words: list[int]) -> int:
    """Fingerprints of several features as one; integers are their own fingerprint."""
    h = _START
    for word in words:
        h = (h ^ _MURMUR) ^ _mix((word & _WORD) * _MURMUR) * _MURMUR & _WORD
        h = _mix(_mix(h * _MURMUR) * _MURMUR)
    return h
