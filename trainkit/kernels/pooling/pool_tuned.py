"""When compiled pooling pays, and how arrays are laid out for it.

bfloat16 is read and written as its bits. Gradients that add up, as windows overlap, are made of
float32 and rounded once: their arrays are converted, 0.2 ns an element.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from trainkit.core.cpu.cost_model import BYTE_NANOSECONDS
from trainkit.core.dtypes import bfloat16
from trainkit.core.shapes import CALLS
from trainkit.kernels.convolution.sliding_windows import Windows
from trainkit.kernels.elementwise.half_casts_tuned import cast_array
from trainkit.kernels.jit import kernel_family
from trainkit.kernels.jit.array_kernel import ArrayKernel
from trainkit.kernels.jit.kernel_family import owned
from trainkit.kernels.threads.thread_pool import shared

Array = Any

_F32, _BF16 = np.dtype(np.float32), bfloat16.dtype


def _families(name: str) -> dict[Any, kernel_family.Family]:
    """The kernels of a name, by the dtype of their arrays."""
    file = "pooling.pool_compiled"
    names = {_F32: name, _BF16: f"half_{name}"}
    return {dtype: kernel_family.Family(n, file, n) for dtype, n in names.items()}


MAX_POOL, MAX_POOL_GRADIENT = _families("max_pool"), _families("max_pool_gradient")
AVERAGE_POOL, AVERAGE_POOL_GRADIENT = (
    _families("average_pool"),
    _families("average_pool_gradient"),
)

rectified_gradient = ArrayKernel(
    "rectified_gradient", "pooling.pool_compiled", "rectified_gradient", "rows rows", "rows shares",
    shares=8,
)  # fmt: skip
"""`g` of (g, y) where y is above 0, and its sum for each feature, or `None`."""


def _find_kernel(families: dict[Any, kernel_family.Family], passes: int, *arrays: Array) -> Any:
    """The compiled kernel for these arrays, or `None`."""
    family, dtype = families.get(arrays[0].dtype), arrays[0].dtype
    if family is None or any(a.dtype != dtype or not a.size for a in arrays):
        return None
    largest = max(a.nbytes for a in arrays)
    return family.find((), passes * largest * kernel_family.BYTE_SECONDS)


def _addable(w: Windows, *arrays: Array) -> tuple[Array, ...]:
    """Arrays of a gradient as they are, but as float32 where their sums would be rounded twice."""
    return tuple(cast_array(a, _F32) for a in arrays) if w.overlap else arrays


def _work(*arrays: Array) -> tuple[int, int]:
    """The pool, and one part for each image."""
    threads, parts = shared(BYTE_NANOSECONDS * sum(a.nbytes for a in arrays))
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


class PoolCall(NamedTuple):
    """What the sizes of images decide.

    Attributes:
        x_shape: of the input.
        shape: of the result.
        x_image: (batch, depth, height, width, channels) of the input.
        y_image: the same of the result.
        window: for the kernel.
        seconds: estimate of what the plain version takes.
        nanoseconds: what one core takes.
    """

    x_shape: tuple[int, ...]
    shape: tuple[int, ...]
    x_image: tuple[int, ...]
    y_image: tuple[int, ...]
    window: tuple[int, ...]
    seconds: float
    nanoseconds: float


@lru_cache(maxsize=CALLS)
def pool_call(w: Windows, batch: int, channels: int, size: int) -> PoolCall:
    """What is known of windows over so many images of numbers of `size` bytes."""
    ones = (1,) * (3 - len(w.window))
    shape = batch, *w.out, channels
    x_image, y_image = (batch, *ones, *w.sizes, channels), (batch, *ones, *shape[1:])
    x_bytes, y_bytes = size * math.prod(x_image), size * math.prod(shape)
    seconds = 3 * x_bytes * kernel_family.BYTE_SECONDS
    nanoseconds = BYTE_NANOSECONDS * (x_bytes + y_bytes)
    return PoolCall(
        (batch, *w.sizes, channels), shape, x_image, y_image, _window(w), seconds, nanoseconds
    )


def _pool(families: dict[Any, kernel_family.Family], w: Windows, x: Array) -> Array | None:
    dtype = x.dtype
    family = families.get(dtype)
    if family is None or not x.size:
        return None
    call = pool_call(w, len(x), x.shape[-1], dtype.itemsize)
    run = family.find((), call.seconds)
    if run is None:
        return None
    y = np.empty(call.shape, dtype)
    images, results = owned(x), y
    if dtype is not _F32:
        images, results = images.view(np.uint16), y.view(np.uint16)
    pool, parts = shared(call.nanoseconds)
    parts = len(x) if parts > 1 else 1
    run(pool, parts, images.reshape(call.x_image), results.reshape(call.y_image), call.window)
    return y


def max_pool(w: Windows, x: Array) -> Array | None:
    """The largest value of each window, or `None` where the plain version is to do it."""
    return _pool(MAX_POOL, w, x)


def _divides_otherwise(w: Windows) -> bool:
    """Whether the plain version's quotients are not the compiled kernels' products to the bit."""
    return len(w.window) == 3 and w.has_padding


def average_pool(w: Windows, x: Array) -> Array | None:
    """The mean of each window, or `None` where the plain version is to do it."""
    return None if _divides_otherwise(w) else _pool(AVERAGE_POOL, w, x)


def max_pool_gradient(w: Windows, g: Array, x: Array, y: Array) -> Array | None:
    """`g` at the first maximum of each window, or `None` where the plain version is to do it."""
    dtype, rank = x.dtype, len(w.window)
    if any(a.dtype != dtype for a in (g, y)):
        return None
    g, x, y = _addable(w, g, x, y) if dtype is _BF16 else (g, x, y)
    run = _find_kernel(MAX_POOL_GRADIENT, 6, g, x, y)
    if run is None:
        return None
    result = np.empty(x.shape, x.dtype)
    run(*_work(x, x, y, g), *(_image(a, rank) for a in (g, x, y, result)), _window(w))
    return cast_array(result, dtype)


def average_pool_gradient(w: Windows, g: Array) -> Array | None:
    """Each `g` shared by its window, or `None` where the plain version is to do it."""
    dtype, rank = g.dtype, len(w.window)
    if _divides_otherwise(w):
        return None
    (g,) = _addable(w, g) if dtype is _BF16 else (g,)
    run = _find_kernel(AVERAGE_POOL_GRADIENT, 6, g)
    if run is None:
        return None
    result = np.empty((g.shape[0], *w.sizes, g.shape[-1]), g.dtype)
    run(*_work(result, g), _image(g, rank), _image(result, rank), _window(w))
    return cast_array(result, dtype)
