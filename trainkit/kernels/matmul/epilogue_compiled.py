"""What follows a product or a convolution, done to a block of sums while it is in a cache.

y * factor + shift, plus what a shortcut brings, held between two limits: each step is rounded by
itself, so the bits are those of the operations one by one.
"""

from __future__ import annotations

from llvmlite import ir
from numba import float32
from numba.core import types

from trainkit.kernels.jit.builders import MATRIX, VECTOR, by_parts
from trainkit.kernels.jit.emitters import emits
from trainkit.kernels.jit.options import compiled
from trainkit.kernels.jit.register_tiles import tiling
from trainkit.kernels.jit.simd import BYTES, I64, CountedLoop, Tile
from trainkit.kernels.threads.parallel_for import chunk_range

_LANES = tiling(1)[2]


@emits(2, *(types.intp,) * 5, types.float32, types.float32)
def _epilogue_row(builder, lanes, adds, y, factor, shift, residual, count, low, high):
    """One row in place: y * factor + shift, with `adds` + residual, between `low` and `high`.

    Args:
        lanes: numbers of a vector; a literal.
        adds: 1 or 0; a literal.
        y: address of the row.
        factor: address of as many numbers.
        shift: address of as many numbers.
        residual: address of as many numbers.
        count: at least 1.
        low: the smallest result.
        high: the largest one; NaN stays.
    """
    tile = Tile(builder, 1, 1, lanes)
    lower, upper = tile.spread(low), tile.spread(high)

    def finish(offset, masks):
        def read(base):
            at = tile.plus(base, offset)
            return tile.vector_at(at) if masks is None else tile.masked_load(at, masks[0])

        value = builder.fadd(builder.fmul(read(y), read(factor)), read(shift))
        if adds:
            value = builder.fadd(value, read(residual))
        tile.store_rows([tile.between(value, lower, upper)], [tile.plus(y, offset)], masks)

    loop = CountedLoop(builder, builder.sdiv(count, tile.word(lanes)), [tile.word(0)])
    finish(loop.values[0], None)
    (offset,) = loop.close([tile.plus(loop.values[0], tile.width)])
    left = builder.sub(count, builder.sdiv(offset, ir.Constant(I64, BYTES)))
    with builder.if_then(builder.icmp_signed(">", left, tile.word(0))):
        # masked: rows of few channels, such as 24, have no remainder of single numbers
        finish(offset, tile.masks(left))


@compiled(parallel=False, exact=True)
def finish_block(y, y_step, factor, shift, residual, residual_step, rows, count, low, high):
    """Some rows in place, all by addresses and the bytes from row to row; a residual of 0 is none.

    Its arithmetic stays as it is written in kernels, too, whose own may be reordered.
    """
    for row in range(rows):
        at = y + row * y_step
        if residual:
            beside = residual + row * residual_step
            _epilogue_row(_LANES, 1, at, factor, shift, beside, count, low, high)
        else:
            _epilogue_row(_LANES, 0, at, factor, shift, 0, count, low, high)


@by_parts(VECTOR, VECTOR, MATRIX, MATRIX, float32, float32, exact=True)
def epilogue(part, parts, factor, shift, residual, y, low, high):
    """All rows of y in place; a residual without rows is none."""
    first, last = chunk_range(part, parts, y.shape[0], 1)
    step = 4 * y.shape[1]
    beside = residual.ctypes.data + first * step if residual.shape[0] else 0
    finish_block(
        y.ctypes.data + first * step, step, factor.ctypes.data, shift.ctypes.data, beside, step,
        last - first, y.shape[1], low, high,
    )  # fmt: skip
