"""Casts between the dtype in which weights are kept and that in which a layer computes."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core import masks, nest
from trainkit.core.dtypes import DType
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor
from trainkit.core.variable import Variable
from trainkit.layers.base.call_spec import FRAME
from trainkit.ops.math.elementwise import cast


class AutocastVariable(Variable):
    """A weight that layer calls read in the compute dtype of its layer, and all others as it is.

    Example:
        >>> layer = tk.layers.Dense(2, dtype="mixed_bfloat16")
        >>> y = layer(tk.ones((1, 3)))
        >>> layer.kernel.dtype.name, y.dtype.name
        ('float32', 'bfloat16')
    """

    compute_dtype: DType

    def _read(self) -> Tensor:
        value = super()._read()
        return value if FRAME.entry is None else cast(value, self.compute_dtype)


def to_input(x: Any, dtype: DType | None) -> Any:
    """An argument of a layer call as the layer sees it.

    Arrays and variables become tensors; floating tensors are cast to `dtype` unless it is `None`.
    All else stays.
    """
    if not isinstance(x, Tensor):
        # Arrays of objects and texts stay: layers that read text take them as they are.
        if isinstance(x, np.ndarray | np.generic) and x.dtype.kind not in "OUS":
            x = convert_to_tensor(x)
        elif is_tensor(x):
            x = x.value()
        elif hasattr(x, "iloc"):  # a table or column of pandas
            x = convert_to_tensor(x)
        else:
            return x
    if dtype is None or not x.dtype.is_floating or x.dtype == dtype:
        return x
    # The cast makes another tensor, and masks go by identity.
    y = cast(x, dtype)
    if masks.any_held():
        masks.set_mask(y, masks.mask_of(x))
    return y


def to_inputs(
    args: tuple[Any, ...], kwargs: dict[str, Any], dtype: DType | None
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """All arguments of a layer call, nested as they are, by `to_input`."""
    if _is_array_alone(args, kwargs):
        return (to_input(args[0], dtype),), kwargs

    def convert(x: Any) -> Any:
        return nest.map_structure(lambda leaf: to_input(leaf, dtype), x)

    return tuple(map(convert, args)), {name: convert(x) for name, x in kwargs.items()}


def _is_array_alone(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether one array of NumPy is all that there is to look at, as often in a loop by hand."""
    if len(args) != 1 or type(args[0]) is not np.ndarray:
        return False
    return not kwargs or (len(kwargs) == 1 and type(kwargs.get("training")) is bool)


def first_input(x: Any) -> Any:
    """A nested list of numbers as one tensor; all else as it is."""
    if isinstance(x, list | tuple) and x:
        # A list of tensors is several inputs; only one of plain numbers means an array.
        leaves = nest.flatten(x)
        if leaves and all(isinstance(leaf, int | float) for leaf in leaves):
            return convert_to_tensor(x)
    return x


def symbol_in(args: Any, kwargs: Any) -> Any:
    """The first argument leaf that hands layer calls over to a model being drawn up, or `None`."""
    if _is_array_alone(args, kwargs):
        return None
    for leaf in nest.flatten((args, kwargs)):
        if isinstance(leaf, SymbolicTensor) and hasattr(type(leaf), "apply_layer"):
            return leaf
    return None
