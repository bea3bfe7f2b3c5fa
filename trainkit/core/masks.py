"""Masks that travel with tensors: which time steps, or which values, are to be left out.

They are held beside the tensors, in a table that forgets a mask together with its tensor. The masks
of symbolic tensors belong to the graph being traced: a mask of the graph keeps the tensor alive, so
one table for all would keep every graph.
"""

from __future__ import annotations

import weakref
from typing import Any

from trainkit.core import nest, recorder
from trainkit.core.tensor import Tensor

HELD: dict[int, tuple[Any, Any]] = {}
"""Weak reference and mask by the `id` of the tensor; empty while no layer makes masks."""

_NAME = "_layer_masks"


def any_held() -> bool:
    """Whether any tensor that could come up here has a mask."""
    return bool(HELD) or any(_NAME in trace.__dict__ for trace in recorder.THREAD.traces)


def set_mask(x: Any, mask: Any) -> None:
    """Let `mask`, a bool tensor or `None`, travel with the tensor `x`."""
    if type(x) is Tensor:
        _hold(HELD, x, mask)
        return
    trace = recorder.current_trace()
    if isinstance(x, Tensor) and trace is not None:
        _hold(trace.__dict__.setdefault(_NAME, {}), x, mask)


def _hold(table: dict[int, tuple[Any, Any]], x: Tensor, mask: Any) -> None:
    key = id(x)
    if mask is None:
        table.pop(key, None)
        return
    table[key] = (weakref.ref(x, lambda _: table.pop(key, None)), mask)


def mask_of(x: Any) -> Any:
    """The mask that travels with `x`, or `None`."""
    if type(x) is Tensor:
        tables = [HELD]
    else:
        tables = [trace.__dict__.get(_NAME, {}) for trace in recorder.THREAD.traces]
    for table in tables:
        held = table.get(id(x))
        if held is not None and held[0]() is x:
            return held[1]
    return None


def masks_of(inputs: Any) -> Any:
    """The masks of nested tensors; `None` alone when none of them has one."""
    if isinstance(inputs, Tensor):
        return mask_of(inputs)
    masks = nest.map_structure(mask_of, inputs)
    return masks if any(m is not None for m in nest.flatten(masks)) else None
