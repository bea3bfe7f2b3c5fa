"""Normalization over rows or over columns of a matrix, forward and backward, each in two passes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import boolean, float32, void

from trainkit.kernels.jit.options import compiled
from trainkit.kernels.threads.parallel_for import TEAM, spread, stretch

_MATRIX, _VECTOR = float32[:, ::1], float32[::1]


@compiled(parallel=False)
def _rows_part(part, parts, x, scale, offset, epsilon, y):
    features = x.shape[1]
    first, last = stretch(part, parts, x.shape[0], 1)
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


def rows() -> Any:
    """`run(team, parts, x, scale, offset, epsilon, y)`: each row by its own mean and variance."""

    @compiled(parallel=False)
    def run(team, parts, x, scale, offset, epsilon, y):
        spread(team, parts, _rows_part, (x, scale, offset, epsilon, y))

    run.compile(void(*TEAM, _MATRIX, _VECTOR, _VECTOR, float32, _MATRIX))
    return run


@compiled(parallel=False)
def _rows_gradient_part(part, parts, g, x, scale, epsilon, result, by_scale, by_offset):
    count, features = x.shape
    workers = by_scale.shape[0]
    width = np.float32(features)
    first, last = stretch(part, parts, workers, 1)
    for worker in range(first, last):
        for f in range(features):
            by_scale[worker, f] = 0
            by_offset[worker, f] = 0
        first_row, last_row = stretch(np.int64(worker), workers, count, 1)
        for row in range(first_row, last_row):
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
                level += g[row, f] * scale[f]
                slope += g[row, f] * scale[f] * ((x[row, f] - mean) * factor)
            level /= width
            slope /= width
            for f in range(features):
                normal = (x[row, f] - mean) * factor
                by_scale[worker, f] += g[row, f] * normal
                by_offset[worker, f] += g[row, f]
                result[row, f] = (g[row, f] * scale[f] - level - normal * slope) * factor


def rows_gradient() -> Any:
    """`run(team, parts, g, x, scale, epsilon, result, by_scale, by_offset)`.

    The last two are sums of each worker's share of the rows.
    """

    @compiled(parallel=False)
    def run(team, parts, g, x, scale, epsilon, result, by_scale, by_offset):
        given = (g, x, scale, epsilon, result, by_scale, by_offset)
        spread(team, parts, _rows_gradient_part, given)

    run.compile(void(*TEAM, _MATRIX, _MATRIX, _VECTOR, float32, _MATRIX, _MATRIX, _MATRIX))
    return run


@compiled(parallel=False)
def _column_sums_part(part, parts, a, b, centre, one, two, product):
    count, features = a.shape
    workers = one.shape[0]
    first, last = stretch(part, parts, workers, 1)
    for worker in range(first, last):
        for f in range(features):
            one[worker, f] = 0
            two[worker, f] = 0
        first_row, last_row = stretch(np.int64(worker), workers, count, 1)
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


def column_sums() -> Any:
    """`run(team, parts, a, b, centre, one, two, product)`: sums of each worker's share of the rows.

    One sums a - centre, two its square; with `product` one sums a, and two a * (b - centre).
    """

    @compiled(parallel=False)
    def run(team, parts, a, b, centre, one, two, product):
        spread(team, parts, _column_sums_part, (a, b, centre, one, two, product))

    run.compile(void(*TEAM, _MATRIX, _MATRIX, _VECTOR, _MATRIX, _MATRIX, boolean))
    return run


@compiled(parallel=False)
def _columns_part(part, parts, a, b, p, q, r, y):
    first, last = stretch(part, parts, a.shape[0], 1)
    for row in range(first, last):
        for f in range(a.shape[1]):
            y[row, f] = p[f] * a[row, f] + q[f] * b[row, f] + r[f]


def columns() -> Any:
    """`run(team, parts, a, b, p, q, r, y)`: y = p * a + q * b + r, a factor for each column."""

    @compiled(parallel=False)
    def run(team, parts, a, b, p, q, r, y):
        spread(team, parts, _columns_part, (a, b, p, q, r, y))

    run.compile(void(*TEAM, _MATRIX, _MATRIX, _VECTOR, _VECTOR, _VECTOR, _MATRIX))
    return run
