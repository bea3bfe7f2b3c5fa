"""Limits of element types, and elements kept within bounds, as the Array API standard has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes

from trainkit.core import dtypes
from trainkit.core.dtypes import DType, as_dtype
from trainkit.core.tensor import Tensor, is_tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.ops.arrays.shaping import as_tensor
from trainkit.ops.math.elementwise import cast, maximum, minimum


def dtype_of(x: Any) -> DType:
    """The dtype of a tensor or array; a dtype, or its name, is its own."""
    return (
        x.dtype
        if is_tensor(x) or (hasattr(x, "dtype") and not isinstance(x, DType))
        else as_dtype(x)
    )


@dataclass(frozen=True)
class FloatLimits:
    """What `finfo` gives.

    Attributes:
        bits: of a number (of one part of a complex number).
        eps: distance from 1 to the next greater number.
        max: greatest finite number.
        min: least finite number.
        smallest_normal: least positive number of full precision.
        dtype: the real dtype.
    """

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True)
class IntegerLimits:
    """What `iinfo` gives.

    Attributes:
        bits: of a number.
        max: greatest number.
        min: least number.
        dtype: the dtype.
    """

    bits: int
    max: int
    min: int
    dtype: DType


def finfo(type: Any, /) -> FloatLimits:
    """The limits of a floating dtype, or of that of a tensor.

    Raises:
        TypeError: the dtype is not floating.
    """
    dtype = dtype_of(type).real_dtype
    if not dtype.is_floating:
        raise TypeError(f"finfo: {dtype.name} is not floating")
    info: Any = ml_dtypes.finfo(dtype.dtype)  # type: ignore[no-untyped-call]
    eps, top, bottom, normal = map(float, (info.eps, info.max, info.min, info.smallest_normal))
    return FloatLimits(int(info.bits), eps, top, bottom, normal, dtype)


def iinfo(type: Any, /) -> IntegerLimits:
    """The limits of an integer dtype, or of that of a tensor.

    Raises:
        TypeError: the dtype is no integer.
    """
    dtype = dtype_of(type)
    if not dtype.is_integer:
        raise TypeError(f"iinfo: {dtype.name} is no integer type")
    low, high = dtype.limits
    return IntegerLimits(8 * dtype.size, high, low, dtype)


def clip(x: Any, /, min: TensorLike | None = None, max: TensorLike | None = None) -> Tensor:
    """The elements of `x`, none below `min` or above `max`; a bound of `None` is no bound.

    Args:
        x: real tensor.
        min: number or tensor that broadcasts with `x`.
        max: number or tensor that broadcasts with `x`.

    Returns:
        A tensor of the dtype of `x`.
    """
    y = as_tensor(x)
    dtype = y.dtype
    if min is not None:
        y = maximum(y, _bound(min, dtype))
    if max is not None:
        y = minimum(y, _bound(max, dtype))
    return y if y.dtype == dtype else cast(y, dtype)


def _bound(value: Any, dtype: dtypes.DType) -> Any:
    """A bound that does not change the dtype; integers are kept in its range."""
    if not dtype.is_integer or not isinstance(value, int | float):
        return value
    low, high = dtype.limits
    return int(value) if low <= value <= high else (low if value < low else high)
