"""Sums and other statistics with the names and signatures of the Array API standard."""

from __future__ import annotations

import builtins
import math
from typing import Any

from trainkit import ops
from trainkit.core import shapes
from trainkit.core.tensor import Tensor
from trainkit.core.values.type_aliases import Axis
from trainkit.ops.arrays.shaping import as_tensor
from trainkit.ops.arrays.widened_totals import count_nonzero as count_nonzero
from trainkit.ops.arrays.widened_totals import cumulative_prod as cumulative_prod
from trainkit.ops.arrays.widened_totals import cumulative_sum as cumulative_sum
from trainkit.ops.arrays.widened_totals import prod as prod
from trainkit.ops.arrays.widened_totals import sum as sum


def mean(x: Any, /, *, axis: Axis | None = None, keepdims: bool = False) -> Tensor:
    """The mean over `axis`."""
    return ops.mean(x, axis=axis, keepdims=keepdims)


def var(
    x: Any, /, *, axis: Axis | None = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """The variance over `axis`: squared distances over the count less `correction`."""
    tensor = as_tensor(x)
    axes = shapes.canonical_axes(axis, len(tensor.shape), "var")
    n = math.prod(tensor.shape[i] for i in axes)
    variance = ops.var(tensor, axis=axis, keepdims=keepdims)
    if not correction:
        return variance
    # of fewer elements than are taken off there is no variance: inf, or nan, as in NumPy
    left = builtins.max(n - correction, 0)
    factor = n / left if left else (math.inf if n else math.nan)
    return ops.multiply(variance, factor)


def std(
    x: Any, /, *, axis: Axis | None = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """The standard deviation over `axis`: the root of `var`."""
    return ops.sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def max(x: Any, /, *, axis: Axis | None = None, keepdims: bool = False) -> Tensor:
    """The greatest element over `axis`."""
    return ops.max(x, axis=axis, keepdims=keepdims)


def min(x: Any, /, *, axis: Axis | None = None, keepdims: bool = False) -> Tensor:
    """The least element over `axis`."""
    return ops.min(x, axis=axis, keepdims=keepdims)


def all(x: Any, /, *, axis: Axis | None = None, keepdims: bool = False) -> Tensor:
    """Whether all elements over `axis` are true."""
    return ops.all(x, axis=axis, keepdims=keepdims)


def any(x: Any, /, *, axis: Axis | None = None, keepdims: bool = False) -> Tensor:
    """Whether an element over `axis` is true."""
    return ops.any(x, axis=axis, keepdims=keepdims)
