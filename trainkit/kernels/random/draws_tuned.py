"""Draws of whole arrays by one kernel each, which leaves the state behind them too.

They are exact: a stream of numbers is the same with and without them.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from trainkit.core.rng import WORD_BITS, WORDS_PER_BLOCK
from trainkit.core.shapes import bounded
from trainkit.kernels.jit.kernel_family import BYTE_SECONDS, STEP_SECONDS, Family
from trainkit.kernels.random.random_tuned import WORD_NANOSECONDS
from trainkit.kernels.threads.thread_pool import shared

Array = Any

_F32, _I32, _I64, _U64 = map(np.dtype, (np.float32, np.int32, np.int64, np.uint64))
_FILE = "random.draws_compiled"
UNIFORM = Family("uniform_draw", _FILE, "uniform_draw", exact=True, alone=True)
_INTEGERS = Family("integer_draw", _FILE, "integer_draw", exact=True, alone=True)
_SHORT_INTEGERS = Family("short_integer_draw", _FILE, "short_integer_draw", exact=True, alone=True)
# arrays: NumPy takes its own numbers as slowly as it makes arrays of them
_ONE, _MINUS_TWO, _TURN = (np.array(number, _F32) for number in (1, -2, 2 * np.pi))


@lru_cache(maxsize=1024)
def _float_plan(dims: tuple[int, ...]) -> tuple[int, int, float]:
    """How many floats an array has, the blocks that they take, and seconds without a kernel."""
    bounded("random numbers", *dims)
    count = math.prod(dims)
    # Each word of 64 bits gives two floats. A draw of nothing moves the counter on as well.
    block_count = max(1, -(-count // (2 * WORDS_PER_BLOCK)))
    return count, block_count, STEP_SECONDS + BYTE_SECONDS * 8 * count


def uniform(
    state: Array, dims: tuple[int, ...], scale: float, offset: float
) -> tuple[Array, Array] | None:
    """float32 of [0, 1) times `scale` plus `offset`, and the next state; or `None`.

    Args:
        state: three words, (counter low, counter high, key).
        dims: sizes of the result.
        scale: a float32.
        offset: likewise.
    """
    count, block_count, seconds = _float_plan(dims)
    run = UNIFORM.find((), seconds)
    if run is None or not state.flags.c_contiguous:
        return None
    floats, following = np.empty(dims, _F32), np.empty(3, _U64)
    work = shared(WORD_NANOSECONDS / 2 * count)
    run(*work, state, following, block_count, scale, offset, floats.reshape(-1))
    return floats, following


def normal(state: Array, dims: tuple[int, ...]) -> tuple[Array, Array] | None:
    """float32 of the standard normal distribution, and the next state; or `None`.

    By NumPy's own functions, as the plain version, so that all bits are its; but written where
    there is room already.
    """
    count = _float_plan(dims)[0]
    pair_count = (count + 1) // 2
    draws = uniform(state, (2, pair_count), 1.0, 0.0)
    if draws is None:
        return None
    floats, following = draws
    radius, angle = floats[0], floats[1]
    normals = np.empty(dims if count == 2 * pair_count and dims else 2 * pair_count, _F32)
    halves = normals.reshape(2, pair_count)
    cosine, sine = halves[0], halves[1]
    np.subtract(_ONE, radius, radius)
    np.log(radius, radius)
    np.multiply(_MINUS_TWO, radius, radius)
    np.sqrt(radius, radius)
    np.multiply(_TURN, angle, angle)
    np.cos(angle, cosine)
    np.sin(angle, sine)
    # one after the other: both at once would be a broadcast, which takes as long as four
    np.multiply(radius, cosine, cosine)
    np.multiply(radius, sine, sine)
    if normals.shape != dims:
        normals = normals[:count].reshape(dims)
    return normals, following


def integers(
    state: Array, dims: tuple[int, ...], low: int, high: int, dtype: Any
) -> tuple[Array, Array] | None:
    """Whole numbers in [low, high) as a dtype that holds them, and the next state; or `None`.

    Args:
        state: three words, (counter low, counter high, key).
        dims: sizes of the result.
        low: the least one.
        high: above the greatest one.
        dtype: of integers.
    """
    count, _, seconds = _float_plan(dims)
    family, kind = (_SHORT_INTEGERS, _I32) if dtype is _I32 else (_INTEGERS, _I64)
    run = family.find((), seconds)
    if run is None or not state.flags.c_contiguous:
        return None
    numbers, following = np.empty(dims, kind), np.empty(3, _U64)
    work = shared(WORD_NANOSECONDS * count)
    width, lowest = (high - low) & WORD_BITS, low & WORD_BITS  # a width of 2**64 is 0
    block_count = max(1, -(-count // WORDS_PER_BLOCK))
    run(*work, state, following, block_count, width, lowest, numbers.reshape(-1))
    return numbers.astype(dtype, copy=False), following
