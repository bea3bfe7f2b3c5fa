"""Reductions that leave NaN out: `nansum`, `nanmean`, `nanmax` and their like.

`axis` is an int, a sequence of ints, or `None` for all axes; `keepdims=True` keeps reduced axes
with size 1. Without any number along an axis, sums are 0, products 1, positions -1 and all else
NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.core import shapes
from trainkit.core.dispatch.native import has_nan
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.docstrings import describe_arguments
from trainkit.core.values.type_aliases import DTypeLike, TensorLike
from trainkit.ops.arrays.shaping import refuse_bools
from trainkit.ops.arrays.sorting import TopK, top_k
from trainkit.ops.core.one_node import sizes_later
from trainkit.ops.indexing.gathering import take_along_axis
from trainkit.ops.math import max_and_argmax, predicates, reductions
from trainkit.ops.math.comparisons import isnan, logical_not
from trainkit.ops.math.cumulative import cumprod, cumsum, prod
from trainkit.ops.math.elementwise import cast, divide, multiply, sqrt, square, subtract, where
from trainkit.ops.math.reductions import Axis, axis_setting
from trainkit.ops.math.statistics import percents, quantile_of, shares_later


def _split_off(x: Any, filling: float) -> tuple[Tensor, Tensor | None]:
    """`x` with `filling` for NaN, and where NaN was; `None` for dtypes without NaN."""
    x = x if isinstance(x, Tensor) else convert_to_tensor(x)
    if not x.dtype.is_differentiable:
        return x, None
    missing = isnan(x)
    return where(missing, filling, x), missing


# ------------------------------------------------------------------ sums and products


def nansum(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Sum along `axis` with NaN as 0.

    Returns:
        A tensor as `sum` gives it.

    Example:
        >>> float(tk.ops.nansum([1.0, float("nan"), 3.0]))
        4.0
    """
    return reductions.sum(_split_off(x, 0)[0], axis, keepdims)


def nanprod(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Product along `axis` with NaN as 1.

    Returns:
        A tensor as `prod` gives it.

    Example:
        >>> float(tk.ops.nanprod([2.0, float("nan"), 3.0]))
        6.0
    """
    return prod(_split_off(x, 1)[0], axis, keepdims)


def _one_axis(axis: Any) -> Any:
    """The axis in a sequence of one."""
    if isinstance(axis, list | tuple) and len(axis) == 1:
        return axis[0]
    return axis


def nancumsum(x: TensorLike, axis: Axis | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """Running sum along `axis` with NaN as 0.

    Args:
        axis: an int, or `None` to flatten `x` first.
        dtype: element type of the result; by default that of `x`.

    Returns:
        A tensor as `cumsum` gives it.

    Example:
        >>> tk.ops.nancumsum([2.0, float("nan"), 3.0]).numpy()
        array([2., 2., 5.], dtype=float32)
    """
    x = _split_off(x, 0)[0]
    return x if axis == () else cumsum(x, _one_axis(axis), dtype)


def nancumprod(x: TensorLike, axis: Axis | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """Running product along `axis` with NaN as 1.

    Args:
        axis: an int, or `None` to flatten `x` first.
        dtype: element type of the result; by default that of `x`.

    Returns:
        A tensor as `cumprod` gives it.

    Example:
        >>> tk.ops.nancumprod([2.0, float("nan"), 3.0]).numpy()
        array([2., 2., 6.], dtype=float32)
    """
    x = _split_off(x, 1)[0]
    return x if axis == () else cumprod(x, _one_axis(axis), dtype)


# ------------------------------------------------------------------ means and moments


def nanmean(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Mean along `axis` of all that is not NaN.

    Returns:
        A tensor as `mean` gives it.

    Example:
        >>> float(tk.ops.nanmean([1.0, float("nan"), 3.0]))
        2.0
    """
    values, missing = _split_off(x, 0)
    if missing is None:
        return reductions.mean(values, axis, keepdims)
    count = reductions.sum(cast(logical_not(missing), values.dtype), axis, keepdims)
    return divide(reductions.sum(values, axis, keepdims), count)


def nanvar(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Variance along `axis` of all that is not NaN.

    Returns:
        A tensor as `var` gives it.

    Example:
        >>> float(tk.ops.nanvar([1.0, float("nan"), 3.0]))
        1.0
    """
    values, missing = _split_off(x, 0)
    if missing is None or values.dtype.is_complex:
        return reductions.var(values, axis, keepdims)
    present = cast(logical_not(missing), values.dtype)
    count = reductions.sum(present, axis, True)
    centre = divide(reductions.sum(values, axis, True), count)
    squares = multiply(square(subtract(values, where(missing, 0, centre))), present)
    total = reductions.sum(squares, axis, keepdims)
    return divide(total, reductions.sum(present, axis, keepdims))


def nanstd(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Standard deviation along `axis` of all that is not NaN.

    Returns:
        A tensor as `std` gives it.

    Example:
        >>> float(tk.ops.nanstd([1.0, float("nan"), 3.0]))
        1.0
    """
    return sqrt(nanvar(x, axis, keepdims))


# ------------------------------------------------------------------ maxima and minima


def _nan_extreme(x: Any, axis: Axis, keepdims: bool, name: str, worst: float) -> Tensor:
    reduce: Callable[..., Tensor] = getattr(max_and_argmax, name)
    values, missing = _split_off(x, worst)
    if missing is None:
        return reduce(values, axis, keepdims)
    nothing = predicates.all(missing, axis, keepdims)
    # what has no elements has none but NaN
    initial = worst if 0 in values.shape else None
    return where(nothing, np.nan, reduce(values, axis, keepdims, initial))


def nanmax(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Greatest element along `axis` that is not NaN.

    Returns:
        A tensor of the dtype of `x`.

    Example:
        >>> float(tk.ops.nanmax([1.0, float("nan")]))
        1.0
    """
    return _nan_extreme(x, axis, keepdims, "max", -np.inf)


def nanmin(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Least element along `axis` that is not NaN.

    Returns:
        A tensor of the dtype of `x`.

    Example:
        >>> float(tk.ops.nanmin([1.0, float("nan")]))
        1.0
    """
    return _nan_extreme(x, axis, keepdims, "min", np.inf)


def _nan_position(x: Any, axis: int | None, keepdims: bool, name: str, worst: float) -> Tensor:
    find: Callable[..., Tensor] = getattr(max_and_argmax, name)
    values, missing = _split_off(x, worst)
    if missing is None:
        return find(values, axis, keepdims)
    nothing = predicates.all(missing, axis, keepdims)
    return where(nothing, -1, find(values, axis, keepdims))


def nanargmax(x: TensorLike, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Position of the greatest element along `axis` that is not NaN; -1 where all are.

    Args:
        axis: int, or `None` for the position in the flattened tensor.
        keepdims: keep the reduced axis with size 1.

    Returns:
        An int32 tensor.

    Example:
        >>> int(tk.ops.nanargmax([1.0, float("nan"), 3.0]))
        2
    """
    return _nan_position(x, axis, keepdims, "argmax", -np.inf)


def nanargmin(x: TensorLike, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Position of the least element along `axis` that is not NaN; -1 where all are.

    Args:
        axis: int, or `None` for the position in the flattened tensor.
        keepdims: keep the reduced axis with size 1.

    Returns:
        An int32 tensor.

    Example:
        >>> int(tk.ops.nanargmin([1.0, float("nan"), 3.0]))
        0
    """
    return _nan_position(x, axis, keepdims, "argmin", np.inf)


def argmax_of_numbers(x: Any, axis: Any, keepdims: bool, dtype: str) -> Tensor:
    """`argmax` that takes no NaN where there is a number, as TensorFlow's does; 0 where all are."""
    numbers = _without_nan(x, -np.inf)
    axis = axis_setting(axis)
    return max_and_argmax.argmax_as(numbers, axis=axis, keepdims=keepdims, dtype=dtype)


def argmin_of_numbers(x: Any, axis: Any, keepdims: bool, dtype: str) -> Tensor:
    """`argmin` that takes no NaN where there is a number, as TensorFlow's does; 0 where all are."""
    numbers = _without_nan(x, np.inf)
    axis = axis_setting(axis)
    return max_and_argmax.argmin_as(numbers, axis=axis, keepdims=keepdims, dtype=dtype)


def top_k_of_numbers(x: Any, k: Any, sorted: bool = True) -> TopK:
    """`top_k` in which NaN stands behind all numbers, or among those that are -inf."""
    x = x if isinstance(x, Tensor) else convert_to_tensor(x)
    numbers = _without_nan(x, -np.inf)
    top = top_k(numbers, k, sorted)
    return top if numbers is x else TopK(take_along_axis(x, top.indices, -1), top.indices)


def _without_nan(x: Any, value: float) -> Tensor:
    """`x` with `value` in place of NaN."""
    tensor = x if isinstance(x, Tensor) else convert_to_tensor(x)
    if not tensor.dtype.is_floating:
        return tensor
    if type(tensor) is Tensor and type(tensor._array) is np.ndarray and tensor._array.size:
        # To ask takes a small part of the time of replacing.
        if not has_nan(tensor._array):
            return tensor
    return where(isnan(tensor), value, tensor)


def mean_in_dtype(x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    """The mean in the dtype of `x`; of integers rounded to zero, and 0 where there are none."""
    if not x.dtype.is_integer:
        return reductions.mean(x, axis, keepdims)
    mean = reductions.mean(cast(x, "float64"), axis, keepdims)
    if 0 in x.shape or None in x.shape:
        mean = where(isnan(mean), 0.0, mean)
    return cast(mean, x.dtype)


def sum_in_dtype(x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    """The sum in the dtype of `x`, which is none of bools."""
    return cast(reductions.sum(refuse_bools(x, "reduce_sum"), axis, keepdims), x.dtype)


def prod_in_dtype(x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    """The product in the dtype of `x`, which is none of bools."""
    return cast(prod(refuse_bools(x, "reduce_prod"), axis, keepdims), x.dtype)


# ------------------------------------------------------------------ quantiles


@sizes_later("nanquantile", shares_later, constants=("q",))
def nanquantile(
    x: TensorLike, q: TensorLike, axis: Axis = None, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """`quantile` along `axis` of all that is not NaN.

    Args:
        q: a share in [0, 1], or a vector of shares.
        method: as for `quantile`.

    Returns:
        A float tensor; a vector `q` gives a new first axis of its length.

    Raises:
        InvalidArgumentError: `q` is out of range, `method` unknown, or there are no elements.

    Example:
        >>> float(tk.ops.nanquantile([1.0, float("nan"), 3.0], 0.5))
        2.0
    """
    x = x if isinstance(x, Tensor) else convert_to_tensor(x)
    return quantile_of(cast(x, shapes.float_dtype(x.dtype)), q, axis, method, keepdims, True)


@sizes_later("nanpercentile", shares_later, constants=("q",))
def nanpercentile(
    x: TensorLike, q: TensorLike, axis: Axis = None, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """`percentile` along `axis` of all that is not NaN.

    Args:
        q: a number in [0, 100], or a vector of such.
        method: as for `quantile`.

    Returns:
        A float tensor; a vector `q` gives a new first axis of its length.

    Raises:
        InvalidArgumentError: `q` is out of range, `method` unknown, or there are no elements.

    Example:
        >>> float(tk.ops.nanpercentile([1.0, float("nan"), 3.0], 50))
        2.0
    """
    return nanquantile(x, percents(q), axis, method, keepdims)


def nanmedian(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The middle element along `axis` of all that is not NaN.

    Returns:
        A float tensor.

    Example:
        >>> float(tk.ops.nanmedian([1.0, float("nan"), 3.0]))
        2.0
    """
    return nanquantile(x, 0.5, axis, "linear", keepdims)


describe_arguments(
    globals(),
    """
    x: tensor of any shape.
    axis: int, sequence of ints, or `None` for all axes.
    keepdims: keep the reduced axes with size 1.
    """,
)
