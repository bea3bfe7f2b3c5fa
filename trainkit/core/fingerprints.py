"""Hashes of texts: the same numbers on every machine and in every run, as TensorFlow has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainkit.core.rng import WORD_BITS as _WORD

_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F
_MURMUR = 0xC6A4A7935BD1E995
_START = 0xDECAFCAFFE

Word = Callable[..., Any]
State = tuple[int, int, int, tuple[int, int], tuple[int, int]]


# ---------------------------------------------------------------------- FarmHash


def fingerprint64(text: bytes) -> int:
    """FarmHash's Fingerprint64, behind `tk.strings.to_hash_bucket_fast`.

    Source: Pike and Alakuijala, FarmHash, function farmhashna::Hash64.
    """

    def word(at: int, count: int = 8) -> int:
        return int.from_bytes(text[at : at + count], "little")

    for longest, formula in FORMULAS:
        if len(text) <= longest:
            return int(formula(word, len(text))) & _WORD
    return _of_many(text)


def _word(text: bytes, at: int) -> int:
    return int.from_bytes(text[at : at + 8], "little")


def _turn(x: Any, right: int) -> Any:
    x = x & _WORD
    return x >> right | x << (64 - right) & _WORD


def _mix(x: Any) -> Any:
    x = x & _WORD
    return x ^ x >> 47


def _join(u: Any, v: Any, factor: Any) -> Any:
    a = _mix((u ^ v) * factor)
    return _mix((v ^ a) * factor) * factor & _WORD


# Formulas of texts of some lengths `n`, of which `word(at, count)` reads bytes. Both may be arrays
# of uint64, which wrap by themselves.


def _of_few(word: Word, n: Any) -> Any:
    """Of 1 to 3 bytes."""
    y, z = word(0, 1) + (word(n >> 1, 1) << 8), n + (word(n - 1, 1) << 2)
    return _mix(y * _K2 ^ z * _K0) * _K2


def _of_4_to_7(word: Word, n: Any) -> Any:
    """Of 4 to 7 bytes."""
    return _join(n + (word(0, 4) << 3), word(n - 4, 4), _K2 + 2 * n)


def _of_8_to_16(word: Word, n: Any) -> Any:
    """Of 8 to 16 bytes."""
    factor = _K2 + 2 * n
    a, b = word(0) + _K2, word(n - 8)
    return _join(_turn(b, 37) * factor + a, (_turn(a, 25) + b) * factor, factor)


def _of_17_to_32(word: Word, n: Any) -> Any:
    """Of 17 to 32 bytes."""
    factor = _K2 + 2 * n
    return _join(*_ends(word, n, _K1, factor), factor)


def _of_33_to_64(word: Word, n: Any) -> Any:
    """Of 33 to 64 bytes."""
    factor = _K2 + 2 * n
    y, last = _ends(word, n, _K2, factor)
    z = _join(y, last, factor)
    e, f = word(16) * factor, word(24)
    g, h = (y + word(n - 32)) * factor, (z + word(n - 24)) * factor
    a = word(0) * _K2
    return _join(_turn(e + f, 43) + _turn(g, 30) + h, e + _turn(f + a, 18) + g, factor)


def _of_none(word: Word, n: Any) -> int:
    return _K2


FORMULAS = (
    (0, _of_none), (3, _of_few), (7, _of_4_to_7), (16, _of_8_to_16), (32, _of_17_to_32),
    (64, _of_33_to_64),
)  # fmt: skip
"""The greatest length, and the formula of texts that are no longer, but for the ones before."""


def _ends(word: Word, n: Any, first: int, factor: Any) -> tuple[Any, Any]:
    """The first and the last 16 bytes as two words."""
    a, b = word(0) * first, word(8)
    c, d = word(n - 8) * factor, word(n - 16) * _K2
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
    one, two = _join(v[0], w[0], factor), _join(v[1], w[1], factor)
    return int(_join(one + _mix(y) * _K0 + z, two + x, factor))


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
    return int(_mix(_mix(h) * _MURMUR))


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
