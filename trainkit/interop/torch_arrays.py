"""Tensors of PyTorch as trainkit's and back: which memory both sides use, and what is copied.

A tensor of trainkit never changes, and one of PyTorch may be written to at any time. So memory goes
over without a copy in two cases alone. A tensor of PyTorch is lent for the length of a call, and
PyTorch's own count of writes is compared before a gradient uses it. And an array of trainkit that
nobody else holds is given away.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core.dispatch.ownership import sole_array
from trainkit.core.dtypes import bfloat16
from trainkit.core.errors import DeviceError, InvalidArgumentError
from trainkit.core.tensor import Tensor, wrap
from trainkit.ops.arrays.dlpack import from_dlpack

_BFLOAT16 = np.dtype(bfloat16.dtype)


class Holder:
    """The only name of a tensor, whose array can be given away if nothing else holds it.

    Attributes:
        _value: the tensor.
    """

    __slots__ = ("_value",)

    def __init__(self, value: Tensor) -> None:
        self._value = value


def tensor_from_torch(torch: Any, x: Any, name: str, copy: bool = False) -> Tensor:
    """A tensor of trainkit on the memory of one of PyTorch, or on a copy where layouts differ.

    Args:
        torch: the module.
        x: tensor of PyTorch. It must not be written to while the result is in use.
        name: of the function, for errors.
        copy: whether to copy in any case.

    Raises:
        DeviceError: it is not on the CPU.
        InvalidArgumentError: it is sparse, or its dtype has no counterpart.
    """
    if x.device.type != "cpu":
        raise DeviceError(
            f"{name}: a tensor is on the device {str(x.device)!r}, and functions of trainkit take "
            "those of the CPU here; call x.cpu() first"
        )
    if x.layout != torch.strided:
        raise InvalidArgumentError(
            f"{name}: a tensor has the layout {x.layout}; call x.to_dense() first"
        )
    x = x.detach().resolve_conj().resolve_neg().contiguous()
    is_bfloat16 = x.dtype == torch.bfloat16
    try:
        array = from_dlpack(x.view(torch.int16) if is_bfloat16 else x)._array
    except InvalidArgumentError as error:
        raise InvalidArgumentError(
            f"{name}: a tensor has dtype {x.dtype}, which trainkit has not; convert it with x.to() "
            f"first ({error})"
        ) from error
    array = array.view(_BFLOAT16) if is_bfloat16 else array
    return wrap(array.copy() if copy else array)


def torch_from_tensor(torch: Any, holder: Holder, name: str) -> Any:
    """A tensor of PyTorch with the values of one of trainkit, which PyTorch may write to.

    Args:
        torch: the module.
        holder: of the tensor. If it is the only one, its array is given away, else copied.
        name: of the function, for errors.

    Raises:
        InvalidArgumentError: its dtype has no counterpart.
        DeviceError: it is not on the CPU.
    """
    array = sole_array(holder)
    if not isinstance(array, np.ndarray) or not (
        array.flags.writeable and array.flags.c_contiguous
    ):
        array = holder._value._array
        if not isinstance(array, np.ndarray | np.generic):
            raise DeviceError(
                f"{name}: a result is on {holder._value.device!r}; compute it on the CPU, inside "
                "`with tk.device('/cpu:0')`"
            )
        array = np.array(array, order="C")
    is_bfloat16 = array.dtype == _BFLOAT16
    try:
        tensor = torch.from_dlpack(array.view(np.int16) if is_bfloat16 else array)
    except (BufferError, TypeError, RuntimeError) as error:
        raise InvalidArgumentError(
            f"{name}: a result has dtype {holder._value.dtype.name}, which PyTorch has not; cast "
            f"it with tk.cast ({error})"
        ) from error
    return tensor.view(torch.bfloat16) if is_bfloat16 else tensor
