"""Images copied to their phases, and phases to images, by all cores.

The four phases of an image are its lines 0, 2, 4, ... and 1, 3, 5, ..., and such points of each;
they lie side by side as channels. Two points that follow one another stay neighbours.
"""

from __future__ import annotations

from numba import float32, int64, types

from trainkit.kernels.convolution.conv_microkernels import clear_floats, copy_floats
from trainkit.kernels.jit.builders import by_parts
from trainkit.kernels.jit.options import compiled
from trainkit.kernels.threads.parallel_for import chunk_range

_SOURCE = types.Array(float32, 4, "C", readonly=True)
_TARGET = types.Array(float32, 4, "C")


@compiled(parallel=False, exact=True)
def _copy_or_clear(target, source, channels, is_inside):
    if is_inside:
        copy_floats(target, source, channels)
    else:
        clear_floats(target, channels)


@by_parts(_SOURCE, _TARGET, int64, int64, exact=True)
def image_to_phases(part, parts, x, y, top, left):
    """Y(image, line, point, (r, s, channel)) = x(image, 2 line + r - top, 2 point + s - left).

    What is outside of `x` is zeros.
    """
    channels, size = x.shape[3], 4 * x.shape[3]
    first, last = chunk_range(part, parts, y.shape[0] * y.shape[1], 1)
    for row in range(int64(first), int64(last)):
        image = row // y.shape[1]
        for r in range(2):
            line = 2 * (row % y.shape[1]) + r - top
            is_inside = 0 <= line < x.shape[1]
            target = y.ctypes.data + row * y.strides[1] + 2 * size * r
            source = x.ctypes.data + image * x.strides[0] + line * x.strides[1] - left * size
            for point in range(-left, 2 * y.shape[2] - left, 2):
                if is_inside and point >= 0 and point + 1 < x.shape[2]:
                    copy_floats(target, source, 2 * channels)
                else:
                    for s in range(2):
                        is_seen = is_inside and 0 <= point + s < x.shape[2]
                        _copy_or_clear(target + s * size, source + s * size, channels, is_seen)
                source += 2 * size
                target += y.strides[2]


@by_parts(_SOURCE, _TARGET, int64, int64, exact=True)
def phases_to_image(part, parts, x, y, top, left):
    """Y(image, 2 line + r - top, 2 point + s - left, channel) = x(image, line, point, (r, s)).

    Phases cover the image.
    """
    channels, size = y.shape[3], 4 * y.shape[3]
    first, last = chunk_range(part, parts, y.shape[0] * y.shape[1], 1)
    for row in range(int64(first), int64(last)):
        image, line = row // y.shape[1], row % y.shape[1] + top
        source = x.ctypes.data + image * x.strides[0] + line // 2 * x.strides[1]
        source += line % 2 * 2 * size
        target = y.ctypes.data + row * y.strides[1] - left * size
        for point in range(-left, y.shape[2], 2):
            if point >= 0 and point + 1 < y.shape[2]:
                copy_floats(target, source, 2 * channels)
            else:
                for s in range(2):
                    if 0 <= point + s < y.shape[2]:
                        copy_floats(target + s * size, source + s * size, channels)
            target += 2 * size
            source += x.strides[2]
