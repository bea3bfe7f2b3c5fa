"""FarmHash's Fingerprint64 of many texts at once: the formulas of `fingerprints` over arrays.

Each of its formulas is called once, on all texts of the lengths that it is for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trainkit.core.fingerprints import FORMULAS, fingerprint64

Array = Any


_FEWEST = 64  # texts that are hashed at once rather than one by one


def text_buckets(texts: Array, buckets: int, function: Callable[[bytes], int]) -> Array:
    """The hashes of an array of bytes objects, modulo `buckets`, as int64; each text once."""
    items = texts.ravel().tolist()
    if function is fingerprint64 and len(items) >= _FEWEST:
        numbers = fingerprints(items) % np.uint64(buckets)
        return numbers.astype(np.int64).reshape(texts.shape)
    hashes = {text: function(text) % buckets for text in set(items)}
    return np.array([hashes[text] for text in items], np.int64).reshape(texts.shape)


def fingerprints(texts: Sequence[bytes]) -> Array:
    """The fingerprints of texts, as uint64."""
    sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    # A word may begin at the last byte of the last text.
    buffer = np.frombuffer(b"".join(texts) + bytes(8), np.uint8)
    starts = np.cumsum(sizes) - sizes
    result = np.empty(len(texts), np.uint64)
    smallest = 0
    for longest, formula in FORMULAS:
        numbers = np.flatnonzero((sizes >= smallest) & (sizes <= longest))
        if numbers.size:
            word = _reader(buffer, starts[numbers])
            result[numbers] = formula(word, sizes[numbers].astype(np.uint64))
        smallest = longest + 1
    for i in np.flatnonzero(sizes >= smallest).tolist():
        result[i] = fingerprint64(texts[i])
    return result


def _reader(buffer: Array, starts: Array) -> Callable[..., Array]:
    """What gives `count` bytes at a place of each text as a word."""
    windows = np.lib.stride_tricks.sliding_window_view(buffer, 8)

    def word(at: Any, count: int = 8) -> Array:
        words = windows[starts + np.asarray(at).astype(np.int64)].view("<u8")[:, 0]
        return words & np.uint64((1 << 8 * count) - 1)

    return word
