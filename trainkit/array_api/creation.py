"""New tensors with the names and signatures of the Array API standard."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core import devices, dtypes
from trainkit.core.dtypes import DType, as_dtype
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor, wrap, wrap_on_device
from trainkit.core.values.type_aliases import DTypeLike, Shape
from trainkit.ops.arrays.dlpack import from_dlpack as _from_dlpack
from trainkit.ops.arrays.ranges import check_count
from trainkit.ops.arrays.shaping import as_tensor


def _on(device: Any) -> AbstractContextManager[Any]:
    return nullcontext() if device is None else devices.device(device)


def _default_of(value: Any) -> DType:
    """The default dtype of a Python number."""
    if isinstance(value, bool):
        return dtypes.bool_
    if isinstance(value, int):
        fits = -(2**31) <= value < 2**31
        return dtypes.int32 if fits else dtypes.int64
    real = as_dtype(dtypes.floatx())
    if isinstance(value, complex):
        return dtypes.complex128 if real.name == "float64" else dtypes.complex64
    return real


def asarray(
    obj: Any, /, *, dtype: DTypeLike | None = None, device: Any = None, copy: bool | None = None
) -> Tensor:
    """A tensor from Python numbers, nested lists, arrays or tensors.

    Args:
        obj: what to convert; arrays are copied, tensors are not, as they never change.
        dtype: element type; by default that of an array, or the default one of Python numbers.
        device: name of the device.
        copy: `False` refuses what can't be had without a copy.

    Raises:
        ValueError: `copy=False` and a copy is needed.
    """
    tensor = is_tensor(obj)
    if copy is False and (not tensor or (dtype is not None and obj.dtype != as_dtype(dtype))):
        raise InvalidArgumentError(
            "asarray: copy=False, but a tensor of other values or of another dtype is a copy; "
            "use from_dlpack to share the memory of an array"
        )
    if tensor:
        plain_tensor = as_tensor(obj)
        moved: Any = plain_tensor if dtype is None else ops.cast(plain_tensor, dtype)
        return moved if device is None else moved.to_device(device)
    with _on(device):
        return _convert(obj, dtype)


def _convert(obj: Any, dtype: Any) -> Tensor:
    converted = convert_to_tensor(obj)
    if dtype is not None:
        target_dtype = as_dtype(dtype)
        if converted.dtype != target_dtype and not hasattr(obj, "dtype"):
            # no detour over float32
            return wrap_on_device(np.asarray(obj, dtype=target_dtype.dtype))
        return converted if converted.dtype == target_dtype else ops.cast(converted, target_dtype)
    if converted.dtype == dtypes.complex128 and not hasattr(obj, "dtype"):
        return ops.cast(converted, _default_of(1j))
    return converted


def arange(
    start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None
) -> Tensor:
    """Numbers from `start` (0 with one argument) to before `stop`, `step` apart."""
    if stop is None:
        start, stop = 0, start
    is_integer = all(isinstance(v, int) for v in (start, stop, step))
    range_dtype = as_dtype(dtype) if dtype is not None else _range_dtype(start, stop, is_integer)
    check_count(start, stop, step)
    with _on(device):
        return wrap_on_device(np.arange(start, stop, step, dtype=range_dtype.dtype))


def _range_dtype(start: Any, stop: Any, is_integer: bool) -> DType:
    if not is_integer:
        return _default_of(1.0)
    return dtypes.int64 if dtypes.int64 in map(_default_of, (start, stop)) else dtypes.int32


def linspace(
    start: Any,
    stop: Any,
    /,
    num: int,
    *,
    dtype: DTypeLike | None = None,
    device: Any = None,
    endpoint: bool = True,
) -> Tensor:
    """`num` numbers, equally apart, from `start` to `stop`, which `endpoint=False` leaves out."""
    is_complex = isinstance(start, complex) or isinstance(stop, complex)
    element_type = as_dtype(dtype) if dtype is not None else _default_of(1j if is_complex else 1.0)
    with _on(device):
        exact = np.linspace(start, stop, num, endpoint=endpoint)
        return wrap_on_device(exact.astype(element_type.dtype))


def _shape(shape: Any) -> tuple[int, ...]:
    return (int(shape),) if isinstance(shape, int) else tuple(int(n) for n in shape)


def zeros(shape: Shape, *, dtype: DTypeLike | None = None, device: Any = None) -> Tensor:
    """Zeros; of the default floating dtype without `dtype`."""
    with _on(device):
        return ops.zeros(_shape(shape), dtype=dtype)


def ones(shape: Shape, *, dtype: DTypeLike | None = None, device: Any = None) -> Tensor:
    """Ones; of the default floating dtype without `dtype`."""
    with _on(device):
        return ops.ones(_shape(shape), dtype=dtype)


def empty(shape: Shape, *, dtype: DTypeLike | None = None, device: Any = None) -> Tensor:
    """A tensor whose values don't matter; here zeros."""
    return zeros(shape, dtype=dtype, device=device)


def full(
    shape: Shape, fill_value: Any, *, dtype: DTypeLike | None = None, device: Any = None
) -> Tensor:
    """A tensor filled with a Python number, in its default dtype without `dtype`."""
    element_type = _default_of(fill_value) if dtype is None else as_dtype(dtype)
    with _on(device):
        return wrap_on_device(np.full(_shape(shape), fill_value, element_type.dtype))


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: DTypeLike | None = None,
    device: Any = None,
) -> Tensor:
    """Ones on the diagonal `k` of a matrix of zeros."""
    element_type = _default_of(1.0) if dtype is None else as_dtype(dtype)
    with _on(device):
        return wrap_on_device(np.eye(n_rows, n_cols, k, element_type.dtype))


def _like(x: Any, value: Any, dtype: Any, device: Any) -> Tensor:
    tensor = as_tensor(x)
    where = tensor.device if device is None else device
    element_type = tensor.dtype if dtype is None else dtype
    return full(tuple(tensor.shape), value, dtype=element_type, device=where)


def zeros_like(x: Any, /, *, dtype: DTypeLike | None = None, device: Any = None) -> Tensor:
    """Zeros in the shape of `x`, by default in its dtype and on its device."""
    return _like(x, 0, dtype, device)


def ones_like(x: Any, /, *, dtype: DTypeLike | None = None, device: Any = None) -> Tensor:
    """Ones in the shape of `x`, by default in its dtype and on its device."""
    return _like(x, 1, dtype, device)


def empty_like(x: Any, /, *, dtype: DTypeLike | None = None, device: Any = None) -> Tensor:
    """A tensor in the shape of `x` whose values don't matter; here zeros."""
    return _like(x, 0, dtype, device)


def full_like(
    x: Any, /, fill_value: Any, *, dtype: DTypeLike | None = None, device: Any = None
) -> Tensor:
    """A Python number in the shape of `x`, by default in its dtype and on its device."""
    return _like(x, fill_value, dtype, device)


def tril(x: Any, /, *, k: int = 0) -> Tensor:
    """The matrices `x` (..., n, m) with zeros above the diagonal `k`."""
    return ops.tril(x, k)


def triu(x: Any, /, *, k: int = 0) -> Tensor:
    """The matrices `x` (..., n, m) with zeros below the diagonal `k`."""
    return ops.triu(x, k)


def meshgrid(*arrays: Any, indexing: str = "xy") -> tuple[Tensor, ...]:
    """The coordinates of a grid from vectors of coordinates, one tensor for each vector.

    Raises:
        ValueError: `indexing` is neither `"xy"` nor `"ij"`.
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing is 'xy' or 'ij', not {indexing!r}")
    return tuple(ops.meshgrid(*arrays, indexing=indexing))


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor that shares the memory of `x`; see `trainkit.ops.arrays.dlpack.from_dlpack`.

    Raises:
        InvalidArgumentError: another device is asked for, and `copy` is False.
    """
    shared = _from_dlpack(x)
    moved: Tensor = shared if device is None else shared.to_device(device)  # type: ignore[attr-defined]
    if copy is False and moved is not shared:
        raise InvalidArgumentError("from_dlpack: another device can't be had without a copy")
    return wrap(moved._array.copy()) if copy and moved is shared else moved
