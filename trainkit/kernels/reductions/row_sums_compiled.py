"""Sums of the rows of float32, in the order in which NumPy makes them: see `row_reductions.pxi`.

Which numbers are added up in eight sums, and how these sums are then added in pairs, depends on the
length of a row alone: `reductions_tuned.row_leaves` says it once for all rows.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from trainkit.kernels.jit.builders import READ_MATRIX, VECTOR, by_parts
from trainkit.kernels.jit.emitters import emits
from trainkit.kernels.jit.local_arrays import keep_alive
from trainkit.kernels.jit.options import inlined
from trainkit.kernels.jit.simd import BYTES, F32
from trainkit.kernels.threads.parallel_for import chunk_range

_LANES, _ROWS = 8, 4
_TABLE = types.Array(types.int64, 1, "C", readonly=True)
_DEEPEST = 48
"""Halvings after which no row is longer than what is added up at once."""


def _add_neighbours(builder, vector):
    """The sums of neighbours in a vector, half as many."""
    count = vector.type.count
    halves = [
        builder.shuffle_vector(
            vector,
            ir.Constant(vector.type, None),
            ir.Constant(ir.VectorType(ir.IntType(32), count // 2), list(range(k, count, 2))),
        )
        for k in (0, 1)
    ]
    return builder.fadd(*halves)


@emits(2, *(types.intp,) * 4)
def _add_eights(builder, rows, squares, source, stride, count, target):
    """Sums of `count` times eight numbers of several rows, each row by eight sums side by side.

    Args:
        rows: how many rows wait together; a literal.
        squares: 1 for sums of squares; a literal.
        source: address of the first number.
        stride: bytes from row to row.
        count: at least 1.
        target: address of a sum for each row.
    """
    vector = ir.VectorType(F32, _LANES)

    def read(row, at):
        offset = builder.add(
            builder.mul(stride, ir.Constant(stride.type, row)),
            builder.mul(at, ir.Constant(at.type, _LANES * BYTES)),
        )
        pointer = builder.inttoptr(builder.add(source, offset), vector.as_pointer())
        numbers = builder.load(pointer)
        numbers.align = BYTES
        return builder.fmul(numbers, numbers) if squares else numbers

    zero, one = (ir.Constant(count.type, k) for k in (0, 1))
    sums = [cgutils.alloca_once(builder, vector) for _ in range(rows)]
    for row, total in enumerate(sums):
        builder.store(read(row, zero), total)
    with cgutils.for_range_slice(builder, one, count, one) as (at, _):
        for row, total in enumerate(sums):
            builder.store(builder.fadd(builder.load(total), read(row, at)), total)
    for row, total in enumerate(sums):
        pairs = _add_neighbours(builder, _add_neighbours(builder, builder.load(total)))
        first, second = (
            builder.extract_element(pairs, ir.Constant(ir.IntType(32), k)) for k in (0, 1)
        )
        sum_address = builder.add(target, ir.Constant(target.type, BYTES * row))
        pointer = builder.inttoptr(sum_address, F32.as_pointer())
        builder.store(builder.fadd(first, second), pointer).align = BYTES


@inlined
def _sum_rows(part, parts, x, starts, merges, y, squares):
    """The sums of rows, or of their squares where `squares`, a literal, is 1."""
    count, size = x.shape
    partial_sums = np.empty((_DEEPEST, _ROWS), np.float32)
    first, last = chunk_range(part, parts, count, _ROWS)
    for row in range(first, last, _ROWS):
        together = min(_ROWS, last - row)
        depth = 0
        for leaf in range(merges.size):
            start, stop = starts[leaf], starts[leaf + 1]
            eights = (stop - start) // _LANES
            address = x.ctypes.data + (row * size + start) * BYTES
            sums = partial_sums.ctypes.data + depth * _ROWS * BYTES
            if together == _ROWS:
                _add_eights(_ROWS, squares, address, size * BYTES, eights, sums)
            else:
                for k in range(together):
                    at = address + k * size * BYTES
                    _add_eights(1, squares, at, 0, eights, sums + k * BYTES)
            for i in range(start + eights * _LANES, stop):
                for k in range(together):
                    number = x[row + k, i]
                    partial_sums[depth, k] += number * number if squares else number
            depth += 1
            for _ in range(merges[leaf]):
                depth -= 1
                for k in range(together):
                    partial_sums[depth - 1, k] += partial_sums[depth, k]
        for k in range(together):
            y[row + k] = partial_sums[0, k] + np.float32(
                0
            )  # NumPy begins with 0, so no sum is -0.0
    keep_alive(partial_sums)


@by_parts(READ_MATRIX, _TABLE, _TABLE, VECTOR, exact=True)
def row_sums(part, parts, x, starts, merges, y):
    """The sum of each row.

    `starts` are where the numbers begin that are added up at once, and the end of a row; after each
    of them so many of the last two sums become one as `merges` says.
    """
    _sum_rows(part, parts, x, starts, merges, y, 0)


@by_parts(READ_MATRIX, _TABLE, _TABLE, VECTOR, exact=True)
def row_square_sums(part, parts, x, starts, merges, y):
    """The same of the squares of the numbers."""
    _sum_rows(part, parts, x, starts, merges, y, 1)
