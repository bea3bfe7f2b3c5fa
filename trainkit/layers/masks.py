"""Masks that travel with tensors: which time steps a later layer is to skip.

They are held beside the tensors, in a table that forgets a mask together with its tensor.
"""

from __future__ import annotations

import weakref
from typing import Any

from trainkit.core import nest
from trainkit.core.tensor import Tensor

HELD: dict[int, tuple[Any, Any]] = {}
"""Weak reference and mask by the `id` of the tensor; empty while no layer makes masks."""


def set_mask(x: Any, mask: Any) -> None:
    """Let `mask`, a bool tensor or `None`, travel with the tensor `x`."""
    if not isinstance(x, Tensor):
        return
    key = id(x)
    if mask is None:
        HELD.pop(key, None)
        return
    HELD[key] = (weakref.ref(x, lambda _: HELD.pop(key, None)), mask)


def mask_of(x: Any) -> Any:
    """The mask that travels with `x`, or `None`."""
    held = HELD.get(id(x))
    return held[1] if held is not None and held[0]() is x else None


def masks_of(inputs: Any) -> Any:
    """The masks of nested tensors; `None` alone when none of them has one."""
    if isinstance(inputs, Tensor):
        return mask_of(inputs)
    masks = nest.map_structure(mask_of, inputs)
    return masks if any(m is not None for m in nest.flatten(masks)) else None
