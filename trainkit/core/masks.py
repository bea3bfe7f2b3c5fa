"""Masks that travel with tensors: which time steps or values a later layer or loss is to skip.

A mask is `tensor._keras_mask`, as in Keras. Those of tensors with values are held in a table beside
them, which forgets a mask together with its tensor: while it is empty, nobody needs to look. A
symbolic tensor holds its own.
"""

from __future__ import annotations

import weakref
from typing import Any

from trainkit.core import nest
from trainkit.core.dispatch import trace_state

HELD: dict[int, tuple[Any, Any]] = {}
"""Weak reference and mask by the `id` of the tensor; empty while no tensor with a value has one."""


def any_held() -> bool:
    """Whether any tensor that could come up here has a mask."""
    return bool(HELD) or bool(trace_state.THREAD.traces)


def set_mask(x: Any, mask: Any) -> None:
    """Let `mask`, a bool tensor, travel with the tensor `x`; `None` takes its mask away.

    What is no tensor has no mask.
    """
    hold = getattr(type(x), "_hold_mask", None)
    if hold is not None:
        hold(x, mask)


def mask_of(x: Any) -> Any:
    """The mask that travels with `x`, or `None`."""
    entry = HELD.get(id(x))
    if entry is not None:
        return entry[1] if entry[0]() is x else None
    return getattr(x, "_own_mask", None)


def masks_of(inputs: Any) -> Any:
    """The masks of nested tensors, nested like them, `None` where one has none."""
    if isinstance(inputs, list | tuple | dict):
        return nest.map_structure(mask_of, inputs)
    return mask_of(inputs)


def hold(x: Any, mask: Any) -> None:
    """Put the mask of a tensor with a value into the table."""
    key = id(x)
    if mask is None:
        HELD.pop(key, None)
        return
    HELD[key] = (weakref.ref(x, lambda _: HELD.pop(key, None)), mask)
