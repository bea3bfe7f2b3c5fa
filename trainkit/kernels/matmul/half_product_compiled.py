"""Products of 16-bit floats: both operands are laid side by side as words, sums are float32.

Where the processor has AVX512-BF16 a word is a pair of bfloat16, whose products it adds to a sum in
one instruction; elsewhere, and of float16, it is one number as float32. With AMX-BF16 tiles of such
pairs are multiplied. Each sum is rounded once, at its end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from trainkit.core.cpu.cost_model import CACHE_LINE, PAGE
from trainkit.kernels.convolution.conv_microkernels import turn_square
from trainkit.kernels.jit.builders import by_parts
from trainkit.kernels.jit.emitters import fetch_bytes
from trainkit.kernels.jit.local_arrays import keep_alive
from trainkit.kernels.jit.options import compiled
from trainkit.kernels.jit.register_tiles import BLOCK_DEPTH, block_tiling
from trainkit.kernels.matmul.half_tiles import (
    FLOAT16S,
    PAIRS,
    SINGLES,
    TILE_ROWS,
    begin_tiles,
    copy_words,
    end_tiles,
    finish_rows,
    half_tile,
    join_rows,
    multiply_tiles,
    turn_words,
)
from trainkit.kernels.matmul.product_compiled import STREAMS, UNROLLED
from trainkit.kernels.threads.parallel_for import chunk_range

_ROWS, _VECTORS, _LANES = block_tiling()
_SHORT = _ROWS // 2
"""Rows of the tiles of the last ones."""
_COLUMNS = _VECTORS * _LANES
_ROW_VECTORS = -(-_ROWS // _LANES)
"""Vectors that the words of a tile's rows take, laid side by side."""
TILE_DEPTH = 2 * BLOCK_DEPTH
"""Numbers of a row whose sums stay in tiles."""
_NEGATIVE = 0x8000
_MINUS_INF = {SINGLES: 0xFF80, PAIRS: 0xFF80, FLOAT16S: 0xFC00}
"""The bits of -0 and of -inf; those of negative numbers lie between them, those of NaN behind."""


@compiled(parallel=False)
def _whole_vectors(words):
    """So many words, rounded up to whole vectors."""
    return (words + _LANES - 1) // _LANES * _LANES


def _packers(kind: int) -> tuple[Any, Any, Any]:
    """What lays operands side by side, as words of a kind."""
    each = 2 if kind == PAIRS else 1  # numbers of a word

    @compiled(parallel=False)
    def lay_rows(source, step, depth, count, width, vectors, target, strip_step, zeros):
        """Rows, `step` bytes apart, whose columns are cut into strips of `width`, one by one.

        Vectors are written whole: what is beyond `width` is overwritten by the next row.
        """
        words = (depth + each - 1) // each
        for first in range(0, words, UNROLLED):
            some = min(UNROLLED, words - first)
            for row in range(each * (first + STREAMS), each * (first + STREAMS + some)):
                fetch_bytes(source + row * step, 2 * count)
            for f in range(0, count, width):
                for word in range(first, first + some):
                    low = source + each * word * step + 2 * f
                    high = low + step if each * word + 1 < depth else zeros
                    to = target + f // width * strip_step + 4 * width * word
                    if width == _COLUMNS:
                        if count - f >= _COLUMNS:
                            join_rows(kind, 0, _VECTORS, _LANES, low, high, _COLUMNS, to)
                        else:
                            join_rows(kind, 1, _VECTORS, _LANES, low, high, count - f, to)
                    elif count - f >= _ROW_VECTORS * _LANES:
                        join_rows(kind, 0, _ROW_VECTORS, _LANES, low, high, _ROWS, to)
                    else:
                        left = min(_ROWS, count - f)
                        join_rows(kind, 1, _ROW_VECTORS, _LANES, low, high, left, to)

    @compiled(parallel=False)
    def turn_columns(source, step, depth, count, target, strip_step):
        """Columns, `step` bytes apart, whose numbers are neighbours, as the strips of rows."""
        for f in range(0, count, _LANES):
            strip = target + f // _COLUMNS * strip_step + 4 * (f % _COLUMNS)
            last = min(_LANES, count - f) - 1
            for k in range(0, depth, each * _LANES):
                at = source + f * step + 2 * k
                to = strip + 4 * _COLUMNS * (k // each)
                if depth - k >= each * _LANES:
                    turn_words(kind, 0, _LANES, at, step, last, 0, to, 4 * _COLUMNS)
                else:
                    turn_words(kind, 1, _LANES, at, step, last, depth - k, to, 4 * _COLUMNS)

    @compiled(parallel=False)
    def copy_row(source, depth, target):
        """A row whose numbers are neighbours, as words; 0 stands behind its end."""
        for k in range(0, depth, each * _LANES):
            to = target + 4 * (k // each)
            if depth - k >= each * _LANES:
                copy_words(kind, 0, _LANES, source + 2 * k, 0, to)
            else:
                copy_words(kind, 1, _LANES, source + 2 * k, depth - k, to)

    return lay_rows, turn_columns, copy_row


def _blocks_by_words(kind: int) -> Any:
    """What makes a block of a product of words of a kind."""
    each = 2 if kind == PAIRS else 1
    lay_rows, turn_columns, copy_row = _packers(kind)

    @compiled(parallel=False)
    def multiply(
        x, x_step, x_tile, x_next, strip, words, start, start_step, rows, y, y_step, count, rounds
    ):
        """Rows times the columns of one tile; its results are rounded where `rounds` is set."""
        for q in range(0, rows, _ROWS):
            x_rows, first, to = x + q // _ROWS * x_tile, start + q * start_step, y + q * y_step
            if count == _COLUMNS and rows - q > _SHORT:
                last = min(_ROWS, rows - q) - 1
                if rounds:
                    half_tile(
                        kind, 1, 0, _ROWS, _VECTORS, _LANES, x_rows, x_step, x_next,
                        strip, 4 * _COLUMNS, words, first, start_step, last, to, y_step, count,
                    )  # fmt: skip
                else:
                    half_tile(
                        kind, 0, 0, _ROWS, _VECTORS, _LANES, x_rows, x_step, x_next,
                        strip, 4 * _COLUMNS, words, first, start_step, last, to, y_step, count,
                    )  # fmt: skip
                continue
            for p in range(0, min(_ROWS, rows - q), _SHORT):
                last = min(_SHORT, rows - q - p) - 1
                if rounds:
                    half_tile(
                        kind, 1, 1, _SHORT, _VECTORS, _LANES, x_rows + p * x_step, x_step, x_next,
                        strip, 4 * _COLUMNS, words, first + p * start_step, start_step, last,
                        to + p * y_step, y_step, count,
                    )  # fmt: skip
                else:
                    half_tile(
                        kind, 0, 1, _SHORT, _VECTORS, _LANES, x_rows + p * x_step, x_step, x_next,
                        strip, 4 * _COLUMNS, words, first + p * start_step, start_step, last,
                        to + p * y_step, y_step, count,
                    )  # fmt: skip

    @compiled(parallel=False)
    def block_of(
        x, x_step, x_next, w, w_step, w_next, bias, y, y_step, depth, rows, columns, rounds
    ):
        """A block of a product, all given by addresses and the bytes from row to row.

        `x_next` and `w_next` are the bytes from one number of a row to the next; of x and of w, one
        of both is that of neighbours. Sums start from the float32 at `bias`, from zeros where that
        is 0. Results have 16 bits where `rounds` is set, else they are float32.
        """
        most = each * BLOCK_DEPTH
        words = _whole_vectors((min(depth, most) + each - 1) // each)
        tiles, strips = (
            (rows + _ROWS - 1) // _ROWS,
            min(STREAMS, (columns + _COLUMNS - 1) // _COLUMNS),
        )
        gathers = x_next != 2
        # pairs that are neighbours are read where they lie
        copies = not gathers and (
            each == 1 or depth % 2 == 1 or (x_step % PAGE == 0 and columns > _COLUMNS)
        )
        # A line more from one to the next: at a power of two they would meet in the first cache.
        copy_step = 4 * words + CACHE_LINE
        panel_step = 4 * _ROWS * words + CACHE_LINE
        strip_step = 4 * _COLUMNS * words + CACHE_LINE
        room = tiles * (panel_step if gathers else _ROWS * copy_step) // 4
        beside = np.empty(room if gathers or copies else 1, np.float32)
        packed = np.empty((strips * strip_step + CACHE_LINE) // 4, np.float32)
        packed_at = (packed.ctypes.data + CACHE_LINE - 1) // CACHE_LINE * CACHE_LINE
        sums = np.empty(rows * columns if depth > most and rounds else 1, np.float32)
        zeros = np.zeros(_COLUMNS, np.float32)
        nothing = zeros.ctypes.data
        for k in range(0, depth, most):
            deep = min(most, depth - k)
            first, row_step, next_step = x + k * x_next, x_step, 4
            tile_step = _ROWS * x_step
            if gathers:
                lay_rows(
                    first, x_next, deep, rows, _ROWS, _ROW_VECTORS, beside.ctypes.data, panel_step,
                    nothing,
                )  # fmt: skip
                first, row_step, tile_step = beside.ctypes.data, 4, panel_step
                next_step = 4 * _ROWS
            elif copies:
                for q in range(rows):
                    copy_row(first + q * x_step, deep, beside.ctypes.data + q * copy_step)
                first, row_step, tile_step = beside.ctypes.data, copy_step, _ROWS * copy_step
            to, to_step, size, is_last = y, y_step, 2 if rounds else 4, k + deep >= depth
            if rounds and not is_last:
                to, to_step, size = sums.ctypes.data, 4 * columns, 4
            for f in range(0, columns, _COLUMNS):
                strip = f // _COLUMNS % STREAMS
                if strip == 0:
                    some, source = min(STREAMS * _COLUMNS, columns - f), w + k * w_step + f * w_next
                    if w_next == 2:
                        lay_rows(
                            source, w_step, deep, some, _COLUMNS, _VECTORS, packed_at, strip_step,
                            nothing,
                        )  # fmt: skip
                    else:
                        turn_columns(source, w_next, deep, some, packed_at, strip_step)
                start, start_step = nothing, 0
                if k:
                    start, start_step = (sums.ctypes.data if rounds else y), 4 * columns
                    if not rounds:
                        start_step = y_step
                    start += 4 * f
                elif bias:
                    start = bias + 4 * f
                multiply(
                    first, row_step, tile_step, next_step, packed_at + strip * strip_step,
                    (deep + each - 1) // each, start, start_step, rows, to + size * f, to_step,
                    min(_COLUMNS, columns - f), rounds and is_last,
                )  # fmt: skip
        keep_alive(beside)
        keep_alive(packed)
        keep_alive(sums)
        keep_alive(zeros)

    return block_of


def _blocks_by_tiles() -> Any:
    """What makes a block of a product of pairs by tiles of 16 rows of them."""
    lay_rows, turn_columns, copy_row = _packers(PAIRS)

    @compiled(parallel=False)
    def turn_rows(source, step, depth, rows, target, target_step, square, zeros):
        """Rows that lie by columns, `step` bytes apart, as rows of pairs; `square` has room."""
        for q in range(0, rows, TILE_ROWS):
            for k in range(0, depth, 2 * TILE_ROWS):
                for pair in range(TILE_ROWS):
                    at = k + 2 * pair
                    low = source + 2 * q + at * step if at < depth else zeros
                    high = low + step if at + 1 < depth else zeros
                    to = square + 4 * TILE_ROWS * pair
                    if rows - q >= TILE_ROWS:
                        join_rows(PAIRS, 0, 1, TILE_ROWS, low, high, TILE_ROWS, to)
                    else:
                        join_rows(PAIRS, 1, 1, TILE_ROWS, low, high, rows - q, to)
                to = target + q * target_step + 2 * k
                turn_square(TILE_ROWS, square, 4 * TILE_ROWS, to, target_step)

    @compiled(parallel=False)
    def multiply(
        x, x_step, last_rows, last_step, strip, depth, sums, start, start_step, rows, y, y_step,
        count, rounds,
    ):  # fmt: skip
        """Rows times the columns of a strip; those that fill no tile lie at `last_rows`."""
        whole_end = rows // TILE_ROWS * TILE_ROWS
        for q in range(0, rows, 2 * TILE_ROWS):
            first, first_step, second, second_step = x + q * x_step, x_step, last_rows, last_step
            if q >= whole_end:
                first, first_step = last_rows, last_step
            elif q + 2 * TILE_ROWS <= whole_end:
                second, second_step = first + TILE_ROWS * x_step, x_step
            if rows - q > TILE_ROWS:
                multiply_tiles(1, first, first_step, second, second_step, strip, depth, sums)
            else:
                multiply_tiles(0, first, first_step, second, second_step, strip, depth, sums)
            some = min(2 * TILE_ROWS, rows - q)
            from_, to = start + q * start_step, y + q * y_step
            if count < _COLUMNS and rounds:
                finish_rows(
                    1, 1, _VECTORS, _LANES, sums, from_, start_step, some, to, y_step, count
                )
            elif count < _COLUMNS:
                finish_rows(
                    0, 1, _VECTORS, _LANES, sums, from_, start_step, some, to, y_step, count
                )
            elif rounds:
                finish_rows(
                    1, 0, _VECTORS, _LANES, sums, from_, start_step, some, to, y_step, count
                )
            else:
                finish_rows(
                    0, 0, _VECTORS, _LANES, sums, from_, start_step, some, to, y_step, count
                )

    @compiled(parallel=False)
    def block_of(
        x, x_step, x_next, w, w_step, w_next, bias, y, y_step, depth, rows, columns, rounds
    ):
        """As that of words. Sums of `TILE_DEPTH` numbers are made in tiles, then added up."""
        words = _whole_vectors((min(depth, TILE_DEPTH) + 1) // 2)
        strips = min(STREAMS, (columns + _COLUMNS - 1) // _COLUMNS)
        turns = x_next != 2
        # Rows that are neighbours are read where they lie, but for what does not fill a tile.
        copies = (
            turns
            or depth % (2 * TILE_ROWS) != 0
            or (x_step % PAGE == 0 and columns > STREAMS * _COLUMNS)
        )
        whole_end = rows // TILE_ROWS * TILE_ROWS
        copy_step = 4 * words + CACHE_LINE
        strip_step = 4 * _COLUMNS * words + CACHE_LINE
        room = (whole_end if copies else 0) + TILE_ROWS
        beside = np.empty((room * copy_step + CACHE_LINE) // 4, np.float32)
        packed = np.empty((strips * strip_step + CACHE_LINE) // 4, np.float32)
        sums_of_tiles = np.empty((2 * TILE_ROWS * 4 * _COLUMNS + CACHE_LINE) // 4, np.float32)
        sums = np.empty(rows * columns if depth > TILE_DEPTH and rounds else 1, np.float32)
        zeros = np.zeros(_COLUMNS, np.float32)
        settings = np.zeros(64, np.uint8)
        settings[0] = 1
        for tile in range(8):
            settings[16 + 2 * tile], settings[48 + tile] = 4 * TILE_ROWS, TILE_ROWS
        nothing = zeros.ctypes.data
        beside_at = (beside.ctypes.data + CACHE_LINE - 1) // CACHE_LINE * CACHE_LINE
        packed_at = (packed.ctypes.data + CACHE_LINE - 1) // CACHE_LINE * CACHE_LINE
        tile_at = (sums_of_tiles.ctypes.data + CACHE_LINE - 1) // CACHE_LINE * CACHE_LINE
        begin_tiles(settings.ctypes.data)
        for k in range(0, depth, TILE_DEPTH):
            deep = min(TILE_DEPTH, depth - k)
            sixteens = (deep + 2 * TILE_ROWS - 1) // (2 * TILE_ROWS)
            first, row_step, last_rows = x + k * x_next, x_step, beside_at
            if turns:
                # a square of it is turned where the first sums come to lie later
                turn_rows(first, x_next, deep, rows, beside_at, copy_step, tile_at, nothing)
            else:
                for q in range(0 if copies else whole_end, rows):
                    to = beside_at + (q if copies else q - whole_end) * copy_step
                    copy_row(first + q * x_step, deep, to)
            if copies:
                first, row_step, last_rows = beside_at, copy_step, beside_at + whole_end * copy_step
            to, to_step, size, is_last = y, y_step, 2 if rounds else 4, k + deep >= depth
            if rounds and not is_last:
                to, to_step, size = sums.ctypes.data, 4 * columns, 4
            for f in range(0, columns, _COLUMNS):
                strip = f // _COLUMNS % STREAMS
                if strip == 0:
                    some, source = min(STREAMS * _COLUMNS, columns - f), w + k * w_step + f * w_next
                    if w_next == 2:
                        lay_rows(
                            source, w_step, deep, some, _COLUMNS, _VECTORS, packed_at, strip_step,
                            nothing,
                        )  # fmt: skip
                        for each in range((some + _COLUMNS - 1) // _COLUMNS):
                            for word in range((deep + 1) // 2, TILE_ROWS * sixteens):
                                at = packed_at + each * strip_step + 4 * _COLUMNS * word
                                join_rows(PAIRS, 0, _VECTORS, _LANES, nothing, nothing, 0, at)
                    else:
                        turn_columns(source, w_next, deep, some, packed_at, strip_step)
                start, start_step = nothing, 0
                if k:
                    start, start_step = (sums.ctypes.data if rounds else y), 4 * columns
                    if not rounds:
                        start_step = y_step
                    start += 4 * f
                elif bias:
                    start = bias + 4 * f
                multiply(
                    first, row_step, last_rows, copy_step, packed_at + strip * strip_step,
                    sixteens, tile_at, start, start_step, rows, to + size * f, to_step,
                    min(_COLUMNS, columns - f), rounds and is_last,
                )  # fmt: skip
        end_tiles()
        keep_alive(beside)
        keep_alive(packed)
        keep_alive(sums_of_tiles)
        keep_alive(sums)
        keep_alive(zeros)
        keep_alive(settings)

    return block_of


def _kernels(block_of: Any, minus_inf: int) -> tuple[Any, Any]:
    """The builders of a product and of a stack of them, by what makes a block.

    Args:
        block_of: see `_blocks_by_words`.
        minus_inf: the bits of -inf.
    """
    matrix = types.Array(types.uint16, 2, "A", readonly=True)
    stack = types.Array(types.uint16, 4, "A", readonly=True)
    bias_kind = types.Array(types.float32, 1, "C", readonly=True)

    @by_parts(
        matrix, matrix, bias_kind, types.Array(types.uint16, 2, "C"), *[types.intp] * 4,
    )  # fmt: skip
    def product(part, parts, x, w, bias, y, height, width, rounds, rectifies):
        """A block of y = x @ w + bias, of `height` rows and `width` columns but for the last ones.

        Each sum is added up in order, so how blocks are cut changes no bits. y holds the halves of
        float32 where `rounds` is 0. Negative results become 0 where `rectifies` is set.
        """
        size = 2 if rounds else 4
        columns = 2 * y.shape[1] // size
        across = (columns + width - 1) // width
        top, left = part // across * height, part % across * width
        bottom, right = min(top + height, y.shape[0]), min(left + width, columns)
        block_of(
            x.ctypes.data + top * x.strides[0], x.strides[0], x.strides[1],
            w.ctypes.data + left * w.strides[1], w.strides[0], w.strides[1],
            bias.ctypes.data + 4 * left if len(bias) else 0,
            y.ctypes.data + top * y.strides[0] + size * left, y.strides[0],
            x.shape[1], bottom - top, right - left, rounds,
        )  # fmt: skip
        if rectifies:
            for i in range(top, bottom):
                for j in range(left, right):
                    is_negative = _NEGATIVE <= y[i, j] <= minus_inf
                    y[i, j] = 0 if is_negative else y[i, j]

    @by_parts(stack, stack, types.Array(types.uint16, 4, "C"), types.intp, types.intp)
    def stacked_product(part, parts, x, w, y, height, width):
        """The same for stacks of matrices: each part takes blocks of some of them, one by one."""
        rows, columns = y.shape[2], y.shape[3]
        across = (columns + width - 1) // width
        blocks = (rows + height - 1) // height * across
        first, last = chunk_range(part, parts, y.shape[0] * y.shape[1] * blocks, 1)
        for task in range(first, last):
            item, block = np.int64(task) // blocks, np.int64(task) % blocks
            i, j = item // y.shape[1], item % y.shape[1]
            top, left = block // across * height, block % across * width
            a = x.ctypes.data + i * x.strides[0] + j * x.strides[1]
            b = w.ctypes.data + i * w.strides[0] + j * w.strides[1]
            to = y.ctypes.data + i * y.strides[0] + j * y.strides[1]
            block_of(
                a + top * x.strides[2], x.strides[2], x.strides[3],
                b + left * w.strides[3], w.strides[2], w.strides[3],
                0, to + top * y.strides[2] + 2 * left, y.strides[2],
                x.shape[3], min(height, rows - top), min(width, columns - left), 1,
            )  # fmt: skip

    return product, stacked_product


word_product, stacked_word_product = _kernels(_blocks_by_words(SINGLES), _MINUS_INF[SINGLES])
pair_product, stacked_pair_product = _kernels(_blocks_by_words(PAIRS), _MINUS_INF[PAIRS])
float16_product, stacked_float16_product = _kernels(
    _blocks_by_words(FLOAT16S), _MINUS_INF[FLOAT16S]
)
tile_product, stacked_tile_product = _kernels(_blocks_by_tiles(), _MINUS_INF[PAIRS])
