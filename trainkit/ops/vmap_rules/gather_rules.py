"""Batching rules for picking by position, and for adding to positions.

Where each item has positions of its own, all items are one longer axis, and positions of item i go
up by i times the size of an item's axis; or rows of positions get the number of the item in front.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core import devices
from trainkit.core.dispatch import late_ops
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.ops.core.vmap import (
    ItemStack,
    NoBatch,
    in_front,
    later,
    moved,
    reshaped,
    stacked,
    transposed,
)
from trainkit.ops.indexing.gathering import (
    _take,
    _take_along_axis,
    check_range,
    gather_nd,
    gather_nd_sum,
    take_along_axis_sum,
    take_sum,
)
from trainkit.ops.math.comparisons import greater_equal, less, logical_and
from trainkit.ops.math.elementwise import add, cast, where
from trainkit.ops.vmap_rules.shared_rules import blank


def of_all_items(
    positions: Any, size: int | None, count: int, op: str, tf_op: str, low: int
) -> Tensor:
    """Positions of each item (count, ...) along one axis that holds all items.

    Args:
        positions: of one item, in [low, size); negative ones count from the end.
        size: of an item's axis.
        count: how many items there are.
        op: the operation, for errors.
        tf_op: as TensorFlow calls it.
        low: the least position.

    Raises:
        InvalidArgumentError: one is outside. On a GPU and in a graph it stays outside.
    """
    if size is None:
        raise NoBatch
    own = cast(stacked(positions, count), "int64")
    check_now(own, size, low, op, tf_op)
    inside = logical_and(greater_equal(own, low), less(own, size))
    first = np.arange(count, dtype=np.int64).reshape(count, *(1,) * len(positions.shape)) * size
    if low:
        own = where(less(own, 0), add(own, size), own)
    flat_positions: Tensor = where(inside, add(own, first), np.int64(count * size))
    return flat_positions


def check_now(positions: Tensor, size: int, low: int, op: str, tf_op: str) -> None:
    """`check_range` of positions that have values now."""
    if type(positions) is Tensor:
        array = positions._array
        check_range(devices.XP_OF[type(array)], array, size, low, op, tf_op)


# ------------------------------------------------------------------ along one axis


def _lowest_index(settings: dict[str, Any], size: int | None) -> int:
    return -(size or 0) if settings.get("wrap", True) else 0


@_take.batch_by
def _take_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    x, indices = inputs
    rank, index_rank = len(x.shape), len(indices.shape)
    axis = settings["axis"] % rank
    if not isinstance(indices, ItemStack):
        return primitive.op(x.stacked, indices, **{**settings, "axis": axis + 1})
    if not isinstance(x, ItemStack):
        return moved(primitive.op(x, indices.stacked, **{**settings, "axis": axis}), axis, 0)
    n = x.shape[axis]
    rows = moved(x.stacked, axis + 1, 1)
    if n is None:
        return NotImplemented
    rows = reshaped(rows, (count * n, *tuple(rows.shape)[2:]))
    where_ = of_all_items(indices, n, count, "take", "GatherV2", _lowest_index(settings, n))
    y = primitive.op(rows, where_, **{**settings, "axis": 0})
    return transposed(y, _axis_order(axis, rank, index_rank))


def _axis_order(axis: int, rank: int, index_rank: int) -> list[int]:
    """The order of the axes (items, picks..., others...) that has the picks at `axis`."""
    others = [1 + index_rank + i for i in range(rank - 1)]
    return [0, *others[:axis], *range(1, 1 + index_rank), *others[axis:]]


@take_sum.batch_by
def _take_sum_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    g, indices, x = inputs
    rank, index_rank = len(x.shape), len(indices.shape)
    axis = settings["axis"] % rank
    g = stacked(g, count)
    if not isinstance(indices, ItemStack):
        return primitive.op(g, indices, stacked(x, count), **{**settings, "axis": axis + 1})
    n = x.shape[axis]
    where_ = of_all_items(indices, n, count, "take", "GatherV2", _lowest_index(settings, n))
    other_dims = (*x.shape[:axis], *x.shape[axis + 1 :])
    rows = transposed(g, np.argsort(_axis_order(axis, rank, index_rank)).tolist())
    like = blank((count * n, *other_dims), x)
    y = primitive.op(rows, where_, like, **{**settings, "axis": 0})
    return moved(reshaped(y, (count, n, *other_dims)), 1, axis + 1)


@_take_along_axis.batch_by
def _along_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    x, indices = map(in_front, inputs)
    return primitive.op(x, indices, axis=later(settings["axis"]))


@take_along_axis_sum.batch_by
def _along_sum_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    g, indices, x = inputs
    stacks = stacked(g, count), in_front(indices), stacked(x, count)
    return primitive.op(*stacks, axis=later(settings["axis"]))


# ------------------------------------------------------------------ by rows of positions


def numbered(indices: Any, count: int) -> Tensor:
    """Rows of positions (count, ..., k + 1) with the number of the item in front."""
    rows = stacked(indices, count)
    numbers = np.arange(count, dtype=rows.dtype.dtype).reshape(count, *(1,) * len(indices.shape))
    dims = tuple(-1 if n is None else n for n in rows.shape[:-1])
    if dims.count(-1):
        raise NoBatch
    first = convert_to_tensor(np.broadcast_to(numbers, (*dims, 1)).copy())
    numbered_rows: Tensor = late_ops.concatenate(first, rows, axis=-1)
    return numbered_rows


@gather_nd.batch_by
def _gather_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    x, indices = inputs
    if not isinstance(x, ItemStack):
        return primitive.op(x, indices.stacked)
    return primitive.op(x.stacked, numbered(indices, count))


@gather_nd_sum.batch_by
def _gather_sum_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    g, indices, x = inputs
    return primitive.op(stacked(g, count), numbered(indices, count), stacked(x, count))
