"""Extremes of rows and running sums of float32, spread over the cores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float32, prange, void

from trainkit.kernels.compiled.options import compiled, inlined

_MATRIX, _CUBE = float32[:, ::1], float32[:, :, ::1]
_SIGN, _INFINITE = np.int32(31), np.int32(0x7F800000)
_ALL_BUT_SIGN = np.int32(0x7FFFFFFF)


@inlined
def rank(x):
    """An int32 that is the greater the greater the number is: negative ones turn their bits' order.

    LLVM takes extremes of integers in vectors, of floats it does not.
    """
    bits = np.float32(x).view(np.int32)
    return bits ^ ((bits >> _SIGN) & _ALL_BUT_SIGN)


@inlined
def number_of(rank):
    """The float32 of a rank."""
    return np.int32(rank ^ ((rank >> _SIGN) & _ALL_BUT_SIGN)).view(np.float32)


@inlined
def _is_nan(x):
    return (np.float32(x).view(np.int32) & _ALL_BUT_SIGN) > _INFINITE


def row_max() -> Any:
    """`run(x, y)`: the greatest number of each row; NaN wins."""

    @compiled(exact=True)
    def run(x, y):
        for row in prange(x.shape[0]):
            top = rank(x[row, 0])
            for c in range(x.shape[1]):
                top = max(top, _ALL_BUT_SIGN if _is_nan(x[row, c]) else rank(x[row, c]))
            y[row] = number_of(top)

    run.compile(void(_MATRIX, float32[::1]))
    return run


def row_min() -> Any:
    """`run(x, y)`: the smallest number of each row; NaN wins."""

    @compiled(exact=True)
    def run(x, y):
        for row in prange(x.shape[0]):
            least = rank(x[row, 0])
            for c in range(x.shape[1]):
                least = min(least, ~_ALL_BUT_SIGN if _is_nan(x[row, c]) else rank(x[row, c]))
            y[row] = number_of(least)

    run.compile(void(_MATRIX, float32[::1]))
    return run


def running_rows() -> Any:
    """`run(x, y)`: sums of all numbers of a row up to each. Eight rows at a time share the wait."""

    @compiled(exact=True)
    def run(x, y):
        count, size = x.shape
        for number in prange((count + 7) // 8):
            first = np.int64(number) * 8
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

    run.compile(void(_MATRIX, _MATRIX))
    return run


def running_columns() -> Any:
    """`run(x, y)`: sums along the middle axis, of all numbers up to each; 256 columns a task."""

    @compiled(exact=True)
    def run(x, y):
        outer, size, inner = x.shape
        parts = (inner + 255) // 256
        for number in prange(outer * parts):
            block = np.int64(number) // parts
            first = (np.int64(number) - block * parts) * 256
            last = min(first + 256, inner)
            for c in range(first, last):
                y[block, 0, c] = x[block, 0, c]
            for i in range(1, size):
                for c in range(first, last):
                    y[block, i, c] = y[block, i - 1, c] + x[block, i, c]

    run.compile(void(_CUBE, _CUBE))
    return run
