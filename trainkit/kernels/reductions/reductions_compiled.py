"""Maxima, minima and running sums of float32, shared out to the pool."""

from __future__ import annotations

import numpy as np
from numba import types

from trainkit.core.cpu.cost_model import UNCACHED_FLOATS
from trainkit.kernels.jit.builders import CUBE, MATRIX, READ_CUBE, READ_MATRIX, VECTOR, by_parts
from trainkit.kernels.jit.elements import READ_HALF_CUBE, READ_HALVES, as_float
from trainkit.kernels.jit.options import inlined
from trainkit.kernels.threads.parallel_for import chunk_range

_SIGN = np.int32(31)
_ALL_BUT_SIGN = np.int32(np.iinfo(np.int32).max)


@inlined
def rank(x):
    """An int32 that is the greater the greater the number is: negative ones turn their bits' order.

    LLVM takes maxima and minima of integers in vectors, of floats it does not.
    """
    bits = np.float32(x).view(np.int32)
    return bits ^ ((bits >> _SIGN) & _ALL_BUT_SIGN)


@inlined
def number_of(rank):
    """The float32 of a rank."""
    return np.int32(rank ^ ((rank >> _SIGN) & _ALL_BUT_SIGN)).view(np.float32)


# As int32, bits of numbers that are not negative rise with them, and bits of negative ones fall.
# As uint32, those of negative ones stand above all others and rise with their size. So the greatest
# and the smallest of a row are known by the greatest of its bits of either kind, each an operation
# in vectors, unless all have the same sign; NaNs of either sign stand above the infinity of it.
_INFINITE = np.float32(np.inf).view(np.int32)
_NEGATIVE_INFINITE = np.float32(-np.inf).view(np.uint32)
_GREATEST_NAN, _LEAST_NAN = _ALL_BUT_SIGN, ~np.int32(0)
_FIRST_NEGATIVE = np.float32(-0.0).view(np.uint32)


@inlined
def _greatest_bits(x, row):
    """The greatest bits of a row, as int32 and as uint32."""
    signed = np.float32(x[row, 0]).view(np.int32)
    unsigned = np.float32(x[row, 0]).view(np.uint32)
    for c in range(x.shape[1]):
        signed = max(signed, np.float32(x[row, c]).view(np.int32))
        unsigned = max(unsigned, np.float32(x[row, c]).view(np.uint32))
    return signed, unsigned


@inlined
def _least_bits(x, row):
    """The least bits of a row whose numbers have one sign."""
    least = np.float32(x[row, 0]).view(np.uint32)
    for c in range(x.shape[1]):
        least = min(least, np.float32(x[row, c]).view(np.uint32))
    return least


@by_parts(READ_MATRIX, VECTOR, exact=True)
def row_max(part, parts, x, y):
    """The greatest number of each row; NaN wins."""
    start, stop = chunk_range(part, parts, x.shape[0], 1)
    for row in range(start, stop):
        signed, unsigned = _greatest_bits(x, row)
        if signed > _INFINITE or unsigned > _NEGATIVE_INFINITE:
            y[row] = np.int32(_GREATEST_NAN).view(np.float32)
        elif signed >= 0:
            y[row] = np.int32(signed).view(np.float32)
        else:
            y[row] = np.uint32(_least_bits(x, row)).view(np.float32)


@by_parts(READ_MATRIX, VECTOR, exact=True)
def row_min(part, parts, x, y):
    """The smallest number of each row; NaN wins."""
    start, stop = chunk_range(part, parts, x.shape[0], 1)
    for row in range(start, stop):
        signed, unsigned = _greatest_bits(x, row)
        if signed > _INFINITE or unsigned > _NEGATIVE_INFINITE:
            y[row] = np.int32(_LEAST_NAN).view(np.float32)
        elif unsigned >= _FIRST_NEGATIVE:
            y[row] = np.uint32(unsigned).view(np.float32)
        else:
            y[row] = np.uint32(_least_bits(x, row)).view(np.float32)


@inlined
def _columns_of(number, inner, columns):
    """Which block, and from where to where the columns go, of task `number`."""
    task = np.int64(number)
    each = (inner + columns - 1) // columns
    first = task % each * columns
    return np.uintp(task // each), np.uintp(first), np.uintp(min(first + columns, inner))


@by_parts(READ_CUBE, MATRIX, types.intp, exact=True)
def column_max(part, parts, x, y, columns):
    """The greatest numbers along the middle axis, of so many columns at a time; NaN wins."""
    outer, size, inner = x.shape
    start, stop = chunk_range(part, parts, outer * ((inner + columns - 1) // columns), 1)
    for number in range(start, stop):
        block, first, last = _columns_of(number, inner, columns)
        for c in range(first, last):
            y[block, c] = x[block, 0, c]
        for i in range(1, size):
            for c in range(first, last):
                top, z = y[block, c], x[block, i, c]
                y[block, c] = z if z > top or z != z else top


@by_parts(READ_CUBE, MATRIX, types.intp, exact=True)
def column_min(part, parts, x, y, columns):
    """The smallest numbers along the middle axis, of so many columns at a time; NaN wins."""
    outer, size, inner = x.shape
    start, stop = chunk_range(part, parts, outer * ((inner + columns - 1) // columns), 1)
    for number in range(start, stop):
        block, first, last = _columns_of(number, inner, columns)
        for c in range(first, last):
            y[block, c] = x[block, 0, c]
        for i in range(1, size):
            for c in range(first, last):
                least, z = y[block, c], x[block, i, c]
                y[block, c] = z if z < least or z != z else least


@by_parts(READ_MATRIX, MATRIX, exact=True)
def running_rows(part, parts, x, y):
    """Sums of a row up to each number; eight rows share the wait."""
    count, size = x.shape
    start, stop = chunk_range(part, parts, count, 8)
    for first in range(start, stop, 8):
        if first + 8 > count:
            for row in range(first, count):
                total = np.float32(0)
                for c in range(size):
                    total = total + x[row, c] if c else x[row, c]
                    y[row, c] = total
            continue
        t0, t1, t2, t3 = x[first, 0], x[first + 1, 0], x[first + 2, 0], x[first + 3, 0]
        t4, t5, t6, t7 = x[first + 4, 0], x[first + 5, 0], x[first + 6, 0], x[first + 7, 0]
        for c in range(size):
            if c:
                t0 += x[first, c]
                t1 += x[first + 1, c]
                t2 += x[first + 2, c]
                t3 += x[first + 3, c]
                t4 += x[first + 4, c]
                t5 += x[first + 5, c]
                t6 += x[first + 6, c]
                t7 += x[first + 7, c]
            y[first, c], y[first + 1, c], y[first + 2, c], y[first + 3, c] = t0, t1, t2, t3
            y[first + 4, c], y[first + 5, c], y[first + 6, c], y[first + 7, c] = t4, t5, t6, t7


@by_parts(READ_CUBE, CUBE, types.intp, exact=True)
def running_columns(part, parts, x, y, columns):
    """Sums along the middle axis, of all numbers up to each, of so many columns at a time."""
    outer, size, inner = x.shape
    start, stop = chunk_range(part, parts, outer * ((inner + columns - 1) // columns), 1)
    for number in range(start, stop):
        block, first, last = _columns_of(number, inner, columns)
        for c in range(first, last):
            y[block, 0, c] = x[block, 0, c]
        for i in range(1, size):
            for c in range(first, last):
                y[block, i, c] = y[block, i - 1, c] + x[block, i, c]


def _column_sums(part, parts, x, shares):
    """Sums of the columns, of each worker's share of the rows; four rows share a sum's way."""
    workers, width = shares.shape
    start, stop = chunk_range(part, parts, workers, 1)
    for number in range(start, stop):
        worker = np.int64(number)
        first, last = chunk_range(worker, workers, x.shape[0], 1)
        fours = first + (last - first) // 4 * 4
        for c in range(width):
            shares[worker, c] = 0
        for row in range(first, fours, 4):
            for c in range(width):
                pair = as_float(x[row, c]) + as_float(x[row + 1, c])
                other = as_float(x[row + 2, c]) + as_float(x[row + 3, c])
                shares[worker, c] += pair + other
        for row in range(fours, last):
            for c in range(width):
                shares[worker, c] += as_float(x[row, c])


column_sums = by_parts(READ_MATRIX, MATRIX, apart=True)(_column_sums)
half_column_sums = by_parts(READ_HALVES, MATRIX, apart=True)(_column_sums)


@inlined
def _sum_of_sixteen(x, block, c):
    """The numbers of a column of 16, one after the other, in a register."""
    total = as_float(x[block, 0, c])
    total += as_float(x[block, 1, c])
    total += as_float(x[block, 2, c])
    total += as_float(x[block, 3, c])
    total += as_float(x[block, 4, c])
    total += as_float(x[block, 5, c])
    total += as_float(x[block, 6, c])
    total += as_float(x[block, 7, c])
    total += as_float(x[block, 8, c])
    total += as_float(x[block, 9, c])
    total += as_float(x[block, 10, c])
    total += as_float(x[block, 11, c])
    total += as_float(x[block, 12, c])
    total += as_float(x[block, 13, c])
    total += as_float(x[block, 14, c])
    return total + as_float(x[block, 15, c])


def _middle_sums(part, parts, x, y):
    """Sums along the middle axis; of 16 numbers, as sums of all elements have it, by registers.

    Columns that come from memory are read row by row, in the order in which it sends them.
    """
    outer, size, inner = x.shape
    start, stop = chunk_range(part, parts, outer, 1)
    for block in range(start, stop):
        if size == 16 and x.size <= UNCACHED_FLOATS:
            for c in range(inner):
                y[block, c] = _sum_of_sixteen(x, block, c)
            continue
        for c in range(inner):
            y[block, c] = as_float(x[block, 0, c])
        for i in range(1, size):
            for c in range(inner):
                y[block, c] += as_float(x[block, i, c])


middle_sums = by_parts(READ_CUBE, MATRIX, exact=True, apart=True)(_middle_sums)
half_middle_sums = by_parts(READ_HALF_CUBE, MATRIX, exact=True, apart=True)(_middle_sums)


@by_parts(READ_CUBE, MATRIX, exact=True, apart=True)
def middle_square_sums(part, parts, x, y):
    """Sums of squares along the middle axis."""
    outer, size, inner = x.shape
    start, stop = chunk_range(part, parts, outer, 1)
    for block in range(start, stop):
        for c in range(inner):
            y[block, c] = x[block, 0, c] * x[block, 0, c]
        for i in range(1, size):
            for c in range(inner):
                y[block, c] += x[block, i, c] * x[block, i, c]
