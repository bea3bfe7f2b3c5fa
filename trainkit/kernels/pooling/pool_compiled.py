"""Pooling in two dimensions and rectified gradients, compiled once for all shapes.

The channels lie side by side, so that all loops over them become vector instructions.
"""

from __future__ import annotations

import numpy as np
from numba import float32, int64
from numba.core.types import UniTuple

from trainkit.kernels.jit.builders import MATRIX, by_parts
from trainkit.kernels.jit.options import inlined
from trainkit.kernels.jit.register_tiles import tiling
from trainkit.kernels.pooling.max_pool_gradient import give_to_first
from trainkit.kernels.threads.parallel_for import chunk_range

_IMAGES = float32[:, :, :, ::1]
_WINDOW = UniTuple(int64, 6)
_LANES = tiling(1)[2]


@inlined
def _seen(index, stride, before, window, size):
    """From where to where window `index` covers an axis of an image."""
    start = index * stride - before
    return max(start, 0), min(start + window, size)


@by_parts(_IMAGES, _IMAGES, _WINDOW, exact=True)
def max_pool(part, parts, x, y, window):
    """The largest of each window.

    `window` is (rows, columns, stride_h, stride_w, top, left).
    """
    start_n, stop_n = chunk_range(part, parts, x.shape[0], 1)
    rows, columns, stride_h, stride_w, top, left = window
    height, width, channels = x.shape[1], x.shape[2], x.shape[3]
    for n in range(start_n, stop_n):
        best = np.empty(channels, np.float32)
        for i in range(y.shape[1]):
            first, last = _seen(i, stride_h, top, rows, height)
            for j in range(y.shape[2]):
                start, stop = _seen(j, stride_w, left, columns, width)
                for c in range(channels):
                    best[c] = -np.inf
                for a in range(first, last):
                    for b in range(start, stop):
                        for c in range(channels):
                            value = x[n, a, b, c]
                            # as in NumPy, NaN is larger than all others
                            larger = value > best[c] or value != value
                            best[c] = value if larger else best[c]
                for c in range(channels):
                    y[n, i, j, c] = best[c]


@by_parts(_IMAGES, _IMAGES, _IMAGES, _IMAGES, _WINDOW, exact=True)
def max_pool_gradient(part, parts, g, x, y, result, window):
    """Each g added to the first maximum."""
    start_n, stop_n = chunk_range(part, parts, x.shape[0], 1)
    rows, columns, stride_h, stride_w, top, left = window
    height, width, channels = x.shape[1], x.shape[2], x.shape[3]
    high, wide = y.shape[1], y.shape[2]
    pixel = 4 * channels
    whole_vectors, vectors = channels // _LANES, (channels + _LANES - 1) // _LANES
    for number in range(start_n, stop_n):
        n = np.int64(number)
        for a in range(height):
            for b in range(width):
                for c in range(channels):
                    result[n, a, b, c] = 0
        for i in range(high):
            first, last = _seen(i, stride_h, top, rows, height)
            for j in range(wide):
                start, stop = _seen(j, stride_w, left, columns, width)
                if first >= last or start >= stop:
                    continue
                offset = pixel * ((n * height + first) * width + start)
                x_at, result_at = x.ctypes.data + offset, result.ctypes.data + offset
                offset = pixel * ((n * high + i) * wide + j)
                largest, g_at = y.ctypes.data + offset, g.ctypes.data + offset
                tall, long, line = last - first, stop - start, pixel * width
                for v in range(vectors):  # no unpacked tuples: they would hide the literals
                    c = 4 * _LANES * v
                    if v < whole_vectors:
                        give_to_first(
                            _LANES, 0, x_at + c, result_at + c, largest + c, g_at + c,
                            tall, long, line, pixel, _LANES,
                        )  # fmt: skip
                    else:
                        give_to_first(
                            _LANES, 1, x_at + c, result_at + c, largest + c, g_at + c,
                            tall, long, line, pixel, channels - _LANES * v,
                        )  # fmt: skip


@by_parts(_IMAGES, _IMAGES, _WINDOW, exact=True)
def average_pool(part, parts, x, y, window):
    """The mean of what each window covers of the image."""
    start_n, stop_n = chunk_range(part, parts, x.shape[0], 1)
    rows, columns, stride_h, stride_w, top, left = window
    height, width, channels = x.shape[1], x.shape[2], x.shape[3]
    for n in range(start_n, stop_n):
        total = np.empty(channels, np.float32)
        for i in range(y.shape[1]):
            first, last = _seen(i, stride_h, top, rows, height)
            for j in range(y.shape[2]):
                start, stop = _seen(j, stride_w, left, columns, width)
                share = np.float32(1) / np.float32((last - first) * (stop - start))
                for c in range(channels):
                    total[c] = 0
                for a in range(first, last):
                    for b in range(start, stop):
                        for c in range(channels):
                            total[c] += x[n, a, b, c]
                for c in range(channels):
                    y[n, i, j, c] = total[c] * share


@by_parts(_IMAGES, _IMAGES, _WINDOW, exact=True)
def average_pool_gradient(part, parts, g, result, window):
    """Each g shared by what its window covers."""
    start_n, stop_n = chunk_range(part, parts, g.shape[0], 1)
    rows, columns, stride_h, stride_w, top, left = window
    height, width, channels = result.shape[1], result.shape[2], result.shape[3]
    for n in range(start_n, stop_n):
        for a in range(height):
            for b in range(width):
                for c in range(channels):
                    result[n, a, b, c] = 0
        for i in range(g.shape[1]):
            first, last = _seen(i, stride_h, top, rows, height)
            for j in range(g.shape[2]):
                start, stop = _seen(j, stride_w, left, columns, width)
                share = np.float32(1) / np.float32((last - first) * (stop - start))
                for a in range(first, last):
                    for b in range(start, stop):
                        for c in range(channels):
                            result[n, a, b, c] += g[n, i, j, c] * share


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
