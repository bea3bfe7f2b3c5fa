"""Products of matrices of any size, by register tiles, in blocks that threads take one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from trainkit.core.cpu.cost_model import CACHE_LINE, PAGE
from trainkit.kernels.convolution.conv_microkernels import copy_floats, copy_rows, turn_square
from trainkit.kernels.jit.builders import MATRIX, VECTOR, by_parts
from trainkit.kernels.jit.emitters import fetch_bytes
from trainkit.kernels.jit.local_arrays import keep_alive
from trainkit.kernels.jit.options import compiled
from trainkit.kernels.jit.register_tiles import (
    BLOCK_DEPTH,
    STREAMS,
    UNROLLED,
    block_columns,
    block_tiling,
    tiling,
)
from trainkit.kernels.matmul.epilogue_compiled import finish_block
from trainkit.kernels.matmul.matmul_compiled import (
    CUT,
    FETCHING,
    FETCHING_CUT,
    PANEL,
    WHOLE,
    block_tile,
    bytes_ahead,
    product_tile,
    turn_rows,
    whole_product_tile,
)
from trainkit.kernels.matmul.row_product_compiled import row_kernels
from trainkit.kernels.threads.parallel_for import chunk_range

_ROWS, _VECTORS, _FLOATS = block_tiling()
_SHORT = _ROWS // 2
"""Rows of the tiles of the last ones."""
_EVEN = 8 if _FLOATS == 16 else 4
"""Rows of the tiles of blocks that others would cover with more rows in vain: batches are powers of
two."""
_EVEN_GAIN = 2 * _EVEN
"""The part of their rows that these have to save where rows are copied: panels of `_ROWS` are
faster for each row."""
_FEW_ROWS, _WIDE_VECTORS, _ = tiling(4)
"""Rows and vectors of a tile that reads weights where they lie: more of each row at a time."""
_COPIED_ROWS = 4 * _FEW_ROWS
"""From so many rows on, weights are laid side by side before they are multiplied."""


def _kernels(number: Any, kind: Any) -> tuple[Any, Any, Any]:
    """The builders of `product` and `stacked_product`, and what works on a block.

    Args:
        number: NumPy's type.
        kind: Numba's.
    """
    size = np.dtype(number).itemsize
    each = size // 4
    lanes = _FLOATS // each
    tile_columns, wide = _VECTORS * lanes, _WIDE_VECTORS * lanes
    # elsewhere masks take up registers that a tall tile's sums need
    has_masks = _FLOATS == 16
    vectors_of_rows = -(-_ROWS * each // _FLOATS)
    turns_rows = size == 4 and _ROWS <= lanes
    no_limit = np.float32(-np.inf)
    row_by_rows, row_by_strips = row_kernels(number, _VECTORS, lanes)
    matrix = types.Array(kind, 2, "A", readonly=True)
    stack = types.Array(kind, 4, "A", readonly=True)

    @compiled(parallel=False)
    def turn(w, w_step, depth, count, packed):
        """`count` columns of weights that lie by columns, `w_step` bytes apart, as rows."""
        for f in range(0, tile_columns, lanes):
            square_end = depth // lanes * lanes if count - f >= lanes and each == 1 else 0
            for k in range(0, square_end, lanes):
                to = packed + 4 * (tile_columns * k + f)
                turn_square(lanes, w + f * w_step + 4 * k, w_step, to, 4 * tile_columns)
            for k in range(square_end, depth):
                for column in range(f, min(f + lanes, count)):
                    to = packed + size * (tile_columns * k + column)
                    copy_floats(to, w + column * w_step + size * k, each)

    @compiled(parallel=False)
    def pack(w, w_step, w_next, depth, columns, packed, strip_step):
        """Columns of weights in strips of those of a tile, whose rows lie side by side."""
        if w_next != size:
            for f in range(0, columns, tile_columns):
                to = packed + f // tile_columns * strip_step
                turn(w + f * w_next, w_next, depth, min(tile_columns, columns - f), to)
            return
        for k in range(0, depth, UNROLLED):
            some = min(UNROLLED, depth - k)
            for row in range(k + STREAMS, k + STREAMS + some):
                fetch_bytes(w + row * w_step, size * columns)
            for f in range(0, columns, tile_columns):
                to = packed + f // tile_columns * strip_step + size * tile_columns * k
                copy_rows(
                    _VECTORS, _FLOATS, w + k * w_step + size * f, w_step,
                    each * min(tile_columns, columns - f), some, to, size * tile_columns,
                )  # fmt: skip

    @compiled(parallel=False)
    def gather(x, x_next, depth, rows, panels, panel_step):
        """Rows that lie by columns, at an address: those of a tile side by side, then the next."""
        for k in range(0, depth, UNROLLED):
            some = min(UNROLLED, depth - k)
            for row in range(k + STREAMS, k + STREAMS + some):
                fetch_bytes(x + row * x_next, size * rows)
            for q in range(0, rows, _ROWS):
                count = min(_ROWS, rows - q)
                to = panels + q // _ROWS * panel_step + size * _ROWS * k
                copy_rows(
                    vectors_of_rows, _FLOATS, x + size * q + k * x_next, x_next,
                    each * count, some, to, size * _ROWS,
                )  # fmt: skip

    @compiled(parallel=False)
    def turn_panels(x, x_step, depth, rows, panels, panel_step):
        """The same of rows that lie by rows; a square of numbers may be written behind the last."""
        for q in range(0, rows, _ROWS):
            source, to, last = x + q * x_step, panels + q // _ROWS * panel_step, rows - 1 - q
            square_end = depth // lanes * lanes
            for k in range(0, square_end, lanes):
                turn_rows(
                    lanes, _ROWS, 0, source + 4 * k, x_step, last, lanes, to + 4 * _ROWS * k
                )  # fmt: skip
            if square_end < depth:
                turn_rows(
                    lanes, _ROWS, 1, source + 4 * square_end, x_step, last, depth - square_end,
                    to + 4 * _ROWS * square_end,
                )  # fmt: skip

    @compiled(parallel=False)
    def few_rows(x, x_step, x_next, w, w_step, bias, y, y_step, depth, rows, columns):
        """`block_of` for so few rows that their weights are read where they lie."""
        zeros = np.zeros(wide, number)
        for k in range(0, depth, BLOCK_DEPTH):
            deep = min(BLOCK_DEPTH, depth - k)
            for f in range(0, columns, wide):
                for q in range(0, rows, _FEW_ROWS):
                    to = y + q * y_step + size * f
                    start, start_step = zeros.ctypes.data, 0
                    if k:
                        start, start_step = to, y_step
                    elif bias:
                        start = bias + size * f
                    x_rows, source = x + q * x_step + k * x_next, w + k * w_step + size * f
                    if columns - f >= wide:
                        whole_product_tile(
                            size, _FEW_ROWS, _WIDE_VECTORS, lanes, x_rows, x_step, x_next, source,
                            w_step, deep, start, start_step, rows - 1 - q, to, y_step,
                        )  # fmt: skip
                    else:
                        product_tile(
                            size, _FEW_ROWS, _WIDE_VECTORS, lanes, x_rows, x_step, x_next, source,
                            w_step, deep, start, start_step, rows - 1 - q, to, y_step, columns - f,
                        )  # fmt: skip
        keep_alive(zeros)

    @compiled(parallel=False)
    def has_even_rows(rows, is_copied):
        """Whether tiles of `_EVEN` rows pay: those of `_ROWS` and `_SHORT` make many in vain.

        Where rows are copied first they have to save more, as panels come at the same cost.
        """
        tall_end = rows // _ROWS * _ROWS
        usual = tall_end + (rows - tall_end + _SHORT - 1) // _SHORT * _SHORT
        even = (rows + _EVEN - 1) // _EVEN * _EVEN
        return even + (even // _EVEN_GAIN if is_copied else 0) < usual

    # The arithmetic of tiles stays as it is written, though what calls this may reorder its own.
    @compiled(parallel=False, exact=True)
    def block_of(
        x, x_step, x_next, w, w_step, w_next, w_strip, bias, y, y_step, depth, rows, columns,
        factor_at, shift_at, residual_at, low, high, panel_columns,
    ):  # fmt: skip
        """A block of a product, all given by addresses and the bytes from row to row.

        `x_next` and `w_next` are the bytes from one number of a row to the next, `w_strip` those
        from the columns of one tile to those of the next; of w, one of the first two is that of
        neighbours. Sums start from the row at `bias`, from zeros where that is 0. What follows the
        product are the rows at `factor_at` and `shift_at`, if not 0, rows at `residual_at`, as far
        apart as those of y, if not 0, and the limits; without factors `low` alone, and not of few
        rows. From `panel_columns` on, rows that lie by rows are laid as panels first.
        """
        packs = w_next != size or w_strip == size * tile_columns
        if rows == 1 and w_next == size:
            if packs:
                row_by_rows(x, x_next, w, w_step, bias, y, depth, columns)
            else:
                row_by_strips(x, x_next, w, w_strip, bias, y, depth, columns)
            if factor_at:
                finish_block(
                    y, y_step, factor_at, shift_at, residual_at, y_step, 1, columns, low, high
                )
            return
        if packs and w_next == size and rows < _COPIED_ROWS:
            few_rows(x, x_step, x_next, w, w_step, bias, y, y_step, depth, rows, columns)
            if factor_at:
                finish_block(
                    y, y_step, factor_at, shift_at, residual_at, y_step, rows, columns, low, high
                )
            return
        gathers = x_step == size and x_next > size and columns > tile_columns
        is_far = x_next == size and x_step % PAGE == 0 and columns > tile_columns
        is_even = not gathers and has_even_rows(rows, is_far)
        turns = turns_rows and x_next == size and columns >= panel_columns and not is_even
        copies = is_far and not turns
        in_panels = gathers or turns
        deepest, tiles = min(depth, BLOCK_DEPTH), (rows + _ROWS - 1) // _ROWS
        strips = min(STREAMS, (columns + tile_columns - 1) // tile_columns)
        # A line more from one to the next: at a power of two they would meet in the first cache.
        copy_step = size * deepest + CACHE_LINE
        panel_step = size * _ROWS * deepest + CACHE_LINE
        strip_step = size * tile_columns * deepest + CACHE_LINE
        room = tiles * (panel_step if in_panels else _ROWS * copy_step) // size + lanes * lanes
        beside = np.empty(room if in_panels or copies else 1, number)
        packed = np.empty(strips * strip_step // size if packs else 1, number)
        packed_at = (packed.ctypes.data + CACHE_LINE - 1) // CACHE_LINE * CACHE_LINE
        zeros = np.zeros(tile_columns, number)
        # as long before they are written as results take to come
        tiles_ahead = max(1, 128 // depth)
        for k in range(0, depth, BLOCK_DEPTH):
            deep = min(BLOCK_DEPTH, depth - k)
            is_deepest = k + deep == depth
            first, row_step, tile_step, next_step = x + k * x_next, x_step, _ROWS * x_step, x_next
            if in_panels:
                if gathers:
                    gather(first, x_next, deep, rows, beside.ctypes.data, panel_step)
                else:
                    turn_panels(first, x_step, deep, rows, beside.ctypes.data, panel_step)
                first, row_step = beside.ctypes.data, size
                tile_step, next_step = panel_step, size * _ROWS
            elif copies:
                for q in range(rows):
                    fetch_bytes(first + (q + STREAMS) * x_step, size * deep)
                    to = beside.ctypes.data + q * copy_step
                    copy_floats(to, first + q * x_step, each * deep)
                first, row_step, tile_step = beside.ctypes.data, copy_step, _ROWS * copy_step
            for f in range(0, columns, tile_columns):
                count, strip = min(tile_columns, columns - f), f // tile_columns
                source, step = w + k * w_step + strip * w_strip, w_step
                if packs:
                    if strip % STREAMS == 0:
                        some = min(STREAMS * tile_columns, columns - f)
                        pack(source, w_step, w_next, deep, some, packed_at, strip_step)
                    source, step = packed_at + strip % STREAMS * strip_step, size * tile_columns
                # sums are complete with the last numbers of a row
                factor, shift, residual, floor = 0, 0, 0, low if is_deepest else no_limit
                if factor_at and is_deepest:
                    factor, shift = factor_at + size * f, shift_at + size * f
                    residual = residual_at + size * f if residual_at else 0
                # Weights that lie in strips come from far, too: the next ones are asked for while
                # these are multiplied.
                next_strip = 0
                if not packs:
                    if f + tile_columns < columns:
                        next_strip = source + w_strip
                    elif not is_deepest:
                        next_strip = w + (k + deep) * w_step
                strip_end = next_strip + size * tile_columns * deep if next_strip else 0
                tall = _EVEN if is_even else _ROWS
                for q in range(0, rows, tall):
                    x_rows = first + q // _ROWS * tile_step + q % _ROWS * row_step
                    # numbers come from far while they are multiplied for the first time
                    ahead = x_rows if copies or in_panels or f else x_rows + tall * x_step
                    if ahead == x_rows and next_strip < strip_end:
                        ahead = next_strip
                        next_strip += bytes_ahead(in_panels, _ROWS, size * tile_columns, deep)
                    to = y + q * y_step + size * f
                    start, start_step = zeros.ctypes.data, 0
                    if k:
                        start, start_step = to, y_step
                    elif bias:
                        start = bias + size * f
                    beside_to = residual + q * y_step if residual else 0
                    last = min(tall, rows - q) - 1
                    if has_masks and count < tile_columns and not is_even and rows - q >= _ROWS:
                        following = to + tiles_ahead * _ROWS * y_step
                        if count <= lanes:
                            block_tile(
                                size, _ROWS, 1, lanes, FETCHING_CUT, x_rows, row_step, next_step,
                                source, step, deep, start, start_step, last, to, y_step, count,
                                following, ahead, factor, shift, beside_to, floor, high,
                            )  # fmt: skip
                        else:
                            block_tile(
                                size, _ROWS, _VECTORS, lanes, FETCHING_CUT, x_rows, row_step,
                                next_step, source, step, deep, start, start_step, last, to, y_step,
                                count, following, ahead, factor, shift, beside_to, floor, high,
                            )  # fmt: skip
                    elif count <= lanes:
                        block_tile(
                            size, _ROWS, 1, lanes, CUT, x_rows, row_step, next_step, source, step,
                            deep, start, start_step, last, to, y_step, count, 0, 0,
                            factor, shift, beside_to, floor, high,
                        )  # fmt: skip
                    elif is_even and count == tile_columns:
                        block_tile(
                            size, _EVEN, _VECTORS, lanes, WHOLE, x_rows, row_step, next_step,
                            source, step, deep, start, start_step, last, to, y_step, count, 0,
                            ahead, factor, shift, beside_to, floor, high,
                        )  # fmt: skip
                    elif is_even:
                        block_tile(
                            size, _EVEN, _VECTORS, lanes, CUT, x_rows, row_step, next_step,
                            source, step, deep, start, start_step, last, to, y_step, count, 0, 0,
                            factor, shift, beside_to, floor, high,
                        )  # fmt: skip
                    elif count == tile_columns and rows - q >= _ROWS:
                        following = to + tiles_ahead * _ROWS * y_step
                        if rows - q <= tiles_ahead * _ROWS:
                            following = y + size * (f + tile_columns)
                        if in_panels:
                            block_tile(
                                size, _ROWS, _VECTORS, lanes, PANEL, x_rows, row_step, next_step,
                                source, step, deep, start, start_step, last, to, y_step, count,
                                following, ahead, factor, shift, beside_to, floor, high,
                            )  # fmt: skip
                            continue
                        block_tile(
                            size, _ROWS, _VECTORS, lanes, FETCHING, x_rows, row_step, next_step,
                            source, step, deep, start, start_step, last, to, y_step, count,
                            following, ahead, factor, shift, beside_to, floor, high,
                        )  # fmt: skip
                    else:
                        for p in range(0, last + 1, _SHORT):
                            beside_row = beside_to + p * y_step if beside_to else 0
                            if count == tile_columns:
                                block_tile(
                                    size, _SHORT, _VECTORS, lanes, WHOLE, x_rows + p * row_step,
                                    row_step, next_step, source, step, deep,
                                    start + p * start_step, start_step, min(_SHORT - 1, last - p),
                                    to + p * y_step, y_step, count, 0, ahead, factor, shift,
                                    beside_row, floor, high,
                                )  # fmt: skip
                            else:
                                block_tile(
                                    size, _SHORT, _VECTORS, lanes, CUT, x_rows + p * row_step,
                                    row_step, next_step, source, step, deep,
                                    start + p * start_step, start_step, min(_SHORT - 1, last - p),
                                    to + p * y_step, y_step, count, 0, 0, factor, shift,
                                    beside_row, floor, high,
                                )  # fmt: skip
        keep_alive(beside)
        keep_alive(packed)
        keep_alive(zeros)

    @by_parts(matrix, matrix, types.Array(kind, 2, "C"), *[types.intp] * 3)
    def product(part, parts, x, w, y, height, width, panel_columns):
        """A block of y = x @ w, of `height` rows and `width` columns but for the last ones.

        Numbers of w lie side by side in its rows or in its columns. Each sum is added up in order,
        so how blocks are cut changes no bits.
        """
        across = (y.shape[1] + width - 1) // width
        top, left = part // across * height, part % across * width
        block_of(
            x.ctypes.data + top * x.strides[0], x.strides[0], x.strides[1],
            w.ctypes.data + left * w.strides[1], w.strides[0], w.strides[1],
            tile_columns * w.strides[1],
            0, y.ctypes.data + top * y.strides[0] + size * left, y.strides[0],
            x.shape[1], min(height, y.shape[0] - top), min(width, y.shape[1] - left),
            0, 0, 0, no_limit, no_limit, panel_columns,
        )  # fmt: skip

    @by_parts(stack, stack, types.Array(kind, 4, "C"), *[types.intp] * 3)
    def stacked_product(part, parts, x, w, y, height, width, panel_columns):
        """The same for stacks of matrices: each part takes blocks of some of them, one by one."""
        rows, columns = y.shape[2], y.shape[3]
        across = (columns + width - 1) // width
        each = (rows + height - 1) // height * across
        first, last = chunk_range(part, parts, y.shape[0] * y.shape[1] * each, 1)
        for task in range(first, last):
            item, block = np.int64(task) // each, np.int64(task) % each
            i, j = item // y.shape[1], item % y.shape[1]
            top, left = block // across * height, block % across * width
            a = x.ctypes.data + i * x.strides[0] + j * x.strides[1]
            b = w.ctypes.data + i * w.strides[0] + j * w.strides[1]
            to = y.ctypes.data + i * y.strides[0] + j * y.strides[1]
            block_of(
                a + top * x.strides[2], x.strides[2], x.strides[3],
                b + left * w.strides[3], w.strides[2], w.strides[3],
                tile_columns * w.strides[3],
                0, to + top * y.strides[2] + size * left, y.strides[2],
                x.shape[3], min(height, rows - top), min(width, columns - left),
                0, 0, 0, no_limit, no_limit, panel_columns,
            )  # fmt: skip

    return product, stacked_product, block_of


product, stacked_product, _block_of = _kernels(np.float32, types.float32)
product_double, stacked_product_double, _ = _kernels(np.float64, types.float64)

_READ_ONLY = types.Array(types.float32, 2, "A", readonly=True)
_READ_VECTOR = types.Array(types.float32, 1, "C", readonly=True)
_COLUMNS = block_columns()


@by_parts(
    _READ_ONLY,
    _READ_ONLY,
    _READ_VECTOR,
    VECTOR,
    VECTOR,
    MATRIX,
    MATRIX,
    *[types.intp] * 4,
    *[types.float32] * 2,
)
def finished_product(
    part, parts, x, w, bias, factor, shift, residual, y, height, width, strip, panel_columns, low,
    high,
):  # fmt: skip
    """The same of y = max(x @ w + bias, low), with what follows done to each block.

    Sums start from the bias. w may be a matrix, or its strips of as many columns as a tile has,
    one below the other; `strip` is the bytes from one to the next. An empty bias, factor or
    residual is none.
    """
    across = (y.shape[1] + width - 1) // width
    top, left = part // across * height, part % across * width
    bottom, right = min(top + height, y.shape[0]), min(left + width, y.shape[1])
    at = 4 * (top * y.shape[1] + left)
    _block_of(
        x.ctypes.data + top * x.strides[0], x.strides[0], x.strides[1],
        w.ctypes.data + left // _COLUMNS * strip, w.strides[0], w.strides[1], strip,
        bias.ctypes.data + 4 * left if len(bias) else 0,
        y.ctypes.data + at, y.strides[0], x.shape[1], bottom - top, right - left,
        factor.ctypes.data + 4 * left if len(factor) else 0, shift.ctypes.data + 4 * left,
        residual.ctypes.data + at if residual.shape[0] else 0, low, high, panel_columns,
    )  # fmt: skip
    if len(factor) == 0 and low > -np.inf and bottom - top < _COPIED_ROWS:
        for i in range(top, bottom):
            for j in range(left, right):
                y[i, j] = low if y[i, j] < low else y[i, j]
