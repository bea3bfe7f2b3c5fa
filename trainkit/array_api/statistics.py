"""Sums and other statistics with the names and signatures of the Array API standard."""

from __future__ import annotations

import math
from typing import Any

from trainkit import ops
from trainkit.core import shapes
from trainkit.core.dtypes import DType, as_dtype
from trainkit.core.errors import ShapeError
from trainkit.core.tensor import Tensor
from trainkit.ops.reductions import summed_dtype
from trainkit.ops.shaping import as_tensor


def _in(x: Any, dtype: Any) -> Tensor:
    """`x` in `dtype`, or in the dtype in which it is added up."""
    tensor = as_tensor(x)
    wanted: DType = summed_dtype(tensor.dtype) if dtype is None else as_dtype(dtype)
    return tensor if tensor.dtype == wanted else ops.cast(tensor, wanted)


def _back(y: Tensor, like: Tensor) -> Tensor:
    return y if y.dtype == like.dtype else ops.cast(y, like.dtype)


def sum(x: Any, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The sum over `axis`; short integers are added up in the default integer dtype."""
    tensor = _in(x, dtype)
    return _back(ops.sum(tensor, axis=axis, keepdims=keepdims), tensor)


def prod(x: Any, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The product over `axis`; short integers are multiplied in the default integer dtype."""
    tensor = _in(x, dtype)
    return _back(ops.prod(tensor, axis=axis, keepdims=keepdims), tensor)


def mean(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The mean over `axis`."""
    return ops.mean(x, axis=axis, keepdims=keepdims)


def var(x: Any, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The variance over `axis`: squared distances over the count less `correction`."""
    tensor = as_tensor(x)
    axes = shapes.canonical_axes(axis, len(tensor.shape), "var")
    n = math.prod(tensor.shape[i] for i in axes)
    found = ops.var(tensor, axis=axis, keepdims=keepdims)
    if not correction:
        return found
    left = n - correction
    factor = n / left if left else (math.inf if n else math.nan)
    return ops.multiply(found, factor)


def std(x: Any, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The standard deviation over `axis`: the root of `var`."""
    return ops.sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def max(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The greatest element over `axis`."""
    return ops.max(x, axis=axis, keepdims=keepdims)


def min(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The least element over `axis`."""
    return ops.min(x, axis=axis, keepdims=keepdims)


def all(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Whether all elements over `axis` are true."""
    return ops.all(x, axis=axis, keepdims=keepdims)


def any(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Whether an element over `axis` is true."""
    return ops.any(x, axis=axis, keepdims=keepdims)


def count_nonzero(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The number of elements over `axis` that are not 0."""
    return ops.sum(ops.cast(ops.not_equal(x, 0), "int32"), axis=axis, keepdims=keepdims)


def _running(
    op: Any, name: str, start: int, x: Any, axis: Any, dtype: Any, initial: bool
) -> Tensor:
    tensor = _in(x, dtype)
    if axis is None:
        if len(tensor.shape) != 1:
            raise ShapeError(
                f"{name}: axis must be given for a tensor of shape {tuple(tensor.shape)}"
            )
        axis = 0
    total = _back(op(tensor, axis=axis), tensor)
    if not initial:
        return total
    place = shapes.canonical_axis(axis, len(tensor.shape), name)
    dims = [1 if i == place else n for i, n in enumerate(tensor.shape)]
    first = ops.full(tuple(dims), start, dtype=tensor.dtype)
    return ops.concatenate([first, total], axis=place)


def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """The running sum along `axis`, with a 0 in front if `include_initial`."""
    return _running(ops.cumsum, "cumulative_sum", 0, x, axis, dtype, include_initial)


def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """The running product along `axis`, with a 1 in front if `include_initial`."""
    return _running(ops.cumprod, "cumulative_prod", 1, x, axis, dtype, include_initial)
