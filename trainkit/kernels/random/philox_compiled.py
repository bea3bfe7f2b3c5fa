"""Philox4x64-10, and the product of dropout.

Each kernel is there for one core, which also serves arrays that are not worth waking others, and
for all of them; Numba tells cached functions apart by their text, so each has its own.
Source: Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3".
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import boolean, float32, prange, uint64, void

from trainkit.kernels.jit.options import compiled

_WORD = np.uint64
_ZERO, _ONE, _HALF = _WORD(0), _WORD(1), _WORD(32)
_LOW = _WORD(0xFFFFFFFF)
_FIRST, _SECOND = 0xD2E7470EE14C6C93, 0xCA5A826395121157
_A, _A_LOW, _A_HIGH = _WORD(_FIRST), _WORD(_FIRST & 0xFFFFFFFF), _WORD(_FIRST >> 32)
_B, _B_LOW, _B_HIGH = _WORD(_SECOND), _WORD(_SECOND & 0xFFFFFFFF), _WORD(_SECOND >> 32)
_STEPS = [
    (_WORD(i * 0x9E3779B97F4A7C15 % (1 << 64)), _WORD(i * 0xBB67AE8584CAA73B % (1 << 64)))
    for i in range(10)
]
(_K0, _L0), (_K1, _L1), (_K2, _L2), (_K3, _L3), (_K4, _L4) = _STEPS[:5]
(_K5, _L5), (_K6, _L6), (_K7, _L7), (_K8, _L8), (_K9, _L9) = _STEPS[5:]
_FLAGS, _FLOATS, _WORDS = boolean[::1], float32[::1], uint64[::1]
_BLOCKS = 64
"""Blocks of four words that a core takes at a time."""


@numba.njit(inline="always")
def _high(a, low, high):
    """The upper word of a product, by halves: for these LLVM has vectors."""
    a_low, a_high = a & _LOW, a >> _HALF
    middle = a_high * low + ((a_low * low) >> _HALF)
    other = a_low * high + (middle & _LOW)
    return a_high * high + (middle >> _HALF) + (other >> _HALF)


@numba.njit(inline="always")
def _round(c0, c1, c2, c3, k0, k1):
    high0, high1 = _high(c0, _A_LOW, _A_HIGH), _high(c2, _B_LOW, _B_HIGH)
    return high1 ^ c1 ^ k0, c2 * _B, high0 ^ c3 ^ k1, c0 * _A


@numba.njit(inline="always")
def _fill(low, high, key, block, count, words):
    """The four words of each of `count` blocks, from number `block` after (low, high) on.

    The rounds are written out, as LLVM makes vectors of innermost loops alone.
    """
    for i in range(count):
        c0 = low + _WORD(block + i)
        c1 = high + (_ONE if c0 < low else _ZERO)
        c0, c1, c2, c3 = _round(c0, c1, _ZERO, _ZERO, key + _K0, _L0)
        c0, c1, c2, c3 = _round(c0, c1, c2, c3, key + _K1, _L1)
        c0, c1, c2, c3 = _round(c0, c1, c2, c3, key + _K2, _L2)
        c0, c1, c2, c3 = _round(c0, c1, c2, c3, key + _K3, _L3)
        c0, c1, c2, c3 = _round(c0, c1, c2, c3, key + _K4, _L4)
        c0, c1, c2, c3 = _round(c0, c1, c2, c3, key + _K5, _L5)
        c0, c1, c2, c3 = _round(c0, c1, c2, c3, key + _K6, _L6)
        c0, c1, c2, c3 = _round(c0, c1, c2, c3, key + _K7, _L7)
        c0, c1, c2, c3 = _round(c0, c1, c2, c3, key + _K8, _L8)
        c0, c1, c2, c3 = _round(c0, c1, c2, c3, key + _K9, _L9)
        words[4 * i] = c0
        words[4 * i + 1] = c1
        words[4 * i + 2] = c2
        words[4 * i + 3] = c3


@compiled(parallel=False, exact=True)
def _words_piece(low, high, key, words, piece):
    first = piece * _BLOCKS
    count = min(_BLOCKS, words.size // 4 - first)
    _fill(low, high, key, first, count, words[4 * first :])


def words() -> Any:
    """`run(low, high, key, words)`: the stream from block (low, high) on; whole blocks."""

    @compiled(parallel=False, exact=True)
    def run(low, high, key, words):
        for piece in range((words.size + 4 * _BLOCKS - 1) // (4 * _BLOCKS)):
            _words_piece(low, high, key, words, piece)

    run.compile(void(uint64, uint64, uint64, _WORDS))
    return run


def words_by_all() -> Any:
    """`words` on all cores."""

    @compiled(exact=True)
    def run(low, high, key, words):
        for piece in prange((words.size + 4 * _BLOCKS - 1) // (4 * _BLOCKS)):
            _words_piece(low, high, key, words, np.int64(piece))

    run.compile(void(uint64, uint64, uint64, _WORDS))
    return run


def dropped() -> Any:
    """`run(x, kept, scale, result)`: x times `scale` where it is kept, else times 0."""

    @compiled(parallel=False, exact=True)
    def run(x, kept, scale, result):
        for i in range(x.size):
            result[i] = x[i] * (scale if kept[i] else np.float32(0))

    run.compile(void(_FLOATS, _FLAGS, float32, _FLOATS))
    return run


def dropped_by_all() -> Any:
    """`dropped` on all cores."""

    @compiled(exact=True)
    def run(x, kept, scale, result):
        for i in prange(x.size):
            result[i] = x[i] * (scale if kept[i] else np.float32(0))

    run.compile(void(_FLOATS, _FLAGS, float32, _FLOATS))
    return run
