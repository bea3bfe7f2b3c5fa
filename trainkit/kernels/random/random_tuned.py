"""When compiled random bits and products of dropout pay.

They are exact, so a stream of numbers is the same with and without them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.kernels.jit import kernel_family
from trainkit.kernels.jit.kernel_family import owned

Array = Any

_F32 = np.dtype(np.float32)
WORDS = kernel_family.Family(
    "random_words", "random.philox_compiled", "words", exact=True, alone=True
)
WORDS_BY_ALL = kernel_family.Family(
    "random_words_by_all", "random.philox_compiled", "words_by_all", exact=True
)
DROPPED = kernel_family.Family(
    "dropped", "random.philox_compiled", "dropped", exact=True, alone=True
)
DROPPED_BY_ALL = kernel_family.Family(
    "dropped_by_all", "random.philox_compiled", "dropped_by_all", exact=True
)

MANY_WORDS, MANY_FLOATS = 1 << 14, 1 << 17
"""From these sizes on all cores take part."""
_WORD = np.uint64
_LOW = (1 << 64) - 1


def words(key: int, counter: int, count: int) -> Array | None:
    """`count` words of the stream `key` from block `counter` on, or `None` for the plain version.

    Args:
        key: 64-bit number that names the stream.
        counter: 128-bit number of the first block; a block has four words.
        count: how many words.
    """
    family = WORDS if count < MANY_WORDS else WORDS_BY_ALL
    run = family.find((), 8e-6 + 2.7e-9 * count)
    if run is None:
        return None
    found = np.empty((count + 3) // 4 * 4, np.uint64)
    run(_WORD(counter & _LOW), _WORD(counter >> 64 & _LOW), _WORD(key & _LOW), found)
    return found[:count]


def dropped(x: Array, kept: Array, scale: float) -> Array | None:
    """`x` times `scale` where `kept`, else times 0; `None` where that is left to NumPy."""
    if x.dtype is not _F32 or x.shape != kept.shape or not x.size:
        return None
    family = DROPPED if x.size < MANY_FLOATS else DROPPED_BY_ALL
    run = family.find((), 2e-6 + 1e-9 * x.size)
    if run is None:
        return None
    result = np.empty(x.shape, np.float32)
    given = (owned(a).reshape(-1) for a in (x, kept))
    run(*given, np.float32(scale), result.reshape(-1))
    return result
