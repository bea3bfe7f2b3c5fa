"""Operators that look up, write and order elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core.dtypes import int64
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.onnx.imported_values import (
    axis_of,
    dims,
    known_array,
    live_sizes,
    numbers,
    rank,
    tensor,
)
from trainkit.onnx.operator_rules import NodeCall, onnx_rule
from trainkit.ops.core.dynamic_shapes import needs_values

_PLAIN, _REDUCTIONS = "none", "none,add,mul,min,max".split(",")


@onnx_rule("Gather")
def _gather(call: NodeCall, x: Any, indices: Any) -> Tensor:
    axis = axis_of(call.int("axis", 0), rank(x))
    array = known_array(indices)
    if array is not None and array.ndim == 0:
        return tensor(x)[(*[slice(None)] * axis, int(array))]
    return ops.take(tensor(x), tensor(indices), axis=axis)


@onnx_rule("GatherElements")
def _gather_elements(call: NodeCall, x: Any, indices: Any) -> Tensor:
    axis = axis_of(call.int("axis", 0), rank(x))
    shape, index_shape = list(dims(x)), dims(indices)
    cut = [slice(None)] * len(shape)
    for i, (n, m) in enumerate(zip(shape, index_shape, strict=True)):
        if i != axis and m is not None and m != n:
            cut[i] = slice(0, m)
    return ops.take_along_axis(tensor(x)[tuple(cut)], tensor(indices), axis=axis)


@onnx_rule("GatherND")
def _gather_nd(call: NodeCall, x: Any, indices: Any) -> Tensor:
    batch = call.int("batch_dims", 0)
    y, positions = tensor(x), tensor(indices)
    if batch:
        shape = live_sizes(indices)
        grids = [
            ops.broadcast_to(_grid(n, i, len(shape), positions), (*shape[:-1], 1))
            for i, n in enumerate(shape[:batch])
        ]
        positions = ops.concatenate([*grids, positions], axis=-1)
    positions = _from_start(positions, live_sizes(y)[: positions.shape[-1]])
    return ops.gather_nd(y, positions)


def _grid(size: Any, axis: int, count: int, like: Tensor) -> Tensor:
    """The positions along an axis, in a shape that broadcasts."""
    steps = ops.cast(ops.arange(size), like.dtype)
    return ops.reshape(steps, (*[1] * axis, -1, *[1] * (count - axis - 1)))


def _from_start(positions: Tensor, sizes: Any) -> Tensor:
    """Positions counted from the front, where some are negative."""
    ends = ops.stack([ops.cast(n, positions.dtype) for n in sizes])
    return ops.where(ops.less(positions, 0), positions + ends, positions)


@onnx_rule("ScatterND")
def _scatter_nd(call: NodeCall, x: Any, indices: Any, updates: Any) -> Tensor:
    kind = call.one_of("reduction", "none", _REDUCTIONS)
    y, positions = tensor(x), tensor(indices)
    positions = _from_start(positions, live_sizes(y)[: positions.shape[-1]])
    return ops.scatter_update(
        y, positions, tensor(updates), reduction=None if kind == _PLAIN else kind
    )


@onnx_rule("ScatterElements", "Scatter")
def _scatter_elements(call: NodeCall, x: Any, indices: Any, updates: Any) -> Tensor:
    kind = call.one_of("reduction", "none", _REDUCTIONS)
    y, positions = tensor(x), tensor(indices)
    axis, shape = axis_of(call.int("axis", 0), rank(y)), live_sizes(indices)
    size = ops.cast(live_sizes(y)[axis], positions.dtype)
    positions = ops.where(ops.less(positions, 0), positions + size, positions)
    parts = []
    for i, n in enumerate(shape):
        parts.append(
            positions if i == axis else ops.broadcast_to(_grid(n, i, len(shape), positions), shape)
        )
    rows = ops.reshape(ops.stack(parts, axis=-1), (-1, len(shape)))
    values = ops.reshape(tensor(updates), (-1,))
    return ops.scatter_update(y, rows, values, reduction=None if kind == _PLAIN else kind)


@onnx_rule("ArgMax", "ArgMin")
def _arg(call: NodeCall, x: Any) -> Tensor:
    axis, y = axis_of(call.int("axis", 0), rank(x)), tensor(x)
    function = ops.argmax if call.op_type == "ArgMax" else ops.argmin
    keep = call.flag("keepdims", True)
    if call.flag("select_last_index"):
        size = ops.cast(live_sizes(y)[axis], "int64")
        index = size - 1 - ops.cast(function(ops.flip(y, axis), axis=axis, keepdims=keep), "int64")
        return ops.cast(index, "int64")
    return ops.cast(function(y, axis=axis, keepdims=keep), "int64")


@onnx_rule("TopK")
def _top_k(call: NodeCall, x: Any, k: Any = None) -> tuple[Tensor, Tensor]:
    (count,) = (call.int("k"),) if k is None else numbers(k, "k")
    axis, largest = axis_of(call.int("axis", -1), rank(x)), call.flag("largest", True)
    y = ops.moveaxis(tensor(x), axis, -1)
    if largest:
        _, positions = ops.top_k(y, count)
    else:
        positions = ops.argsort(y, axis=-1)[..., :count]
    picked = ops.take_along_axis(y, positions, axis=-1)
    return ops.moveaxis(picked, -1, axis), ops.cast(ops.moveaxis(positions, -1, axis), "int64")


@onnx_rule("NonZero")
def _non_zero(call: NodeCall, x: Any) -> Tensor:
    if rank(x) == 0:
        return ops.cast(ops.stack(ops.nonzero(ops.reshape(tensor(x), (1,))))[:0], "int64")
    return ops.cast(ops.stack(ops.nonzero(tensor(x))), "int64")


@onnx_rule("Compress")
def _compress(call: NodeCall, x: Any, condition: Any) -> Tensor:
    axis, mask = call.int("axis", None), tensor(condition)
    y = ops.reshape(tensor(x), (-1,)) if axis is None else tensor(x)
    (positions,) = ops.nonzero(mask)
    return ops.take(y, positions, axis=axis_of(axis or 0, rank(y)))


onnx_rule("CumSum")(lambda call, x, axis: _running(call, x, axis, ops.cumsum, 0))
onnx_rule("CumProd")(lambda call, x, axis: _running(call, x, axis, ops.cumprod, 1))


def _running(call: NodeCall, x: Any, axis: Any, total: Any, neutral: int) -> Tensor:
    (where,) = numbers(axis, "the axis")
    where, y = axis_of(where, rank(x)), tensor(x)
    reverse = call.flag("reverse")
    y = ops.flip(y, where) if reverse else y
    if call.flag("exclusive"):
        pairs = [(int(i == where), 0) for i in range(rank(y))]
        front = [slice(None)] * rank(y)
        front[where] = slice(0, -1)
        y = ops.pad(y[tuple(front)], pairs, "constant", ops.cast(neutral, y.dtype))
    y = ops.cast(total(y, axis=where), y.dtype)
    return ops.flip(y, where) if reverse else y


@onnx_rule("ReverseSequence")
def _reverse_sequence(call: NodeCall, x: Any, lengths: Any) -> Tensor:
    batch, time = call.int("batch_axis", 1), call.int("time_axis", 0)
    y = ops.moveaxis(tensor(x), (batch, time), (0, 1))
    y = reversed_rows(y, tensor(lengths))
    return ops.moveaxis(y, (0, 1), (batch, time))


def reversed_rows(y: Tensor, lengths: Tensor) -> Tensor:
    """(batch, steps, ...), of each row the first steps in reverse, as many as its length says."""
    steps = ops.shape(y)[1]
    positions = ops.cast(ops.arange(steps), "int64")[None, :]
    ends = ops.cast(lengths, "int64")[:, None]
    positions = ops.where(ops.less(positions, ends), ends - 1 - positions, positions)
    positions = ops.reshape(positions, (*ops.shape(positions), *[1] * (len(y.shape) - 2)))
    return ops.take_along_axis(y, ops.broadcast_to(positions, ops.shape(y)), axis=1)


@onnx_rule("Unique")
def _unique(call: NodeCall, x: Any) -> tuple[Any, ...]:
    y, axis = tensor(x), call.int("axis", None)
    axis = None if axis is None else axis_of(axis, rank(y))
    return tuple(_unique_parts(y, axis, call.flag("sorted", True)))


def _unique_specs(bound: dict[str, Any]) -> list[Spec]:
    x, axis = bound["x"], bound["axis"]
    shape = (None,) if axis is None else (*x.shape[:axis], None, *x.shape[axis + 1 :])
    return [Spec(shape, x.dtype), *[Spec((None,), int64)] * 3]


@needs_values("x", gives=_unique_specs)
def _unique_parts(x: Any, axis: int | None, is_sorted: bool) -> list[Tensor]:
    """Values, where each is first, which each element is, and how often it occurs."""
    values, first, inverse, counts = np.unique(
        np.asarray(x), return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    inverse = inverse.ravel()
    if not is_sorted:
        order = np.argsort(first)
        values = np.take(values, order, axis=0 if axis is None else axis)
        first, counts, inverse = first[order], counts[order], np.argsort(order)[inverse]
    positions = (n.astype(np.int64) for n in (first, inverse, counts))
    return [convert_to_tensor(part) for part in (values, *positions)]
