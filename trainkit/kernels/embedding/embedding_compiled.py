"""The gradient of an embedding: rows added up by number, a range of the table to each part."""

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
