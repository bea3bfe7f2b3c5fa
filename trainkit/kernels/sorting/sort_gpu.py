"""Rows in rising or falling order on a GPU; equal elements keep their order, NaN is greatest.

Each function gives `None` where it does not serve: complex numbers, rows of 2**31 elements or more,
an array on another GPU than the current one, no NVRTC.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core import dtypes
from trainkit.kernels.cuda.raw_kernel import blocks_for
from trainkit.kernels.sorting import merge_sort_cuda as texts

Array = Any

_LONGEST = 2**31 - 2 * texts.LARGEST_TILE


def order_of_rows(xp: Any, x: Array, falling: bool = False) -> Array | None:
    """The positions that put each row of `x` (rows, n) in order, int32."""
    n = x.shape[1]
    if x.dtype.name not in texts.DTYPES or n > _LONGEST or x.size // max(n, 1) >= 2**31 - 1:
        return None
    if int(x.device.id) != int(xp.cuda.Device().id):
        return None
    tile = min(max(1 << (n - 1).bit_length(), texts.SMALLEST_TILE), texts.LARGEST_TILE)
    tiles = -(-n // tile)
    width = texts.key_bytes(x.dtype.name)
    first, merge = texts.sorted_tiles(x.dtype.name, tile), texts.merged_runs(width)
    if tiles * x.shape[0] >= 2**31 or not (first.is_there(xp) and merge.is_there(xp)):
        return None
    x = xp.ascontiguousarray(x)
    positions = xp.empty(x.shape, np.int32)
    if not x.size:
        return positions
    keys = xp.empty(x.shape, f"u{width}")
    arguments = (x, keys, positions, np.int32(n), np.int32(tiles), np.int32(falling))
    first(tiles * x.shape[0], arguments, threads=tile // 2)
    if tiles > 1:
        others = xp.empty_like(keys), xp.empty_like(positions)
    while tile < n:
        sizes = (np.int32(n), np.int64(x.size), np.int32(tile))
        merge(blocks_for(x.size), (keys, positions, *others, *sizes))
        (keys, positions), others = others, (keys, positions)
        tile *= 2
    return positions


def picked(xp: Any, x: Array, positions: Array, count: int) -> Array | None:
    """The first `count` elements of each row of `x` in the order `positions`, both (rows, n)."""
    kernel = texts.picked_in_rows(x.dtype.itemsize)
    if not kernel.is_there(xp):
        return None
    x = xp.ascontiguousarray(x)
    out = xp.empty((x.shape[0], count), x.dtype)
    if out.size:
        sizes = (np.int32(x.shape[1]), np.int32(count), np.int64(out.size))
        kernel(blocks_for(out.size), (x, positions, out, *sizes))
    return out


def _as_rows(xp: Any, x: Array, axis: int) -> Array:
    """`x` with `axis` last, as rows."""
    moved = xp.moveaxis(x, axis, -1)
    return moved.reshape((x.size // max(x.shape[axis], 1), x.shape[axis]))


def _back(xp: Any, rows: Array, x: Array, axis: int) -> Array:
    dims = [n for i, n in enumerate(x.shape) if i != axis % x.ndim]
    return xp.moveaxis(rows.reshape((*dims, rows.shape[1])), -1, axis)


def argsort(xp: Any, x: Array, axis: int = -1) -> Array | None:
    """The positions that put the elements in rising order along an axis, int32."""
    order = order_of_rows(xp, _as_rows(xp, x, axis))
    return None if order is None else _back(xp, order, x, axis)


def sort(xp: Any, x: Array, axis: int = -1) -> Array | None:
    """The elements in rising order along an axis."""
    rows = _as_rows(xp, x, axis)
    order = order_of_rows(xp, rows)
    sorted_values = None if order is None else picked(xp, rows, order, rows.shape[1])
    return None if sorted_values is None else _back(xp, sorted_values, x, axis)


def top_k(xp: Any, x: Array, k: int) -> tuple[Array, Array] | None:
    """The `k` greatest elements along the last axis, and their positions, int32."""
    rows = _as_rows(xp, x, -1)
    order = order_of_rows(xp, rows, falling=True)
    if order is None:
        return None
    top_values = picked(xp, rows, order, k)
    if top_values is None:
        return None
    dims = (*x.shape[:-1], k)
    return top_values.reshape(dims), xp.ascontiguousarray(order[:, :k]).reshape(dims)


def sorted_last(xp: Any, x: Array) -> Array:
    """`xp.sort` along the last axis, on a GPU without a wait where that can be."""
    if xp is np:
        return dtypes.cast_array(np.sort(dtypes.sort_keys(x), axis=-1), x.dtype)
    sorted_values = sort(xp, x)
    return xp.sort(x, axis=-1) if sorted_values is None else sorted_values


def stable_order(xp: Any, x: Array) -> Array:
    """`xp.argsort` along the last axis, equal elements in their order, int64; likewise."""
    if xp is np:
        return np.argsort(dtypes.sort_keys(x), axis=-1, kind="stable")
    order = argsort(xp, x)
    return xp.argsort(x, axis=-1, kind="stable") if order is None else order.astype(np.int64)
