"""Products of matrices of any size, by register tiles, in blocks that threads take one by one."""

from __future__ import annotations

import numpy as np
from numba import types

from trainkit.kernels.convolution.conv_microkernels import copy_floats, turn_square
from trainkit.kernels.jit.builders import MATRIX, by_parts
from trainkit.kernels.jit.options import compiled
from trainkit.kernels.jit.register_tiles import tiling
from trainkit.kernels.matmul.matmul_compiled import product_tile, whole_product_tile

_GIVEN = types.Array(types.float32, 2, "A", readonly=True)
_ROWS, _VECTORS, _LANES = tiling(4)
_WIDTH = _VECTORS * _LANES
"""Columns of a tile."""
_HALF, _NARROW = max(1, _VECTORS // 2), max(1, _VECTORS // 4)
"""Vectors of the last tile of a row, where it has fewer columns."""
_DEPTH = 512
"""Numbers of a row that are multiplied before the next columns come: the weights of a tile then
stay in the second cache, 128 KB at most."""
_COPIED_ROWS = 24
"""From so many rows on, weights are laid side by side before they are multiplied."""
_FAR = 512
"""Where numbers are so many bytes apart, or more; nearer ones are read as they are. Many such
numbers would take each other's place in the first cache."""


@compiled(parallel=False)
def _copy(w, w_step, depth, count, packed):
    """`count` columns of weights, at an address, with rows side by side."""
    for k in range(depth):
        copy_floats(packed + 4 * _WIDTH * k, w + k * w_step, count)


@compiled(parallel=False)
def _turn(w, w_step, depth, count, packed):
    """The same of weights that lie by columns, `w_step` bytes apart."""
    whole = depth // _LANES * _LANES if count == _WIDTH else 0
    for f in range(0, _WIDTH, _LANES):
        for k in range(0, whole, _LANES):
            to = packed + 4 * (_WIDTH * k + f)
            turn_square(_LANES, w + f * w_step + 4 * k, w_step, to, 4 * _WIDTH)
    for k in range(whole, depth):
        for f in range(count):
            copy_floats(packed + 4 * (_WIDTH * k + f), w + f * w_step + 4 * k, 1)


@compiled(parallel=False)
def _gather(x, x_next, depth, rows, packed):
    """Rows that lie by columns, at an address: those of a tile side by side, then the next."""
    for q in range(0, rows, _ROWS):
        for k in range(depth):
            to, at = packed + 4 * (q * depth + k * _ROWS), x + 4 * q + k * x_next
            copy_floats(to, at, _ROWS if rows - q >= _ROWS else rows - q)


@by_parts(_GIVEN, _GIVEN, MATRIX, types.intp, types.intp)
def product(part, parts, x, w, y, height, width):
    """A block of y = x @ w, of `height` rows and `width` columns but for the last ones.

    Numbers of w lie side by side in its rows or in its columns. Each sum is added up in order, so
    how blocks are cut changes no bits.
    """
    rows, columns, depth = y.shape[0], y.shape[1], x.shape[1]
    across = (columns + width - 1) // width
    top, left = part // across * height, part % across * width
    bottom, right = min(top + height, rows), min(left + width, columns)
    by_columns = w.strides[1] != 4
    packs = by_columns or (bottom - top >= _COPIED_ROWS and w.strides[0] >= _FAR)
    gathers = x.strides[0] == 4 and x.strides[1] >= _FAR and right - left > 2 * _WIDTH
    tall = (bottom - top + _ROWS - 1) // _ROWS * _ROWS
    gathered = np.empty(tall * min(depth, _DEPTH) if gathers else 1, np.float32)
    packed = np.empty(_WIDTH * min(depth, _DEPTH) if packs else 1, np.float32)
    zeros = np.zeros(_WIDTH, np.float32)
    x_step, x_next, y_step = x.strides[0], x.strides[1], y.strides[0]
    for k in range(0, depth, _DEPTH):
        deep = min(_DEPTH, depth - k)
        first, row_step, next_step = x.ctypes.data + top * x_step + k * x_next, x_step, x_next
        if gathers:
            _gather(first, x_next, deep, bottom - top, gathered.ctypes.data)
            first, row_step, next_step = gathered.ctypes.data, 4 * deep, 4 * _ROWS
        beside = 4 if gathers else x_step
        for f in range(left, right, _WIDTH):
            count = min(_WIDTH, right - f)
            source = w.ctypes.data + k * w.strides[0] + f * w.strides[1]
            step = w.strides[0]
            if packs:
                if by_columns:
                    _turn(source, w.strides[1], deep, count, packed.ctypes.data)
                else:
                    _copy(source, step, deep, count, packed.ctypes.data)
                source, step = packed.ctypes.data, 4 * _WIDTH
            for q in range(top, bottom, _ROWS):
                seen = first + (q - top) * row_step
                to = y.ctypes.data + q * y_step + 4 * f
                start, start_step = (to, y_step) if k else (zeros.ctypes.data, 0)
                last = bottom - 1 - q
                if count == _WIDTH:
                    whole_product_tile(
                        _ROWS, _VECTORS, _LANES, seen, beside, next_step, source, step, deep,
                        start, start_step, last, to, y_step,
                    )  # fmt: skip
                elif count <= _NARROW * _LANES:
                    product_tile(
                        _ROWS, _NARROW, _LANES, seen, beside, next_step, source, step, deep,
                        start, start_step, last, to, y_step, count,
                    )  # fmt: skip
                elif count <= _HALF * _LANES:
                    product_tile(
                        _ROWS, _HALF, _LANES, seen, beside, next_step, source, step, deep,
                        start, start_step, last, to, y_step, count,
                    )  # fmt: skip
                else:
                    product_tile(
                        _ROWS, _VECTORS, _LANES, seen, beside, next_step, source, step, deep,
                        start, start_step, last, to, y_step, count,
                    )  # fmt: skip
