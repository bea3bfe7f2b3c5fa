"""Python numbers and arrays among the operands of an operation, beside tensors or alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trainkit.core import devices, dtypes
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.python_values import require_integers_fit


def first_tensor(inputs: Sequence[Any]) -> Tensor | None:
    """The tensor whose dtype and device numbers and lists take, `None` where there is none."""
    return next((x for x in inputs if isinstance(x, Tensor)), None)


def weak_fits(x: Any, like: Tensor) -> bool:
    """Whether the Python number `x` leaves the dtype of `like` as it is."""
    dtype = like.dtype
    if isinstance(x, int):
        return not dtype.is_bool
    return dtype.is_complex or (dtype.is_floating and isinstance(x, float))


def convert_first_array(ready: list[Any]) -> Tensor | None:
    """Put a tensor in the place of the first array of numbers, and return it."""
    for i, x in enumerate(ready):
        if isinstance(x, np.ndarray | np.generic) and x.dtype.kind in "biufcV":
            tensor = ready[i] = convert_to_tensor(x)
            return tensor
    return None


def number_beside(x: Any, like: Tensor | None) -> Tensor:
    """A Python number as a tensor, in the dtype to which it promotes with `like`."""
    if like is None:
        return convert_to_tensor(x)
    dtype = dtypes.result_type(like.dtype, x)
    require_integers_fit(x, dtype)
    # Beside the tensor, or the kernel would get arrays of two devices; a symbol is nowhere yet.
    where = devices.device_of(like._array) if type(like) is Tensor else devices.current()
    y = Tensor()
    y._array = devices.number_on(where.xp, x, dtype.dtype)
    return y
