"""Which normalizations the kernels of a GPU serve, and how arrays are laid out for them."""

from __future__ import annotations

import math
from typing import Any

from trainkit.kernels.normalization import norm_columns_cuda, norm_rows_cuda
from trainkit.kernels.normalization.norm_tuned import trailing_size

Array = Any
Axes = tuple[int, ...]


def _dims(x: Array, axis: Axes) -> tuple[int, int, int] | None:
    """`x` as (1, rows, features), if the features are its last axis."""
    if axis != (x.ndim - 1,) or not x.size:
        return None
    return 1, math.prod(x.shape[:-1]), x.shape[-1]


def normalized(
    xp: Any,
    x: Array,
    scale: Array | None,
    offset: Array | None,
    axis: Axes,
    epsilon: float,
    over_batch: bool,
) -> Any:
    """The result, for batches with mean and variance, or `None` where the reference is to do it.

    Batches have their features last, samples are normalized along their last axes.
    """
    if over_batch:
        dims = _dims(x, axis)
        return dims and norm_columns_cuda.normalized(xp, x, scale, offset, dims, epsilon)
    width = trailing_size(x, axis)
    return norm_rows_cuda.normalized(xp, x, scale, offset, width, epsilon) if width else None


def normalized_gradient(
    xp: Any,
    g: Array,
    x: Array,
    scale: Array | None,
    by_mean: Array | None,
    by_variance: Array | None,
    axis: Axes,
    epsilon: float,
    over_batch: bool,
) -> tuple[Array, ...] | None:
    """Gradients by x, scale and offset, or `None`."""
    if over_batch:
        dims, given = _dims(x, axis), (g, x, scale, by_mean, by_variance)
        return dims and norm_columns_cuda.normalized_gradient(xp, *given, dims, epsilon)
    width = trailing_size(x, axis)
    if not width:
        return None
    found = norm_rows_cuda.normalized_gradient(xp, g, x, scale, width, epsilon)
    if found is None:
        return None
    by_x, *sums = found
    sizes = tuple(x.shape[a] for a in axis)
    return by_x, *(part.reshape(sizes) for part in sums if part is not None)


# ------------------------------------------------------------------ without parameters


def _groups(x: Array, axis: Axes) -> tuple[tuple[int, int, int], int] | None:
    """(batch, rows, columns) and neighbouring columns of a group, for (batch, ..., groups, size).

    Samples are standardized along all axes but the first one and that of the groups.
    """
    rank = x.ndim
    if rank < 4 or axis != (*range(1, rank - 2), rank - 1):
        return None
    groups, size = x.shape[-2:]
    return (x.shape[0], math.prod(x.shape[1:-2]), groups * size), size


def standardized(
    xp: Any, x: Array, *, axis: Axes, epsilon: float, centred: bool = True
) -> Array | None:
    """(x - mean) / sqrt(variance + epsilon), or `None` where the reference is to do it."""
    width = trailing_size(x, axis)
    if width:
        return norm_rows_cuda.normalized(xp, x, None, None, width, epsilon, centred)
    grouped = _groups(x, axis) if centred else None
    if grouped is None:
        return None
    dims, size = grouped
    found = norm_columns_cuda.normalized(xp, x, None, None, dims, epsilon, size)
    return found and found[0]


def standardized_gradient(
    xp: Any, g: Array, x: Array, *, axis: Axes, epsilon: float, centred: bool = True
) -> Array | None:
    """Its gradient by x, or `None`."""
    width = trailing_size(x, axis)
    if width:
        found = norm_rows_cuda.normalized_gradient(
            xp, g, x, None, width, epsilon, centred, parameters=False
        )
        return found and found[0]
    grouped = _groups(x, axis) if centred else None
    if grouped is None:
        return None
    dims, size = grouped
    found = norm_columns_cuda.normalized_gradient(xp, g, x, None, None, None, dims, epsilon, size)
    return found and found[0]
