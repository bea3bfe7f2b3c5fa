"""Philox4x64-10, uniform floats of its words, and the product of dropout.

Source: Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3".
"""

from __future__ import annotations

import numba
import numpy as np
from numba import boolean, float32, uint64

from trainkit.core.cpu.cost_model import PAGE
from trainkit.kernels.jit.builders import VECTOR, by_parts
from trainkit.kernels.threads.parallel_for import chunk_range

_WORD = np.uint64
_ZERO, _ONE, _HALF = _WORD(0), _WORD(1), _WORD(32)
LOW = _WORD(0xFFFFFFFF)
_FIRST, _SECOND = 0xD2E7470EE14C6C93, 0xCA5A826395121157
_A, _A_LOW, _A_HIGH = _WORD(_FIRST), _WORD(_FIRST & 0xFFFFFFFF), _WORD(_FIRST >> 32)
_B, _B_LOW, _B_HIGH = _WORD(_SECOND), _WORD(_SECOND & 0xFFFFFFFF), _WORD(_SECOND >> 32)
_STEPS = [
    (_WORD(i * 0x9E3779B97F4A7C15 % (1 << 64)), _WORD(i * 0xBB67AE8584CAA73B % (1 << 64)))
    for i in range(10)
]
(_K0, _L0), (_K1, _L1), (_K2, _L2), (_K3, _L3), (_K4, _L4) = _STEPS[:5]
(_K5, _L5), (_K6, _L6), (_K7, _L7), (_K8, _L8), (_K9, _L9) = _STEPS[5:]
_FLAGS, _WORDS = boolean[::1], uint64[::1]
BLOCKS = PAGE // 64
"""Blocks of four words that are made at a time: half a page."""
_UNIT = np.float32(1.0 / (1 << 24))
_UPPER = _WORD(40)
_BYTE = _WORD(8)


@numba.njit(inline="always")
def high_word(a, low, high):
    """The upper word of a product, by halves: for these LLVM has vectors."""
    a_low, a_high = a & LOW, a >> _HALF
    middle = a_high * low + ((a_low * low) >> _HALF)
    other = a_low * high + (middle & LOW)
    return a_high * high + (middle >> _HALF) + (other >> _HALF)


@numba.njit(inline="always")
def _round(c0, c1, c2, c3, k0, k1):
    high0, high1 = high_word(c0, _A_LOW, _A_HIGH), high_word(c2, _B_LOW, _B_HIGH)
    return high1 ^ c1 ^ k0, c2 * _B, high0 ^ c3 ^ k1, c0 * _A


@numba.njit(inline="always")
def fill_blocks(low, high, key, block, count, words):
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


# By way of integers of 32 bits, for which all processors have vectors.
@numba.njit(inline="always")
def lower_float(word):
    """The upper 24 bits of the lower half of a word, as a float in [0, 1)."""
    return np.float32(np.int32((word & LOW) >> _BYTE)) * _UNIT


@numba.njit(inline="always")
def _upper_float(word):
    """The same of the upper half."""
    return np.float32(np.int32(word >> _UPPER)) * _UNIT


@numba.njit(inline="always")
def write_pairs(words, count, scale, offset, result, start):
    """The two floats of each of `count` words, scaled and moved, from pair `start` on."""
    for i in range(count):
        result[2 * (start + i)] = lower_float(words[i]) * scale + offset
        result[2 * (start + i) + 1] = _upper_float(words[i]) * scale + offset


@by_parts(uint64, uint64, uint64, _WORDS, exact=True)
def words(part, parts, low, high, key, words):
    """The stream from block (low, high) on; whole blocks."""
    pieces = (words.size // 4 + BLOCKS - 1) // BLOCKS
    first, last = chunk_range(part, parts, pieces, 1)
    for piece in range(first, last):
        start = np.int64(piece) * BLOCKS
        count = min(BLOCKS, words.size // 4 - start)
        fill_blocks(low, high, key, start, count, words[4 * start :])


@by_parts(uint64, uint64, uint64, float32, float32, VECTOR, exact=True)
def scaled_floats(part, parts, low, high, key, scale, offset, result):
    """The upper 24 bits of each half word of the stream, as floats in [0, 1), scaled and moved.

    `result` has an even number of elements. The words stay in the cache.
    """
    words = np.empty(4 * BLOCKS, np.uint64)
    count = result.size // 2
    first, last = chunk_range(part, parts, (count + words.size - 1) // words.size, 1)
    for piece in range(first, last):
        start = np.int64(piece) * words.size
        size = min(words.size, count - start)
        fill_blocks(low, high, key, start // 4, (size + 3) // 4, words)
        write_pairs(words, size, scale, offset, result, start)


@by_parts(VECTOR, _FLAGS, float32, VECTOR, exact=True)
def dropped(part, parts, x, keep_mask, scale, result):
    """The product of x and `scale` where it is kept, else of x and 0."""
    first, last = chunk_range(part, parts, x.size, 16)
    for i in range(first, last):
        result[i] = x[i] * (scale if keep_mask[i] else np.float32(0))
