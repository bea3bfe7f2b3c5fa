"""Rows of a table by number, and the gradient that adds rows up by number."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import INDEXING, SHAPE, Tuned
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.process.later_imports import DeferredModule
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.kernels.elementwise.half_casts_tuned import with_float16
from trainkit.kernels.embedding import embedding_tuned
from trainkit.kernels.embedding.row_gradient import RowGradient, pays
from trainkit.kernels.embedding.scatter_reference import scatter_at
from trainkit.ops.arrays.shaping import as_tensor
from trainkit.ops.core.vmap import ItemStack, moved, reshaped, stacked
from trainkit.ops.indexing.gathering import take_on_gpu
from trainkit.ops.vmap_rules.gather_rules import of_all_items
from trainkit.ops.vmap_rules.shared_rules import blank

rows_gpu = DeferredModule("trainkit.kernels.indexing.rows_gpu")


def _lookup_rule(table: Spec, ids: Spec) -> Spec:
    if not ids.dtype.is_integer:
        raise InvalidArgumentError(f"embedding_lookup: ids must be integers, not {ids.dtype.name}")
    if len(table.shape) == 0:
        raise InvalidArgumentError("embedding_lookup: the table must have an axis of rows")
    return Spec((*ids.shape, *table.shape[1:]), table.dtype)


def check_ids(ids: Array, rows: int) -> None:
    """Raise unless all ids are in [0, rows).

    Raises:
        InvalidArgumentError: names the first id that is not, and its place.
    """
    if ids.size and not (ids.min() >= 0 and ids.max() < rows):
        index = np.argwhere(np.asarray((ids < 0) | (ids >= rows)).reshape(ids.shape))[0]
        at = ", ".join(map(str, index))
        raise InvalidArgumentError(
            f"embedding_lookup: ids[{at}] = {ids[tuple(index)]} is not in [0, {rows}): the table "
            f"has {rows} rows"
        )


@primitive(_lookup_rule, name="embedding_lookup", semantics=INDEXING, memory="fresh")
def _lookup(xp: ArrayModule, table: Array, ids: Array) -> Array:
    """Row `ids[...]` of `table` for each id."""
    if ids.dtype.kind not in "iu" or not table.ndim:
        raise ValueError("ids do not fit")  # the shape rule has the words
    if xp is not np:
        return take_on_gpu(xp, table, ids, 0, wrap=False)
    check_ids(ids, table.shape[0])
    return np.take(table, ids, axis=0)


@with_float16
def _compiled_gradient(g: Array, ids: Array, table: Array) -> Array | None:
    sums = embedding_tuned.sum_by_id(g, ids, table.shape[0])
    if sums is None:
        return None
    check_ids(ids.reshape(-1), table.shape[0])
    return sums.reshape(table.shape)


@primitive(
    lambda g, ids, table: Spec(table.shape, g.dtype),
    name="embedding_gradient",
    semantics=INDEXING,
    reads={2: SHAPE},
    tuned=Tuned(_compiled_gradient),
)
def embedding_gradient(xp: ArrayModule, g: Array, ids: Array, table: Array) -> Array:
    """Rows of `g` added up by their id, in the shape of `table`."""
    flat = ids.reshape(-1)
    rows = g.reshape(flat.shape[0], math.prod(table.shape[1:]))
    if xp is not np:  # what has no row of its own goes to a row more, which is left out
        count = table.shape[0]
        result = xp.zeros((count, rows.shape[1]), g.dtype)
        if rows_gpu.add_rows(xp, result, flat, rows, wrap=False):
            return result.reshape(table.shape)
        result = xp.zeros((count + 1, rows.shape[1]), g.dtype)
        scatter_at(xp, "add", result, xp.where((flat >= 0) & (flat < count), flat, count), rows)
        return result[:count].reshape(table.shape)
    check_ids(flat, table.shape[0])
    return _summed_by_id(rows, flat, table.shape[0]).reshape(table.shape)


def lookup_gradient(g: Array, ids: Array, table: Array) -> Any:
    """What `embedding_gradient` gives, or a `RowGradient`, for an optimizer's step in a program."""
    if g.dtype is not table.dtype or not pays(table, ids.size):
        return embedding_gradient.primitive.kernel(np, g, ids, table)
    flat, shape = ids.reshape(-1), table.shape
    rows = g.reshape(flat.shape[0], math.prod(shape[1:]))
    run = embedding_tuned.sum_kernel(rows, shape[0])
    if run is None:
        return embedding_gradient.primitive.body(np, g, ids, table)
    check_ids(flat, shape[0])
    return RowGradient(rows, flat, shape, functools.partial(embedding_tuned.add_up, run))


def _summed_by_id(rows: Array, ids: Array, count: int) -> Array:
    """Rows sorted by id, then each run of equal ids summed in one go."""
    sum_dtype = np.float32 if rows.dtype.itemsize < 4 else rows.dtype
    result = np.zeros((count, rows.shape[1]), rows.dtype)
    if not ids.size:
        return result
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    result[ordered[starts]] = np.add.reduceat(
        rows[order].astype(sum_dtype, copy=False), starts, axis=0
    )
    return result


_lookup.gradients(lambda g, y, table, ids: embedding_gradient(g, ids, table), None)
_lookup.declare(stackable=True)
embedding_gradient.gradients(lambda gg, y, g, ids, table: _lookup(gg, ids), None, None)


@_lookup.batch_by
def _lookup_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    table, ids = inputs
    if not isinstance(table, ItemStack):
        return primitive.op(table, ids.stacked)
    if not isinstance(ids, ItemStack):
        rows = moved(table.stacked, 0, 1)
        return moved(primitive.op(rows, ids), len(ids.shape), 0)
    n: Any = table.shape[0]
    where_ = of_all_items(ids, n, count, "embedding_lookup", "GatherV2", 0)
    return primitive.op(reshaped(table.stacked, (count * n, *table.shape[1:])), where_)


@embedding_gradient.batch_by
def _embedding_gradient_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    g, ids, table = inputs
    n, row_dims = table.shape[0], tuple(table.shape[1:])
    rank = len(ids.shape)
    g = stacked(g, count)
    if not isinstance(ids, ItemStack):
        by_rows = primitive.op(moved(g, 0, rank), ids, blank((n, count, *row_dims), table))
        return moved(by_rows, 1, 0)
    where_ = of_all_items(ids, n, count, "embedding_lookup", "GatherV2", 0)
    return reshaped(
        primitive.op(g, where_, blank((count * n, *row_dims), table)), (count, n, *row_dims)
    )


def embedding_lookup(params: TensorLike, ids: Any) -> Tensor:
    """Row `ids[...]` of a table for each id; the gradient adds rows up by their id.

    Args:
        params: the table, (rows, ...).
        ids: integers in [0, rows), of any shape.

    Returns:
        (ids.shape..., ...), in the dtype of `params`.

    Raises:
        InvalidArgumentError: an id is not in [0, rows) (a GPU gives 0 there), or ids are no
            integers.

    >>> embedding_lookup([[1.0, 2.0], [3.0, 4.0]], [1, 1, 0]).shape.as_list()
    [3, 2]
    """
    rows: Tensor = _lookup(as_tensor(params), as_tensor(ids))
    return rows
