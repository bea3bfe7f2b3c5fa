"""When compiled normalization pays, and how arrays are laid out for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

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
GRADIENT_SUMS = kernel_family.Family(
    "moment_gradient_sums", "normalization.norm_compiled", "gradient_sums"
)
GRADIENT_COLUMNS = kernel_family.Family(
    "scaled_gradient_columns", "normalization.norm_compiled", "gradient_columns"
)
_FORWARD, _BACKWARD = (COLUMN_SUMS, COLUMNS), (COLUMN_SUMS, GRADIENT_SUMS, GRADIENT_COLUMNS)


class Rectifier(NamedTuple):
    """What comes behind a normalization, or nothing.

    Attributes:
        kind: 0 for nothing, 1 for a rectifier, 2 for one with a ceiling.
        low: the smallest result.
        high: the largest one.
    """

    kind: int = 0
    low: float = -math.inf
    high: float = math.inf


NONE, RELU, RELU6 = Rectifier(), Rectifier(1, 0.0), Rectifier(2, 0.0, 6.0)

WORKERS = 16
"""How many parts sums over rows are made in; a fixed number, so that any machine gives the same."""
_NANOSECONDS = 0.25
"""What the kernels over columns take for an element."""


def _matrix(x: Array, features: int) -> Array:
    return owned(x).reshape(-1, features)


def _filled(vector: Array | None, features: int, value: float) -> Array:
    return np.full(features, value, np.float32) if vector is None else owned(vector).reshape(-1)


def _seconds(x: Array, passes: int) -> float:
    return passes * int(x.nbytes) / kernel_family.BYTES_PER_SECOND


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
    gradients = ROWS_GRADIENT(g, x, scale, np.float32(epsilon), features) if features else None
    if gradients is None:
        return None
    result, *sums = gradients
    by_scale, by_offset = (y.reshape([x.shape[a] for a in axis]) for y in sums)
    return result, by_scale, by_offset


def columns_are_compiled() -> bool:
    """Whether all kernels over columns are at hand, so that they serve from the first call."""
    return all(family.find((), 0.0) is not None for family in {*_FORWARD, *_BACKWARD})


def _columns_ready(
    families: Sequence[Any], x: Array, axis: tuple[int, ...], *others: Array | None
) -> bool:
    """Whether kernels are compiled and serve normalization over all axes but the last."""
    if axis != (x.ndim - 1,) or not _is_ready(x, *others):
        return False
    return None not in [family.find((), _seconds(x, 4)) for family in families]


def _sum(parts: Array) -> tuple[Array, Array]:
    one, two = parts.sum(axis=1)
    return one, two


def _statistics(flat: Array) -> tuple[Array, Array]:
    """Mean and variance of each column; about the first row, so that nothing cancels."""
    near = flat[0].copy()
    parts = np.empty((2, WORKERS, flat.shape[1]), np.float32)
    run = COLUMN_SUMS.find((), 1.0)
    run(*shared(_NANOSECONDS * flat.size), flat, near, *parts)
    one, two = _sum(parts)
    shift = one / np.float32(len(flat))
    return near + shift, np.maximum(two / np.float32(len(flat)) - shift * shift, 0)


def _factor_and_shift(
    features: int,
    scale: Array | None,
    offset: Array | None,
    mean: Array,
    variance: Array,
    epsilon: float,
) -> tuple[Array, Array]:
    """What makes x of a column into its normalized value: x * factor + shift."""
    factor = _filled(scale, features, 1.0) / np.sqrt(variance + np.float32(epsilon))
    return factor, _filled(offset, features, 0.0) - mean * factor


def normalized_columns(
    x: Array,
    scale: Array | None,
    offset: Array | None,
    axis: tuple[int, ...],
    epsilon: float,
    rectifier: Rectifier = NONE,
) -> tuple[Array, Array, Array] | None:
    """(y, mean, variance) of a batch, or `None` where the plain version is to do it."""
    if not _columns_ready(_FORWARD, x, axis, scale, offset):
        return None
    features = x.shape[-1]
    flat = _matrix(x, features)
    mean, variance = _statistics(flat)
    factor, shift = _factor_and_shift(features, scale, offset, mean, variance, epsilon)
    y = np.empty(x.shape, np.float32)
    limits = np.float32(rectifier.low), np.float32(rectifier.high)
    run = COLUMNS.find((), 1.0)
    run(*shared(_NANOSECONDS * x.size), flat, factor, shift, *limits, y.reshape(flat.shape))
    return y, mean, variance


def normalized_columns_gradient(
    g: Array,
    x: Array,
    scale: Array | None,
    by_mean: Array | None,
    by_variance: Array | None,
    axis: tuple[int, ...],
    epsilon: float,
    moments: tuple[Array, Array] | None = None,
    offset: Array | None = None,
    rectifier: Rectifier = NONE,
) -> tuple[Array, Array, Array] | None:
    """Gradients by x, scale and offset of a batch, or `None`.

    See `norm_reference` for the formula.

    Args:
        g: the gradient by the result, or by what a rectifier made of it.
        x: what was normalized.
        scale: factors of the features, or `None` for ones.
        by_mean: the gradient by the means, or `None`.
        by_variance: the gradient by the variances, or `None`.
        axis: that of the features.
        epsilon: what is added to variances.
        moments: means and variances, where they are known.
        offset: what is added to features, or `None` for zeros; no more than a rectifier asks.
        rectifier: what comes behind the normalization.
    """
    if not _columns_ready(_BACKWARD, x, axis, g, scale, by_mean, by_variance, offset):
        return None
    features = x.shape[-1]
    flat, grads = _matrix(x, features), _matrix(g, features)
    count = np.float32(len(flat))
    mean, variance = moments or _statistics(flat)
    forward = _factor_and_shift(features, scale, offset, mean, variance, epsilon)
    factor = 1 / np.sqrt(variance + np.float32(epsilon))
    weight = _filled(scale, features, 1.0)
    parts = np.empty((2, WORKERS, features), np.float32)
    choice, work = (np.float32(rectifier.high), rectifier.kind), shared(_NANOSECONDS * x.size)
    run = GRADIENT_SUMS.find((), 1.0)
    run(*work, grads, flat, *forward, mean, *choice, *parts)
    by_offset, by_centred = _sum(parts)
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
    run = GRADIENT_COLUMNS.find((), 1.0)
    factors = p, q, r - q * mean
    run(*work, grads, flat, *forward, *factors, *choice, result.reshape(flat.shape))
    return result, by_scale, by_offset
