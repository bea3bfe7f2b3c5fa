"""The bits of tensors read as another element type."""

from __future__ import annotations

from typing import Any

from trainkit.core import dtypes
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.ops.arrays.axes import expand_dims, squeeze
from trainkit.ops.arrays.conversion import view
from trainkit.ops.arrays.shaping import reshape


def bitcast(input: TensorLike, type: Any, name: str | None = None) -> Tensor:
    """The same bits read as another element type, without a gradient.

    Args:
        input: tensor (..., n).
        type: element type. One of half the size adds an axis of 2 behind, one of twice the size
            takes away a last axis of 2; and so on.

    Raises:
        InvalidArgumentError: the last axis does not fit the larger type, or a type has no bits.

    Example:
        >>> tk.bitcast([1.0], tk.int32).numpy()
        array([1065353216], dtype=int32)
    """
    x, target = convert_to_tensor(input), dtypes.as_dtype(type)
    if "string" in (x.dtype.name, target.name) or "bool" in (x.dtype.name, target.name):
        raise InvalidArgumentError(
            f"bitcast: from {x.dtype.name} to {target.name} is not possible; use numbers"
        )
    old, new = x.dtype.size, target.size
    if old > new:
        split = view(expand_dims(x, -1), target)
        return reshape(split, (*x.shape, old // new))
    if old < new:
        if len(x.shape) == 0 or x.shape[-1] != new // old:
            raise InvalidArgumentError(
                f"bitcast: from {x.dtype.name} to {target.name} the last axis must have size "
                f"{new // old}, the shape is {tuple(x.shape)}"
            )
        return squeeze(view(x, target), -1)
    return view(x, target)
