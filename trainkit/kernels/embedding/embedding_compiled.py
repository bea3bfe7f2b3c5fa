"""Rows folded by number, as in the gradient of an embedding: a range of the table to each part."""

from __future__ import annotations

import numpy as np
from numba import int64

from trainkit.kernels.jit.builders import MATRIX, by_parts
from trainkit.kernels.jit.options import inlined
from trainkit.kernels.threads.parallel_for import chunk_range


@inlined
def _add_rows(first, last, rows, ids, result):
    """Add result[ids[i]] += rows[i], in order, for ids in [first, last)."""
    for i in range(ids.shape[0]):
        row = np.uintp(ids[i])
        if row >= first and row < last:
            for f in range(result.shape[1]):
                result[row, f] += rows[i, f]


@by_parts(MATRIX, int64[::1], MATRIX, exact=True)
def sum_by_id(part, parts, rows, ids, result):
    """Sums result[ids[i]] += rows[i], in order, from zeros."""
    first, last = chunk_range(part, parts, result.shape[0], 1)
    for row in range(first, last):
        for f in range(result.shape[1]):
            result[row, f] = 0
    _add_rows(first, last, rows, ids, result)


@by_parts(MATRIX, int64[::1], MATRIX, exact=True)
def add_by_id(part, parts, rows, ids, result):
    """Sums result[ids[i]] += rows[i], in order, from what is in `result`."""
    first, last = chunk_range(part, parts, result.shape[0], 1)
    _add_rows(first, last, rows, ids, result)


@by_parts(MATRIX, int64[::1], MATRIX, exact=True)
def multiply_by_id(part, parts, rows, ids, result):
    """Products result[ids[i]] *= rows[i], in order, from what is in `result`."""
    first, last = chunk_range(part, parts, result.shape[0], 1)
    for i in range(ids.shape[0]):
        row = np.uintp(ids[i])
        if row >= first and row < last:
            for f in range(result.shape[1]):
                result[row, f] *= rows[i, f]


# Of two equal numbers, which zeros of either sign are, the later one stays, as in `np.maximum.at`;
# a NaN stays whatever follows.


@by_parts(MATRIX, int64[::1], MATRIX, exact=True)
def max_by_id(part, parts, rows, ids, result):
    """The greater of result[ids[i]] and rows[i], in order; NaN wins."""
    first, last = chunk_range(part, parts, result.shape[0], 1)
    for i in range(ids.shape[0]):
        row = np.uintp(ids[i])
        if row >= first and row < last:
            for f in range(result.shape[1]):
                top = result[row, f]
                result[row, f] = top if top > rows[i, f] or top != top else rows[i, f]


@by_parts(MATRIX, int64[::1], MATRIX, exact=True)
def min_by_id(part, parts, rows, ids, result):
    """The smaller of result[ids[i]] and rows[i], in order; NaN wins."""
    first, last = chunk_range(part, parts, result.shape[0], 1)
    for i in range(ids.shape[0]):
        row = np.uintp(ids[i])
        if row >= first and row < last:
            for f in range(result.shape[1]):
                least = result[row, f]
                result[row, f] = least if least < rows[i, f] or least != least else rows[i, f]
