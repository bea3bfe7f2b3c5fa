"""Arrays of JAX as tensors of trainkit, on the same memory: neither library writes to it."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core.dtypes import BY_NUMPY, DType
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import Tensor, wrap


class _UnlockedBytes:
    """The bytes of an array, which stays alive with it; NumPy reads `__array_interface__`.

    Arrays of JAX come as read-only ones, and some compiled kernels take no such argument, although
    they write to none.
    """

    def __init__(self, array: Any) -> None:
        self.array = array
        address, _ = array.__array_interface__["data"]
        self.__array_interface__ = {**array.__array_interface__, "data": (address, False)}


def dtype_of(x: Any, name: str) -> DType:
    """The dtype of an array of JAX.

    Args:
        x: the array, or its shape and dtype.
        name: of the function, for errors.

    Raises:
        InvalidArgumentError: trainkit has no such dtype.
    """
    # Keys of random numbers have a dtype that NumPy has not.
    dtype = BY_NUMPY.get(np.dtype(x.dtype)) if isinstance(x.dtype, np.dtype) else None
    if dtype is None:
        raise InvalidArgumentError(
            f"{name}: an array has dtype {x.dtype}, which trainkit has not; convert it with "
            "x.astype() first"
        )
    return dtype


def tensor_of(x: Any, name: str) -> Tensor:
    """A tensor on the memory of an array of JAX, in row-major order.

    Raises:
        InvalidArgumentError: trainkit has no such dtype.
    """
    dtype = dtype_of(x, name)
    array = np.asarray(x)
    if array.flags.carray or not array.size:
        return wrap(array if array.flags.writeable else array.copy())
    # As bytes, since the interface has no word for bfloat16.
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return wrap(np.asarray(_UnlockedBytes(flat)).view(dtype.dtype).reshape(array.shape))
