"""When compiled convolutions pay, and how arrays are laid out for them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainkit.kernels import registry
from trainkit.kernels.windows import Windows

Array = Any

_F32 = np.dtype(np.float32)
FORWARD = registry.Family("conv_forward", "conv", "forward")
KERNEL_GRADIENT = registry.Family("conv_kernel_gradient", "conv", "kernel_gradient")

WORKING_SET_BYTES = 5 << 18
"""Weights that are used again and again must fit the cache of a core, else BLAS is better."""
PARTS_BYTES = 1 << 24
"""Memory for the sums of a kernel's gradient that each worker keeps to itself."""
MOST_WORKERS = 32
COPY_RATE = 2e9
"""Bytes of windows that the plain version copies in a second."""
FEWEST_FILTERS = 4
"""Sums are made for 16 filters at a time; with fewer than these too many would be in vain."""


def _block(filters: int) -> int:
    """How many filters are summed at a time: a multiple of 16, which wastes few of them."""
    rounded = -(-filters // 16) * 16
    return next(n for n in (64, 48, 32, 16) if rounded % n == 0)


def _rounded(filters: int, block: int) -> int:
    return -(-filters // block) * block


def _padded_last(array: Array, size: int) -> Array:
    """`array` in row-major order with zeros up to `size` on the last axis."""
    if array.shape[-1] == size:
        return registry.owned(array)
    result = np.zeros((*array.shape[:-1], size), np.float32)
    result[..., : array.shape[-1]] = array
    return result


def _as_two_dimensional(w: Windows) -> Windows:
    """Windows along one axis as windows along two, the first of size 1."""
    if len(w.window) == 2:
        return w
    return Windows(
        (1, *w.sizes), (1, *w.window), (1, *w.strides), ((0, 0), *w.pads), (1, *w.dilation)
    )


def _plain_seconds(outputs: int, products: int, columns: int) -> float:
    """Estimate for the plain version: `products` and `columns`, numbers copied, per output."""
    return 2 * outputs * products / registry.FLOPS_PER_SECOND + 4 * outputs * columns / COPY_RATE


def _fits(w: Windows, groups: int, *arrays: Array) -> bool:
    return (
        groups == 1
        and len(w.window) < 3
        and math.prod(w.window) > 1  # a matrix product, which BLAS does well
        and w.out[-1] > 3
        and all(type(a) is np.ndarray and a.dtype is _F32 and a.size for a in arrays)
    )


def forward(
    w: Windows, x: Array, kernel: Array, bias: Array | None, rectify: bool, groups: int
) -> Array | None:
    """Convolution, bias and rectifier compiled, or `None` where that does not pay."""
    if not _fits(w, groups, x, kernel):
        return None
    flat = _as_two_dimensional(w)
    geometry = (*flat.strides, *flat.dilation, flat.pads[0][0], flat.pads[1][0], 1, 1)
    weights = kernel.reshape(*flat.window, *kernel.shape[-2:])
    images = x.reshape(x.shape[0], *flat.sizes, x.shape[-1])
    y = _run_forward(images, weights, bias, rectify, flat.out, geometry, flat.has_padding)
    return None if y is None else y.reshape(x.shape[0], *w.out, kernel.shape[-1])


def input_gradient(w: Windows, g: Array, kernel: Array, groups: int) -> Array | None:
    """The gradient by the input: a convolution of `g` with the kernel turned round."""
    if not _fits(w, groups, g, kernel) or w.sizes[-1] < 4 or kernel.shape[-2] < FEWEST_FILTERS:
        return None
    if math.prod(w.strides) > 1:  # most products would be with the zeros between the gradients
        return None
    flat = _as_two_dimensional(w)
    reach = [(k - 1) * d for k, d in zip(flat.window, flat.dilation, strict=True)]
    start = [r - p[0] for r, p in zip(reach, flat.pads, strict=True)]
    geometry = (1, 1, *flat.dilation, *start, *flat.strides)
    turned = kernel.reshape(*flat.window, *kernel.shape[-2:])[::-1, ::-1].transpose(0, 1, 3, 2)
    images = g.reshape(g.shape[0], *flat.out, g.shape[-1])
    padded = max(*reach, *flat.strides, *map(abs, start)) > 1 or flat.out != flat.sizes
    y = _run_forward(images, turned, None, False, flat.sizes, geometry, padded)
    return None if y is None else y.reshape(g.shape[0], *w.sizes, kernel.shape[-2])


def _run_forward(
    x: Array,
    weights: Array,
    bias: Array | None,
    rectify: bool,
    out: tuple[int, ...],
    geometry: tuple[int, ...],
    padded: bool,
) -> Array | None:
    rows, columns, channels, filters = weights.shape
    block = _block(filters)
    if rows * columns * channels * block * 4 > WORKING_SET_BYTES:
        return None
    batch = x.shape[0]
    each = math.prod(weights.shape)
    seconds = _plain_seconds(batch * math.prod(out), each, each // filters)
    run = FORWARD.find((rows, columns, channels, filters, block), seconds)
    if run is None:
        return None
    fill = padded or out[1] < 6
    x = registry.owned(x)
    source = _padded_images(min(batch, MOST_WORKERS), out, weights.shape, geometry) if fill else x
    size = _rounded(filters, block)
    shift = np.zeros(size, np.float32)
    if bias is not None:
        shift[:filters] = bias
    y = np.empty((batch, *out, filters), np.float32)
    run(x, source, _padded_last(weights, size), shift, y, geometry, fill, rectify)
    return y


def _padded_images(
    workers: int, out: tuple[int, ...], window: tuple[int, ...], geometry: tuple[int, ...]
) -> Array:
    """Room for one padded image for each worker, wide enough for strips of six windows."""
    height = (out[0] - 1) * geometry[0] + (window[0] - 1) * geometry[2] + 1
    width = (max(out[1], 6) - 1) * geometry[1] + (window[1] - 1) * geometry[3] + 1
    return np.empty((workers, height, width, window[2]), np.float32)


def kernel_gradient(w: Windows, x: Array, g: Array, groups: int) -> Array | None:
    """The gradient by the kernel, or `None` where the compiled kernel does not pay."""
    if not _fits(w, groups, x, g):
        return None
    flat = _as_two_dimensional(w)
    (rows, columns), channels, filters = flat.window, x.shape[-1], g.shape[-1]
    block = _block(filters)
    size = _rounded(filters, block)
    side_by_side = flat.dilation[1] == 1
    jumps, run_length = (1, columns * channels) if side_by_side else (columns, channels)
    total = rows * columns * channels * size
    if total * 4 > WORKING_SET_BYTES:
        return None
    pixels = x.shape[0] * math.prod(flat.out)
    seconds = _plain_seconds(pixels, total, rows * columns * channels)
    run = KERNEL_GRADIENT.find((rows, jumps, run_length, size, block), seconds)
    if run is None:
        return None
    workers = max(1, min(x.shape[0], MOST_WORKERS, PARTS_BYTES // (total * 4)))
    geometry = (*flat.strides, *flat.dilation, flat.pads[0][0], flat.pads[1][0])
    images = registry.owned(x).reshape(x.shape[0], *flat.sizes, channels)
    source, fill = images, flat.has_padding or run_length < 6
    if fill:
        more = -(-6 // channels) if run_length < 6 else 0
        source = np.empty((workers, flat.padded[0], flat.padded[1] + more, channels), np.float32)
    lines = source.reshape(*source.shape[:2], -1)
    parts = np.zeros((workers, rows, jumps * run_length, size), np.float32)
    slopes = _padded_last(g.reshape(g.shape[0], *flat.out, filters), size)
    run(images, source, lines, slopes, parts, (*geometry, channels), fill)
    result = parts.sum(axis=0) if workers > 1 else parts[0]
    return result[..., :filters].reshape(*w.window, channels, filters)
