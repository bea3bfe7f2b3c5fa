"""The product of one row and a matrix, by addresses: memory is what it waits for.

Weights that lie by rows are read eight rows at a time, each from its beginning to its end, and the
eight after them are asked for meanwhile; sums go through the first cache. A tile that goes down the
rows would wait for a line of each, and gets half as much out of memory. Weights in strips of
columns are read in one go. Either way a sum is added up in the order of the weights' rows, each
product and sum rounded once, as tiles of many rows do it.
"""

from __future__ import annotations

import numpy as np
from numba.core import types

from trainkit.core.cpu.cost_model import CACHE_LINE
from trainkit.kernels.jit.emitters import emits
from trainkit.kernels.jit.local_arrays import keep_alive
from trainkit.kernels.jit.options import compiled
from trainkit.kernels.jit.register_tiles import FAR_BYTES, STREAMS, UNROLLED
from trainkit.kernels.matmul.matmul_compiled import (
    CUT,
    FETCHING,
    TILES,
    WHOLE,
    product_tile,
    whole_product_tile,
)


@emits(5, *(types.intp,) * 7)
def _add_rows(builder, size, rows, vectors, lanes, kind, x, x_next, w, w_step, start, y, count):
    """Some columns of y = start + the sum of `rows` rows of weights, each times a number of x.

    Args:
        size: bytes of a number; a literal.
        rows: of weights; a literal.
        vectors: of sums; a literal.
        lanes: numbers of a vector; a literal.
        kind: `WHOLE`; `CUT` where there are fewer columns than numbers of vectors; `FETCHING` as
            `WHOLE`, which asks for the next rows meanwhile; a literal.
        x: address of the first number.
        x_next: bytes from one to the next.
        w: address of the first row.
        w_step: bytes from one to the next.
        start: address of what sums start from; it may be y.
        y: address of the sums.
        count: how many columns there are.
    """
    tile = TILES[size](builder, 1, vectors, lanes)
    masks = tile.masks(count) if kind == CUT else None

    def row_at(at):
        return tile.weights(at) if masks is None else tile.masked_row(at, masks)

    sums, ahead = row_at(start), builder.mul(w_step, tile.word(rows))
    for _ in range(rows):
        if kind == FETCHING:
            for offset in range(0, tile.vectors * tile.width, CACHE_LINE):
                tile.fetch_line(tile.plus(w, ahead, offset))
        sums = tile.add_products(sums, [[tile.number(x)] * tile.vectors], row_at(w))
        x, w = tile.plus(x, x_next), tile.plus(w, w_step)
    tile.store_rows(sums, [tile.plus(y, v * tile.width) for v in range(tile.vectors)], masks)


def row_kernels(number, vectors, lanes):
    """The functions of one row, for weights that lie by rows and for those in strips.

    Args:
        number: NumPy's type.
        vectors: of the columns of a strip.
        lanes: numbers of a vector.
    """
    size, strip_columns, wide = np.dtype(number).itemsize, vectors * lanes, UNROLLED * lanes

    @compiled(parallel=False)
    def by_rows(x, x_next, w, w_step, bias, y, depth, columns):
        """Y = bias + x @ w, of weights whose rows are `w_step` bytes apart; a bias of 0 is none."""
        zeros = np.zeros(wide, number)
        wide_end = columns // wide * wide
        is_far = size * depth * columns >= FAR_BYTES
        together_end = depth // STREAMS * STREAMS
        k = 0
        while k < depth:
            first, row = x + k * x_next, w + k * w_step
            for f in range(0, wide_end, wide):
                start = y + size * f
                if k == 0:
                    start = bias + size * f if bias else zeros.ctypes.data
                if k < together_end and is_far:
                    _add_rows(
                        size, STREAMS, UNROLLED, lanes, FETCHING,
                        first, x_next, row + size * f, w_step, start, y + size * f, wide,
                    )  # fmt: skip
                elif k < together_end:
                    _add_rows(
                        size, STREAMS, UNROLLED, lanes, WHOLE,
                        first, x_next, row + size * f, w_step, start, y + size * f, wide,
                    )  # fmt: skip
                else:
                    _add_rows(
                        size, 1, UNROLLED, lanes, WHOLE,
                        first, x_next, row + size * f, w_step, start, y + size * f, wide,
                    )  # fmt: skip
            for f in range(wide_end, columns, lanes):
                start = y + size * f
                if k == 0:
                    start = bias + size * f if bias else zeros.ctypes.data
                if k < together_end:
                    _add_rows(
                        size, STREAMS, 1, lanes, CUT,
                        first, x_next, row + size * f, w_step, start, y + size * f, columns - f,
                    )  # fmt: skip
                else:
                    _add_rows(
                        size, 1, 1, lanes, CUT,
                        first, x_next, row + size * f, w_step, start, y + size * f, columns - f,
                    )  # fmt: skip
            k += STREAMS if k < together_end else 1
        keep_alive(zeros)

    @compiled(parallel=False)
    def by_strips(x, x_next, w, w_strip, bias, y, depth, columns):
        """The same of strips of columns whose rows lie side by side, `w_strip` bytes apart."""
        zeros = np.zeros(strip_columns, number)
        for f in range(0, columns, strip_columns):
            strip = w + f // strip_columns * w_strip
            start = bias + size * f if bias else zeros.ctypes.data
            if columns - f >= strip_columns:
                whole_product_tile(
                    size, 1, vectors, lanes, x, 0, x_next, strip, size * strip_columns, depth,
                    start, 0, 0, y + size * f, 0,
                )  # fmt: skip
            else:
                product_tile(
                    size, 1, vectors, lanes, x, 0, x_next, strip, size * strip_columns, depth,
                    start, 0, 0, y + size * f, 0, columns - f,
                )  # fmt: skip
        keep_alive(zeros)

    return by_rows, by_strips
