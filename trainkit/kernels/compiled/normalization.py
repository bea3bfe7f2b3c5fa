"""Normalization over rows or over columns of a matrix, forward and backward, each in two passes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import boolean, float32, int64, prange, void

from trainkit.kernels.compiled.options import compiled

_MATRIX, _VECTOR = float32[:, ::1], float32[::1]


def rows() -> Any:
    """`run(x, scale, offset, epsilon, y)`: each row by its own mean and variance."""

    @compiled()
    def run(x, scale, offset, epsilon, y):
        features = x.shape[1]
        for row in prange(x.shape[0]):
            mean = np.float32(0)
            for f in range(features):
                mean += x[row, f]
            mean /= np.float32(features)
            variance = np.float32(0)
            for f in range(features):
                variance += (x[row, f] - mean) * (x[row, f] - mean)
            factor = np.float32(1) / np.sqrt(variance / np.float32(features) + epsilon)
            for f in range(features):
                y[row, f] = (x[row, f] - mean) * factor * scale[f] + offset[f]

    run.compile(void(_MATRIX, _VECTOR, _VECTOR, float32, _MATRIX))
    return run


def rows_gradient() -> Any:
    """`run(g, x, scale, epsilon, result, by_scale, by_offset)`; the last two of workers."""

    @compiled()
    def run(g, x, scale, epsilon, result, by_scale, by_offset):
        count, features = x.shape
        workers = by_scale.shape[0]
        step = (count + workers - 1) // workers
        width = np.float32(features)
        for number in prange(workers):
            worker = np.int64(number)
            normal = np.empty(features, np.float32)
            for f in range(features):
                by_scale[worker, f] = 0
                by_offset[worker, f] = 0
            for row in range(worker * step, min((worker + 1) * step, count)):
                mean = np.float32(0)
                for f in range(features):
                    mean += x[row, f]
                mean /= width
                variance = np.float32(0)
                for f in range(features):
                    variance += (x[row, f] - mean) * (x[row, f] - mean)
                factor = np.float32(1) / np.sqrt(variance / width + epsilon)
                level, slope = np.float32(0), np.float32(0)
                for f in range(features):
                    normal[f] = (x[row, f] - mean) * factor
                    level += g[row, f] * scale[f]
                    slope += g[row, f] * scale[f] * normal[f]
                level /= width
                slope /= width
                for f in range(features):
                    by_scale[worker, f] += g[row, f] * normal[f]
                    by_offset[worker, f] += g[row, f]
                    result[row, f] = (g[row, f] * scale[f] - level - normal[f] * slope) * factor

    run.compile(void(_MATRIX, _MATRIX, _VECTOR, float32, _MATRIX, _MATRIX, _MATRIX))
    return run


def column_sums() -> Any:
    """`run(a, b, centre, one, two, product)`: sums of parts of columns.

    One sums a - centre, two its square; with `product` one sums a, and two a * (b - centre).
    """

    @compiled()
    def run(a, b, centre, one, two, product):
        count, features = a.shape
        workers = one.shape[0]
        step = (count + workers - 1) // workers
        for number in prange(workers):
            worker = np.int64(number)
            sums = np.zeros((2, features), np.float32)
            for row in range(worker * step, min((worker + 1) * step, count)):
                if product:
                    for f in range(features):
                        sums[0, f] += a[row, f]
                        sums[1, f] += a[row, f] * (b[row, f] - centre[f])
                else:
                    for f in range(features):
                        value = a[row, f] - centre[f]
                        sums[0, f] += value
                        sums[1, f] += value * value
            for f in range(features):
                one[worker, f] = sums[0, f]
                two[worker, f] = sums[1, f]

    run.compile(void(_MATRIX, _MATRIX, _VECTOR, _MATRIX, _MATRIX, boolean))
    return run


def columns() -> Any:
    """`run(a, b, p, q, r, y, rows)`: y = p * a + q * b + r, a factor for each column."""

    @compiled()
    def run(a, b, p, q, r, y, rows):
        count, features = a.shape
        for part in prange((count + rows - 1) // rows):
            first = np.int64(part) * rows
            for row in range(first, min(first + rows, count)):
                for f in range(features):
                    y[row, f] = p[f] * a[row, f] + q[f] * b[row, f] + r[f]

    run.compile(void(_MATRIX, _MATRIX, _VECTOR, _VECTOR, _VECTOR, _MATRIX, int64))
    return run
