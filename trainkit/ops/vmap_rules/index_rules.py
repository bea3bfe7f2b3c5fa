"""Batching rules for `x[key]` with index tensors among the key's items."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core.shapes import broadcast_dims
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.ops.core.vmap import (
    ItemStack,
    NoBatch,
    aligned,
    any_stacks,
    as_stack,
    stacked,
    transposed,
)
from trainkit.ops.indexing import index_keys
from trainkit.ops.indexing.dynamic_slice import _block, _slice, _slice_update, slice_like
from trainkit.ops.indexing.get_item import get_item_at, put_item_at
from trainkit.ops.indexing.index_keys import ALL, Key
from trainkit.ops.indexing.item_assignment import with_items


class _StackKey:
    """Where a key points in the stack, and how the axes of what is there lie.

    Args:
        dims: the shape of one value.
        key: as for one value.
        parts: the index tensors, a `ItemStack` where items have their own.
        count: how many items there are.

    Attributes:
        key: for the stack.
        parts: for the stack.
        rank: of what one item has there.
        order: of the axes of what the key picks from the stack, to have the items first.
    """

    def __init__(self, dims: Any, key: Key, parts: Any, count: int) -> None:
        key = index_keys.without_ellipsis(key, parts, dims)
        arrays = [parts[int(k[1:])] for k in key if index_keys.is_array(k, parts)]
        masks = [x for x in arrays if x.dtype.is_bool]
        shapes = [(None,) if x.dtype.is_bool else tuple(x.shape) for x in arrays]
        rank = len(broadcast_dims(*shapes, op="get_item")) if shapes else 0
        sliced = [k is None or type(k) is tuple for k in key]
        self.rank = sum(sliced) + rank
        self.parts = list(parts)
        if not any_stacks(parts):
            self.key: Key = (ALL, *key)
            first = bool(arrays) and not _adjacent(sliced)
            self.order = [rank, *range(rank), *range(rank + 1, self.rank + 1)] if first else []
            return
        if any(isinstance(x, ItemStack) and x.dtype.is_bool for x in parts) or masks:
            raise NoBatch  # masks pick as many elements as they have true ones
        if any(type(k) is tuple and any(type(b) is str for b in k) for k in key):
            raise NoBatch  # slices of other lengths
        self.parts = [aligned(x, rank) for x in parts]
        numbers = np.arange(count).reshape(count, *(1,) * rank)
        self.key = (f"@{len(parts)}", *key)
        self.parts.append(convert_to_tensor(numbers))
        # All index arrays now come first; between slices they stood where the first one does.
        before = sliced.index(False) if _adjacent(sliced) else 0
        self.order = [0, *range(rank + 1, rank + 1 + before), *range(1, rank + 1)]
        self.order += range(rank + 1 + before, self.rank + 1)

    def to_items(self, picked: Tensor) -> Tensor:
        """What the key picks from the stack, with the items first."""
        return transposed(picked, self.order) if self.order else picked

    def from_items(self, values: Tensor) -> Tensor:
        """Values with the items first, as they lie in what the key picks."""
        return transposed(values, np.argsort(self.order).tolist()) if self.order else values


def _adjacent(sliced: list[bool]) -> bool:
    """Whether the items of a key that are no slices stand side by side."""
    positions = [i for i, s in enumerate(sliced) if not s]
    return positions[-1] - positions[0] == len(positions) - 1


@get_item_at.batch_by
def _pick(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    x, *parts = inputs
    stack_key = _StackKey(x.shape, settings["key"], parts, count)
    return stack_key.to_items(primitive.op(stacked(x, count), *stack_key.parts, key=stack_key.key))


@put_item_at.batch_by
def _put(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    g, x, *parts = inputs
    stack_key = _StackKey(x.shape, settings["key"], parts, count)
    values = stack_key.from_items(stacked(g, count))
    return primitive.op(values, stacked(x, count), *stack_key.parts, key=stack_key.key)


@with_items.batch_by
def _replace(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    x, value, *parts = inputs
    stack_key = _StackKey(x.shape, settings["key"], parts, count)
    values = stack_key.from_items(as_stack(value, stack_key.rank, count))
    return primitive.op(stacked(x, count), values, *stack_key.parts, key=stack_key.key)


# ------------------------------------------------------------------ blocks


@_slice.batch_by
@slice_like.batch_by
@_slice_update.batch_by
def _blocks(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    """A block of the stack, or positions in it where the items' blocks begin at other places."""
    start = settings["start"]
    live = inputs[len(inputs) - sum(a is None for a in start) :]
    stacks = [stacked(x, count) for x in inputs[: len(inputs) - len(live)]]
    if not any_stacks(live):
        more = {"sizes": (count, *settings["sizes"])} if "sizes" in settings else {}
        return primitive.op(*stacks, *live, start=(0, *start), **more)
    sizes = settings["sizes"] if "sizes" in settings else inputs[1].shape
    starts = _starts(start, [stacked(x, count) for x in live], count)
    parts = _block_positions(primitive.name, inputs[0].shape, starts, sizes)
    key = tuple(f"@{i}" for i in range(len(parts)))
    if primitive is _slice_update.primitive:
        return with_items(*stacks, *parts, key=key)
    return get_item_at(stacks[0], *parts, key=key)


def _starts(start: Any, live: list[Tensor], count: int) -> Any:
    """Where the items' blocks begin, (count, axes)."""
    if any(type(x) is not Tensor for x in live):
        raise NoBatch  # they have no values yet, so nothing can tell whether they fit
    own = iter(live)
    columns = [next(own).numpy() if a is None else np.full(count, a) for a in start]
    return np.stack(columns, axis=1)


def _block_positions(op: str, dims: Any, starts: Any, sizes: Any) -> list[Tensor]:
    """Index tensors for the block of each item: of the items, then along each axis.

    Raises:
        ShapeError: a block reaches outside.
    """
    blocks = [_block(dims, row, sizes, op) for row in starts.tolist()]
    lengths = [piece.stop - piece.start for piece in blocks[0]]
    if any([p.stop - p.start for p in block] != lengths for block in blocks):
        raise NoBatch  # what is left behind different places has different sizes
    rank = len(lengths)
    parts = [np.arange(len(starts)).reshape(-1, *(1,) * rank)]
    for axis, n in enumerate(lengths):
        line = np.arange(n).reshape(-1, *(1,) * (rank - axis - 1))
        parts.append(starts[:, axis].reshape(-1, *(1,) * rank) + line)
    return [convert_to_tensor(part) for part in parts]
