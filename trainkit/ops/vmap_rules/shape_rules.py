"""Batching rules of operations that make, shape, transpose and repeat tensors."""

from __future__ import annotations

from typing import Any

from trainkit.ops.arrays.creation import _fill, _full_like, _linspace
from trainkit.ops.arrays.shaping import (
    _reshape,
    _size,
    _transpose,
    reshape_sized,
    shape_tensor,
)
from trainkit.ops.core.vmap import (
    SameForAll,
    aligned,
    as_stack,
    later,
    stacked,
)
from trainkit.ops.vmap_rules.shared_rules import with_settings


def _order_of_items(settings: dict[str, Any], rank: int, count: int) -> dict[str, Any]:
    axes = settings.get("axes")
    order = range(rank)[::-1] if axes is None else [a % rank for a in axes]
    return {"axes": (0, *(a + 1 for a in order))}


_transpose.batch_by(with_settings(_order_of_items))


@shape_tensor.batch_by
def _shape_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    return SameForAll(primitive.op(inputs[0].stacked)[1:])


@_size.batch_by
def _size_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    return SameForAll(primitive.op(inputs[0].stacked) // count)


_in_front = with_settings(lambda s, rank, count: {"shape": (count, *s["shape"])}, shared=1)
_reshape.batch_by(_in_front)
reshape_sized.batch_by(_in_front)


@_fill.batch_by
def _fill_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    shape = settings["shape"]
    return primitive.op(aligned(inputs[0], len(shape)), shape=(count, *shape))


@_full_like.batch_by
def _full_like_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    x, value = inputs
    return primitive.op(stacked(x, count), as_stack(value, len(x.shape), count))


@_linspace.batch_by
def _linspace_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    rank = max(len(x.shape) for x in inputs)
    stacks = [as_stack(x, rank, count) for x in inputs]
    return primitive.op(*stacks, **{**settings, "axis": later(settings["axis"])})
