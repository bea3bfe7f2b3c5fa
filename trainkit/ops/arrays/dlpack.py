"""Tensors and the arrays of other libraries on one memory: DLPack, which copies nothing.

Source: the Python Array API standard, https://data-apis.org/array-api/latest.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core import devices
from trainkit.core.dtypes import BY_NUMPY
from trainkit.core.errors import DeviceError, InvalidArgumentError
from trainkit.core.tensor import Tensor, wrap

_CPU_KINDS = (1, 3)  # kDLCPU and kDLCUDAHost of dlpack.h
_CUDA_KINDS = (2, 13)  # kDLCUDA and kDLCUDAManaged


def from_dlpack(x: Any) -> Tensor:
    """A tensor on the memory of an array of another library, without a copy.

    A tensor never changes, so `x` must not be written to any more.

    Args:
        x: an object with `__dlpack__` and `__dlpack_device__`, on the CPU or a CUDA device.

    Returns:
        A tensor on the same device.

    Raises:
        TypeError: `x` does not speak DLPack.
        DeviceError: it is on a device that has no array module here.
        InvalidArgumentError: its element type has no tensor type.
    """
    if isinstance(x, Tensor):
        return x
    if not (hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__")):
        raise TypeError(f"from_dlpack: {type(x).__name__} has no __dlpack__ and __dlpack_device__")
    try:
        kind = int(x.__dlpack_device__()[0])
    except (TypeError, ValueError, LookupError, ArithmeticError) as error:
        raise InvalidArgumentError(f"from_dlpack: x gives no device: {error}") from error
    if kind in _CPU_KINDS:
        return wrap(_receive(np, x))
    if kind not in _CUDA_KINDS:
        raise DeviceError(
            f"from_dlpack: the array is on a device of DLPack's kind {kind}; copy it to the CPU or "
            "to a CUDA device first"
        )
    return wrap(_receive(devices.parse("/gpu:0").xp, x))  # raises where there is no GPU


def _receive(xp: Any, x: Any) -> Any:
    """The array of `xp` on the memory of `x`."""
    try:
        array = xp.from_dlpack(x)
    except (TypeError, ValueError, BufferError, RuntimeError, LookupError, OverflowError) as error:
        raise InvalidArgumentError(f"from_dlpack: {error}") from error
    if array.dtype not in BY_NUMPY:
        raise InvalidArgumentError(f"from_dlpack: no tensor has elements of {array.dtype}")
    return array


def _dlpack(
    self: Tensor,
    /,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[Any, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """A capsule on the memory of a tensor, which its receiver must not write to.

    Args:
        self: the tensor.
        stream: of a GPU, on which the receiver will work.
        max_version: the newest version of DLPack that the receiver knows.
        dl_device: kind and number of the device that the receiver wants it on.
        copy: `True` for memory of the receiver's own, `False` for never.
    """
    options = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
    keywords = {name: value for name, value in options.items() if value is not None}
    return _full_array(self).__dlpack__(**keywords)


def _dlpack_device(self: Tensor) -> Any:
    """Kind and number of the device, as DLPack counts them."""
    return _full_array(self).__dlpack_device__()


def _full_array(tensor: Tensor) -> Any:
    """The array of a tensor; a scalar as an array without axes."""
    array = tensor._array
    return np.asarray(array) if isinstance(array, np.generic) else array


Tensor.__dlpack__ = _dlpack  # type: ignore[assignment, method-assign]
Tensor.__dlpack_device__ = _dlpack_device  # type: ignore[method-assign]
