"""Draws that take a state and leave the one behind them: uniform floats, integers of a range.

A state is three words, (counter low, counter high, key); a block of the stream has four.
Source: Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3".
"""

from __future__ import annotations

import numpy as np
from numba import float32, int32, int64, types, uint64

from trainkit.kernels.jit.builders import VECTOR, by_parts
from trainkit.kernels.jit.options import inlined
from trainkit.kernels.random.philox_compiled import (
    BLOCKS,
    LOW,
    fill_blocks,
    high_word,
    lower_float,
    write_pairs,
)
from trainkit.kernels.threads.parallel_for import chunk_range

_STATE, _NEXT = types.Array(uint64, 1, "C", readonly=True), uint64[::1]
_WORD = np.uint64
_HALF = _WORD(32)


@inlined
def _advance(part, state, following, block_count):
    """Write the state after so many blocks; the first part does."""
    if part == 0:
        low = state[0] + block_count
        following[0] = low
        following[1] = state[1] + (_WORD(1) if low < block_count else _WORD(0))
        following[2] = state[2]


@by_parts(_STATE, _NEXT, uint64, float32, float32, VECTOR, exact=True)
def uniform_draw(part, parts, state, following, block_count, scale, offset, result):
    """The upper 24 bits of each half word, as floats in [0, 1), scaled and moved."""
    _advance(part, state, following, block_count)
    words = np.empty(4 * BLOCKS, np.uint64)
    count = (result.size + 1) // 2
    first, last = chunk_range(part, parts, (count + words.size - 1) // words.size, 1)
    for piece in range(first, last):
        start = np.int64(piece) * words.size
        size = min(words.size, count - start)
        fill_blocks(state[0], state[1], state[2], start // 4, (size + 3) // 4, words)
        pairs = min(size, result.size // 2 - start)
        write_pairs(words, pairs, scale, offset, result, start)
        if pairs < size:  # of the last word one half
            result[2 * (start + pairs)] = lower_float(words[pairs]) * scale + offset


def _integer_draw(kind, number):
    """The builder for results of a type of integers."""

    @by_parts(_STATE, _NEXT, uint64, uint64, uint64, kind, exact=True)
    def integer_draw(part, parts, state, following, block_count, width, lowest, result):
        """`lowest` and the upper word of each word times `width`; of 0 the word itself."""
        _advance(part, state, following, block_count)
        words = np.empty(4 * BLOCKS, np.uint64)
        width_low, width_high = width & LOW, width >> _HALF
        first, last = chunk_range(part, parts, (result.size + words.size - 1) // words.size, 1)
        for piece in range(first, last):
            start = np.int64(piece) * words.size
            size = min(words.size, result.size - start)
            fill_blocks(state[0], state[1], state[2], start // 4, (size + 3) // 4, words)
            for i in range(size):
                upper = high_word(words[i], width_low, width_high) if width else words[i]
                result[start + i] = number(upper + lowest)

    return integer_draw


integer_draw = _integer_draw(int64[::1], np.int64)
short_integer_draw = _integer_draw(int32[::1], np.int32)
