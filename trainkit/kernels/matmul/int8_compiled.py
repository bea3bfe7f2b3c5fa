"""Products of a few rows of int8 with a matrix of int8, which is read once, as it is."""

from __future__ import annotations

from numba import int8, int32

from trainkit.kernels.jit.builders import by_parts
from trainkit.kernels.threads.parallel_for import chunk_range


@by_parts(int8[:, ::1], int8[:, ::1], int32[:, ::1], exact=True)
def int8_product(part, parts, a, b, result):
    """Columns of result = a @ b, four rows of b at a time."""
    first, last = chunk_range(part, parts, b.shape[1], 64)
    unrolled_end = b.shape[0] // 4 * 4
    for i in range(a.shape[0]):
        for j in range(first, last):
            result[i, j] = 0
    for k in range(0, unrolled_end, 4):
        for i in range(a.shape[0]):
            a0, a1 = int32(a[i, k]), int32(a[i, k + 1])
            a2, a3 = int32(a[i, k + 2]), int32(a[i, k + 3])
            for j in range(first, last):
                result[i, j] += (
                    a0 * int32(b[k, j])
                    + a1 * int32(b[k + 1, j])
                    + a2 * int32(b[k + 2, j])
                    + a3 * int32(b[k + 3, j])
                )
    for k in range(unrolled_end, b.shape[0]):
        for i in range(a.shape[0]):
            factor = int32(a[i, k])
            for j in range(first, last):
                result[i, j] += factor * int32(b[k, j])
