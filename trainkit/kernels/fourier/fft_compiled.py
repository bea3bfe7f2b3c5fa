"""Fourier transforms of float32, a block of lines at a time.

A worker has a room of two halves for a block, between which the passes go to and fro. What does not
fill a block of lines is copied number by number.
"""

from __future__ import annotations

import numpy as np
from numba import float32, int64

from trainkit.kernels.convolution.conv_microkernels import turn_square
from trainkit.kernels.fourier.fft_microkernels import (
    butterflies,
    clear_float,
    copy_float,
    join_halves,
    merge_columns,
    separate_halves,
    split_columns,
)
from trainkit.kernels.jit.builders import CUBE, MATRIX, READ_CUBE, READ_MATRIX, by_parts
from trainkit.kernels.jit.options import compiled
from trainkit.kernels.jit.register_tiles import tiling
from trainkit.kernels.threads.parallel_for import chunk_range

_LANES = tiling(1)[2]
_ROW = 4 * _LANES
_ELEMENT = 2 * _ROW
"""Bytes of an element of all lanes."""
_SQUARE = _LANES // 2
"""Complex numbers of a line that are turned at a time."""
_STEPS = int64[:, ::1]


@compiled(parallel=False)
def _load_lines(source, line_bytes, some, count, target):
    """`count` complex numbers of each of `some` lines."""
    turned_end = count // _SQUARE * _SQUARE if some == _LANES else 0
    for j in range(0, turned_end, _SQUARE):
        turn_square(_LANES, source + 8 * j, line_bytes, target + _ELEMENT * j, _ROW)
    for line in range(some):
        for i in range(2 * turned_end, 2 * count):
            copy_float(target + _ROW * i + 4 * line, source + line_bytes * line + 4 * i)


@compiled(parallel=False)
def _store_lines(source, some, count, target, line_bytes):
    """The reverse."""
    turned_end = count // _SQUARE * _SQUARE if some == _LANES else 0
    for j in range(0, turned_end, _SQUARE):
        turn_square(_LANES, source + _ELEMENT * j, _ROW, target + 8 * j, line_bytes)
    for line in range(some):
        for i in range(2 * turned_end, 2 * count):
            copy_float(target + line_bytes * line + 4 * i, source + _ROW * i + 4 * line)


@compiled(parallel=False, exact=True)
def _pass(source, target, step, roots, factor, shift):
    """Butterflies of one radix over a whole block."""
    radix, groups, together, first = step
    apart = groups * together * _ELEMENT
    is_last = np.int64(groups == 1)  # whose roots are 1
    for p in range(groups):
        at, to = source + p * together * _ELEMENT, target + p * radix * together * _ELEMENT
        root = roots + 8 * (first + p * (radix - 1))
        butterflies(_LANES, radix, is_last, at, to, apart, together, root, factor, shift)


@compiled(parallel=False, exact=True)
def _transform(source, other, steps, roots, factor, is_inverse):
    """All passes, to and fro between two halves of a room; gives where the result is."""
    shift = _ROW if is_inverse else 0
    for i in range(len(steps)):
        _pass(source, other, steps[i], roots, factor, shift)
        source, other = other, source
    return source


@by_parts(READ_CUBE, CUBE, _STEPS, MATRIX, float32, int64, MATRIX)
def columns(part, parts, x, y, steps, roots, factor, is_inverse, rooms):
    """Complex transforms along the middle axis of (outer, n, 2 * inner); see `lines`."""
    outer, count, line_bytes = x.shape[0], x.shape[1], 4 * x.shape[2]
    columns = x.shape[2] // 2
    blocks = (columns + _LANES - 1) // _LANES
    room = rooms.ctypes.data + 4 * rooms.shape[1] * np.int64(part)
    other = room + 2 * rooms.shape[1]
    first, last = chunk_range(part, parts, outer * blocks, 1)
    for number in range(first, last):
        unit = np.int64(number)
        column = unit % blocks * _LANES
        some = min(_LANES, columns - column)
        shift = line_bytes * count * (unit // blocks) + 8 * column
        source, target = x.ctypes.data + shift, y.ctypes.data + shift
        if some == _LANES:
            split_columns(_LANES, source, line_bytes, room, count)
        else:
            for j in range(count):
                for c in range(2 * some):
                    to = room + _ELEMENT * j + _ROW * (c % 2) + 4 * (c // 2)
                    copy_float(to, source + line_bytes * j + 4 * c)
        result = _transform(room, other, steps, roots.ctypes.data, factor, is_inverse)
        if some == _LANES:
            merge_columns(_LANES, result, target, line_bytes, count)
        else:
            for j in range(count):
                for c in range(2 * some):
                    at = result + _ELEMENT * j + _ROW * (c % 2) + 4 * (c // 2)
                    copy_float(target + line_bytes * j + 4 * c, at)


@by_parts(READ_MATRIX, MATRIX, _STEPS, MATRIX, float32, int64, MATRIX)
def lines(part, parts, x, y, steps, roots, factor, is_inverse, rooms):
    """Complex transforms of the lines of (lines, 2 * n).

    Args:
        steps: for each pass radix, groups, transforms of a group, and the first of its roots.
        roots: pairs of floats, one below the other.
        factor: of the results.
        is_inverse: 1 or 0.
        rooms: for each part two times n elements of all lanes.
    """
    count, line_bytes = x.shape[1] // 2, 4 * x.shape[1]
    room = rooms.ctypes.data + 4 * rooms.shape[1] * np.int64(part)
    other = room + 2 * rooms.shape[1]
    first, last = chunk_range(part, parts, x.shape[0], _LANES)
    for number in range(first, last, _LANES):
        line = np.int64(number)
        some = min(_LANES, x.shape[0] - line)
        _load_lines(x.ctypes.data + line_bytes * line, line_bytes, some, count, room)
        result = _transform(room, other, steps, roots.ctypes.data, factor, is_inverse)
        _store_lines(result, some, count, y.ctypes.data + line_bytes * line, line_bytes)


@by_parts(READ_MATRIX, MATRIX, _STEPS, MATRIX, MATRIX, float32, MATRIX)
def real_lines(part, parts, x, y, steps, roots, ends, factor, rooms):
    """The first n / 2 + 1 elements of the transforms of real lines (lines, n) of even length.

    `ends` are the roots exp(-2 pi i k / n); see `lines` for the others.
    """
    half, x_bytes, y_bytes = x.shape[1] // 2, 4 * x.shape[1], 4 * y.shape[1]
    room = rooms.ctypes.data + 4 * rooms.shape[1] * np.int64(part)
    other = room + 2 * rooms.shape[1]
    first, last = chunk_range(part, parts, x.shape[0], _LANES)
    for number in range(first, last, _LANES):
        line = np.int64(number)
        some = min(_LANES, x.shape[0] - line)
        _load_lines(x.ctypes.data + x_bytes * line, x_bytes, some, half, room)
        result = _transform(room, other, steps, roots.ctypes.data, factor, 0)
        target = other if result == room else room
        # element h is element 0 once more, and the middle one its own mirror
        for i in range(2 * _LANES):
            copy_float(result + _ELEMENT * half + 4 * i, result + 4 * i)
        end = _ELEMENT * half
        separate_halves(
            _LANES, result, result + end, target, target + end, ends.ctypes.data, half // 2 + 1
        )
        for i in range(_LANES):
            clear_float(target + _ROW + 4 * i)
            clear_float(target + end + _ROW + 4 * i)
        _store_lines(target, some, half + 1, y.ctypes.data + y_bytes * line, y_bytes)


@by_parts(READ_MATRIX, MATRIX, _STEPS, MATRIX, MATRIX, float32, MATRIX)
def inverse_real_lines(part, parts, x, y, steps, roots, ends, factor, rooms):
    """Real lines (lines, n) from the first n / 2 + 1 elements of their transforms.

    Imaginary parts of the first and the last element count for nothing.
    """
    half, x_bytes, y_bytes = y.shape[1] // 2, 4 * x.shape[1], 4 * y.shape[1]
    room = rooms.ctypes.data + 4 * rooms.shape[1] * np.int64(part)
    other = room + 2 * rooms.shape[1]
    first, last = chunk_range(part, parts, x.shape[0], _LANES)
    for number in range(first, last, _LANES):
        line = np.int64(number)
        some = min(_LANES, x.shape[0] - line)
        _load_lines(x.ctypes.data + x_bytes * line, x_bytes, some, half + 1, room)
        end = _ELEMENT * half
        for i in range(_LANES):
            clear_float(room + _ROW + 4 * i)
            clear_float(room + end + _ROW + 4 * i)
        join_halves(_LANES, room, room + end, other, other + end, ends.ctypes.data, half // 2 + 1)
        result = _transform(other, room, steps, roots.ctypes.data, factor, 1)
        _store_lines(result, some, half, y.ctypes.data + y_bytes * line, y_bytes)
