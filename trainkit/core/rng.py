"""Random bits from Philox4x64-10, a counter-based generator, and the floats made of them.

Block number `counter` of the stream `key` is a pure function of the two, so drawing is a matter of
arithmetic: the same seed gives the same numbers however many threads draw, and any device that
implements the ten rounds gives the same bits.
Source: Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3".
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from trainkit.core.process import forks

WORDS_PER_BLOCK = 4
WORD_BITS = (1 << 64) - 1
"""All bits of a word."""


def bits(key: int, counter: int, count: int) -> Any:
    """`count` 64-bit words of the stream `key`, starting at block `counter`.

    Args:
        key: 128-bit number that names the stream.
        counter: 256-bit number of the first block; a block has four words.
        count: how many words.

    Returns:
        NumPy array (count,) of uint64.
    """
    # NumPy steps its counter before the first block, so that block 0 is at counter -1.
    start = (counter - 1) % (1 << 256)
    source = np.random.Philox(key=key % (1 << 128), counter=_words(start, 4))
    return source.random_raw(count)


def _words(number: int, count: int) -> Any:
    return np.array([(number >> (64 * i)) & WORD_BITS for i in range(count)], np.uint64)


def uniform_floats(key: int, counter: int, count: int, dtype: Any) -> Any:
    """`count` floats in [0, 1): multiples of 2**-24 (float32 and smaller) or 2**-53 (float64).

    Returns:
        NumPy array (count,) of float32 or float64.
    """
    if np.dtype(dtype) == np.float64:
        return (bits(key, counter, count) >> np.uint64(11)) * (1.0 / (1 << 53))
    halves = bits(key, counter, (count + 1) // 2).view(np.uint32)[:count]
    return (halves >> np.uint32(8)).astype(np.float32) * np.float32(1.0 / (1 << 24))


def normal_floats(key: int, counter: int, count: int, dtype: Any) -> Any:
    """`count` draws of the standard normal distribution, two from each pair of uniform numbers.

    Source: Box and Muller 1958, "A note on the generation of random normal deviates".

    Returns:
        NumPy array (count,) of float32 or float64.
    """
    half = (count + 1) // 2
    flat = uniform_floats(key, counter, 2 * half, dtype)
    one = flat.dtype.type(1)
    radius = np.sqrt(-2 * np.log(one - flat[:half]))
    angle = flat.dtype.type(2 * np.pi) * flat[half:]
    out = np.empty(2 * half, flat.dtype)
    np.multiply(radius, np.cos(angle), out=out[:half])
    np.multiply(radius, np.sin(angle), out=out[half:])
    return out[:count]


def blocks_for(count: int, bits_each: int = 64) -> int:
    """How many blocks `count` draws of `bits_each` bits use up."""
    words = (count * bits_each + 63) // 64
    return max(1, -(-words // WORDS_PER_BLOCK))


class _Seeds:
    """The process's seed and how many seeds have been derived from it."""

    def __init__(self) -> None:
        self.lock = forks.make_lock()
        self.seed: int | None = None
        self.derived = 0
        self.version = 0


_SEEDS = _Seeds()


def set_seed(seed: int | None) -> None:
    """Set the seed from which all later generators without one derive theirs.

    Args:
        seed: any int, or a float of a whole number; `None` goes back to seeds from the operating
            system.
    """
    if isinstance(seed, float) and seed.is_integer():
        seed = int(seed)
    if seed is not None:
        try:
            seed = seed.__index__()
        except AttributeError:
            raise TypeError(f"set_seed: the seed must be an int, got {seed!r}") from None
    with _SEEDS.lock:
        _SEEDS.seed = seed
        _SEEDS.derived = 0
        _SEEDS.version += 1


def seed_version() -> int:
    """A number that changes with each `set_seed`."""
    return _SEEDS.version


def next_seed() -> int:
    """A fresh 63-bit seed: the next of the sequence that `set_seed` started, else a secret one."""
    with _SEEDS.lock:
        if _SEEDS.seed is None:
            return int.from_bytes(os.urandom(8), "little") >> 1
        _SEEDS.derived += 1
        word = bits(_SEEDS.seed & WORD_BITS, _SEEDS.derived, 1)[0]
        return int(word) >> 1


def current_seed() -> int | None:
    """What `set_seed` was last given."""
    return _SEEDS.seed
