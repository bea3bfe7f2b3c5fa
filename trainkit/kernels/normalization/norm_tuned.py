"""When compiled normalization pays, and how arrays are laid out for it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainkit.kernels.jit import kernel_family
from trainkit.kernels.jit.array_kernel import ArrayKernel
from trainkit.kernels.jit.kernel_family import owned
from trainkit.kernels.threads.thread_pool import shared

Array = Any

_F32 = np.dtype(np.float32)
ROWS = ArrayKernel(
    "normalized_rows",
    "normalization.norm_compiled",
    "rows",
    "rows ones zeros number width",
    plain=6.4,
    compiled=0.12,
)
ROWS_GRADIENT = ArrayKernel(
    "normalized_rows_gradient", "normalization.norm_compiled", "rows_gradient",
    "rows rows ones number width", "rows shares shares", plain=12.8, compiled=0.3,
)  # fmt: skip
COLUMN_SUMS = kernel_family.Family(
    "moment_sums", "normalization.norm_compiled", "column_sums", formerly="column_sums"
)
COLUMNS = kernel_family.Family("scaled_columns", "normalization.norm_compiled", "columns")

WORKERS = 16
"""How many parts sums over rows are made in; a fixed number, so that any machine gives the same."""
_NANOSECONDS = 0.25
"""What the kernels over columns take for an element."""


def _matrix(x: Array, features: int) -> Array:
    return owned(x).reshape(-1, features)


def _filled(vector: Array | None, features: int, value: float) -> Array:
    return np.full(features, value, np.float32) if vector is None else owned(vector).reshape(-1)


def _seconds(x: Array, passes: int) -> float:
    return passes * x.nbytes / kernel_family.BYTES_PER_SECOND


def _is_ready(*arrays: Array | None) -> bool:
    return all(a is None or (a.dtype is _F32 and a.size) for a in arrays)


def trailing_size(x: Array, axis: tuple[int, ...]) -> int:
    """The number of elements along `axis` if these are the last axes, else 0."""
    rank = x.ndim
    if axis != tuple(range(rank - len(axis), rank)):
        return 0
    return math.prod(x.shape[a] for a in axis)


def normalized_rows(
    x: Array, scale: Array | None, offset: Array | None, axis: tuple[int, ...], epsilon: float
) -> Array | None:
    """Each sample by its own moments, or `None` where the plain version is to do it."""
    features = trailing_size(x, axis)
    return ROWS(x, scale, offset, np.float32(epsilon), features) if features else None


def normalized_rows_gradient(
    g: Array, x: Array, scale: Array | None, axis: tuple[int, ...], epsilon: float
) -> tuple[Array, Array, Array] | None:
    """Gradients by x, scale and offset, or `None` where the plain version is to do it."""
    features = trailing_size(x, axis)
    found = ROWS_GRADIENT(g, x, scale, np.float32(epsilon), features) if features else None
    if found is None:
        return None
    result, *sums = found
    by_scale, by_offset = (y.reshape([x.shape[a] for a in axis]) for y in sums)
    return result, by_scale, by_offset


def _sums(a: Array, b: Array, centre: Array, product: bool) -> tuple[Array, Array]:
    parts = np.empty((2, WORKERS, a.shape[1]), np.float32)
    run = COLUMN_SUMS.find((), 1.0)
    run(*shared(_NANOSECONDS * a.size), a, b, centre, *parts, product)
    one, two = parts.sum(axis=1)
    return one, two


def _columns_ready(x: Array, axis: tuple[int, ...], *others: Array | None) -> bool:
    """Whether both kernels are compiled and serve normalization over all axes but the last."""
    if axis != (x.ndim - 1,) or not _is_ready(x, *others):
        return False
    sums, scaled = COLUMN_SUMS.find((), _seconds(x, 4)), COLUMNS.find((), _seconds(x, 4))
    return sums is not None and scaled is not None


def _statistics(flat: Array) -> tuple[Array, Array]:
    """Mean and variance of each column; about the first row, so that nothing cancels."""
    near = flat[0].copy()
    one, two = _sums(flat, flat, near, False)
    shift = one / np.float32(len(flat))
    return near + shift, np.maximum(two / np.float32(len(flat)) - shift * shift, 0)


def normalized_columns(
    x: Array, scale: Array | None, offset: Array | None, axis: tuple[int, ...], epsilon: float
) -> tuple[Array, Array, Array] | None:
    """(y, mean, variance) of a batch, or `None` where the plain version is to do it."""
    if not _columns_ready(x, axis, scale, offset):
        return None
    features = x.shape[-1]
    flat = _matrix(x, features)
    mean, variance = _statistics(flat)
    factor = _filled(scale, features, 1.0) / np.sqrt(variance + np.float32(epsilon))
    shift = _filled(offset, features, 0.0) - mean * factor
    y = np.empty(x.shape, np.float32)
    _scaled(flat, flat, factor, np.zeros_like(factor), shift, y)
    return y, mean, variance


def _scaled(a: Array, b: Array, p: Array, q: Array, r: Array, y: Array) -> None:
    run = COLUMNS.find((), 1.0)
    run(*shared(_NANOSECONDS * a.size), a, b, p, q, r, y.reshape(a.shape))


def normalized_columns_gradient(
    g: Array,
    x: Array,
    scale: Array | None,
    by_mean: Array | None,
    by_variance: Array | None,
    axis: tuple[int, ...],
    epsilon: float,
) -> tuple[Array, Array, Array] | None:
    """Gradients by x, scale and offset of a batch, or `None`; see `norm_plain` for the formula."""
    if not _columns_ready(x, axis, g, scale, by_mean, by_variance):
        return None
    features = x.shape[-1]
    flat, grads = _matrix(x, features), _matrix(g, features)
    count = np.float32(len(flat))
    mean, variance = _statistics(flat)
    factor = 1 / np.sqrt(variance + np.float32(epsilon))
    weight = _filled(scale, features, 1.0)
    by_offset, by_centred = _sums(grads, flat, mean, True)
    by_scale = by_centred * factor
    # result = p * g + q * x + r, with q from the grad along x - mean, and r the rest
    p = weight * factor
    q = -p * factor * by_scale / count
    r = -p * by_offset / count
    if by_variance is not None:
        q = q + 2 * by_variance.reshape(-1) / count
    if by_mean is not None:
        r = r + by_mean.reshape(-1) / count
    result = np.empty(x.shape, np.float32)
    _scaled(grads, flat, p, q, r - q * mean, result)
    return result, by_scale, by_offset
