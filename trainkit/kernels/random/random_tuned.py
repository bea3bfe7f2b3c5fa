"""When compiled random bits, uniform floats and products of dropout pay.

They are exact, so a stream of numbers is the same with and without them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core.cpu.cost_model import BYTE_NANOSECONDS
from trainkit.core.rng import WORD_BITS, WORDS_PER_BLOCK
from trainkit.kernels.jit import kernel_family
from trainkit.kernels.jit.kernel_family import BYTE_SECONDS, STEP_SECONDS, owned
from trainkit.kernels.threads.thread_pool import shared

Array = Any

_F32 = np.dtype(np.float32)
WORDS = kernel_family.Family(
    "random_words", "random.philox_compiled", "words", exact=True, alone=True
)
SCALED_FLOATS = kernel_family.Family(
    "random_floats", "random.philox_compiled", "scaled_floats", exact=True, alone=True
)
DROPPED = kernel_family.Family(
    "dropped", "random.philox_compiled", "dropped", exact=True, alone=True
)

WORD_NANOSECONDS = 1.0
"""What a word takes on one core, of which two floats are made."""


def words(key: int, counter: int, count: int) -> Array | None:
    """`count` words of the stream `key` from block `counter` on, or `None` for the plain version.

    Args:
        key: 64-bit number that names the stream.
        counter: 128-bit number of the first block; a block has four words.
        count: how many words.
    """
    run = WORDS.find((), STEP_SECONDS + BYTE_SECONDS * 8 * count)
    if run is None:
        return None
    stream_words = np.empty((count + 3) // 4 * 4, np.uint64)
    work = shared(WORD_NANOSECONDS * count)
    run(*work, counter & WORD_BITS, counter >> 64 & WORD_BITS, key & WORD_BITS, stream_words)
    return stream_words[:count]


def scaled_floats(
    key: int, counter: int, first: int, count: int, scale: float, offset: float
) -> Array | None:
    """Uniform floats of [0, 1) times `scale` plus `offset`, or `None` for the plain version.

    Args:
        key: 64-bit number that names the stream.
        counter: 128-bit number of the block that the half words are counted from.
        first: number of the first half word, of which a block has eight.
        count: how many floats.
        scale: a float32.
        offset: likewise.
    """
    run = SCALED_FLOATS.find((), STEP_SECONDS + BYTE_SECONDS * 8 * count)
    if run is None:
        return None
    block, inside = divmod(first, 2 * WORDS_PER_BLOCK)
    counter += block
    floats = np.empty((inside + count + 1) // 2 * 2, np.float32)
    work = shared(WORD_NANOSECONDS / 2 * count)
    start = counter & WORD_BITS, counter >> 64 & WORD_BITS, key & WORD_BITS
    run(*work, *start, scale, offset, floats)
    # the array itself where all of it is wanted: a view would not own its memory
    return floats if floats.size == count else floats[inside : inside + count]


def dropped(x: Array, keep_mask: Array, scale: float) -> Array | None:
    """`x` times `scale` where `keep_mask`, else times 0; `None` where that is left to NumPy."""
    if x.dtype is not _F32 or x.shape != keep_mask.shape or not x.size:
        return None
    run = DROPPED.find((), BYTE_SECONDS * 2 * x.nbytes)
    if run is None:
        return None
    result = np.empty(x.shape, np.float32)
    flat_arrays = (owned(a).reshape(-1) for a in (x, keep_mask))
    work = shared(BYTE_NANOSECONDS * (2 * x.nbytes + keep_mask.nbytes))
    run(*work, *flat_arrays, np.float32(scale), result.reshape(-1))
    return result
