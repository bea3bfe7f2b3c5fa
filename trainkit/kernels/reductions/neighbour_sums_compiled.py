"""Sums of what lies around each number of a row."""

from __future__ import annotations

import numpy as np
from numba import types

from trainkit.kernels.jit.builders import MATRIX, by_parts
from trainkit.kernels.threads.parallel_for import chunk_range


@by_parts(MATRIX, types.intp, MATRIX, exact=True, apart=True)
def neighbour_sums(part, parts, x, radius, y):
    """Sums of the numbers up to `radius` places before and behind each, from the first on."""
    rows, width = x.shape
    start, stop = chunk_range(part, parts, rows, 1)
    # between zeros: all shifts of a row are as long as the row, whole vectors in most networks
    line = np.zeros(width + 2 * radius, np.float32)
    for number in range(start, stop):
        row = np.uintp(number)
        for c in range(width):
            line[np.uintp(radius + c)] = x[row, c]
            y[row, c] = 0
        shift = 0
        while shift + 3 < 2 * radius + 1:  # four at a time: a sum is read and written once for them
            for c in range(width):
                at = np.uintp(shift + c)
                total = y[row, c] + line[at]
                total += line[at + np.uintp(1)]
                total += line[at + np.uintp(2)]
                total += line[at + np.uintp(3)]
                y[row, c] = total
            shift += 4
        for last in range(shift, 2 * radius + 1):
            for c in range(width):
                y[row, c] += line[np.uintp(last + c)]
