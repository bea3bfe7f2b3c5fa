"""Largest values of windows over images together with where they stand, and what is added there.

Images are (batch, rows, columns, channels); a `window` is (rows, columns, stride_h, stride_w, top,
left). An index is that in its image, which has less than 2**31 numbers.
"""

from __future__ import annotations

import numpy as np
from numba import float32, int64, uint16
from numba.core.types import UniTuple

from trainkit.kernels.jit.builders import MATRIX, READ_MATRIX, by_parts
from trainkit.kernels.jit.register_tiles import tiling
from trainkit.kernels.pooling.argmax_vectors import write_largest_and_index
from trainkit.kernels.pooling.window_ranges import window_range
from trainkit.kernels.threads.parallel_for import chunk_range

_IMAGES, _INDICES = float32[:, :, :, ::1], int64[:, :, :, ::1]
_HALF_IMAGES = uint16[:, :, :, ::1]  # of the bits of bfloat16
_WINDOW = UniTuple(int64, 6)
_LANES = tiling(1)[2]


def _max_pool_with_argmax(kind, size):
    """The builder for numbers of `size` bytes: float32, or bfloat16."""

    @by_parts(kind, kind, _INDICES, _WINDOW, exact=True, apart=True)
    def max_pool_with_argmax(part, parts, x, y, argmax, window):
        """The largest of each window and its index."""
        start_n, stop_n = chunk_range(part, parts, x.shape[0], 1)
        rows, columns, stride_h, stride_w, top, left = window
        height, width, channels = x.shape[1], x.shape[2], x.shape[3]
        out_rows, out_columns = y.shape[1], y.shape[2]
        pixel = size * channels
        line, below = pixel * width, channels * width
        whole_vectors, vectors = channels // _LANES, (channels + _LANES - 1) // _LANES
        for number in range(start_n, stop_n):
            n = np.int64(number)
            for i in range(out_rows):
                first, last = window_range(i, stride_h, top, rows, height)
                for j in range(out_columns):
                    start, stop = window_range(j, stride_w, left, columns, width)
                    index = (first * width + start) * channels
                    result = ((n * out_rows + i) * out_columns + j) * channels
                    x_at = x.ctypes.data + n * height * line + size * index
                    y_at, argmax_at = y.ctypes.data + size * result, argmax.ctypes.data + 8 * result
                    tall, long = last - first, stop - start
                    is_square = tall == 2 and long == 2
                    for v in range(vectors):  # no unpacked tuples: they would hide the literals
                        c = _LANES * v
                        if v < whole_vectors and is_square:
                            write_largest_and_index(
                                _LANES, 0, 1, size, x_at + size * c, y_at + size * c,
                                argmax_at + 8 * c, index + c, tall, long, line, pixel, below,
                                channels, _LANES,
                            )  # fmt: skip
                        elif v < whole_vectors:
                            write_largest_and_index(
                                _LANES, 0, 0, size, x_at + size * c, y_at + size * c,
                                argmax_at + 8 * c, index + c, tall, long, line, pixel, below,
                                channels, _LANES,
                            )  # fmt: skip
                        else:
                            write_largest_and_index(
                                _LANES, 1, 0, size, x_at + size * c, y_at + size * c,
                                argmax_at + 8 * c, index + c, tall, long, line, pixel, below,
                                channels, channels - c,
                            )  # fmt: skip

    return max_pool_with_argmax


max_pool_with_argmax = _max_pool_with_argmax(_IMAGES, 4)
half_max_pool_with_argmax = _max_pool_with_argmax(_HALF_IMAGES, 2)


@by_parts(READ_MATRIX, int64[:, ::1], MATRIX, exact=True, apart=True)
def add_at_argmax(part, parts, g, argmax, result):
    """Each g added at its index in the row of its image, all of which are inside of it."""
    start_n, stop_n = chunk_range(part, parts, g.shape[0], 1)
    for number in range(start_n, stop_n):
        n = np.int64(number)
        for k in range(result.shape[1]):
            result[n, k] = 0
        for k in range(g.shape[1]):
            # An index without a sign needs no test for one that counts from the end.
            result[n, np.uint64(argmax[n, k])] += g[n, k]
