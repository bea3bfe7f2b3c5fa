"""Normalization over rows or over columns of a matrix, forward and backward, each in two passes.

Over columns also with a rectifier behind it: limits for results, and for what comes back a choice.
What is normalized over columns is float32 or of 16-bit floats; all else is float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float32, int64, void

from trainkit.core.cpu.cost_model import CACHE_LINE, THIRD_FLOATS
from trainkit.kernels.jit.builders import CUBE, MATRIX, VECTOR, by_parts
from trainkit.kernels.jit.elements import FLOAT16S, HALVES, as_element, as_float, as_held, as_stored
from trainkit.kernels.jit.options import compiled, inlined
from trainkit.kernels.threads.parallel_for import POOL, chunk_range, spread

exactly = compiled(parallel=False, exact=True)
"""The decorator of what is rounded as it is written, one step after the other."""
_FEW_COLUMNS = 2 * CACHE_LINE // 4


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
# rounded as they are written, and what is rectified has the bits of a rectifier of its own. Sums
# begin with the last share of the rows, which whoever wrote them wrote last, and end with the
# first, where the pass behind them begins: what the caches hold of a large batch is read twice.


def _column_sums(part, parts, a, centre, one, two):
    """Sums of each worker's share of the rows: of a - centre, and of its square."""
    count, features = a.shape
    workers = one.shape[0]
    step = np.uintp(4)
    first, last = chunk_range(part, parts, workers, 1)
    for number in range(first, last):
        worker = np.uintp(workers - 1) - number
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


def _columns(part, parts, a, p, r, low, high, y):
    """Y = p * a + r, a factor and a shift for each column, held between `low` and `high`."""
    first, last = chunk_range(part, parts, a.shape[0], 1)
    for row in range(first, last):
        for f in range(a.shape[1]):
            y[row, f] = as_held(p[f] * as_float(a[row, f]) + r[f], low, high, y)


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


@inlined
def _pass_kind(kind, g, level, factor, shift, high, x):
    """Choose what of g comes to a normalized number; kinds are those of `gradient_sums`."""
    z = as_stored(factor * level + shift, x)
    if kind == 0:
        h = g
    elif kind == 1:
        h = _pass(g, z)
    else:
        h = _passed_between(g, z, high)
    return h


@inlined
def _add_gradient_rows(kind, g, x, factor, shift, centre, high, one, two, first, last):
    """Add rows, four at a time: of a few columns each sum would wait for the store of the last."""
    step, unrolled_end = np.uintp(4), first
    # Long rows that come from memory come faster one after the other.
    if one.size <= _FEW_COLUMNS or x.size <= THIRD_FLOATS // 2:
        unrolled_end += (last - first) // step * step
    for row in range(first, unrolled_end, step):
        second, third, fourth = row + np.uintp(1), row + np.uintp(2), row + np.uintp(3)
        for f in range(one.size):
            p, q, c = factor[f], shift[f], centre[f]
            level_0, level_1 = as_float(x[row, f]), as_float(x[second, f])
            level_2, level_3 = as_float(x[third, f]), as_float(x[fourth, f])
            h_0 = _pass_kind(kind, as_float(g[row, f]), level_0, p, q, high, x)
            h_1 = _pass_kind(kind, as_float(g[second, f]), level_1, p, q, high, x)
            h_2 = _pass_kind(kind, as_float(g[third, f]), level_2, p, q, high, x)
            h_3 = _pass_kind(kind, as_float(g[fourth, f]), level_3, p, q, high, x)
            one[f] = one[f] + h_0 + h_1 + h_2 + h_3
            along = two[f] + h_0 * (level_0 - c) + h_1 * (level_1 - c)
            two[f] = along + h_2 * (level_2 - c) + h_3 * (level_3 - c)
    for row in range(unrolled_end, last):
        for f in range(one.size):
            level = as_float(x[row, f])
            h = _pass_kind(kind, as_float(g[row, f]), level, factor[f], shift[f], high, x)
            one[f] += h
            two[f] += h * (level - centre[f])


def _gradient_sums(part, parts, g, x, factor, shift, centre, high, kind, one, two):
    """Sums of each worker's share of the rows: of h, and of h * (x - centre).

    With kind 0 h is g; with 1 what a rectifier of x * factor + shift passes of it; with 2 what one
    does that has a ceiling.
    """
    count, features = g.shape
    workers = one.shape[0]
    first, last = chunk_range(part, parts, workers, 1)
    for number in range(first, last):
        worker = np.uintp(workers - 1) - number
        sums, along = one[worker], two[worker]
        for f in range(features):
            sums[f] = 0
            along[f] = 0
        row_0, row_1 = chunk_range(np.int64(worker), workers, count, 1)
        if kind == 0:
            _add_gradient_rows(0, g, x, factor, shift, centre, high, sums, along, row_0, row_1)
        elif kind == 1:
            _add_gradient_rows(1, g, x, factor, shift, centre, high, sums, along, row_0, row_1)
        else:
            _add_gradient_rows(2, g, x, factor, shift, centre, high, sums, along, row_0, row_1)


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


# Between the passes stand some steps on a number for each feature, rounded one by one. As calls of
# NumPy, of two microseconds each, they took as long as a pass over a small image.


@exactly
def _add_shares(shares, sums):
    """What all workers have summed, added up in the order in which NumPy adds up `sum(axis=0)`."""
    workers, features = shares.shape
    if features == 1:
        # Of a single column NumPy sums eight numbers side by side, and these pair by pair.
        eight = shares[:8, 0].copy()
        for worker in range(8, workers):
            eight[worker % 8] += shares[worker, 0]
        low = (eight[0] + eight[1]) + (eight[2] + eight[3])
        sums[0] = low + ((eight[4] + eight[5]) + (eight[6] + eight[7]))
        return
    for f in range(features):
        sums[f] = shares[0, f]
    for worker in range(1, workers):
        for f in range(features):
            sums[f] += shares[worker, f]


@exactly
def _set_moments(centre, one, two, count, mean, variance):
    """Mean and variance of sums about `centre`, which is near the mean, so that nothing cancels."""
    for f in range(centre.size):
        shift = one[f] / count
        difference = two[f] / count - shift * shift
        mean[f] = centre[f] + shift
        variance[f] = np.float32(0) if difference <= np.float32(0) else difference


@exactly
def _set_factors(mean, variance, scale, offset, epsilon, factor, shift):
    """What makes x of a column into its normalized value: x * factor + shift."""
    for f in range(mean.size):
        factor[f] = scale[f] / np.sqrt(variance[f] + epsilon)
        shift[f] = offset[f] - mean[f] * factor[f]


@exactly
def _set_gradient_factors(
    mean, variance, scale, by_mean, by_variance, epsilon, count, by_scale, by_offset, p, q, r
):
    """The factors of `gradient_columns`, of sums that become the gradient by the scale.

    result = p * g + q * x + r, with q from the grad along x - mean, and r the rest.
    """
    for f in range(mean.size):
        factor = np.float32(1) / np.sqrt(variance[f] + epsilon)
        by_scale[f] *= factor
        p[f] = scale[f] * factor
        q[f] = -p[f] * factor * by_scale[f] / count
        r[f] = -p[f] * by_offset[f] / count
    if by_variance.size > 0:
        for f in range(mean.size):
            q[f] += np.float32(2) * by_variance[f] / count
    if by_mean.size > 0:
        for f in range(mean.size):
            r[f] += by_mean[f] / count
    for f in range(mean.size):
        r[f] -= q[f] * mean[f]


@exactly
def _find_moments(pool, parts, x, moments, factors, shares, work):
    """Set mean and variance of each column, by `work` for the sums of each worker."""
    centre, one, two = factors[0], factors[1], factors[2]
    for f in range(x.shape[1]):
        centre[f] = as_float(x[0, f])
    spread(pool, parts, work, (x, centre, shares[0], shares[1]))
    _add_shares(shares[0], one)
    _add_shares(shares[1], two)
    _set_moments(centre, one, two, np.float32(len(x)), moments[0], moments[1])


_EXACTLY = {"parallel": False, "exact": True, "apart": True}
_sums_part, _columns_part = compiled(**_EXACTLY)(_column_sums), compiled(**_EXACTLY)(_columns)
_gradient_sums_part = compiled(**_EXACTLY)(_gradient_sums)
_gradient_part = compiled(**_EXACTLY)(_gradient_columns)


def _columns_of(kind: Any) -> Any:
    """`run(pool, parts, x, scale, offset, epsilon, low, high, y, moments, factors, shares)`.

    Rows of `x` with each column normalized by its own moments, scaled, shifted, and held between
    `low` and `high`, into `y`; mean and variance into `moments`. Scratch are
    `factors`, of five rows, and `shares`, two sums of each worker.
    """

    @compiled(parallel=False, exact=True)
    def run(pool, parts, x, scale, offset, epsilon, low, high, y, moments, factors, shares):
        _find_moments(pool, parts, x, moments, factors, shares, _sums_part)
        factor, shift = factors[3], factors[4]
        _set_factors(moments[0], moments[1], scale, offset, epsilon, factor, shift)
        spread(pool, parts, _columns_part, (x, factor, shift, low, high, y))

    run.compile(void(*POOL, kind, VECTOR, VECTOR, *[float32] * 3, kind, MATRIX, MATRIX, CUBE))
    return run


def columns() -> Any:
    """That of float32."""
    return _columns_of(MATRIX)


def half_columns() -> Any:
    """That of bfloat16."""
    return _columns_of(HALVES)


def float16_columns() -> Any:
    """That of float16."""
    return _columns_of(FLOAT16S)


def _gradient_columns_of(kind: Any) -> Any:
    """`run(pool, parts, g, x, scale, offset, by_mean, by_variance, epsilon, high, choice, ...)`.

    Gradients by the input into `result`, and by scale and offset into `sums`, which follow; then
    `moments`, which are found first unless `has_moments` is 1, and scratch as before.
    """

    @compiled(parallel=False, exact=True)
    def run(
        pool, parts, g, x, scale, offset, by_mean, by_variance, epsilon, high, choice, result, sums,
        moments, has_moments, factors, shares,
    ):  # fmt: skip
        if not has_moments:
            _find_moments(pool, parts, x, moments, factors, shares, _sums_part)
        mean, variance = moments[0], moments[1]
        factor, shift = factors[0], factors[1]
        _set_factors(mean, variance, scale, offset, epsilon, factor, shift)
        operands = (g, x, factor, shift, mean, high, choice, shares[0], shares[1])
        spread(pool, parts, _gradient_sums_part, operands)
        by_scale, by_offset = sums[0], sums[1]
        _add_shares(shares[0], by_offset)
        _add_shares(shares[1], by_scale)
        p, q, r = factors[2], factors[3], factors[4]
        _set_gradient_factors(
            mean, variance, scale, by_mean, by_variance, epsilon, np.float32(len(x)),
            by_scale, by_offset, p, q, r,
        )  # fmt: skip
        spread(pool, parts, _gradient_part, (g, x, factor, shift, p, q, r, high, choice, result))

    arguments = kind, kind, *[VECTOR] * 4, float32, float32, int64, kind
    run.compile(void(*POOL, *arguments, MATRIX, MATRIX, int64, MATRIX, CUBE))
    return run


def gradient_columns() -> Any:
    """That of float32."""
    return _gradient_columns_of(MATRIX)


def half_gradient_columns() -> Any:
    """That of bfloat16."""
    return _gradient_columns_of(HALVES)


def float16_gradient_columns() -> Any:
    """That of float16."""
    return _gradient_columns_of(FLOAT16S)
