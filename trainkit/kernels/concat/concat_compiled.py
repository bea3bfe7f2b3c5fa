"""Rows copied from one array to another, by all cores."""

from __future__ import annotations

from numba import float32, types

from trainkit.kernels.convolution.conv_microkernels import copy_floats
from trainkit.kernels.jit.builders import by_parts
from trainkit.kernels.threads.parallel_for import chunk_range

_SOURCE = types.Array(float32, 2, "A", readonly=True)
_TARGET = types.Array(float32, 2, "A")


@by_parts(_SOURCE, _TARGET, exact=True)
def copied_rows(part, parts, x, y):
    """Rows of x to those of y; both have their numbers side by side, rows may have gaps between."""
    first, last = chunk_range(part, parts, x.shape[0], 1)
    source = x.ctypes.data + first * x.strides[0]
    target = y.ctypes.data + first * y.strides[0]
    for _ in range(first, last):
        copy_floats(target, source, x.shape[1])
        source += x.strides[0]
        target += y.strides[0]
