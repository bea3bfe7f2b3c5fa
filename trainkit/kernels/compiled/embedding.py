"""The gradient of an embedding: rows added up by number, a stretch of the table to each worker."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float32, int64, prange, void

from trainkit.kernels.compiled.options import compiled

_MATRIX = float32[:, ::1]


def sum_by_id() -> Any:
    """`run(rows, ids, result, workers)`: result[ids[i]] += rows[i], in order, from zeros."""

    @compiled(exact=True)
    def run(rows, ids, result, workers):
        count, features = result.shape
        step = (count + workers - 1) // workers
        for number in prange(workers):
            first = np.int64(number) * step
            last = min(first + step, count)
            for row in range(first, last):
                for f in range(features):
                    result[row, f] = 0
            for i in range(ids.shape[0]):
                row = ids[i]
                if row >= first and row < last:
                    for f in range(features):
                        result[row, f] += rows[i, f]

    run.compile(void(_MATRIX, int64[::1], _MATRIX, int64))
    return run
