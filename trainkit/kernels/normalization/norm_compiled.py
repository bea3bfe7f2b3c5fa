"""Normalization over rows or over columns of a matrix, forward and backward, each in two passes.

Over columns also with a rectifier behind it: limits for results, and for what comes back a choice.
What is normalized over columns is float32 or bfloat16; all else is float32.
"""

from __future__ import annotations

import numpy as np
from numba import float32, int64

from trainkit.kernels.jit.builders import MATRIX, VECTOR, by_parts
from trainkit.kernels.jit.elements import HALVES, as_element, as_float, as_stored
from trainkit.kernels.jit.options import inlined
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


# ------------------------------------------------------------------ columns

# Each column is summed in the order of its rows, so nothing need be reordered to be fast. These are
# rounded as they are written, and what is rectified has the bits of a rectifier of its own.


def _column_sums(part, parts, a, centre, one, two):
    """Sums of each worker's share of the rows: of a - centre, and of its square."""
    count, features = a.shape
    workers = one.shape[0]
    step = np.uintp(4)
    first, last = chunk_range(part, parts, workers, 1)
    for worker in range(first, last):
        for f in range(features):
            one[worker, f] = 0
            two[worker, f] = 0
        first_row, last_row = chunk_range(np.int64(worker), workers, count, 1)
        unrolled_end = first_row + (last_row - first_row) // step * step
        for row in range(first_row, unrolled_end, step):
            second, third, fourth = row + np.uintp(1), row + np.uintp(2), row + np.uintp(3)
            for f in range(features):
                w, x = as_float(a[row, f]) - centre[f], as_float(a[second, f]) - centre[f]
                y, z = as_float(a[third, f]) - centre[f], as_float(a[fourth, f]) - centre[f]
                one[worker, f] = one[worker, f] + w + x + y + z
                two[worker, f] = two[worker, f] + w * w + x * x + y * y + z * z
        for row in range(unrolled_end, last_row):
            for f in range(features):
                w = as_float(a[row, f]) - centre[f]
                one[worker, f] += w
                two[worker, f] += w * w


column_sums = by_parts(MATRIX, VECTOR, MATRIX, MATRIX, exact=True, apart=True)(_column_sums)
half_column_sums = by_parts(HALVES, VECTOR, MATRIX, MATRIX, exact=True, apart=True)(_column_sums)


def _columns(part, parts, a, p, r, low, high, y):
    """Y = p * a + r, a factor and a shift for each column, held between `low` and `high`."""
    first, last = chunk_range(part, parts, a.shape[0], 1)
    for row in range(first, last):
        for f in range(a.shape[1]):
            value = p[f] * as_float(a[row, f]) + r[f]
            value = value if value > low or value != value else low
            y[row, f] = as_element(high if value > high else value, y)


_FACTORS = *[VECTOR] * 2, *[float32] * 2
columns = by_parts(MATRIX, *_FACTORS, MATRIX, exact=True, apart=True)(_columns)
half_columns = by_parts(HALVES, *_FACTORS, HALVES, exact=True, apart=True)(_columns)


@inlined
def _pass(g, z):
    """As `relu_gradient`: g times 1 where z is above 0, else times 0, which a NaN survives."""
    return g * (np.float32(1) if z > np.float32(0) else np.float32(0))


@inlined
def _passed_between(g, z, high):
    """As `keep_where`: g where z is above 0 and below `high`, else 0."""
    return g if (z > np.float32(0)) & (z < high) else np.float32(0)


# What a rectifier passed shows by its results, which are as large as what comes back. A factor and
# a shift make them anew, rounded as `columns` did, with one tensor less to read in each pass.


def _gradient_sums(part, parts, g, x, factor, shift, centre, high, kind, one, two):
    """Sums of each worker's share of the rows: of h, and of h * (x - centre).

    With kind 0 h is g; with 1 what a rectifier of x * factor + shift passes of it; with 2 what one
    does that has a ceiling.
    """
    count, features = g.shape
    workers = one.shape[0]
    first, last = chunk_range(part, parts, workers, 1)
    for worker in range(first, last):
        for f in range(features):
            one[worker, f] = 0
            two[worker, f] = 0
        first_row, last_row = chunk_range(np.int64(worker), workers, count, 1)
        for row in range(first_row, last_row):
            if kind == 0:
                for f in range(features):
                    h = as_float(g[row, f])
                    one[worker, f] += h
                    two[worker, f] += h * (as_float(x[row, f]) - centre[f])
            elif kind == 1:
                for f in range(features):
                    level = as_float(x[row, f])
                    z = as_stored(factor[f] * level + shift[f], x)
                    h = _pass(as_float(g[row, f]), z)
                    one[worker, f] += h
                    two[worker, f] += h * (level - centre[f])
            else:
                for f in range(features):
                    level = as_float(x[row, f])
                    z = as_stored(factor[f] * level + shift[f], x)
                    h = _passed_between(as_float(g[row, f]), z, high)
                    one[worker, f] += h
                    two[worker, f] += h * (level - centre[f])


_CHOICE = float32, int64
_SUMS = *[VECTOR] * 3, *_CHOICE, MATRIX, MATRIX
gradient_sums = by_parts(MATRIX, MATRIX, *_SUMS, exact=True, apart=True)(_gradient_sums)
half_gradient_sums = by_parts(HALVES, HALVES, *_SUMS, exact=True, apart=True)(_gradient_sums)


def _gradient_columns(part, parts, g, x, factor, shift, p, q, r, high, kind, y):
    """Y = p * h + q * x + r, factors for each column; h as for `gradient_sums`."""
    first, last = chunk_range(part, parts, g.shape[0], 1)
    for row in range(first, last):
        if kind == 0:
            for f in range(g.shape[1]):
                value = p[f] * as_float(g[row, f]) + q[f] * as_float(x[row, f]) + r[f]
                y[row, f] = as_element(value, y)
        elif kind == 1:
            for f in range(g.shape[1]):
                level = as_float(x[row, f])
                z = as_stored(factor[f] * level + shift[f], x)
                h = _pass(as_float(g[row, f]), z)
                y[row, f] = as_element(p[f] * h + q[f] * level + r[f], y)
        else:
            for f in range(g.shape[1]):
                level = as_float(x[row, f])
                z = as_stored(factor[f] * level + shift[f], x)
                h = _passed_between(as_float(g[row, f]), z, high)
                y[row, f] = as_element(p[f] * h + q[f] * level + r[f], y)


_BACK = *[VECTOR] * 5, *_CHOICE
gradient_columns = by_parts(*[MATRIX] * 2, *_BACK, MATRIX, exact=True, apart=True)(
    _gradient_columns
)
half_gradient_columns = by_parts(*[HALVES] * 2, *_BACK, HALVES, exact=True, apart=True)(
    _gradient_columns
)
