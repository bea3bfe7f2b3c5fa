"""Normalization and its gradient over `xp`, with few passes over memory.

The reference that tuned kernels are compared with, and what runs when there is none. Float16 and
bfloat16 are summed in float32.
Source: Ioffe and Szegedy 2015, arXiv:1502.03167; Ba, Kiros and Hinton 2016, arXiv:1607.06450.
"""

from __future__ import annotations

import math
from typing import Any

Array = Any
Axes = tuple[int, ...]


def _count(x: Array, axes: Axes) -> int:
    return math.prod(x.shape[a] for a in axes)


def statistics(xp: Any, x: Array, axes: Axes, centred: bool = True) -> tuple[Array, Array, Array]:
    """(x - mean, mean, variance); mean and variance over `axes`, which stay with size 1.

    Of what is not centred the mean counts as 0.
    """
    mean = x.mean(axis=axes, keepdims=True)
    if not centred:
        mean = xp.zeros_like(mean)
    deviation = x - mean
    variance = xp.square(deviation).mean(axis=axes, keepdims=True)
    return deviation, mean, variance


def apart(xp: Any, deviation: Array, axes: Axes, epsilon: float) -> tuple[Array, Array]:
    """What is left beside a mean, over the root of its mean square; and the factor for that."""
    factor = 1 / xp.sqrt(
        xp.square(deviation).mean(axis=axes, keepdims=True) + deviation.dtype.type(epsilon)
    )
    return deviation * factor, factor


def normalized(
    xp: Any,
    x: Array,
    scale: Array | None,
    offset: Array | None,
    axes: Axes,
    epsilon: float,
    centred: bool = True,
) -> tuple[Array, Array, Array]:
    """(y, mean, variance) with y = scale * (x - mean) / sqrt(variance + epsilon) + offset.

    `scale` and `offset` broadcast against `x`.
    """
    y, mean, variance = statistics(xp, x, axes, centred)
    factor = 1 / xp.sqrt(variance + x.dtype.type(epsilon))
    y *= factor
    if scale is not None:
        y *= scale
    if offset is not None:
        y += offset
    return y, mean, variance


def normalized_gradient(
    xp: Any,
    g: Array,
    x: Array,
    scale: Array | None,
    by_mean: Array | None,
    by_variance: Array | None,
    axes: Axes,
    epsilon: float,
    centred: bool = True,
) -> tuple[Array, Array]:
    """(gradient by x, g times the normalized x); the vectors broadcast against `x`.

    With h = g * scale and n = (x - mean) / d, where d = sqrt(variance + epsilon), the first is
    (h - mean(h) - n * mean(h * n)) / d, and for the moments (by_mean + 2 n d * by_variance) /
    count more.
    """
    n, _, variance = statistics(xp, x, axes, centred)
    factor = 1 / xp.sqrt(variance + x.dtype.type(epsilon))
    n *= factor
    product = g * n
    h, weighted = (g, product) if scale is None else (g * scale, product * scale)
    grad, level = weighted.mean(axis=axes, keepdims=True), h.mean(axis=axes, keepdims=True)
    if not centred:
        level = xp.zeros_like(level)
    count = _count(x, axes)
    if by_mean is not None:
        level = level - by_mean / (factor * count)
    if by_variance is not None:
        grad = grad - 2 * by_variance / (factor * factor * count)
    n *= grad
    n += level
    result = h - n
    result *= factor
    return result, product
