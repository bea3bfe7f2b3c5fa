"""Depthwise convolution in one or two dimensions, line by line.

A line of results needs a few lines of the source, which stay in the cache of a core from one line
to the next. Nothing is padded: tiles at the edges check what they read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float32, int64, prange, uint16, void
from numba.core.types import UniTuple

from trainkit.kernels.convolution.depthwise_microkernels import (
    CUT,
    EDGE,
    FREE,
    kernel_gradient_tile,
    line_tile,
    seen_by,
)
from trainkit.kernels.jit.local_arrays import keep_alive
from trainkit.kernels.jit.options import compiled
from trainkit.kernels.jit.register_tiles import tiling
from trainkit.kernels.threads.parallel_for import POOL, WITHOUT_POOL, chunk_range, spread

_LINES = {4: float32[:, :, ::1], 2: uint16[:, :, ::1]}
"""Of images, by the bytes of a number: of float32, or the bits of bfloat16."""
_MATRIX, _VECTOR = float32[:, ::1], float32[::1]
_TABLE = int64[:, ::1]
_LANES = tiling(1)[2]


# The arithmetic of what follows stays as it is written.
@compiled(parallel=False, exact=True)
def _lines_part(
    part, parts, x, kernel, bias, y, table, numbers, low, factor, shift, residual, limits, reach,
    pixels, window, stride, dilation, back, each, size,
):  # fmt: skip
    first_seen, last_seen, step = reach
    inside, outside, filters, width, y_width, position, y_position = numbers[:7]
    x_lines, w_rows, chunk, bands = numbers[7:]
    # Tiles at an edge read these in place of a pixel outside: a choice of addresses, not a
    # branch.
    zeros = np.zeros(_LANES, np.float32)
    zeros_at, bias_at = zeros.ctypes.data, bias.ctypes.data
    x_at, w_at, y_at = x.ctypes.data, kernel.ctypes.data, y.ctypes.data
    factor_at, follows = (factor.ctypes.data, 4) if len(factor) else (0, 0)
    shift_at = shift.ctypes.data
    residual_at, adds = (residual.ctypes.data, 1) if residual.shape[0] else (0, 0)
    x_step, y_step, w_offset = size * inside, size * outside, 4 * filters
    x_line, y_line, w_line = size * x.shape[2], size * y.shape[2], w_offset * window
    x_row, w_row = x_lines * x_line, w_rows * w_line
    lanes = _LANES
    x_lanes, y_lanes = (lanes, lanes // each) if back else (lanes // each, lanes)
    # Going back, the first tile may start before the line, so that it lies at a window.
    blocks = (y_width - y_position + pixels - 1) // pixels
    vectors, whole_vectors = (filters + lanes - 1) // lanes, filters // lanes
    chunks = (vectors + chunk - 1) // chunk
    start, stop = chunk_range(part, parts, x.shape[0] * bands, 1)
    for number in range(start, stop):
        task = np.int64(number)
        n, band = task // bands, task % bands
        first_line, last_line = band * len(table) // bands, (band + 1) * len(table) // bands
        # Line below line: what a tile reads is in the first cache when the one below reads it.
        for column in range(blocks * chunks):
            block, c0 = column // chunks, column % chunks * chunk
            c1 = min(c0 + chunk, vectors)
            whole_end = max(c0, min(c1, whole_vectors))
            at, to = position + block * step, y_position + block * pixels
            is_inside = to >= 0 and to + pixels <= y_width
            for i in range(first_line, last_line):
                first, rows, offset = table[i]
                # `rows` lines from here is the first line that this tile has not read, which the
                # tile below will.
                ahead = max(rows * x_row, x_line)
                # A line that sees nothing still needs its bias: one row is read, all of it outside.
                seen_width, some = (width, rows) if rows > 0 else (0, 1)
                x0 = x_at + (n * x.shape[1] + first) * x_line + at * x_step
                to_line = (n * y.shape[1] + i) * y_line + to * y_step
                weights = w_at + offset * w_line
                full = at + first_seen >= 0 and at + last_seen < seen_width
                free = whole_end if full and is_inside else c0
                for c in range(c0, free):
                    line_tile(
                        pixels, window, stride, dilation, back, each, lanes, size, FREE,
                        x0 + size * c * x_lanes, x_row, x_step, at, width, ahead,
                        weights + 4 * c * lanes, w_row, w_offset, rows,
                        bias_at + 4 * c * lanes,
                        y_at + to_line + size * c * y_lanes, y_step, to, y_width, y_line, lanes,
                        zeros_at, low, factor_at + follows * c * lanes, shift_at + 4 * c * lanes,
                        residual_at + adds * (to_line + 4 * c * lanes),
                        limits[0], limits[1],
                    )  # fmt: skip
                for c in range(free, whole_end):
                    line_tile(
                        pixels, window, stride, dilation, back, each, lanes, size, EDGE,
                        x0 + size * c * x_lanes, x_row, x_step, at, seen_width, ahead,
                        weights + 4 * c * lanes, w_row, w_offset, some,
                        bias_at + 4 * c * lanes,
                        y_at + to_line + size * c * y_lanes, y_step, to, y_width, y_line, lanes,
                        zeros_at, low, factor_at + follows * c * lanes, shift_at + 4 * c * lanes,
                        residual_at + adds * (to_line + 4 * c * lanes),
                        limits[0], limits[1],
                    )  # fmt: skip
                for c in range(whole_end, c1):
                    line_tile(
                        pixels, window, stride, dilation, back, each, lanes, size, CUT,
                        x0 + size * c * x_lanes, x_row, x_step, at, seen_width, ahead,
                        weights + 4 * c * lanes, w_row, w_offset, some,
                        bias_at + 4 * c * lanes,
                        y_at + to_line + size * c * y_lanes, y_step, to, y_width, y_line,
                        filters - c * lanes,
                        zeros_at, low, factor_at + follows * c * lanes, shift_at + 4 * c * lanes,
                        residual_at + adds * (to_line + 4 * c * lanes),
                        limits[0], limits[1],
                    )  # fmt: skip
    keep_alive(zeros)


def _lines_kernel(
    pixels: int, window: int, stride: int, dilation: int, back: int, each: int, size: int
) -> Any:
    """`run(pool, parts, ...)`: results, or the gradient by the input, some of a line at a time.

    Its arguments:
        x: (images, lines, numbers of a line): the input, or the gradients of windows.
        kernel: (rows of the kernel, window * filters).
        bias: (filters,); going back it is not read.
        y: (images, lines, numbers of a line).
        table: for each line of y the first line of x that it sees, how many it sees, and the row
            of the kernel under which the first lies.
        numbers: (channels of x, channels of y, filters, pixels of a line of x, of y, position in x
            and place in y of the first tile, lines of x from one seen line to the next, rows of
            the kernel from one to the next, vectors of filters that a tile and those below it
            take before the next vectors come, bands that the lines of y are split in).
        low: the smallest sum.
        factor, shift: (filters,), for what follows sums, or empty.
        residual: what is added then, of the shape of y, or empty.
        limits: the smallest result then, and the largest.

    Numbers of x and y have `size` bytes: 4, or 2 of bfloat16, which nothing follows.
    """
    triples = seen_by(pixels, window, stride, dilation, back)
    # Going back, `pixels` results lie over fewer windows, and are a multiple of the stride.
    step = pixels // stride if back else pixels * stride
    reach = triples[0][0], triples[-1][0], step

    @compiled(parallel=WITHOUT_POOL)
    def run(pool, parts, x, kernel, bias, y, table, numbers, low, factor, shift, residual, limits):
        operands = (
            x, kernel, bias, y, table, numbers, low, factor, shift, residual, limits, reach,
            pixels, window, stride, dilation, back, each, size,
        )  # fmt: skip
        if WITHOUT_POOL:
            for part in prange(parts):
                _lines_part(
                    part, parts, x, kernel, bias, y, table, numbers, low,
                    factor, shift, residual, limits, reach,
                    pixels, window, stride, dilation, back, each, size,
                )  # fmt: skip
        else:
            spread(pool, parts, _lines_part, operands)

    numbers_kind = UniTuple(int64, 11)
    kinds = _LINES[size], _MATRIX, _VECTOR, _LINES[size], _TABLE, numbers_kind, float32
    follows = _VECTOR, _VECTOR, _LINES[4], UniTuple(float32, 2)
    run.compile(void(*POOL, *kinds, *follows))
    return run


def lines(pixels: int, window: int, stride: int, dilation: int, back: int, each: int) -> Any:
    """The kernel for lines of float32."""
    return _lines_kernel(pixels, window, stride, dilation, back, each, 4)


def half_lines(pixels: int, window: int, stride: int, dilation: int, back: int, each: int) -> Any:
    """The kernel for lines of bfloat16."""
    return _lines_kernel(pixels, window, stride, dilation, back, each, 2)


@compiled(parallel=False)
def _kernel_gradient_part(
    part, parts, x, g, y, table, numbers, reach, pixels, window, stride, dilation, each, size
):
    last_seen, step = reach
    channels, filters, width, g_width, position, x_lines, chunk = numbers
    lanes = _LANES
    x_lanes = lanes // each
    zeros = np.zeros(_LANES, np.float32)
    zeros_at = zeros.ctypes.data
    x_at, g_at, y_at = x.ctypes.data, g.ctypes.data, y.ctypes.data
    x_step, g_step = size * channels, size * filters
    y_step, y_row = 4 * filters, 4 * filters * window
    x_line, g_line = size * x.shape[2], size * g.shape[2]
    x_row = x_lines * x_line
    shares, height = y.shape[0], len(table)
    total, blocks = x.shape[0] * height, (g_width + pixels - 1) // pixels
    vectors = (filters + lanes - 1) // lanes
    chunks = (vectors + chunk - 1) // chunk
    start, stop = chunk_range(part, parts, shares * chunks, 1)
    for number in range(start, stop):
        task = np.int64(number)
        share, c0 = task // chunks, task % chunks * chunk
        c1 = min(c0 + chunk, vectors)
        # Of this task's vectors only the last of all may be cut.
        whole_end = max(c0, min(c1, filters // lanes))
        # Shares are fixed by the shapes, and lines of one share are added up in order.
        for line in range(share * total // shares, (share + 1) * total // shares):
            n, i = line // height, line % height
            first, rows, offset = table[i]
            if rows == 0:
                continue
            source = x_at + (n * x.shape[1] + first) * x_line
            grads = g_at + (n * g.shape[1] + i) * g_line
            sums = y_at + share * y.shape[1] * y_step + offset * y_row
            for block in range(blocks):
                at, to = position + block * step, block * pixels
                x0, g0 = source + at * x_step, grads + to * g_step
                full = at >= 0 and at + last_seen < width and to + pixels <= g_width
                free = whole_end if full else c0
                for c in range(c0, free):
                    kernel_gradient_tile(
                        pixels, window, stride, dilation, each, lanes, size, 0,
                        x0 + size * c * x_lanes, x_row, x_step, at, width, rows * x_row,
                        g0 + size * c * lanes, g_step, to, g_width, g_line,
                        sums + 4 * c * lanes, y_row, y_step, rows, lanes,
                        zeros_at,
                    )  # fmt: skip
                for c in range(free, c1):
                    kernel_gradient_tile(
                        pixels, window, stride, dilation, each, lanes, size, 1,
                        x0 + size * c * x_lanes, x_row, x_step, at, width, rows * x_row,
                        g0 + size * c * lanes, g_step, to, g_width, g_line,
                        sums + 4 * c * lanes, y_row, y_step, rows, filters - c * lanes,
                        zeros_at,
                    )  # fmt: skip
    keep_alive(zeros)


def _gradient_kernel(
    pixels: int, window: int, stride: int, dilation: int, each: int, size: int
) -> Any:
    """`run(pool, parts, ...)`: the gradient by the kernel, some windows of a line at a time.

    Its arguments:
        x: (images, lines, numbers of a line).
        g: (images, lines of windows, numbers of a line).
        y: (shares, elements, filters), zeros, to which each share of all lines adds its sums.
        table: as for `lines`.
        numbers: (channels, filters, pixels of a line that any window sees, windows of a line,
            position of the first window, lines of x from one seen line to the next, vectors of
            filters of a task).

    Numbers of x and g have `size` bytes: 4, or 2 of bfloat16.
    """
    reach = seen_by(pixels, window, stride, dilation, 0)[-1][0], pixels * stride

    @compiled(parallel=WITHOUT_POOL)
    def run(pool, parts, x, g, y, table, numbers):
        operands = x, g, y, table, numbers, reach, pixels, window, stride, dilation, each, size
        if WITHOUT_POOL:
            for part in prange(parts):
                _kernel_gradient_part(
                    part, parts, x, g, y, table, numbers, reach,
                    pixels, window, stride, dilation, each, size,
                )  # fmt: skip
        else:
            spread(pool, parts, _kernel_gradient_part, operands)

    images = _LINES[size]
    run.compile(void(*POOL, images, images, _LINES[4], _TABLE, UniTuple(int64, 7)))
    return run


def kernel_gradient(pixels: int, window: int, stride: int, dilation: int, each: int) -> Any:
    """The kernel for images and gradients of float32."""
    return _gradient_kernel(pixels, window, stride, dilation, each, 4)


def half_kernel_gradient(pixels: int, window: int, stride: int, dilation: int, each: int) -> Any:
    """The kernel for images and gradients of bfloat16."""
    return _gradient_kernel(pixels, window, stride, dilation, each, 2)
