"""The gradient of an embedding: rows added up by number, a stretch of the table to each part."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float32, int64, void

from trainkit.kernels.jit.options import compiled
from trainkit.kernels.threads.parallel_for import TEAM, spread, stretch

_MATRIX = float32[:, ::1]


@compiled(parallel=False, exact=True)
def _sum_by_id_part(part, parts, rows, ids, result):
    first, last = stretch(part, parts, result.shape[0], 1)
    for row in range(first, last):
        for f in range(result.shape[1]):
            result[row, f] = 0
    for i in range(ids.shape[0]):
        row = np.uintp(ids[i])
        if row >= first and row < last:
            for f in range(result.shape[1]):
                result[row, f] += rows[i, f]


def sum_by_id() -> Any:
    """`run(team, parts, rows, ids, result)`: result[ids[i]] += rows[i], in order, from zeros."""

    @compiled(parallel=False)
    def run(team, parts, rows, ids, result):
        spread(team, parts, _sum_by_id_part, (rows, ids, result))

    run.compile(void(*TEAM, _MATRIX, int64[::1], _MATRIX))
    return run
