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
    sizes = tuple(x.shape[a] for a in axis)
    return found and (found[0], *(part.reshape(sizes) for part in found[1:]))
