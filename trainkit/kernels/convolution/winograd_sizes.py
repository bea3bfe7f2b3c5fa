"""Sizes of Winograd's tiles and of their rows, which compiled code and its callers share."""

from __future__ import annotations

from trainkit.core.cpu.cost_model import CACHE_LINE

STEP = 4
"""Results of a tile along an axis."""
SPAN = STEP + 2
"""Numbers that they see along it, and points."""
PRODUCTS = SPAN * SPAN
"""Of a tile, for each channel and filter."""
LINE = CACHE_LINE // 4
"""Numbers of a line of the cache."""


def row_size(numbers: int) -> int:
    """Room for a row: whole lines of the cache, and an odd number of them.

    Rows a power of two apart would take each other's place in the first cache.
    """
    lines = (numbers + LINE - 1) // LINE
    return LINE * (lines + 1 - lines % 2)


def planes_size(channels: int, depth: int) -> int:
    """Numbers that a row of `depth` planes of channels takes, the last one in whole vectors."""
    return (depth - 1) * channels + (channels + LINE - 1) // LINE * LINE
