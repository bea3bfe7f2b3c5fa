"""When compiled normalization pays, and how arrays are laid out for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from trainkit.core.cpu.cost_model import BYTE_NANOSECONDS
from trainkit.core.cpu.processor import cache_bytes
from trainkit.core.dtypes import bfloat16
from trainkit.kernels.jit import kernel_family, target
from trainkit.kernels.jit.array_kernel import ArrayKernel
from trainkit.kernels.jit.kernel_family import owned
from trainkit.kernels.threads.thread_pool import VECTOR_SHARES, shared

Array = Any

_F32 = np.dtype(np.float32)
ROWS = ArrayKernel(
    "normalized_rows", "normalization.norm_compiled", "rows", "rows ones zeros number width"
)
ROWS_GRADIENT = ArrayKernel(
    "normalized_rows_gradient", "normalization.norm_compiled", "rows_gradient",
    "rows rows ones number width", "rows shares shares",
)  # fmt: skip

GROUPS, GROUPS_GRADIENT = (
    kernel_family.Family(f"normalized_{name}", "normalization.group_compiled", name)
    for name in ("groups", "groups_gradient")
)


class _ColumnKernels(NamedTuple):
    """The kernels over columns for one dtype of what is normalized.

    Attributes:
        forward: for a batch.
        backward: for its gradients.
    """

    forward: kernel_family.Family
    backward: kernel_family.Family


def _column_kernels(prefix: str) -> _ColumnKernels:
    names = f"{prefix}scaled_columns", f"{prefix}scaled_gradient_columns"
    builders = f"{prefix}columns", f"{prefix}gradient_columns"
    return _ColumnKernels(
        *(
            kernel_family.Family(name, "normalization.norm_compiled", builder)
            for name, builder in zip(names, builders, strict=True)
        )
    )


_F16 = np.dtype(np.float16)
_KERNELS = {
    _F32: _column_kernels(""),
    bfloat16.dtype: _column_kernels("half_"),
    _F16: _column_kernels("float16_"),
}
_BITS = {bfloat16.dtype: np.uint16, _F16: np.int16}
"""As what kernels take the bits of 16-bit floats, which they sum in float32 and round once."""


def has_column_kernels(dtype: Any) -> bool:
    """Whether batches of this dtype are normalized by kernels."""
    return dtype in _KERNELS and (dtype != _F16 or target.converts_float16())


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

_EMPTY = np.empty(0, np.float32)


def _matrix(x: Array, features: int) -> Array:
    """Rows of features as a kernel takes them: float32, or the bits of 16-bit floats."""
    rows = owned(x).reshape(-1, features)
    return rows if rows.dtype is _F32 else rows.view(_BITS[rows.dtype])


def _filled(vector: Array | None, features: int, value: float) -> Array:
    if vector is None:
        return np.full(features, value, np.float32)
    return owned(vector.astype(np.float32, copy=False)).reshape(-1)


def _seconds(x: Array, passes: int) -> float:
    return passes * int(x.nbytes) * kernel_family.BYTE_SECONDS


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


def _group_kernel(
    family: kernel_family.Family, x: Array, vectors: Sequence[Array | None], axis: int, passes: int
) -> Any:
    """The kernel that normalizes `x` within groups of its last axis, `None` where there is none."""
    if axis != x.ndim - 1 or x.dtype != _F32 or not x.size:
        return None
    if any(v is not None and v.dtype != _F32 for v in vectors):
        return None
    return family.find((), _seconds(x, passes))


def _samples(x: Array) -> Array:
    """(samples, rows, features), as a kernel over groups takes them."""
    return owned(x).reshape(len(x), -1, x.shape[-1])


def _sizes_of_groups(x: Array, groups: int) -> tuple[int, int]:
    """Features of a group, and of the groups that are one worker's.

    These are a line of the cache at least, and no more than half of the second cache has room for.
    """
    width = x.shape[-1] // groups
    fitting = cache_bytes(2) // 2 * len(x) * x.shape[-1] // x.nbytes
    return width, width * max(max(fitting, 16) // width, 1)


def normalized_groups(
    x: Array, scale: Array | None, offset: Array | None, axis: int, groups: int, epsilon: float
) -> Array | None:
    """Each sample within groups of its features, or `None` where the plain version is to do it."""
    run = _group_kernel(GROUPS, x, (scale, offset), axis, 6)
    if run is None:
        return None
    features = x.shape[-1]
    y, scratch = np.empty(x.shape, _F32), np.empty((3, len(x), features), _F32)
    run(
        *shared(3 * BYTE_NANOSECONDS * x.nbytes),
        _samples(x),
        _filled(scale, features, 1.0),
        _filled(offset, features, 0.0),
        np.float32(epsilon),
        *_sizes_of_groups(x, groups),
        _samples(y),
        *scratch,
    )
    return y


def normalized_groups_gradient(
    g: Array, x: Array, scale: Array | None, axis: int, groups: int, epsilon: float
) -> tuple[Array, Array, Array] | None:
    """Gradients by x, scale and offset, or `None` where the plain version is to do it."""
    run = _group_kernel(GROUPS_GRADIENT, x, (g, scale), axis, 12)
    if run is None:
        return None
    features = x.shape[-1]
    result, scratch = np.empty(x.shape, _F32), np.empty((6, len(x), features), _F32)
    run(
        *shared(6 * BYTE_NANOSECONDS * x.nbytes),
        _samples(g),
        _samples(x),
        _filled(scale, features, 1.0),
        np.float32(epsilon),
        *_sizes_of_groups(x, groups),
        _samples(result),
        *scratch,
    )
    by_scale, by_offset = scratch[:2].sum(axis=1)
    return result, by_scale, by_offset


def columns_are_compiled() -> bool:
    """Whether all kernels over columns are at hand, so that they serve from the first call."""
    families = [f for dtype in filter(has_column_kernels, _KERNELS) for f in _KERNELS[dtype]]
    return all(family.find((), 0.0) is not None for family in families)


def _column_kernel(
    x: Array, axis: tuple[int, ...], vectors: Sequence[Array | None], backward: bool = False
) -> Any:
    """The kernel that normalizes `x` over all axes but the last, `None` where there is none."""
    if not has_column_kernels(x.dtype) or axis != (x.ndim - 1,) or not x.size:
        return None
    if not all(v is None or (has_column_kernels(v.dtype) and v.size) for v in vectors):
        return None
    kernels = _KERNELS[x.dtype]
    family = kernels.backward if backward else kernels.forward
    return family.find((), _seconds(x, 4))


def _scratch(features: int) -> tuple[Array, Array]:
    """Room for the factors of a kernel over columns, and for two sums of each worker."""
    return np.empty((5, features), np.float32), np.empty((2, VECTOR_SHARES, features), np.float32)


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
    run = _column_kernel(x, axis, (scale, offset))
    if run is None:
        return None
    features = x.shape[-1]
    y, moments = np.empty(x.shape, x.dtype), np.empty((2, features), np.float32)
    run(
        *shared(2 * BYTE_NANOSECONDS * x.nbytes),
        _matrix(x, features),
        _filled(scale, features, 1.0),
        _filled(offset, features, 0.0),
        np.float32(epsilon),
        np.float32(rectifier.low),
        np.float32(rectifier.high),
        _matrix(y, features),
        moments,
        *_scratch(features),
    )
    mean, variance = moments.astype((x if scale is None else scale).dtype, copy=False)
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
    vectors = scale, by_mean, by_variance, offset
    run = _column_kernel(x, axis, vectors, backward=True)
    if run is None or g.dtype != x.dtype or g.shape != x.shape:
        return None
    features = x.shape[-1]
    result, sums = np.empty(x.shape, x.dtype), np.empty((2, features), np.float32)
    run(
        *shared(2 * BYTE_NANOSECONDS * x.nbytes),
        _matrix(g, features),
        _matrix(x, features),
        _filled(scale, features, 1.0),
        _filled(offset, features, 0.0),
        _EMPTY if by_mean is None else _filled(by_mean, features, 0.0),
        _EMPTY if by_variance is None else _filled(by_variance, features, 0.0),
        np.float32(epsilon),
        np.float32(rectifier.high),
        rectifier.kind,
        _matrix(result, features),
        sums,
        np.empty((2, features), np.float32) if moments is None else np.stack(moments),
        int(moments is not None),
        *_scratch(features),
    )
    by_scale, by_offset = sums.astype((x if scale is None else scale).dtype, copy=False)
    return result, by_scale, by_offset
