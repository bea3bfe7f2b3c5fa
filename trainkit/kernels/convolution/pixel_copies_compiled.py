"""Pixels of images copied to others by all cores: those that strides leave, or back among zeros."""

from __future__ import annotations

from numba import float32, int64, types

from trainkit.kernels.convolution.conv_microkernels import clear_floats, copy_floats
from trainkit.kernels.jit.builders import by_parts
from trainkit.kernels.threads.parallel_for import chunk_range

_SOURCE = types.Array(float32, 4, "C", readonly=True)
_TARGET = types.Array(float32, 4, "C")


@by_parts(_SOURCE, _TARGET, int64, int64, exact=True)
def strided_pixels(part, parts, x, y, down, across):
    """Y(image, line, point) = x(image, down * line, across * point), all channels of each."""
    _, lines, points, channels = y.shape
    first, last = chunk_range(part, parts, y.shape[0] * lines, 1)
    for row in range(int64(first), int64(last)):
        image, line = row // lines, row % lines
        source = x.ctypes.data + image * x.strides[0] + down * line * x.strides[1]
        target = y.ctypes.data + row * y.strides[1]
        for _ in range(points):
            copy_floats(target, source, channels)
            source += across * x.strides[2]
            target += y.strides[2]


@by_parts(_SOURCE, _TARGET, *[int64] * 4, exact=True)
def spread_pixels(part, parts, x, y, top, left, down, across):
    """Y(image, top + down * line, left + across * point) = x(image, line, point), zeros between."""
    _, lines, points, channels = y.shape
    # Pixels that nothing parts are copied as one.
    count, run = (1, x.shape[2] * channels) if across == 1 else (x.shape[2], channels)
    first, last = chunk_range(part, parts, y.shape[0] * lines, 1)
    for row in range(int64(first), int64(last)):
        image, line = row // lines, row % lines - top
        target = y.ctypes.data + row * y.strides[1]
        # All of a line, which the first cache holds: zeros between pixels are too short to be set.
        clear_floats(target, points * channels)
        if line >= 0 and line % down == 0 and line // down < x.shape[1]:
            source = x.ctypes.data + image * x.strides[0] + line // down * x.strides[1]
            target += left * y.strides[2]
            for _ in range(count):
                copy_floats(target, source, run)
                source += x.strides[2]
                target += across * y.strides[2]
