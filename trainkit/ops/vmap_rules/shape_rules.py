"""Batching rules of operations that make, shape, transpose and repeat tensors."""

from __future__ import annotations

from typing import Any

from trainkit.ops.arrays.axes import _transpose
from trainkit.ops.arrays.creation import _fill, _full_like
from trainkit.ops.arrays.pad_and_roll import _pad, _roll, pad_sum
from trainkit.ops.arrays.ranges import _linspace
from trainkit.ops.arrays.shaping import _reshape, _size, reshape_sized, shape_tensor
from trainkit.ops.arrays.tile_and_repeat import _tile, tile_sized, tile_sum, tile_sum_sized
from trainkit.ops.core.vmap import (
    SameForAll,
    aligned,
    any_stacks,
    as_stack,
    later,
    reshaped,
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


def _of_items(repeats: Any, rank: int) -> Any:
    """The repeats for a stack of values of `rank` axes."""
    return (1, *(1,) * (rank - len(repeats)), *repeats)


@_tile.batch_by
@tile_sized.batch_by
def _tiles(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    """`tile`, whose repeats get a one for the items; sizes that are inputs must be shared."""
    x, *sizes = inputs
    if any_stacks(sizes):
        return NotImplemented
    rank = max(len(x.shape), len(settings["repeats"]))
    return primitive.op(aligned(x, rank), *sizes, repeats=_of_items(settings["repeats"], rank))


@tile_sum.batch_by
@tile_sum_sized.batch_by
def _tile_sums(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    """The sums of the copies that `tile` made, likewise."""
    g, *others = inputs
    full, like = len(g.shape), others[:1]
    if any_stacks(others[1:]):
        return NotImplemented
    more = {"rank": full + 1} if "rank" in settings else {}
    rank = settings["rank"] if more else len(like[0].shape)
    stacks = [stacked(x, count) for x in (g, *like)]
    ones = [reshaped(x, (count, *(1,) * (full - rank), *tuple(x.shape)[1:])) for x in stacks[1:]]
    repeats = _of_items(settings["repeats"], full)
    y = primitive.op(stacks[0], *ones, *others[1:], repeats=repeats, **more)
    return reshaped(y, (count, *tuple(y.shape)[1 + full - rank :]))


@_roll.batch_by
def _roll_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    stack, axis = inputs[0].stacked, settings["axis"]
    if axis is None:
        flat = reshaped(stack, (count, -1))
        rolled = primitive.op(flat, shift=settings["shift"], axis=1)
        return reshaped(rolled, tuple(stack.shape))
    axes = tuple(map(later, axis)) if isinstance(axis, tuple) else later(axis)
    return primitive.op(stack, shift=settings["shift"], axis=axes)


_in_the_middle = with_settings(lambda s, rank, count: {"pad_width": ((0, 0), *s["pad_width"])})
_pad.batch_by(_in_the_middle)
pad_sum.batch_by(_in_the_middle)
