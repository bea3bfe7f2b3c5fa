"""When compiled maxima with their indices pay, and how arrays are laid out for them.

bfloat16 is read and written as its bits. What is added at indices is float32 and rounded once.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from trainkit.core.cpu.cost_model import BYTE_NANOSECONDS
from trainkit.core.dtypes import bfloat16
from trainkit.kernels.convolution.sliding_windows import Windows
from trainkit.kernels.elementwise.half_casts_tuned import cast_array
from trainkit.kernels.embedding.scatter_reference import all_inside
from trainkit.kernels.jit import kernel_family
from trainkit.kernels.jit.kernel_family import owned
from trainkit.kernels.threads.thread_pool import shared

Array = Any

_F32, _BF16, _I64 = np.dtype(np.float32), bfloat16.dtype, np.dtype(np.int64)
_FILE = "pooling.argmax_compiled"
_LARGEST_INDEX = np.iinfo(np.int32).max
MAX_POOL_WITH_ARGMAX = {
    _F32: kernel_family.Family("max_pool_with_argmax", _FILE, "max_pool_with_argmax"),
    _BF16: kernel_family.Family("half_max_pool_with_argmax", _FILE, "half_max_pool_with_argmax"),
}
ADD_AT_ARGMAX = kernel_family.Family("add_at_argmax", _FILE, "add_at_argmax")


class ArgmaxCall(NamedTuple):
    """What shape and windows of a call decide.

    Attributes:
        shape: of the results.
        window: for the kernel.
        seconds: estimate of what the plain version takes.
        nanoseconds: what one core takes.
    """

    shape: tuple[int, ...]
    window: tuple[int, ...]
    seconds: float
    nanoseconds: float


def plan_call(w: Windows, batch: int, channels: int, size: int) -> ArgmaxCall | None:
    """What is known of windows over so many images of numbers of `size` bytes.

    `None` where no kernel is for them.
    """
    if len(w.window) != 2 or math.prod(w.sizes) * channels > _LARGEST_INDEX:
        return None
    shape = batch, *w.out, channels
    x_bytes, count = size * batch * math.prod(w.sizes) * channels, math.prod(shape)
    if not x_bytes or not count:
        return None
    window = *w.window, *w.strides, *(before for before, _ in w.pads)
    seconds = 3 * math.prod(w.window) * 8 * count * kernel_family.BYTE_SECONDS
    return ArgmaxCall(shape, window, seconds, BYTE_NANOSECONDS * (x_bytes + (8 + size) * count))


def max_pool_with_argmax(call: ArgmaxCall, x: Array) -> tuple[Array, Array] | None:
    """The largest values and their indices, or `None` where the plain version is to do it.

    Args:
        call: what `plan_call` says of these images.
        x: (batch, height, width, channels).
    """
    dtype = x.dtype
    run = MAX_POOL_WITH_ARGMAX[dtype].find((), call.seconds)
    if run is None:
        return None
    y, argmax = np.empty(call.shape, dtype), np.empty(call.shape, _I64)
    images, results = owned(x), y
    if dtype is _BF16:
        images, results = images.view(np.uint16), y.view(np.uint16)
    pool, parts = shared(call.nanoseconds)
    run(pool, len(x) if parts > 1 else 1, images, results, argmax, call.window)
    return y, argmax


def add_at_argmax(g: Array, argmax: Array, x: Array) -> Array | None:
    """Each `g` added at its index in its image, or `None` where the plain version is to do it."""
    dtype, count = g.dtype, math.prod(x.shape[1:])
    if not g.size or argmax.dtype != _I64 or dtype.kind == "c" or dtype.itemsize > 4:
        return None
    if dtype.kind in "iub" or not all_inside(argmax, count):
        return None
    run = ADD_AT_ARGMAX.find((), 10 * g.nbytes * kernel_family.BYTE_SECONDS)
    if run is None:
        return None
    batch = len(g)
    total = np.empty((batch, count), _F32)
    gradients, indices = owned(cast_array(g, _F32)), owned(argmax)
    pool, parts = shared(BYTE_NANOSECONDS * (total.nbytes + g.nbytes + argmax.nbytes))
    parts = batch if parts > 1 else 1
    run(pool, parts, gradients.reshape(batch, -1), indices.reshape(batch, -1), total)
    return cast_array(total, dtype).reshape(x.shape)
