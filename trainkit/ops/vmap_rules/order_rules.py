"""Batching rules of operations that look for places, members and quantiles."""

from __future__ import annotations

from typing import Any

from trainkit.core import shapes
from trainkit.ops.arrays.searching import _isin, _searchsorted
from trainkit.ops.core.vmap import ItemStack, later, moved, reshaped, stacked
from trainkit.ops.math.statistics import _quantile, quantile_gather, quantile_spread


@_searchsorted.batch_by
def _search_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    """`searchsorted` for each item: one call, in which the sequence of an item is a row.

    A sequence of one axis that all items share is searched for all values as they are.
    """
    sequence, values = inputs
    if not isinstance(sequence, ItemStack) and len(sequence.shape) == 1:
        return primitive.op(sequence, values.stacked, **settings)
    lines, queries = stacked(sequence, count), stacked(values, count)
    if len(sequence.shape) == 1:
        queries = reshaped(queries, (count, -1))
    positions = primitive.op(lines, queries, **settings)
    return reshaped(positions, (count, *values.shape))


@_isin.batch_by
def _isin_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    x, members = inputs
    if isinstance(members, ItemStack):
        return NotImplemented  # each set is sorted by itself
    return primitive.op(x.stacked, members)


def _of_items(settings: dict[str, Any], rank: int) -> dict[str, Any]:
    axes = shapes.canonical_axes(settings["axis"], rank, "quantile")
    return {**settings, "axis": tuple(map(later, axes))}


@_quantile.batch_by
@quantile_gather.batch_by
def _quantile_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    """Several quantiles have an axis of their own, in front of that of the items."""
    rank = len(inputs[0].shape)
    y = primitive.op(*[stacked(x, count) for x in inputs], **_of_items(settings, rank))
    return moved(y, 1, 0) if type(settings["q"]) is tuple else y


@quantile_spread.batch_by
def _quantile_spread_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    g, x = (stacked(x, count) for x in inputs)
    g = moved(g, 0, 1) if type(settings["q"]) is tuple else g
    return primitive.op(g, x, **_of_items(settings, len(inputs[1].shape)))
