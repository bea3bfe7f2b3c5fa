"""Running sums and products from either end, and linear recurrences, step by step as in NumPy."""

from __future__ import annotations

import numpy as np
from numba import types

from trainkit.kernels.jit.builders import CUBE, MATRIX, by_parts
from trainkit.kernels.jit.options import inlined
from trainkit.kernels.threads.parallel_for import chunk_range

# Four rows go side by side, as each step of a row waits for the one before it. Lines of more rows,
# read and written, push one another out of the first cache where their addresses end in the same
# bits, as those of rows of 2048 do.
_1, _2, _3 = map(np.uintp, range(1, 4))


@inlined
def _origin_and_step(size, backwards):
    """The first place of an axis, and the way to the next one."""
    if backwards:
        return size - 1, -1
    return 0, 1


@by_parts(MATRIX, MATRIX, types.intp, types.intp, types.intp, exact=True, apart=True)
def scan_rows(part, parts, x, y, multiplies, backwards, exclusive):
    """Sums or products of a row up to each number, or before each where `exclusive`.

    The number before the second one is the first itself, not a sum of it and 0: that would lose the
    sign of a zero.
    """
    count, size = x.shape
    start, stop = chunk_range(part, parts, count, 4)
    origin, step = _origin_and_step(size, backwards)
    ahead = step * exclusive
    for first in range(start, stop, 4):
        row = np.uintp(first)
        last = np.uintp(min(first + 4, stop))
        for r in range(row, last):
            if exclusive:
                y[r, origin] = multiplies
            if size > exclusive:
                y[r, origin + ahead] = x[r, origin]
        if first + 4 > stop:
            for r in range(row, last):
                total = x[r, origin]
                for i in range(1, size - exclusive):
                    at, to = np.uintp(origin + i * step), np.uintp(origin + i * step + ahead)
                    total = total * x[r, at] if multiplies else total + x[r, at]
                    y[r, to] = total
            continue
        # In registers: read back from the memory of y, such rows would wait for the writes of one
        # another.
        t0, t1, t2, t3 = (
            x[row, origin],
            x[row + _1, origin],
            x[row + _2, origin],
            x[row + _3, origin],
        )
        for i in range(1, size - exclusive):
            at, to = np.uintp(origin + i * step), np.uintp(origin + i * step + ahead)
            if multiplies:
                t0 *= x[row, at]
                t1 *= x[row + _1, at]
                t2 *= x[row + _2, at]
                t3 *= x[row + _3, at]
            else:
                t0 += x[row, at]
                t1 += x[row + _1, at]
                t2 += x[row + _2, at]
                t3 += x[row + _3, at]
            y[row, to], y[row + _1, to] = t0, t1
            y[row + _2, to], y[row + _3, to] = t2, t3


@by_parts(CUBE, CUBE, types.intp, types.intp, types.intp, exact=True, apart=True)
def scan_columns(part, parts, x, y, multiplies, backwards, exclusive):
    """The same along the middle axis."""
    outer, size, inner = x.shape
    start, stop = chunk_range(part, parts, outer, 1)
    origin, step = _origin_and_step(size, backwards)
    ahead = step * exclusive
    for number in range(start, stop):
        block = np.uintp(number)
        if exclusive:
            for c in range(inner):
                y[block, origin, c] = multiplies
        if size > exclusive:
            for c in range(inner):
                y[block, origin + ahead, c] = x[block, origin, c]
        for i in range(1, size - exclusive):
            at = origin + i * step
            to, before, source = np.uintp(at + ahead), np.uintp(at + ahead - step), np.uintp(at)
            if multiplies:
                for c in range(inner):
                    y[block, to, c] = y[block, before, c] * x[block, source, c]
            else:
                for c in range(inner):
                    y[block, to, c] = y[block, before, c] + x[block, source, c]


@by_parts(MATRIX, MATRIX, MATRIX, types.intp, exact=True, apart=True)
def recur_rows(part, parts, a, b, y, backwards):
    """Solutions of y[i] = b[i] + a[i] y[i - 1] along rows, from 0."""
    count, size = b.shape
    start, stop = chunk_range(part, parts, count, 4)
    origin, step = _origin_and_step(size, backwards)
    zero = np.float32(0)
    for first in range(start, stop, 4):
        row = np.uintp(first)
        if first + 4 > stop:
            for r in range(row, np.uintp(stop)):
                last = zero
                for i in range(size):
                    at = np.uintp(origin + i * step)
                    last = b[r, at] + a[r, at] * last
                    y[r, at] = last
            continue
        t0, t1, t2, t3 = zero, zero, zero, zero
        for i in range(size):
            at = np.uintp(origin + i * step)
            t0 = b[row, at] + a[row, at] * t0
            t1 = b[row + _1, at] + a[row + _1, at] * t1
            t2 = b[row + _2, at] + a[row + _2, at] * t2
            t3 = b[row + _3, at] + a[row + _3, at] * t3
            y[row, at], y[row + _1, at] = t0, t1
            y[row + _2, at], y[row + _3, at] = t2, t3


@by_parts(CUBE, CUBE, CUBE, types.intp, exact=True, apart=True)
def recur_columns(part, parts, a, b, y, backwards):
    """The same along the middle axis."""
    outer, size, inner = b.shape
    start, stop = chunk_range(part, parts, outer, 1)
    origin, step = _origin_and_step(size, backwards)
    zero = np.float32(0)
    for number in range(start, stop):
        block = np.uintp(number)
        for c in range(inner):
            y[block, origin, c] = b[block, origin, c] + a[block, origin, c] * zero
        for i in range(1, size):
            at, before = np.uintp(origin + i * step), np.uintp(origin + (i - 1) * step)
            for c in range(inner):
                y[block, at, c] = b[block, at, c] + a[block, at, c] * y[block, before, c]
