"""When compiled pooling pays, and how arrays are laid out for it.

Maxima of bfloat16 are read and written as its bits. Means and gradients, which add up where windows
overlap, are made of float32 and rounded once: their arrays are converted, 0.2 ns an element.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core.dtypes import bfloat16
from trainkit.kernels.convolution.sliding_windows import Windows
from trainkit.kernels.elementwise.bfloat16_casts_tuned import cast_array
from trainkit.kernels.jit import kernel_family
from trainkit.kernels.jit.array_kernel import ArrayKernel
from trainkit.kernels.jit.kernel_family import owned
from trainkit.kernels.threads.thread_pool import shared

Array = Any

_F32, _BF16 = np.dtype(np.float32), bfloat16.dtype
HALF_MAX_POOL = kernel_family.Family("half_max_pool", "pooling.pool_compiled", "half_max_pool")
MAX_POOL = kernel_family.Family("max_pool", "pooling.pool_compiled", "max_pool")
MAX_POOL_GRADIENT = kernel_family.Family(
    "max_pool_gradient", "pooling.pool_compiled", "max_pool_gradient"
)
AVERAGE_POOL = kernel_family.Family("average_pool", "pooling.pool_compiled", "average_pool")
AVERAGE_POOL_GRADIENT = kernel_family.Family(
    "average_pool_gradient", "pooling.pool_compiled", "average_pool_gradient"
)

rectified_gradient = ArrayKernel(
    "rectified_gradient", "pooling.pool_compiled", "rectified_gradient", "rows rows", "rows shares",
    plain=3.2, compiled=0.15, shares=8,
)  # fmt: skip
"""`g` of (g, y) where y is above 0, and its sum for each feature, or `None`."""

_NANOSECONDS = 0.15
"""What the compiled kernels take for an element that they read or write, on one core."""


def _found(family: kernel_family.Family, w: Windows, passes: int, *arrays: Array) -> Any:
    """The compiled kernel for these arrays, or `None`."""
    dtype = arrays[0].dtype
    if dtype not in (_F32, _BF16) or any(a.dtype != dtype or not a.size for a in arrays):
        return None
    largest = max(a.nbytes for a in arrays)
    return family.find((), passes * largest / kernel_family.BYTES_PER_SECOND)


def _work(*arrays: Array) -> tuple[int, int]:
    """The pool, and one part for each image."""
    threads, parts = shared(_NANOSECONDS * sum(a.size for a in arrays))
    return threads, len(arrays[0]) if parts > 1 else 1


def _window(w: Windows) -> tuple[int, ...]:
    """(planes, rows, columns, stride_d, stride_h, stride_w, front, top, left, backwards)."""
    lacking = 3 - len(w.window)
    ones, zeros = (1,) * lacking, (0,) * lacking
    before = tuple(pad for pad, _ in w.pads)
    # In three dimensions the sums of overlapping windows are those of the plain version to the bit.
    return (*ones, *w.window, *ones, *w.strides, *zeros, *before, int(not lacking))


def _image(array: Array, rank: int) -> Array:
    """(batch, depth, height, width, channels) in row-major order."""
    array = owned(array)
    array = array.view(np.uint16) if array.dtype is _BF16 else array
    ones = (1,) * (3 - rank)
    return array.reshape(array.shape[0], *ones, *array.shape[1:]) if ones else array


def _pool(family: kernel_family.Family, w: Windows, x: Array) -> Array | None:
    run = _found(family, w, 3, x)
    if run is None:
        return None
    y = np.empty((x.shape[0], *w.out, x.shape[-1]), x.dtype)
    run(*_work(x, y), _image(x, len(w.window)), _image(y, len(w.window)), _window(w))
    return y


def max_pool(w: Windows, x: Array) -> Array | None:
    """The largest value of each window, or `None` where the plain version is to do it."""
    return _pool(HALF_MAX_POOL if x.dtype is _BF16 else MAX_POOL, w, x)


def _divides_otherwise(w: Windows) -> bool:
    """Whether the plain version's quotients are not the compiled kernels' products to the bit."""
    return len(w.window) == 3 and w.has_padding


def average_pool(w: Windows, x: Array) -> Array | None:
    """The mean of each window, or `None` where the plain version is to do it."""
    if _divides_otherwise(w):
        return None
    if x.dtype is not _BF16:
        return _pool(AVERAGE_POOL, w, x)
    y = _pool(AVERAGE_POOL, w, cast_array(x, _F32))
    return None if y is None else cast_array(y, _BF16)


def max_pool_gradient(w: Windows, g: Array, x: Array, y: Array) -> Array | None:
    """`g` at the first maximum of each window, or `None` where the plain version is to do it."""
    run = _found(MAX_POOL_GRADIENT, w, 6, g, x, y)
    if run is None:
        return None
    dtype, rank = x.dtype, len(w.window)
    result = np.empty(x.shape, np.float32)
    g, x, y = (cast_array(a, _F32) for a in (g, x, y))
    run(*_work(x, x, y, g), *(_image(a, rank) for a in (g, x, y, result)), _window(w))
    return cast_array(result, dtype)


def average_pool_gradient(w: Windows, g: Array) -> Array | None:
    """Each `g` shared by its window, or `None` where the plain version is to do it."""
    run = None if _divides_otherwise(w) else _found(AVERAGE_POOL_GRADIENT, w, 6, g)
    if run is None:
        return None
    result = np.empty((g.shape[0], *w.sizes, g.shape[-1]), np.float32)
    images = _image(cast_array(g, _F32), len(w.window)), _image(result, len(w.window))
    run(*_work(result, g), *images, _window(w))
    return cast_array(result, g.dtype)
