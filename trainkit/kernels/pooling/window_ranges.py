"""Which part of an axis a window covers, for compiled kernels."""

from __future__ import annotations

from trainkit.kernels.jit.options import inlined


@inlined
def window_range(index, stride, before, window, size):
    """From where to where window `index` covers an axis of an image."""
    start = index * stride - before
    return max(start, 0), min(start + window, size)
