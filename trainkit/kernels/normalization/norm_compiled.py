"""Normalization over rows or over columns of a matrix, forward and backward, each in two passes."""

from __future__ import annotations

import numpy as np
from numba import boolean, float32

from trainkit.kernels.jit.builders import MATRIX, VECTOR, by_parts
from trainkit.kernels.threads.parallel_for import chunk_range


@by_parts(MATRIX, VECTOR, VECTOR, float32, MATRIX)
def rows(part, parts, x, scale, offset, epsilon, y):
    """Each row by its own mean and variance."""
    features = x.shape[1]
    first, last = chunk_range(part, parts, x.shape[0], 1)
    for row in range(first, last):
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


@by_parts(MATRIX, MATRIX, VECTOR, float32, MATRIX, MATRIX, MATRIX)
def rows_gradient(part, parts, g, x, scale, epsilon, result, by_scale, by_offset):
    """Gradients by x, and by scale and offset as sums of each worker's share of the rows."""
    count, features = x.shape
    workers = by_scale.shape[0]
    width = np.float32(features)
    first, last = chunk_range(part, parts, workers, 1)
    for worker in range(first, last):
        for f in range(features):
            by_scale[worker, f] = 0
            by_offset[worker, f] = 0
        first_row, last_row = chunk_range(np.int64(worker), workers, count, 1)
        for row in range(first_row, last_row):
            mean = np.float32(0)
            for f in range(features):
                mean += x[row, f]
            mean /= width
            variance = np.float32(0)
            for f in range(features):
                variance += (x[row, f] - mean) * (x[row, f] - mean)
            factor = np.float32(1) / np.sqrt(variance / width + epsilon)
            level, grad = np.float32(0), np.float32(0)
            for f in range(features):
                level += g[row, f] * scale[f]
                grad += g[row, f] * scale[f] * ((x[row, f] - mean) * factor)
            level /= width
            grad /= width
            for f in range(features):
                normal = (x[row, f] - mean) * factor
                by_scale[worker, f] += g[row, f] * normal
                by_offset[worker, f] += g[row, f]
                result[row, f] = (g[row, f] * scale[f] - level - normal * grad) * factor


@by_parts(MATRIX, MATRIX, VECTOR, MATRIX, MATRIX, boolean)
def column_sums(part, parts, a, b, centre, one, two, product):
    """Sums of each worker's share of the rows.

    One sums a - centre, two its square; with `product` one sums a, and two a * (b - centre).
    """
    count, features = a.shape
    workers = one.shape[0]
    first, last = chunk_range(part, parts, workers, 1)
    for worker in range(first, last):
        for f in range(features):
            one[worker, f] = 0
            two[worker, f] = 0
        first_row, last_row = chunk_range(np.int64(worker), workers, count, 1)
        for row in range(first_row, last_row):
            if product:
                for f in range(features):
                    one[worker, f] += a[row, f]
                    two[worker, f] += a[row, f] * (b[row, f] - centre[f])
            else:
                for f in range(features):
                    value = a[row, f] - centre[f]
                    one[worker, f] += value
                    two[worker, f] += value * value


@by_parts(MATRIX, MATRIX, VECTOR, VECTOR, VECTOR, MATRIX)
def columns(part, parts, a, b, p, q, r, y):
    """Y = p * a + q * b + r, a factor for each column."""
    first, last = chunk_range(part, parts, a.shape[0], 1)
    for row in range(first, last):
        for f in range(a.shape[1]):
            y[row, f] = p[f] * a[row, f] + q[f] * b[row, f] + r[f]
