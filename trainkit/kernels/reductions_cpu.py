"""When compiled extremes of rows and running sums pay, and sums by BLAS."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainkit.kernels import registry

Array = Any

_F32 = np.dtype(np.float32)
EXTREMES = {
    "max": registry.Family("row_max", "reductions", "row_max"),
    "min": registry.Family("row_min", "reductions", "row_min"),
}
RUNNING_ROWS = registry.Family("running_rows", "reductions", "running_rows", exact=True)
RUNNING_COLUMNS = registry.Family("running_columns", "reductions", "running_columns", exact=True)

FEWEST = 1 << 14
"""Smaller arrays are left to NumPy without a further look."""


def _is_ready(x: Array) -> bool:
    return type(x) is np.ndarray and x.dtype is _F32 and x.flags.c_contiguous


def row_extreme(name: str, x: Array, axis: Any, keepdims: bool) -> Array | None:
    """The "max" or "min" along the last axis, or `None` where NumPy is to find it."""
    if axis not in (-1, x.ndim - 1) or not _is_ready(x) or not x.size:
        return None
    width = x.shape[-1]
    # NumPy's call for each row counts where rows are short.
    run = EXTREMES[name].find((), (0.2 * x.size + 40 * (x.size // width)) * 1e-9)
    if run is None:
        return None
    y = np.empty(x.shape[:-1], np.float32)
    run(x.reshape(-1, width), y.reshape(-1))
    return y.reshape(*y.shape, 1) if keepdims else y


def running_sum(x: Array, axis: int) -> Array | None:
    """Sums of all elements up to each along `axis`, or `None` where NumPy is to make them."""
    if not _is_ready(x) or not x.size:
        return None
    axis %= x.ndim
    size, inner = x.shape[axis], math.prod(x.shape[axis + 1 :])
    family = RUNNING_ROWS if inner == 1 else RUNNING_COLUMNS
    run = family.find((), 2e-9 * x.size)
    if run is None:
        return None
    y = np.empty(x.shape, np.float32)
    dims = (-1, size) if inner == 1 else (-1, size, inner)
    run(x.reshape(dims), y.reshape(dims))
    return y


def leading_sum(x: Array, count: int) -> Array:
    """Sums over the first `count` axes.

    Those of large arrays of floats are a product with ones, for which BLAS uses all cores.
    """
    if x.size < FEWEST or x.dtype.char not in "fd" or not x.flags.c_contiguous:
        return np.add.reduce(x, 0 if count == 1 else tuple(range(count)))
    kept = x.shape[count:]
    flat = x.reshape(-1, math.prod(kept))
    return (np.ones(len(flat), x.dtype) @ flat).reshape(kept)


_RUN = 256
"""Elements that a whole sum adds up one after the other, in as many lanes as a register has."""


def whole_sum(x: Array, axis: Any, keepdims: bool) -> Array | None:
    """The sum of all elements of a large array of floats, else `None`.

    Runs of elements are products with ones, for which BLAS uses all cores, and NumPy adds up their
    sums in pairs. So the error stays as small as that of NumPy's own sum, in a third of its time.
    """
    if x.size < FEWEST or x.dtype.char not in "fd" or not x.flags.c_contiguous:
        return None
    if axis is not None and axis != tuple(range(x.ndim)):
        return None
    flat = x.reshape(-1)
    end = x.size // _RUN * _RUN
    total = (flat[:end].reshape(-1, _RUN) @ np.ones(_RUN, x.dtype)).sum()
    if end < x.size:
        total = total + flat[end:].sum()
    return np.full((1,) * x.ndim, total) if keepdims else total


def may_use_blas(rank: int, axis: Any, name: str) -> bool:
    """Whether the "sum" or "mean" of an array of so many axes along `axis` may be products."""
    if axis is None or axis == tuple(range(rank)):
        return True
    if name == "mean":
        return bool(axis) and axis == tuple(range(1, rank - 1))
    return bool(axis == 0 and rank > 1)


def spatial_sum(x: Array, axis: Any, keepdims: bool) -> Array | None:
    """Sums over all axes but the first and the last, as products with ones, else `None`.

    NumPy's own loops are as short as the last axis, which costs a call for each.
    """
    if type(axis) is not tuple or axis != tuple(range(1, x.ndim - 1)) or not axis:
        return None
    if x.size < FEWEST or x.dtype.char not in "fd" or not x.flags.c_contiguous:
        return None
    cube = x.reshape(len(x), -1, x.shape[-1])
    total = np.matmul(np.ones((1, cube.shape[1]), x.dtype), cube)
    return total.reshape(len(x), *((1,) * len(axis) if keepdims else ()), x.shape[-1])
