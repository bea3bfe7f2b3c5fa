"""Pooling in two dimensions and rectified gradients, compiled once for all shapes.

The channels lie side by side, so that all loops over them become vector instructions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float32, int64, prange, void
from numba.core.types import UniTuple

from trainkit.kernels.compiled.largest import give_to_first
from trainkit.kernels.compiled.options import compiled
from trainkit.kernels.compiled.tiles import tiling

_IMAGES = float32[:, :, :, ::1]
_WINDOW = UniTuple(int64, 6)
_LANES = tiling(1)[2]


def max_pool() -> Any:
    """`run(x, y, (rows, columns, stride_h, stride_w, top, left))`: the largest of each window."""

    @compiled(exact=True)
    def run(x, y, window):
        rows, columns, stride_h, stride_w, top, left = window
        height, width, channels = x.shape[1], x.shape[2], x.shape[3]
        for n in prange(x.shape[0]):
            best = np.empty(channels, np.float32)
            for i in range(y.shape[1]):
                first, last = max(i * stride_h - top, 0), min(i * stride_h - top + rows, height)
                for j in range(y.shape[2]):
                    start, stop = (
                        max(j * stride_w - left, 0),
                        min(j * stride_w - left + columns, width),
                    )
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

    run.compile(void(_IMAGES, _IMAGES, _WINDOW))
    return run


def max_pool_gradient() -> Any:
    """`run(g, x, y, result, window)`: each g added to the first place that equals the maximum."""

    @compiled(exact=True)
    def run(g, x, y, result, window):
        rows, columns, stride_h, stride_w, top, left = window
        height, width, channels = x.shape[1], x.shape[2], x.shape[3]
        high, wide = y.shape[1], y.shape[2]
        pixel = 4 * channels
        whole, vectors = channels // _LANES, (channels + _LANES - 1) // _LANES
        for number in prange(x.shape[0]):
            n = np.int64(number)  # prange counts in uint64, which with int64 would make floats
            for a in range(height):
                for b in range(width):
                    for c in range(channels):
                        result[n, a, b, c] = 0
            for i in range(high):
                first, last = max(i * stride_h - top, 0), min(i * stride_h - top + rows, height)
                for j in range(wide):
                    start = max(j * stride_w - left, 0)
                    stop = min(j * stride_w - left + columns, width)
                    if first >= last or start >= stop:
                        continue
                    place = pixel * ((n * height + first) * width + start)
                    here, there = x.ctypes.data + place, result.ctypes.data + place
                    place = pixel * ((n * high + i) * wide + j)
                    largest, given = y.ctypes.data + place, g.ctypes.data + place
                    tall, long, line = last - first, stop - start, pixel * width
                    for v in range(vectors):  # no unpacked tuples: they would hide the literals
                        c = 4 * _LANES * v
                        if v < whole:
                            give_to_first(
                                _LANES, 0, here + c, there + c, largest + c, given + c,
                                tall, long, line, pixel, _LANES,
                            )  # fmt: skip
                        else:
                            give_to_first(
                                _LANES, 1, here + c, there + c, largest + c, given + c,
                                tall, long, line, pixel, channels - _LANES * v,
                            )  # fmt: skip

    run.compile(void(_IMAGES, _IMAGES, _IMAGES, _IMAGES, _WINDOW))
    return run


def average_pool() -> Any:
    """`run(x, y, window)`: the mean of what each window covers of the image."""

    @compiled(exact=True)
    def run(x, y, window):
        rows, columns, stride_h, stride_w, top, left = window
        height, width, channels = x.shape[1], x.shape[2], x.shape[3]
        for n in prange(x.shape[0]):
            total = np.empty(channels, np.float32)
            for i in range(y.shape[1]):
                first, last = max(i * stride_h - top, 0), min(i * stride_h - top + rows, height)
                for j in range(y.shape[2]):
                    start, stop = (
                        max(j * stride_w - left, 0),
                        min(j * stride_w - left + columns, width),
                    )
                    share = np.float32(1) / np.float32((last - first) * (stop - start))
                    for c in range(channels):
                        total[c] = 0
                    for a in range(first, last):
                        for b in range(start, stop):
                            for c in range(channels):
                                total[c] += x[n, a, b, c]
                    for c in range(channels):
                        y[n, i, j, c] = total[c] * share

    run.compile(void(_IMAGES, _IMAGES, _WINDOW))
    return run


def average_pool_gradient() -> Any:
    """`run(g, result, window)`: each g shared by what its window covers of the image."""

    @compiled(exact=True)
    def run(g, result, window):
        rows, columns, stride_h, stride_w, top, left = window
        height, width, channels = result.shape[1], result.shape[2], result.shape[3]
        for n in prange(g.shape[0]):
            for a in range(height):
                for b in range(width):
                    for c in range(channels):
                        result[n, a, b, c] = 0
            for i in range(g.shape[1]):
                first, last = max(i * stride_h - top, 0), min(i * stride_h - top + rows, height)
                for j in range(g.shape[2]):
                    start, stop = (
                        max(j * stride_w - left, 0),
                        min(j * stride_w - left + columns, width),
                    )
                    share = np.float32(1) / np.float32((last - first) * (stop - start))
                    for a in range(first, last):
                        for b in range(start, stop):
                            for c in range(channels):
                                result[n, a, b, c] += g[n, i, j, c] * share

    run.compile(void(_IMAGES, _IMAGES, _WINDOW))
    return run


def rectified_gradient() -> Any:
    """`run(g, y, result, parts)`: g where y > 0, and its sums over rows, a row of parts each."""

    @compiled()
    def run(g, y, result, parts):
        rows, features, workers = g.shape[0], g.shape[1], parts.shape[0]
        step = (rows + workers - 1) // workers
        for number in prange(workers):
            worker = np.int64(number)
            for f in range(features):
                parts[worker, f] = 0
            for row in range(worker * step, min((worker + 1) * step, rows)):
                for f in range(features):
                    value = g[row, f] if y[row, f] > 0 else np.float32(0)
                    result[row, f] = value
                    parts[worker, f] += value

    matrix = float32[:, ::1]
    run.compile(void(matrix, matrix, matrix, matrix))
    return run
