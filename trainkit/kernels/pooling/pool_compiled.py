"""Pooling in up to three dimensions and rectified gradients, compiled once for all shapes.

The channels lie side by side, so that all loops over them become vector instructions. Images are
(batch, planes, rows, columns, channels); a `window` is (planes, rows, columns, stride_d, stride_h,
stride_w, front, top, left, backwards). Where `backwards` is 1, gradients visit the windows from the
last to the first: an element of several windows then adds their parts in the order of its positions
in them, as the plain version does.
"""

from __future__ import annotations

import numpy as np
from numba import float32, int64, uint16
from numba.core.types import UniTuple

from trainkit.kernels.jit.builders import MATRIX, by_parts
from trainkit.kernels.jit.elements import as_element, as_float
from trainkit.kernels.jit.options import inlined
from trainkit.kernels.jit.register_tiles import tiling
from trainkit.kernels.pooling.largest_values import give_to_first, write_largest
from trainkit.kernels.pooling.window_ranges import window_range
from trainkit.kernels.threads.parallel_for import chunk_range

_IMAGES = float32[:, :, :, :, ::1]
_HALF_IMAGES = uint16[:, :, :, :, ::1]  # of the bits of bfloat16
_WINDOW = UniTuple(int64, 10)
_LANES = tiling(1)[2]


@inlined
def _window_index(number, count, backwards):
    """The window that is visited after `number` others of `count` along an axis."""
    return count - 1 - number if backwards else number


def _max_pool(kind, size):
    """The builder for numbers of `size` bytes: float32, or bfloat16."""

    @by_parts(kind, kind, _WINDOW, exact=True, apart=True)
    def max_pool(part, parts, x, y, window):
        """The largest of each window."""
        start_n, stop_n = chunk_range(part, parts, x.shape[0], 1)
        planes, rows, columns, stride_d, stride_h, stride_w, front, top, left, _ = window
        depth, height, width, channels = x.shape[1], x.shape[2], x.shape[3], x.shape[4]
        deep, high, wide = y.shape[1], y.shape[2], y.shape[3]
        pixel = size * channels
        line = pixel * width
        plane = line * height
        whole_vectors, vectors = channels // _LANES, (channels + _LANES - 1) // _LANES
        for number in range(start_n, stop_n):
            n = np.int64(number)
            for h in range(deep):
                nearest, farthest = window_range(h, stride_d, front, planes, depth)
                for i in range(high):
                    first, last = window_range(i, stride_h, top, rows, height)
                    for j in range(wide):
                        start, stop = window_range(j, stride_w, left, columns, width)
                        if nearest >= farthest or first >= last or start >= stop:
                            for c in range(channels):  # nothing is larger than nothing
                                y[n, h, i, j, c] = as_element(np.float32(-np.inf), y)
                            continue
                        offset = n * depth * plane + nearest * plane + first * line + start * pixel
                        x_at = x.ctypes.data + offset
                        y_at = y.ctypes.data + pixel * (((n * deep + h) * high + i) * wide + j)
                        thick, tall, long = farthest - nearest, last - first, stop - start
                        is_square = thick == 1 and tall == 2 and long == 2
                        for v in range(vectors):  # no unpacked tuples: they would hide the literals
                            c = size * _LANES * v
                            if v < whole_vectors and is_square:
                                write_largest(
                                    _LANES, 0, 1, size, x_at + c, y_at + c,
                                    thick, tall, long, plane, line, pixel, _LANES,
                                )  # fmt: skip
                            elif v < whole_vectors:
                                write_largest(
                                    _LANES, 0, 0, size, x_at + c, y_at + c,
                                    thick, tall, long, plane, line, pixel, _LANES,
                                )  # fmt: skip
                            else:
                                write_largest(
                                    _LANES, 1, 0, size, x_at + c, y_at + c,
                                    thick, tall, long, plane, line, pixel, channels - _LANES * v,
                                )  # fmt: skip

    return max_pool


max_pool = _max_pool(_IMAGES, 4)
half_max_pool = _max_pool(_HALF_IMAGES, 2)


def _max_pool_gradient(kind, size):
    """The builder for numbers of `size` bytes: float32, or bfloat16 where no windows overlap."""

    @by_parts(kind, kind, kind, kind, _WINDOW, exact=True, apart=True)
    def max_pool_gradient(part, parts, g, x, y, result, window):
        """Each g added to the first maximum."""
        start_n, stop_n = chunk_range(part, parts, x.shape[0], 1)
        planes, rows, columns, stride_d, stride_h, stride_w, front, top, left, backwards = window
        depth, height, width, channels = x.shape[1], x.shape[2], x.shape[3], x.shape[4]
        deep, high, wide = y.shape[1], y.shape[2], y.shape[3]
        pixel = size * channels
        line = pixel * width
        plane = line * height
        whole_vectors, vectors = channels // _LANES, (channels + _LANES - 1) // _LANES
        for number in range(start_n, stop_n):
            n = np.int64(number)
            for d in range(depth):
                for a in range(height):
                    for b in range(width):
                        for c in range(channels):
                            result[n, d, a, b, c] = 0
            for window_h in range(deep):
                h = _window_index(window_h, deep, backwards)
                nearest, farthest = window_range(h, stride_d, front, planes, depth)
                for window_i in range(high):
                    i = _window_index(window_i, high, backwards)
                    first, last = window_range(i, stride_h, top, rows, height)
                    for window_j in range(wide):
                        j = _window_index(window_j, wide, backwards)
                        start, stop = window_range(j, stride_w, left, columns, width)
                        if nearest >= farthest or first >= last or start >= stop:
                            continue
                        offset = n * depth * plane + nearest * plane + first * line + start * pixel
                        x_at, result_at = x.ctypes.data + offset, result.ctypes.data + offset
                        offset = pixel * (((n * deep + h) * high + i) * wide + j)
                        largest, g_at = y.ctypes.data + offset, g.ctypes.data + offset
                        thick, tall, long = farthest - nearest, last - first, stop - start
                        is_square = thick == 1 and tall == 2 and long == 2
                        for v in range(vectors):  # no unpacked tuples: they would hide the literals
                            c = size * _LANES * v
                            if v < whole_vectors and is_square:
                                give_to_first(
                                    _LANES, 0, 1, size, x_at + c, result_at + c, largest + c,
                                    g_at + c, thick, tall, long, plane, line, pixel, _LANES,
                                )  # fmt: skip
                            elif v < whole_vectors:
                                give_to_first(
                                    _LANES, 0, 0, size, x_at + c, result_at + c, largest + c,
                                    g_at + c, thick, tall, long, plane, line, pixel, _LANES,
                                )  # fmt: skip
                            else:
                                give_to_first(
                                    _LANES, 1, 0, size, x_at + c, result_at + c, largest + c,
                                    g_at + c, thick, tall, long, plane, line, pixel,
                                    channels - _LANES * v,
                                )  # fmt: skip

    return max_pool_gradient


max_pool_gradient = _max_pool_gradient(_IMAGES, 4)
half_max_pool_gradient = _max_pool_gradient(_HALF_IMAGES, 2)


def _average_pool(part, parts, x, y, window):
    """The mean of what each window covers of the image."""
    start_n, stop_n = chunk_range(part, parts, x.shape[0], 1)
    planes, rows, columns, stride_d, stride_h, stride_w, front, top, left, _ = window
    depth, height, width, channels = x.shape[1], x.shape[2], x.shape[3], x.shape[4]
    for n in range(start_n, stop_n):
        total = np.empty(channels, np.float32)
        for h in range(y.shape[1]):
            nearest, farthest = window_range(h, stride_d, front, planes, depth)
            for i in range(y.shape[2]):
                first, last = window_range(i, stride_h, top, rows, height)
                for j in range(y.shape[3]):
                    start, stop = window_range(j, stride_w, left, columns, width)
                    element_count = (farthest - nearest) * (last - first) * (stop - start)
                    share = np.float32(1) / np.float32(element_count)
                    for c in range(channels):
                        total[c] = 0
                    for d in range(nearest, farthest):
                        for a in range(first, last):
                            for b in range(start, stop):
                                for c in range(channels):
                                    total[c] += as_float(x[n, d, a, b, c])
                    for c in range(channels):
                        y[n, h, i, j, c] = as_element(total[c] * share, y)


average_pool = by_parts(_IMAGES, _IMAGES, _WINDOW, exact=True, apart=True)(_average_pool)
half_average_pool = by_parts(_HALF_IMAGES, _HALF_IMAGES, _WINDOW, exact=True, apart=True)(
    _average_pool
)


def _average_pool_gradient(part, parts, g, result, window):
    """Each g shared by what its window covers."""
    start_n, stop_n = chunk_range(part, parts, g.shape[0], 1)
    planes, rows, columns, stride_d, stride_h, stride_w, front, top, left, backwards = window
    depth, height, width = result.shape[1], result.shape[2], result.shape[3]
    deep, high, wide, channels = g.shape[1], g.shape[2], g.shape[3], g.shape[4]
    for n in range(start_n, stop_n):
        for d in range(depth):
            for a in range(height):
                for b in range(width):
                    for c in range(channels):
                        result[n, d, a, b, c] = 0
        for window_h in range(deep):
            h = _window_index(window_h, deep, backwards)
            nearest, farthest = window_range(h, stride_d, front, planes, depth)
            for window_i in range(high):
                i = _window_index(window_i, high, backwards)
                first, last = window_range(i, stride_h, top, rows, height)
                for window_j in range(wide):
                    j = _window_index(window_j, wide, backwards)
                    start, stop = window_range(j, stride_w, left, columns, width)
                    element_count = (farthest - nearest) * (last - first) * (stop - start)
                    share = np.float32(1) / np.float32(element_count)
                    for d in range(nearest, farthest):
                        for a in range(first, last):
                            for b in range(start, stop):
                                for c in range(channels):
                                    total = as_float(result[n, d, a, b, c])
                                    total += as_float(g[n, h, i, j, c]) * share
                                    result[n, d, a, b, c] = as_element(total, result)


average_pool_gradient = by_parts(_IMAGES, _IMAGES, _WINDOW, exact=True, apart=True)(
    _average_pool_gradient
)
# each number is rounded as often as it is in a window: for windows that do not overlap
half_average_pool_gradient = by_parts(_HALF_IMAGES, _HALF_IMAGES, _WINDOW, exact=True, apart=True)(
    _average_pool_gradient
)


@by_parts(MATRIX, MATRIX, MATRIX, MATRIX)
def rectified_gradient(part, parts, g, y, result, sums):
    """The gradient g where y > 0, and its sums over rows in shares."""
    start_n, stop_n = chunk_range(part, parts, sums.shape[0], 1)
    rows, features, workers = g.shape[0], g.shape[1], sums.shape[0]
    step = (rows + workers - 1) // workers
    for number in range(start_n, stop_n):
        worker = np.int64(number)
        for f in range(features):
            sums[worker, f] = 0
        for row in range(worker * step, min((worker + 1) * step, rows)):
            for f in range(features):
                value = g[row, f] if y[row, f] > 0 else np.float32(0)
                result[row, f] = value
                sums[worker, f] += value
