"""When compiled normalization pays, and how arrays are laid out for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from trainkit.core.dtypes import bfloat16
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


class _ColumnKernels(NamedTuple):
    """The kernels over columns for one dtype of what is normalized.

    Attributes:
        sums: for moments.
        scaled: for results.
        gradient_sums: for gradients of the parameters.
        gradient: for those of the input.
    """

    sums: kernel_family.Family
    scaled: kernel_family.Family
    gradient_sums: kernel_family.Family
    gradient: kernel_family.Family

    @property
    def forward(self) -> tuple[kernel_family.Family, ...]:
        """Those that a batch needs."""
        return self.sums, self.scaled

    @property
    def backward(self) -> tuple[kernel_family.Family, ...]:
        """Those that its gradient needs."""
        return self.sums, self.gradient_sums, self.gradient


def _column_kernels(prefix: str, formerly: str | None = None) -> _ColumnKernels:
    file = "normalization.norm_compiled"
    return _ColumnKernels(
        kernel_family.Family(
            f"{prefix}moment_sums", file, f"{prefix}column_sums", formerly=formerly
        ),
        kernel_family.Family(f"{prefix}scaled_columns", file, f"{prefix}columns"),
        kernel_family.Family(f"{prefix}moment_gradient_sums", file, f"{prefix}gradient_sums"),
        kernel_family.Family(f"{prefix}scaled_gradient_columns", file, f"{prefix}gradient_columns"),
    )


KERNELS = {_F32: _column_kernels("", "column_sums"), bfloat16.dtype: _column_kernels("half_")}
"""By the dtype of what is normalized. Bits of bfloat16 are read, and float32 rounded once."""


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
    """Rows of features as a kernel takes them: float32, or the bits of bfloat16."""
    rows = owned(x).reshape(-1, features)
    return rows if rows.dtype is _F32 else rows.view(np.uint16)


def _filled(vector: Array | None, features: int, value: float) -> Array:
    if vector is None:
        return np.full(features, value, np.float32)
    return owned(vector.astype(np.float32, copy=False)).reshape(-1)


def _seconds(x: Array, passes: int) -> float:
    return passes * int(x.nbytes) / kernel_family.BYTES_PER_SECOND


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
    families = {family for kernels in KERNELS.values() for family in kernels}
    return all(family.find((), 0.0) is not None for family in families)


def _column_kernels_for(
    x: Array, axis: tuple[int, ...], vectors: Sequence[Array | None], backward: bool = False
) -> _ColumnKernels | None:
    """The kernels that normalize `x` over all axes but the last, if they are compiled."""
    kernels = KERNELS.get(x.dtype)
    if kernels is None or axis != (x.ndim - 1,) or not x.size:
        return None
    if not all(v is None or (v.dtype in KERNELS and v.size) for v in vectors):
        return None
    families = kernels.backward if backward else kernels.forward
    is_ready = None not in [family.find((), _seconds(x, 4)) for family in families]
    return kernels if is_ready else None


def _sum(parts: Array) -> tuple[Array, Array]:
    one, two = parts.sum(axis=1)
    return one, two


def _statistics(kernels: _ColumnKernels, x: Array, flat: Array) -> tuple[Array, Array]:
    """Mean and variance of each column; about the first row, so that nothing cancels."""
    near = owned(x).reshape(flat.shape)[0].astype(np.float32)
    parts = np.empty((2, WORKERS, flat.shape[1]), np.float32)
    run = kernels.sums.find((), 1.0)
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
    """(y, mean, variance) of a batch, or `None` where the plain version is to do it.

    Mean and variance have the dtype of the scale, that of `x` where there is none.
    """
    kernels = _column_kernels_for(x, axis, (scale, offset))
    if kernels is None:
        return None
    features = x.shape[-1]
    flat = _matrix(x, features)
    mean, variance = _statistics(kernels, x, flat)
    factor, shift = _factor_and_shift(features, scale, offset, mean, variance, epsilon)
    y = np.empty(x.shape, x.dtype)
    limits = np.float32(rectifier.low), np.float32(rectifier.high)
    run = kernels.scaled.find((), 1.0)
    run(*shared(_NANOSECONDS * x.size), flat, factor, shift, *limits, _matrix(y, features))
    dtype = (x if scale is None else scale).dtype
    return y, mean.astype(dtype, copy=False), variance.astype(dtype, copy=False)


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
    vectors = scale, by_mean, by_variance, offset
    kernels = _column_kernels_for(x, axis, vectors, backward=True)
    if kernels is None or g.dtype != x.dtype or g.shape != x.shape:
        return None
    dtype = (x if scale is None else scale).dtype
    features = x.shape[-1]
    flat, grads = _matrix(x, features), _matrix(g, features)
    count = np.float32(len(flat))
    mean, variance = moments or _statistics(kernels, x, flat)
    forward = _factor_and_shift(features, scale, offset, mean, variance, epsilon)
    factor = 1 / np.sqrt(variance + np.float32(epsilon))
    weight = _filled(scale, features, 1.0)
    parts = np.empty((2, WORKERS, features), np.float32)
    choice, work = (np.float32(rectifier.high), rectifier.kind), shared(_NANOSECONDS * x.size)
    run = kernels.gradient_sums.find((), 1.0)
    run(*work, grads, flat, *forward, mean, *choice, *parts)
    by_offset, by_centred = _sum(parts)
    by_scale = by_centred * factor
    # result = p * g + q * x + r, with q from the grad along x - mean, and r the rest
    p = weight * factor
    q = -p * factor * by_scale / count
    r = -p * by_offset / count
    if by_variance is not None:
        q = q + 2 * _filled(by_variance, features, 0.0) / count
    if by_mean is not None:
        r = r + _filled(by_mean, features, 0.0) / count
    result = np.empty(x.shape, x.dtype)
    run = kernels.gradient.find((), 1.0)
    factors = p, q, r - q * mean
    run(*work, grads, flat, *forward, *factors, *choice, _matrix(result, features))
    return result, by_scale.astype(dtype, copy=False), by_offset.astype(dtype, copy=False)
