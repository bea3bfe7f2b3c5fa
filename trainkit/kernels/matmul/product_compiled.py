"""Products of matrices of any size, by register tiles, in blocks that threads take one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from trainkit.kernels.convolution.conv_microkernels import copy_floats, turn_square
from trainkit.kernels.jit.builders import MATRIX, VECTOR, by_parts
from trainkit.kernels.jit.local_arrays import keep_alive
from trainkit.kernels.jit.options import compiled
from trainkit.kernels.jit.register_tiles import tiling
from trainkit.kernels.jit.simd import CACHE_LINE
from trainkit.kernels.matmul.epilogue_compiled import finish_block
from trainkit.kernels.matmul.matmul_compiled import (
    fetching_product_tile,
    product_tile,
    whole_product_tile,
)
from trainkit.kernels.threads.parallel_for import chunk_range

_ROWS, _VECTORS, _FLOATS = tiling(4)
_HALF, _NARROW = max(1, _VECTORS // 2), max(1, _VECTORS // 4)
"""Vectors of the last tile of a row, where it has fewer columns."""
_DEPTH = 512
"""Numbers of a row that are multiplied before the next columns come: the weights of a tile then
stay in the second cache, 128 KB at most."""
_COPIED_ROWS = 24
"""From so many rows on, weights are laid side by side before they are multiplied."""
_MANY_ROWS = 96
"""With so many rows these are read from farther away than the weights of a tile."""
_FAR = 512
"""Where numbers are so many bytes apart, or more; nearer ones are read as they are. Many such
numbers would take each other's place in the first cache."""


def _kernels(number: Any, kind: Any) -> tuple[Any, Any, Any, Any]:
    """The builders of `product`, `stacked_product`, `biased_product`, and what works on a block.

    Args:
        number: NumPy's type.
        kind: Numba's.
    """
    size = np.dtype(number).itemsize
    each = size // 4
    lanes = _FLOATS // each
    width_of_tile = _VECTORS * lanes
    matrix = types.Array(kind, 2, "A", readonly=True)
    stack = types.Array(kind, 4, "A", readonly=True)

    @compiled(parallel=False)
    def copy(w, w_step, depth, count, packed):
        """`count` columns of weights, at an address, with rows side by side."""
        for k in range(depth):
            copy_floats(packed + size * width_of_tile * k, w + k * w_step, count * each)

    @compiled(parallel=False)
    def turn(w, w_step, depth, count, packed):
        """The same of weights that lie by columns, `w_step` bytes apart."""
        square_end = depth // lanes * lanes if count == width_of_tile and each == 1 else 0
        for f in range(0, width_of_tile, lanes):
            for k in range(0, square_end, lanes):
                to = packed + 4 * (width_of_tile * k + f)
                turn_square(lanes, w + f * w_step + 4 * k, w_step, to, 4 * width_of_tile)
        for k in range(square_end, depth):
            for f in range(count):
                to, at = packed + size * (width_of_tile * k + f), w + f * w_step + size * k
                copy_floats(to, at, each)

    @compiled(parallel=False)
    def gather(x, x_next, depth, rows, packed):
        """Rows that lie by columns, at an address: those of a tile side by side, then the next."""
        for q in range(0, rows, _ROWS):
            for k in range(depth):
                to, at = packed + size * (q * depth + k * _ROWS), x + size * q + k * x_next
                copy_floats(to, at, each * (_ROWS if rows - q >= _ROWS else rows - q))

    @compiled(parallel=False)
    def block_of(
        x, x_step, x_next, w, w_step, w_next, w_strip, bias, y, y_step, depth, rows, columns
    ):
        """A block of a product, all given by addresses and the bytes from row to row.

        `x_next` and `w_next` are the bytes from one number of a row to the next, `w_strip` those
        from the columns of one tile to those of the next; of w, one of the first two is that of
        neighbours. Sums start from the row at `bias`, from zeros where that is 0.
        """
        by_columns = w_next != size
        packs = by_columns or (rows >= _COPIED_ROWS and w_step >= _FAR)
        gathers = x_step == size and x_next >= _FAR and columns > 2 * width_of_tile
        tall = (rows + _ROWS - 1) // _ROWS * _ROWS
        gathered = np.empty(tall * min(depth, _DEPTH) if gathers else 1, number)
        packed = np.empty(width_of_tile * min(depth, _DEPTH) if packs else 1, number)
        zeros = np.zeros(width_of_tile, number)
        for k in range(0, depth, _DEPTH):
            deep = min(_DEPTH, depth - k)
            first, row_step, next_step = x + k * x_next, x_step, x_next
            if gathers:
                gather(first, x_next, deep, rows, gathered.ctypes.data)
                first, row_step, next_step = gathered.ctypes.data, size * deep, size * _ROWS
            beside = size if gathers else x_step
            for f in range(0, columns, width_of_tile):
                count = min(width_of_tile, columns - f)
                source, step = w + k * w_step + f // width_of_tile * w_strip, w_step
                if packs:
                    if by_columns:
                        turn(source, w_next, deep, count, packed.ctypes.data)
                    else:
                        copy(source, step, deep, count, packed.ctypes.data)
                    source, step = packed.ctypes.data, size * width_of_tile
                for q in range(0, rows, _ROWS):
                    x_rows = first + q * row_step
                    to = y + q * y_step + size * f
                    start, start_step = zeros.ctypes.data, 0
                    if k:
                        start, start_step = to, y_step
                    elif bias:
                        start = bias + size * f
                    last = rows - 1 - q
                    # What is read next comes from far while the sums of this tile are made: the
                    # next rows of many, or, tile by tile, the next of the strips.
                    ahead_of_tile = 0
                    if rows >= _MANY_ROWS:
                        ahead_of_tile = 0 if f else x_rows + _ROWS * beside
                    elif w_strip != width_of_tile * w_next and f + width_of_tile < columns:
                        ahead_of_tile = source + w_strip + CACHE_LINE * deep * (q // _ROWS)
                    if count == width_of_tile and ahead_of_tile:
                        fetching_product_tile(
                            size, _ROWS, _VECTORS, lanes, x_rows, beside, next_step, source, step,
                            deep, start, start_step, last, to, y_step, ahead_of_tile,
                        )  # fmt: skip
                    elif count == width_of_tile:
                        whole_product_tile(
                            size, _ROWS, _VECTORS, lanes, x_rows, beside, next_step, source, step,
                            deep, start, start_step, last, to, y_step,
                        )  # fmt: skip
                    elif count <= _NARROW * lanes:
                        product_tile(
                            size, _ROWS, _NARROW, lanes, x_rows, beside, next_step, source, step,
                            deep, start, start_step, last, to, y_step, count,
                        )  # fmt: skip
                    elif count <= _HALF * lanes:
                        product_tile(
                            size, _ROWS, _HALF, lanes, x_rows, beside, next_step, source, step,
                            deep, start, start_step, last, to, y_step, count,
                        )  # fmt: skip
                    else:
                        product_tile(
                            size, _ROWS, _VECTORS, lanes, x_rows, beside, next_step, source, step,
                            deep, start, start_step, last, to, y_step, count,
                        )  # fmt: skip
        keep_alive(gathered)
        keep_alive(packed)
        keep_alive(zeros)

    @by_parts(matrix, matrix, types.Array(kind, 2, "C"), types.intp, types.intp)
    def product(part, parts, x, w, y, height, width):
        """A block of y = x @ w, of `height` rows and `width` columns but for the last ones.

        Numbers of w lie side by side in its rows or in its columns. Each sum is added up in order,
        so how blocks are cut changes no bits.
        """
        across = (y.shape[1] + width - 1) // width
        top, left = part // across * height, part % across * width
        block_of(
            x.ctypes.data + top * x.strides[0], x.strides[0], x.strides[1],
            w.ctypes.data + left * w.strides[1], w.strides[0], w.strides[1],
            width_of_tile * w.strides[1],
            0, y.ctypes.data + top * y.strides[0] + size * left, y.strides[0],
            x.shape[1], min(height, y.shape[0] - top), min(width, y.shape[1] - left),
        )  # fmt: skip

    @by_parts(
        matrix, matrix, types.Array(kind, 1, "C", readonly=True), types.Array(kind, 2, "C"),
        types.intp, types.intp, kind,
    )  # fmt: skip
    def biased_product(part, parts, x, w, bias, y, height, width, low):
        """The same of y = max(x @ w + bias, low): sums start from the bias."""
        across = (y.shape[1] + width - 1) // width
        top, left = part // across * height, part % across * width
        bottom, right = min(top + height, y.shape[0]), min(left + width, y.shape[1])
        block_of(
            x.ctypes.data + top * x.strides[0], x.strides[0], x.strides[1],
            w.ctypes.data + left * w.strides[1], w.strides[0], w.strides[1],
            width_of_tile * w.strides[1], bias.ctypes.data + size * left,
            y.ctypes.data + top * y.strides[0] + size * left, y.strides[0],
            x.shape[1], bottom - top, right - left,
        )  # fmt: skip
        if low > -np.inf:
            for i in range(top, bottom):
                for j in range(left, right):
                    y[i, j] = low if y[i, j] < low else y[i, j]

    @by_parts(stack, stack, types.Array(kind, 4, "C"), types.intp, types.intp)
    def stacked_product(part, parts, x, w, y, height, width):
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
                width_of_tile * w.strides[3],
                0, to + top * y.strides[2] + size * left, y.strides[2],
                x.shape[3], min(height, rows - top), min(width, columns - left),
            )  # fmt: skip

    return product, stacked_product, biased_product, block_of


product, stacked_product, biased_product, _block_of = _kernels(np.float32, types.float32)
product_double, stacked_product_double, _, _ = _kernels(np.float64, types.float64)

_READ_ONLY = types.Array(types.float32, 2, "A", readonly=True)
_READ_VECTOR = types.Array(types.float32, 1, "C", readonly=True)
_SIZE_OF_TILE = _VECTORS * _FLOATS


@by_parts(
    _READ_ONLY,
    _READ_ONLY,
    _READ_VECTOR,
    VECTOR,
    VECTOR,
    MATRIX,
    MATRIX,
    *[types.intp] * 3,
    *[types.float32] * 2,
)
def finished_product(
    part, parts, x, w, bias, factor, shift, residual, y, height, width, strip, low, high
):
    """As `biased_product`, with what follows done to each block.

    w may be a matrix, or its strips of as many columns as a tile has, one below the other; `strip`
    is the bytes from one to the next. An empty bias, factor or residual is none.
    """
    across = (y.shape[1] + width - 1) // width
    top, left = part // across * height, part % across * width
    bottom, right = min(top + height, y.shape[0]), min(left + width, y.shape[1])
    at = 4 * (top * y.shape[1] + left)
    _block_of(
        x.ctypes.data + top * x.strides[0], x.strides[0], x.strides[1],
        w.ctypes.data + left // _SIZE_OF_TILE * strip, w.strides[0], w.strides[1], strip,
        bias.ctypes.data + 4 * left if len(bias) else 0,
        y.ctypes.data + at, y.strides[0], x.shape[1], bottom - top, right - left,
    )  # fmt: skip
    if len(factor):
        finish_block(
            y.ctypes.data + at, y.strides[0],
            factor.ctypes.data + 4 * left, shift.ctypes.data + 4 * left,
            residual.ctypes.data + at if residual.shape[0] else 0, y.strides[0],
            bottom - top, right - left, low, high,
        )  # fmt: skip
    elif low > -np.inf:
        for i in range(top, bottom):
            for j in range(left, right):
                y[i, j] = low if y[i, j] < low else y[i, j]
