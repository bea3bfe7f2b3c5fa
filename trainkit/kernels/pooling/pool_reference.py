"""Pooling and its gradients over `xp`, a offset of all windows at a time.

The reference that tuned kernels are compared with, and what runs when there is none. Arrays are
`(batch, spatial..., channels)`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from trainkit.kernels.convolution.sliding_windows import Windows
from trainkit.kernels.cuda.constants import on_device
from trainkit.kernels.embedding.scatter_reference import scatter_at

Array = Any


def lowest(dtype: Any) -> Any:
    """The value below which nothing of `dtype` lies."""
    if dtype.kind in "iu":
        return np.iinfo(dtype).min
    return False if dtype.kind == "b" else -math.inf


def _offsets(w: Windows) -> Iterator[tuple[Any, ...]]:
    return (w.offset(position) for position in product(*map(range, w.window)))


def max_pool(xp: Any, w: Windows, x: Array) -> Array:
    """The largest value of each window, (batch, out..., channels)."""
    padded = w.pad(xp, x, lowest(x.dtype))
    result: Array | None = None
    for offset in _offsets(w):
        if result is None:
            result = padded[offset].copy()
        else:
            xp.maximum(result, padded[offset], out=result)
    return result


def max_pool_with_argmax(xp: Any, w: Windows, x: Array) -> tuple[Array, Array]:
    """The largest value of each window, and the index in its image of the first that is largest.

    NaN is larger than all numbers. What is padded never counts, not even beside -inf alone.
    """
    image = np.arange(math.prod(x.shape[1:])).reshape(1, *x.shape[1:])
    padded, indices = w.pad(xp, x, lowest(x.dtype)), xp.asarray(w.pad(np, image, -1))
    largest: Array | None = None
    for offset in _offsets(w):
        values, index = (
            padded[offset],
            xp.broadcast_to(indices[offset], (len(x), *w.out, image.shape[-1])),
        )
        if largest is None:
            largest, argmax = values.copy(), index.copy()
            continue
        # a window that begins among what is padded has no index until its first element
        is_larger = (values > largest) | ((values != values) & (largest == largest)) | (argmax < 0)
        is_larger &= index >= 0
        xp.copyto(largest, values, where=is_larger)
        xp.copyto(argmax, index, where=is_larger)
    return largest, argmax


def _rows(array: Array) -> Array:
    """(batch, ...) as a row for each image."""
    return array.reshape(len(array), math.prod(array.shape[1:]))


def add_at_argmax(xp: Any, g: Array, argmax: Array, x: Array) -> Array:
    """Zeros in the shape of `x`, to which each `g` is added at its index in its image."""
    total = xp.zeros(x.shape, np.float32 if g.dtype.itemsize == 2 else g.dtype)
    images = xp.arange(len(x))[:, None]
    scatter_at(xp, "add", _rows(total), (images, _rows(argmax)), _rows(g).astype(total.dtype))
    return total.astype(g.dtype, copy=False)


def take_at_argmax(xp: Any, values: Array, argmax: Array) -> Array:
    """Of each image of `values` the elements at indices in it."""
    return xp.take_along_axis(_rows(values), _rows(argmax), axis=1).reshape(argmax.shape)


def _firsts(xp: Any, w: Windows, x: Array, y: Array) -> Iterator[tuple[Any, Array]]:
    """(offset, mask): where a offset is the first of its window to equal the maximum `y`."""
    padded = w.pad(xp, x, lowest(x.dtype))
    still_open = xp.ones(y.shape, bool)
    for offset in _offsets(w):
        is_first = padded[offset] == y
        is_first &= still_open
        still_open ^= is_first
        yield offset, is_first


def max_pool_gradient(xp: Any, w: Windows, g: Array, x: Array, y: Array) -> Array:
    """`g` at the first maximum of each window, 0 elsewhere; overlaps add up."""
    by_bits = xp is np and g.dtype.itemsize in _BITS
    room = xp.empty if by_bits and w.tiles else xp.zeros
    total = room((x.shape[0], *w.padded, x.shape[-1]), g.dtype)
    if by_bits:
        _add_at_firsts(w, g, x, y, total)
    else:
        for offset, is_first in _firsts(xp, w, x, y):
            total[offset] += xp.where(is_first, g, g.dtype.type(0))
    return xp.ascontiguousarray(total[w.interior])


_BITS = {n: np.dtype(f"i{n}") for n in (2, 4, 8)}
"""Integers as long as floats: times 0 they are 0, NaN too, in a fourth of the time of `where`."""


def _add_at_firsts(w: Windows, g: Array, x: Array, y: Array, total: Array) -> None:
    """Add `g` to `total` at the first maximum of each window.

    It holds zeros; where windows don't overlap, those outside of all windows are enough.
    """
    bits = _BITS[g.dtype.itemsize]
    gradient_bits, result = g.view(bits), total.view(bits)
    for offset, is_first in _firsts(np, w, x, y):
        if w.overlap:
            total[offset] += np.multiply(gradient_bits, is_first, dtype=bits).view(g.dtype)
        else:
            np.multiply(gradient_bits, is_first, out=result[offset])


def max_pool_pick(xp: Any, w: Windows, values: Array, x: Array, y: Array) -> Array:
    """`values` at the position of the first maximum of `x` in each window."""
    padded = w.pad(xp, values)
    result = xp.zeros(y.shape, values.dtype)
    for offset, is_first in _firsts(xp, w, x, y):
        xp.copyto(result, padded[offset], where=is_first)
    return result


def _counts(xp: Any, w: Windows, dtype: Any) -> Array:
    """How many positions of each window lie inside the array, (out..., 1)."""
    dtype = np.dtype(dtype)
    key = ("pool counts", w.sizes, w.window, w.strides, w.dilation, w.pads, w.out, dtype)
    return on_device(xp, key, lambda: _count(w).astype(dtype))


def _count(w: Windows) -> Any:
    count = np.ones((*w.out, 1), np.float64)
    for axis, (n, k, s, d, (before, _)) in enumerate(
        zip(w.sizes, w.window, w.strides, w.dilation, w.pads, strict=True)
    ):
        at = np.arange(w.out[axis])[:, None] * s - before + np.arange(k) * d
        inside = ((at >= 0) & (at < n)).sum(axis=1)
        count *= inside.reshape(-1, *(1,) * (count.ndim - 1 - axis))
    return count


def average_pool(xp: Any, w: Windows, x: Array) -> Array:
    """The mean of each window over what lies inside the array, (batch, out..., channels)."""
    padded = w.pad(xp, x)
    total: Array | None = None
    for offset in _offsets(w):
        if total is None:
            total = padded[offset].copy()
        else:
            total += padded[offset]
    if w.has_padding:
        return total / _counts(xp, w, x.dtype)
    return total * x.dtype.type(1 / math.prod(w.window))


def average_pool_gradient(xp: Any, w: Windows, g: Array) -> Array:
    """Each `g` shared equally by what its window covers of the array."""
    share = (
        g / _counts(xp, w, g.dtype) if w.has_padding else g * g.dtype.type(1 / math.prod(w.window))
    )
    total = xp.zeros((g.shape[0], *w.padded, g.shape[-1]), g.dtype)
    for offset in _offsets(w):
        total[offset] += share
    return xp.ascontiguousarray(total[w.interior])
