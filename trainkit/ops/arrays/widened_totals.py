"""Totals of short integers in the default integer dtype, and running ones with a first element.

The arguments are those of the Array API standard.
"""

from __future__ import annotations

from typing import Any

from trainkit.core import shapes
from trainkit.core.dtypes import DType, as_dtype
from trainkit.core.errors import ShapeError
from trainkit.core.tensor import Tensor
from trainkit.core.values.type_aliases import Axis, DTypeLike
from trainkit.ops.arrays.concat_and_split import concatenate
from trainkit.ops.arrays.creation import full
from trainkit.ops.arrays.shaping import as_tensor
from trainkit.ops.math.comparisons import not_equal
from trainkit.ops.math.cumulative import cumprod, cumsum
from trainkit.ops.math.cumulative import prod as prod_
from trainkit.ops.math.elementwise import cast
from trainkit.ops.math.reductions import sum as sum_
from trainkit.ops.math.reductions import summed_dtype


def _in(x: Any, dtype: Any) -> Tensor:
    """`x` in `dtype`, or in the dtype in which it is added up."""
    tensor = as_tensor(x)
    total_dtype: DType = summed_dtype(tensor.dtype) if dtype is None else as_dtype(dtype)
    return tensor if tensor.dtype == total_dtype else cast(tensor, total_dtype)


def _back(y: Tensor, like: Tensor) -> Tensor:
    return y if y.dtype == like.dtype else cast(y, like.dtype)


def sum(
    x: Any, /, *, axis: Axis | None = None, dtype: DTypeLike | None = None, keepdims: bool = False
) -> Tensor:
    """The sum over `axis`; short integers are added up in the default integer dtype."""
    tensor = _in(x, dtype)
    return _back(sum_(tensor, axis=axis, keepdims=keepdims), tensor)


def prod(
    x: Any, /, *, axis: Axis | None = None, dtype: DTypeLike | None = None, keepdims: bool = False
) -> Tensor:
    """The product over `axis`; short integers are multiplied in the default integer dtype."""
    tensor = _in(x, dtype)
    return _back(prod_(tensor, axis=axis, keepdims=keepdims), tensor)


def count_nonzero(x: Any, /, *, axis: Axis | None = None, keepdims: bool = False) -> Tensor:
    """The number of elements over `axis` that are not 0."""
    return sum_(cast(not_equal(x, 0), "int32"), axis=axis, keepdims=keepdims)


def _run_total(
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
    axis_index = shapes.canonical_axis(axis, len(tensor.shape), name)
    dims = [1 if i == axis_index else n for i, n in enumerate(tensor.shape)]
    first = full(tuple(dims), start, dtype=tensor.dtype)
    return concatenate([first, total], axis=axis_index)


def cumulative_sum(
    x: Any,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Tensor:
    """The running sum along `axis`, with a 0 in front if `include_initial`."""
    return _run_total(cumsum, "cumulative_sum", 0, x, axis, dtype, include_initial)


def cumulative_prod(
    x: Any,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Tensor:
    """The running product along `axis`, with a 1 in front if `include_initial`."""
    return _run_total(cumprod, "cumulative_prod", 1, x, axis, dtype, include_initial)
