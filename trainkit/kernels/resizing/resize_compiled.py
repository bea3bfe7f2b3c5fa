"""Images by weighted sums along their columns and rows, compiled once for all sizes and methods.

Of each new row or pixel `bands` has the first old one and how many there are, and `weights` a row
of their weights. Whole rows are added up in vectors, whatever the number of channels; along a row
pixels of 1 or 3 channels go number by number, others in vectors too. Each new row is made by itself
and in one order, so the way in which the work is shared changes no bit.
"""

from __future__ import annotations

import numpy as np
from numba import float32, int64, types
from numba.core.types import UniTuple

from trainkit.core.cpu.cost_model import FIRST_FLOATS
from trainkit.kernels.jit.builders import FLAT, READ_MATRIX, by_parts
from trainkit.kernels.jit.local_arrays import keep_alive
from trainkit.kernels.jit.options import inlined
from trainkit.kernels.jit.register_tiles import tiling
from trainkit.kernels.resizing.weighted_runs import write_weighted
from trainkit.kernels.threads.parallel_for import chunk_range

_READ_FLAT = types.Array(float32, 1, "C", readonly=True)
_BANDS = types.Array(int64, 2, "C", readonly=True)
_KINDS = (
    _READ_FLAT, FLAT, UniTuple(int64, 2), _BANDS, READ_MATRIX, _BANDS, READ_MATRIX, types.intp
)  # fmt: skip
_LANES = tiling(1)[2]
_SHORT = FIRST_FLOATS // 16  # numbers of a run, of which sixteen fit into the first cache
_1 = np.uintp(1)


@inlined
def _add_pairs(source, at, size, count, weights, number, result, to):
    """Write the weighted sum of `count` runs of `size` numbers, at least 2, two at a time.

    The same place of many long runs may be in one set of a cache, which has not room for all.
    """
    start, target, step = np.uintp(at), np.uintp(to), np.uintp(size)
    w0, w1 = weights[number, 0], weights[number, 1]
    for i in range(step):
        result[target + i] = w0 * source[start + i] + w1 * source[start + step + i]
    for k in range(2, count - 1, 2):
        start += step + step
        w0, w1 = weights[number, k], weights[number, k + 1]
        for i in range(step):
            result[target + i] += w0 * source[start + i] + w1 * source[start + step + i]
    if count % 2:
        start += step + step
        w0 = weights[number, count - 1]
        for i in range(step):
            result[target + i] += w0 * source[start + i]


@inlined
def _add_up(source, at, size, count, weights, number, result, to):
    """Write the weighted sum of `count` runs of `size` numbers, which follow one another."""
    if count == 0:
        for i in range(size):
            result[np.uintp(to + i)] = 0
    elif count == 1 or size <= _SHORT:
        uncut, vectors = size // _LANES, (size + _LANES - 1) // _LANES
        row = weights.ctypes.data + 4 * number * weights.shape[1]
        first, target = source.ctypes.data + 4 * at, result.ctypes.data + 4 * to
        for v in range(vectors):
            skipped = 4 * _LANES * v
            if v < uncut:
                write_weighted(
                    _LANES, 0, first + skipped, row, target + skipped, count, 4 * size, _LANES
                )
            else:
                write_weighted(
                    _LANES, 1, first + skipped, row, target + skipped, count, 4 * size,
                    size - _LANES * v,
                )  # fmt: skip
    else:
        _add_pairs(source, at, size, count, weights, number, result, to)


@inlined
def _along_row(source, origin, bands, weights, channels, result, to):
    """Make a row, from `to` on in `result`, of the pixels from `origin` on."""
    if channels == 1:
        for j in range(bands.shape[0]):
            at, count = np.uintp(origin + bands[j, 0]), bands[j, 1]
            total = np.float32(0)
            for k in range(count):
                total += weights[j, k] * source[at + np.uintp(k)]
            result[np.uintp(to + j)] = total
    elif channels == 3:
        for j in range(bands.shape[0]):
            at, count = np.uintp(origin + 3 * bands[j, 0]), bands[j, 1]
            red = green = blue = np.float32(0)
            for k in range(count):
                weight = weights[j, k]
                red += weight * source[at]
                green += weight * source[at + _1]
                blue += weight * source[at + _1 + _1]
                at += np.uintp(3)
            target = np.uintp(to + 3 * j)
            result[target] = red
            result[target + _1] = green
            result[target + _1 + _1] = blue
    else:
        for j in range(bands.shape[0]):
            _add_up(
                source, origin + bands[j, 0] * channels, channels, bands[j, 1], weights, j,
                result, to + j * channels,
            )  # fmt: skip


@by_parts(*_KINDS, apart=True)
def shrink(
    part, parts, x, y, sizes, row_bands, row_weights, column_bands, column_weights, channels
):
    """Images of `sizes` (rows, columns): first along the columns, then along each new row."""
    high, width = row_bands.shape[0], sizes[1] * channels
    wide = column_bands.shape[0] * channels
    first, last = chunk_range(part, parts, y.size // wide, 1)
    line = np.empty(width, np.float32)
    for number in range(first, last):
        n, i = number // high, number % high
        at = (n * sizes[0] + row_bands[i, 0]) * width
        _add_up(x, at, width, row_bands[i, 1], row_weights, i, line, 0)
        _along_row(line, 0, column_bands, column_weights, channels, y, number * wide)
    keep_alive(line)


@by_parts(*_KINDS, apart=True)
def enlarge(
    part, parts, x, y, sizes, row_bands, row_weights, column_bands, column_weights, channels
):
    """The same first along each old row, for images that become higher.

    The old rows of a band lie in as many lines, each in that of its remainder, until another one
    needs it; and in as many behind them, so that a band that goes around the end is in one piece.
    """
    high, width = row_bands.shape[0], sizes[1] * channels
    wide, most = column_bands.shape[0] * channels, row_weights.shape[1]
    first, last = chunk_range(part, parts, y.size // wide, 1)
    lines = np.empty(2 * most * wide, np.float32)
    line_rows = np.empty(most, np.int64)
    for slot in range(most):
        line_rows[slot] = -1
    for number in range(first, last):
        n, i = number // high, number % high
        old, count = n * sizes[0] + row_bands[i, 0], row_bands[i, 1]
        for row in range(old, old + count):
            slot = row % most
            if line_rows[slot] != row:
                line_rows[slot] = row
                line, again = slot * wide, (most + slot) * wide
                _along_row(x, row * width, column_bands, column_weights, channels, lines, line)
                for k in range(wide):
                    lines[np.uintp(again + k)] = lines[np.uintp(line + k)]
        _add_up(lines, old % most * wide, wide, count, row_weights, i, y, number * wide)
    keep_alive(lines)
