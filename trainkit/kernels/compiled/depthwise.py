"""Depthwise convolution in one or two dimensions, line by line.

A line of results needs a few lines of the source, which stay in the cache of a core from one line
to the next. Nothing is padded: tiles at the edges check what they read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float32, int64, prange, void
from numba.core.types import UniTuple

from trainkit.kernels.compiled.line_tiles import line_tile, seen_by, tap_tile
from trainkit.kernels.compiled.options import compiled
from trainkit.kernels.compiled.tiles import tiling

_LINES, _TABLE = float32[:, :, ::1], int64[:, ::1]
_LANES = tiling(1)[2]


def lines(pixels: int, window: int, stride: int, dilation: int, back: int, each: int) -> Any:
    """Results, or going back the gradient by the input, `pixels` of a line at a time.

    Its arguments:
        x: (images, lines, numbers of a line): the input, or the gradients of windows.
        kernel: (rows of the kernel, window * filters).
        bias: (filters,); going back it is not read.
        y: (images, lines, numbers of a line).
        table: for each line of y the first line of x that it sees, how many it sees, and the row
            of the kernel under which the first lies.
        numbers: (channels of x, channels of y, filters, pixels of a line of x, of y, position in x
            and place in y of the first tile, lines of x from one seen line to the next, rows of
            the kernel from one to the next, bands that the lines of y are split in).
        low: the smallest result.
    """
    lanes = _LANES
    x_lanes, y_lanes = (lanes, lanes // each) if back else (lanes // each, lanes)
    seen = seen_by(pixels, window, stride, dilation, back)
    first_seen, last_seen = seen[0][0], seen[-1][0]
    step = pixels // stride if back else pixels * stride

    @compiled()
    def run(x, kernel, bias, y, table, numbers, low):
        inside, outside, filters, width, y_width, position, place, x_lines, w_rows, bands = numbers
        zeros = np.zeros(lanes, np.float32)
        zeros_at, bias_at = zeros.ctypes.data, bias.ctypes.data
        x_at, w_at, y_at = x.ctypes.data, kernel.ctypes.data, y.ctypes.data
        x_step, y_step, w_tap = 4 * inside, 4 * outside, 4 * filters
        x_line, y_line, w_line = 4 * x.shape[2], 4 * y.shape[2], w_tap * window
        x_row, w_row = x_lines * x_line, w_rows * w_line
        blocks = (y_width - place + pixels - 1) // pixels
        vectors, whole = (filters + lanes - 1) // lanes, filters // lanes
        for number in prange(x.shape[0] * bands):
            task = np.int64(number)  # prange counts in uint64, which with int64 would make floats
            n, band = task // bands, task % bands
            for i in range(band * len(table) // bands, (band + 1) * len(table) // bands):
                first, rows, tap = table[i]
                ahead = max(rows * x_row, x_line)  # the line after the last that is read here
                seen_width, some = (width, rows) if rows > 0 else (0, 1)
                source = x_at + (n * x.shape[1] + first) * x_line
                target = y_at + (n * y.shape[1] + i) * y_line
                weights = w_at + tap * w_line
                for block in range(blocks):
                    at, to = position + block * step, place + block * pixels
                    x0, y0 = source + at * x_step, target + to * y_step
                    full = at + first_seen >= 0 and at + last_seen < seen_width
                    free = whole if full and to >= 0 and to + pixels <= y_width else 0
                    for c in range(free):
                        line_tile(
                            pixels,
                            window,
                            stride,
                            dilation,
                            back,
                            each,
                            lanes,
                            0,
                            x0 + 4 * c * x_lanes,
                            x_row,
                            x_step,
                            at,
                            width,
                            ahead,
                            weights + 4 * c * lanes,
                            w_row,
                            w_tap,
                            rows,
                            bias_at + 4 * c * lanes,
                            y0 + 4 * c * y_lanes,
                            y_step,
                            to,
                            y_width,
                            y_line,
                            lanes,
                            zeros_at,
                            low,
                        )
                    for c in range(free, vectors):
                        line_tile(
                            pixels,
                            window,
                            stride,
                            dilation,
                            back,
                            each,
                            lanes,
                            1,
                            x0 + 4 * c * x_lanes,
                            x_row,
                            x_step,
                            at,
                            seen_width,
                            ahead,
                            weights + 4 * c * lanes,
                            w_row,
                            w_tap,
                            some,
                            bias_at + 4 * c * lanes,
                            y0 + 4 * c * y_lanes,
                            y_step,
                            to,
                            y_width,
                            y_line,
                            filters - c * lanes,
                            zeros_at,
                            low,
                        )

    run.compile(
        void(_LINES, float32[:, ::1], float32[::1], _LINES, _TABLE, UniTuple(int64, 10), float32)
    )
    return run


def taps(pixels: int, window: int, stride: int, dilation: int, each: int) -> Any:
    """The gradient by the kernel, from `pixels` windows of a line at a time.

    Its arguments:
        x: (images, lines, numbers of a line).
        g: (images, lines of windows, numbers of a line).
        y: (parts, taps, filters), zeros, to which each part of all lines adds its sums.
        table: as for `lines`.
        numbers: (channels, filters, pixels of a line that any window sees, windows of a line,
            position of the first window, lines of x from one seen line to the next, vectors of
            filters of a task).
    """
    lanes = _LANES
    x_lanes = lanes // each
    seen = seen_by(pixels, window, stride, dilation, 0)
    last_seen, step = seen[-1][0], pixels * stride

    @compiled()
    def run(x, g, y, table, numbers):
        channels, filters, width, g_width, position, x_lines, chunk = numbers
        zeros = np.zeros(lanes, np.float32)
        zeros_at = zeros.ctypes.data
        x_at, g_at, y_at = x.ctypes.data, g.ctypes.data, y.ctypes.data
        x_step, g_step, y_row = 4 * channels, 4 * filters, 4 * filters * window
        x_line, g_line = 4 * x.shape[2], 4 * g.shape[2]
        x_row = x_lines * x_line
        parts, height = y.shape[0], len(table)
        total, blocks = x.shape[0] * height, (g_width + pixels - 1) // pixels
        vectors = (filters + lanes - 1) // lanes
        chunks = (vectors + chunk - 1) // chunk
        for number in prange(parts * chunks):
            task = np.int64(number)
            part, c0 = task // chunks, task % chunks * chunk
            c1 = min(c0 + chunk, vectors)
            whole = max(c0, min(c1, filters // lanes))
            for line in range(part * total // parts, (part + 1) * total // parts):
                n, i = line // height, line % height
                first, rows, tap = table[i]
                if rows == 0:
                    continue
                source = x_at + (n * x.shape[1] + first) * x_line
                slopes = g_at + (n * g.shape[1] + i) * g_line
                sums = y_at + part * y.shape[1] * g_step + tap * y_row
                for block in range(blocks):
                    at, to = position + block * step, block * pixels
                    x0, g0 = source + at * x_step, slopes + to * g_step
                    full = at >= 0 and at + last_seen < width and to + pixels <= g_width
                    free = whole if full else c0
                    for c in range(c0, free):
                        tap_tile(
                            pixels,
                            window,
                            stride,
                            dilation,
                            each,
                            lanes,
                            0,
                            x0 + 4 * c * x_lanes,
                            x_row,
                            x_step,
                            at,
                            width,
                            rows * x_row,
                            g0 + 4 * c * lanes,
                            g_step,
                            to,
                            g_width,
                            g_line,
                            sums + 4 * c * lanes,
                            y_row,
                            g_step,
                            rows,
                            lanes,
                            zeros_at,
                        )
                    for c in range(free, c1):
                        tap_tile(
                            pixels,
                            window,
                            stride,
                            dilation,
                            each,
                            lanes,
                            1,
                            x0 + 4 * c * x_lanes,
                            x_row,
                            x_step,
                            at,
                            width,
                            rows * x_row,
                            g0 + 4 * c * lanes,
                            g_step,
                            to,
                            g_width,
                            g_line,
                            sums + 4 * c * lanes,
                            y_row,
                            g_step,
                            rows,
                            filters - c * lanes,
                            zeros_at,
                        )

    run.compile(void(_LINES, _LINES, _LINES, _TABLE, UniTuple(int64, 7)))
    return run
