"""How many sums stay in registers: the shapes of tiles, for the processor that is compiled for."""

from __future__ import annotations

from functools import lru_cache

from trainkit.core.cpu.cost_model import CACHE_LINE, FIRST_CACHE, UNCACHED_BYTES
from trainkit.kernels.jit.target import vector_lanes

BLOCK_DEPTH = FIRST_CACHE // CACHE_LINE
"""Numbers of a row that are multiplied before the next columns come: a line of
columns for each fill the first cache."""


STREAMS, UNROLLED = 8, 4
"""Runs of memory that a core follows at a time, and like steps that are written out one after the
other: what is counted for them takes a quarter of what it would take of the processor's slots."""
FAR_BYTES = UNCACHED_BYTES
"""Weights of one row's product, and results of a convolution, are asked for ahead from here on, as
the second cache has no room for them.
What it has is read faster without: a quarter of the time would go into asking."""


@lru_cache
def tiling(sixteens: int) -> tuple[int, int, int]:
    """(rows, vectors, lanes) of a tile of convolutions, for rows of 16, 32, 48 or 64 numbers.

    As many sums as registers allow, with some left for weights: with fewer than 8 vectors of sums
    the processor would wait for each product before it can add the next. Where the registers do
    not suffice for wider rows these are cut to 16 numbers.
    """
    lanes = vector_lanes()
    if lanes == 16:
        return {1: 12, 2: 12, 3: 8, 4: 6}[sixteens], sixteens, 16
    return (6, 2, 8) if lanes == 8 else (6, 4, 4)  # 16 registers, or 32 of half the size


def weight_rows(limit: int) -> range:
    """Rows that tiles of weights have, of which registers hold `limit`.

    No fewer than two thirds of them, or the processor would wait for sums.
    """
    return range(limit, -(-2 * limit // 3) - 1, -1)


@lru_cache
def block_tiling() -> tuple[int, int, int]:
    """(rows, vectors, lanes) of a tile of large products, whose columns stay in the first cache.

    Narrow and tall: each number of a row is read for as many vectors, and the rows come from
    farther away than the columns do. Sums, columns and one number fill the registers.
    """
    lanes = vector_lanes()
    if lanes == 16:
        return 14, 2, 16
    return (6, 2, 8) if lanes == 8 else (6, 4, 4)


def block_columns() -> int:
    """Columns of a tile of large products."""
    _, vectors, lanes = block_tiling()
    return vectors * lanes


@lru_cache
def product_tiling() -> tuple[int, int, int]:
    """(rows, vectors, lanes) of a tile of matrix products; its rows divide 8."""
    lanes = vector_lanes()
    if lanes == 16:
        return 8, 2, 16
    return (4, 3, 8) if lanes == 8 else (4, 2, 4)


def product_columns() -> int:
    """Columns of a tile of matrix products."""
    _, vectors, lanes = product_tiling()
    return vectors * lanes
