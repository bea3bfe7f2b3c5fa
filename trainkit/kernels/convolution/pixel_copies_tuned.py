"""When pixels of images are copied by several threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trainkit.core.cpu.cost_model import BYTE_NANOSECONDS
from trainkit.kernels.jit import kernel_family
from trainkit.kernels.threads.thread_pool import FEWEST_COPIED, shared, thread_pool

Array = Any

_F32 = np.dtype(np.float32)
_FILE = "convolution.pixel_copies_compiled"
STRIDED = kernel_family.Family("strided_pixels", _FILE, "strided_pixels", exact=True)
SPREAD = kernel_family.Family("spread_pixels", _FILE, "spread_pixels", exact=True)


def strided_pixels(x: Array, strides: Sequence[int]) -> Array | None:
    """`x[:, ::down, ::across]` in row-major order, or `None` where NumPy is to make it.

    Args:
        x: (images, lines, points, channels).
        strides: down and across.
    """
    if not _is_served(x) or len(strides) != 2:
        return None
    down, across = strides
    y = _result((len(x), -(-x.shape[1] // down), -(-x.shape[2] // across), x.shape[3]))
    run = STRIDED.find((), _seconds(y)) if y is not None else None
    if y is None or run is None:
        return None
    run(*shared(2 * BYTE_NANOSECONDS * y.nbytes), x, y, down, across)
    return y


def spread_pixels(
    x: Array, sizes: Sequence[int], start: Sequence[int], strides: Sequence[int]
) -> Array | None:
    """Zeros of `sizes` with the pixels of `x` among them, or `None` where NumPy is to make them.

    Args:
        x: (images, lines, points, channels).
        sizes: lines and points of the result.
        start: line and point of the first pixel.
        strides: how far lines lie apart, and points.
    """
    if not _is_served(x) or len(sizes) != 2:
        return None
    y = _result((len(x), *sizes, x.shape[3]))
    run = SPREAD.find((), _seconds(y)) if y is not None else None
    if y is None or run is None:
        return None
    run(*shared(2 * BYTE_NANOSECONDS * y.nbytes), x, y, *start, *strides)
    return y


def _seconds(y: Array) -> float:
    """Estimate of what NumPy takes for a result."""
    return 2 * float(y.nbytes) * kernel_family.BYTE_SECONDS


def _is_served(x: Array) -> bool:
    """Whether threads can copy pixels of these images."""
    return (
        thread_pool() is not None
        and type(x) is np.ndarray
        and x.dtype is _F32
        and x.ndim == 4
        and x.flags.c_contiguous
    )


def _result(shape: tuple[int, ...]) -> Array | None:
    """Room for a result, `None` for a small one."""
    images, lines, points, channels = shape
    large = images * lines * points * channels >= FEWEST_COPIED
    return np.empty(shape, np.float32) if large else None
