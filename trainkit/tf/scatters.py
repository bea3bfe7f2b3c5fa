"""Entries of tensors raised and lowered by index, and lists of tensors."""

from __future__ import annotations

from typing import Any

from trainkit.core import nest
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.ops.scattering import scatter_max, scatter_min


def tensor_scatter_nd_max(tensor: Any, indices: Any, updates: Any, name: Any = None) -> Tensor:
    """`tensor` with entries at `indices` (n, k) raised to `updates` (n, ...)."""
    result: Tensor = scatter_max(
        convert_to_tensor(tensor), convert_to_tensor(indices), convert_to_tensor(updates)
    )
    return result


def tensor_scatter_nd_min(tensor: Any, indices: Any, updates: Any, name: Any = None) -> Tensor:
    """`tensor` with entries at `indices` (n, k) lowered to `updates` (n, ...)."""
    result: Tensor = scatter_min(
        convert_to_tensor(tensor), convert_to_tensor(indices), convert_to_tensor(updates)
    )
    return result


def identity_n(input: Any, name: Any = None) -> list[Tensor]:
    """A list of the tensors."""
    return [convert_to_tensor(x) for x in nest.flatten(input)]


def tuple_(tensors: Any, control_inputs: Any = None, name: Any = None) -> list[Any]:
    """A list of the tensors, all of them computed; `None`s stay.

    Args:
        tensors: what to list.
        control_inputs: computed already, since operations run in order.
        name: not kept.
    """
    return [x if x is None else convert_to_tensor(x) for x in tensors]
