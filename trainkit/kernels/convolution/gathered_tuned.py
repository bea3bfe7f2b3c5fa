"""Convolutions of bfloat16 as products of their windows, which are copied side by side.

A processor that multiplies pairs of bfloat16 (AVX512-BF16) takes half of the time of float32 for a
product, so that copies pay where windows have long runs of neighbours. Sums are float32, rounded
once. A batch is gone through in pieces, whose sizes follow from the shapes alone: so do the bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from trainkit.core.cpu.cost_model import BYTE_NANOSECONDS, PRODUCT_NANOSECONDS, THIRD_CACHE
from trainkit.core.dtypes import bfloat16
from trainkit.kernels.convolution.sliding_windows import Windows
from trainkit.kernels.elementwise.half_casts_tuned import cast_array
from trainkit.kernels.jit import bfloat16_pairs
from trainkit.kernels.jit.kernel_family import owned
from trainkit.kernels.jit.register_tiles import block_columns
from trainkit.kernels.matmul import half_product_tuned

Array = Any
Sizes = tuple[int, ...]

_BF16, _BITS, _F32 = bfloat16.dtype, np.dtype(np.uint16), np.dtype(np.float32)
_PIECE_BYTES = THIRD_CACHE // 2
"""About so much of the windows is copied at a time."""
_MOST_BYTES = 8 * THIRD_CACHE
"""The windows of one image may take so much; those of larger ones are left to direct sums."""
_RUN_NANOSECONDS = 6.0
"""What a copy takes for a run of neighbours, whatever its length."""


def serves(w: Windows, batch: int, channels: int, filters: int) -> bool:
    """Whether products of windows take less time than direct sums; for one group."""
    if not bfloat16_pairs.has_bfloat16_pairs() or not batch:
        return False
    if filters < block_columns():  # much of the tiles of products is empty
        return False
    neighbours = channels * (w.window[-1] if w.dilation[-1] == 1 else 1)
    copy = _RUN_NANOSECONDS / neighbours + 2 * BYTE_NANOSECONDS
    saved = PRODUCT_NANOSECONDS / 2 * filters  # beside direct sums, for a number of a window
    return copy < saved and _image_bytes(w, channels) <= _MOST_BYTES


def _image_bytes(w: Windows, channels: int) -> int:
    return 2 * math.prod(w.out) * math.prod(w.window) * channels


def _pieces(w: Windows, x: Array) -> Iterator[tuple[slice, Array]]:
    """Some images at a time, and a matrix with a row for each of their windows."""
    bits, channels = w.pad(np, owned(x).view(_BITS)), x.shape[-1]
    image_step, *steps, step = bits.strides
    shape = (*w.out, *w.window, channels)
    strides = (
        *(s * n for s, n in zip(steps, w.strides, strict=True)),
        *(s * n for s, n in zip(steps, w.dilation, strict=True)),
        step,
    )
    some = max(_PIECE_BYTES // _image_bytes(w, channels), 1)
    for first in range(0, len(x), some):
        piece = slice(first, min(first + some, len(x)))
        images = bits[piece]
        windows = np.lib.stride_tricks.as_strided(
            images, (len(images), *shape), (image_step, *strides), writeable=False
        )
        rows = windows.reshape(-1, math.prod(w.window) * channels)
        yield piece, rows.view(_BF16)


def forward(
    w: Windows, x: Array, kernel: Array, bias: Array | None = None, rectify: bool = False
) -> Array | None:
    """The convolution, or `None` where there is no kernel for products.

    Args:
        w: the windows.
        x: images of bfloat16.
        kernel: weights of bfloat16 for one group.
        bias: float32 that sums start from.
        rectify: whether results below 0 become 0.
    """
    filters = kernel.shape[-1]
    columns = owned(kernel).reshape(-1, filters)
    products = []
    for _, rows in _pieces(w, x):
        product = half_product_tuned.product(rows, columns, bias, rectify)
        if product is None:
            return None
        products.append(product.view(_BITS))  # NumPy copies bits faster than bfloat16
    y = products[0] if len(products) == 1 else np.concatenate(products)
    return y.view(_BF16).reshape(len(x), *w.out, filters)


def input_gradient(w: Windows, g: Array, kernel: Array) -> Array | None:
    """The gradient by the images, or `None` where windows overlap and are not neighbours.

    Args:
        w: the windows.
        g: the gradient by the results, of bfloat16.
        kernel: weights of bfloat16 for one group.
    """
    if w.tiles and not w.has_padding:
        return _spread_windows(w, g, kernel) if bfloat16_pairs.has_bfloat16_pairs() else None
    windows = transpose_windows(w)
    channels, filters = kernel.shape[-2:]
    if windows is None or not serves(windows, len(g), filters, channels):
        return None
    return _by_positions(windows, g, kernel)


def _by_positions(w: Windows, g: Array, kernel: Array) -> Array | None:
    """The sum over the positions of a window of products of `g` there with the weights there.

    One product would want the weights of all positions with their axes swapped, and to copy them
    so takes longer than the products where images are few and small; each one takes a swapped view.

    Args:
        w: windows over `g`, in whose positions the weights stand turned by half a turn.
        g: the gradient by the results, of bfloat16.
        kernel: weights of bfloat16 for one group.
    """
    channels, filters = kernel.shape[-2:]
    weights = owned(kernel).reshape(-1, channels, filters)[::-1]
    sums: list[Array] = []
    for _, rows in _pieces(w, g):
        parts = (rows[:, i * filters : (i + 1) * filters] for i in range(len(weights)))
        total = _sum_of_products((x, y.T) for x, y in zip(parts, weights, strict=True))
        if total is None:
            return None
        sums.append(total)
    y = sums[0] if len(sums) == 1 else np.concatenate(sums)
    return cast_array(y, _BF16).reshape(len(g), *w.out, channels)


def _sum_of_products(factors: Iterable[tuple[Array, Array]]) -> Array | None:
    """The sum of the products of pairs of matrices, of float32; `None` without a kernel."""
    total: Array | None = None
    for x, w in factors:
        product = half_product_tuned.product(x, w, dtype=_F32)
        if product is None:
            return None
        total = product if total is None else np.add(total, product, total)
    return total


def _spread_windows(w: Windows, g: Array, kernel: Array) -> Array | None:
    """The products of `g` with all weights, each laid where its window stands."""
    channels, filters = kernel.shape[-2:]
    rows = owned(g).reshape(-1, filters)
    product = half_product_tuned.product(rows, owned(kernel).reshape(-1, filters).T)
    if product is None:
        return None
    rank = len(w.window)
    # from (batch, out..., window..., channels) to out and window side by side
    pairs = [axis for i in range(rank) for axis in (1 + i, 1 + rank + i)]
    windows = product.view(_BITS).reshape(len(g), *w.out, *w.window, channels)
    y = np.ascontiguousarray(windows.transpose(0, *pairs, 1 + 2 * rank))
    return y.view(_BF16).reshape(len(g), *w.sizes, channels)


def transpose_windows(w: Windows) -> Windows | None:
    """The windows over the results that a number of the image is in; `None` for wider strides."""
    if any(n != 1 for n in w.strides):
        return None
    pads = []
    for size, out, k, d, (before, _) in zip(
        w.sizes, w.out, w.window, w.dilation, w.pads, strict=True
    ):
        first = d * (k - 1) - before
        pads.append((first, size + d * (k - 1) - out - first))
    if any(n < 0 for pair in pads for n in pair):
        return None
    return Windows(w.out, w.window, w.strides, pads, w.dilation)


def kernel_gradient(w: Windows, x: Array, g: Array) -> Array | None:
    """The gradient by the weights, of float32, or `None` where there is no kernel for products.

    Args:
        w: the windows.
        x: images of bfloat16.
        g: the gradient by the results, of bfloat16.
    """
    channels, filters = x.shape[-1], g.shape[-1]
    grads = owned(g)
    total = _sum_of_products(
        (rows.T, grads[piece].reshape(-1, filters)) for piece, rows in _pieces(w, x)
    )
    return None if total is None else total.reshape(*w.window, channels, filters)
