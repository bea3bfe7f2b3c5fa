"""TensorFlow's top-level functions that take parts of arrays, put them elsewhere, or sort them.

Each takes TensorFlow's argument names, and `name`, which is not kept.
"""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core import dtypes, nest
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import Spec, TensorShape, broadcast_dims
from trainkit.core.tensor import PRIMITIVES, SymbolicTensor, Tensor, convert_to_tensor, is_tensor
from trainkit.ops.later import Bound, is_later, later, like, needs_values, rows, unknown
from trainkit.tf.arrays import plain


@needs_values("begin", "size", gives=lambda a: unknown(a["input_"]))
def slice(input_: Any, begin: Any, size: Any, name: Any = None) -> Tensor:
    """The block that starts at `begin` and has the sizes `size`, -1 for all that is left."""
    x = convert_to_tensor(input_)
    starts, sizes = plain(begin), plain(size)
    index = tuple(
        builtins.slice(b, None if n == -1 else b + n) for b, n in zip(starts, sizes, strict=True)
    )
    piece: Tensor = x[index]
    return piece


def strided_slice(
    input_: Any,
    begin: Any,
    end: Any,
    strides: Any = None,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    var: Any = None,
    name: Any = None,
) -> Tensor:
    """`input_[begin:end:strides]` along the first axes.

    Args:
        input_: tensor of any shape.
        begin: first position along each axis.
        end: position after the last.
        strides: steps, 1 by default.
        begin_mask: bit i leaves `begin[i]` out.
        end_mask: bit i leaves `end[i]` out.
        ellipsis_mask: bit i makes entry i stand for all axes that are not named.
        new_axis_mask: bit i makes entry i a new axis.
        shrink_axis_mask: bit i takes the one position `begin[i]`, and its axis goes away.
        var: only `None`.
        name: not kept.

    Raises:
        ValueError: `var` is given.
        InvalidArgumentError: a position or the number of entries does not fit.
    """
    if var is not None:
        raise ValueError("strided_slice: only var=None is supported; assign to the variable")
    starts, stops = plain(begin), plain(end)
    steps = plain(strides) or (1,) * len(starts)
    key: list[Any] = []
    for i, (start, stop, step) in enumerate(zip(starts, stops, steps, strict=True)):
        bit = 1 << i
        if ellipsis_mask & bit:
            key.append(Ellipsis)
        elif new_axis_mask & bit:
            key.append(None)
        elif shrink_axis_mask & bit:
            key.append(start)
        else:
            first = None if begin_mask & bit else start
            key.append(builtins.slice(first, None if end_mask & bit else stop, step))
    piece: Tensor = convert_to_tensor(input_)[tuple(key)]
    return piece


def gather(
    params: Any,
    indices: Any,
    validate_indices: Any = None,
    axis: Any = None,
    batch_dims: int = 0,
    name: Any = None,
) -> Tensor:
    """Items of `params` at `indices` along `axis`.

    Args:
        params: tensor.
        indices: integers in [0, size of the axis).
        validate_indices: indices are always checked.
        axis: by default the first after the batch axes.
        batch_dims: how many leading axes `params` and `indices` share.
        name: not kept.

    Raises:
        InvalidArgumentError: an index is out of range.
    """
    params, indices = convert_to_tensor(params), convert_to_tensor(indices)
    if type(axis) is not int and is_later(axis):
        rank = len(params.shape) + len(indices.shape) - 1 - _batch_axes(batch_dims, indices)
        spec = Spec((None,) * rank, params.dtype)
        bound = {"params": params, "indices": indices, "axis": axis, "batch_dims": batch_dims}
        result: Tensor = later(gather, bound, spec)
        return result
    batch = _batch_axes(batch_dims, indices)
    axis = plain(batch if axis is None else axis)
    if not batch:
        return ops.gather(params, indices, axis=axis)
    axis = axis if axis >= 0 else len(params.shape) + axis
    # Rows of all batch entries stand one after the other; an offset picks out the right ones.
    lead = tuple(params.shape[:batch])
    moved = ops.moveaxis(params, axis, batch)
    n = moved.shape[batch]
    count = int(np.prod(lead))
    flat = ops.reshape(moved, (count * n, *moved.shape[batch + 1 :]))
    if not isinstance(indices, SymbolicTensor):
        _check_range(indices, n)
    offsets = ops.reshape(ops.arange(count) * n, lead + (1,) * (len(indices.shape) - batch))
    picked = ops.take(flat, ops.cast(indices, "int64") + ops.cast(offsets, "int64"), axis=0)
    return ops.moveaxis(
        picked,
        tuple(builtins.range(len(indices.shape), len(indices.shape) + axis - batch)),
        tuple(builtins.range(batch, axis)),
    )


def _batch_axes(batch_dims: int, indices: Tensor) -> int:
    return int(batch_dims) if batch_dims >= 0 else len(indices.shape) + int(batch_dims)


def _check_range(indices: Tensor, size: int) -> None:
    values = np.asarray(indices.numpy())
    bad = np.argwhere((values < 0) | (values >= size))
    if len(bad):
        at = tuple(bad[0])
        where = ",".join(str(i) for i in at)
        raise InvalidArgumentError(
            f"indices[{where}] = {values[at]} is not in [0, {size}) [Op:GatherV2]"
        )


def gather_nd(params: Any, indices: Any, batch_dims: int = 0, name: Any = None) -> Tensor:
    """Slices of `params` at the coordinates in the last axis of `indices`."""
    params, indices = convert_to_tensor(params), convert_to_tensor(indices)
    if not batch_dims:
        return ops.gather_nd(params, indices)
    lead = tuple(params.shape[:batch_dims])
    grids = np.meshgrid(*[np.arange(n) for n in lead], indexing="ij")
    tail = tuple(indices.shape[batch_dims:-1])
    columns = [
        np.broadcast_to(g.reshape(lead + (1,) * (len(tail) + 1)), (*lead, *tail, 1)) for g in grids
    ]
    rows = [ops.cast(c.copy(), indices.dtype) for c in columns]
    return ops.gather_nd(params, ops.concatenate([*rows, indices], axis=-1))


def _masked_spec(a: Bound) -> Spec:
    x, mask = convert_to_tensor(a["tensor"]), convert_to_tensor(a["mask"])
    return Spec((None,) * (len(x.shape) - len(mask.shape) + 1), x.dtype)


@needs_values("axis", gives=_masked_spec)
def boolean_mask(tensor: Any, mask: Any, axis: int | None = None, name: Any = None) -> Tensor:
    """The items at which `mask` is True, in order.

    Args:
        tensor: of shape (..., m..., ...), m being the shape of `mask`.
        mask: bool tensor.
        axis: where the axes of the mask start, 0 by default.
        name: not kept.
    """
    tensor, mask = convert_to_tensor(tensor), convert_to_tensor(mask)
    start = 0 if axis is None else int(axis)
    masked = mask.shape
    if tuple(tensor.shape[start : start + len(masked)]) != tuple(masked):
        raise InvalidArgumentError(
            f"boolean_mask: the mask has shape {masked}, the tensor {tensor.shape} from axis "
            f"{start} on"
        )
    dims = tuple(tensor.shape)
    flat = ops.reshape(tensor, (*dims[:start], -1, *dims[start + len(masked) :]))
    chosen = ops.nonzero(ops.reshape(mask, (-1,)))[0]
    return ops.take(flat, chosen, axis=start)


def where(condition: Any, x: Any = None, y: Any = None, name: Any = None) -> Tensor:
    """`x` where `condition` holds, else `y`; without them the coordinates where it holds.

    Args:
        condition: bool tensor.
        x: tensor or number.
        y: tensor or number; all broadcast together.
        name: not kept.

    Returns:
        The values chosen, or an int64 tensor (count, rank) with a row of coordinates for each True.

    Raises:
        ValueError: only one of `x` and `y` is given.
    """
    if (x is None) != (y is None):
        raise ValueError("where: give both x and y, or neither")
    if x is None:
        rows = ops.nonzero(condition)
        return ops.cast(ops.stack(list(rows), axis=1), "int64")
    return ops.where(condition, x, y)


def argsort(
    values: Any,
    axis: int = -1,
    direction: str = "ASCENDING",
    stable: bool = False,
    name: Any = None,
) -> Tensor:
    """The int32 positions that sort `values` along `axis`; equal values keep their order."""
    _direction(direction)
    x = convert_to_tensor(values)
    if direction == "DESCENDING":
        x = _descending_key(x)
    return ops.cast(ops.argsort(x, axis=axis), "int32")


def _descending_key(x: Tensor) -> Tensor:
    """What sorts in the opposite order, equal values in theirs."""
    if x.dtype.is_bool or x.dtype.is_unsigned:
        x = ops.cast(x, "int64")
    return ops.bitwise_not(x) if x.dtype.is_integer else ops.negative(x)


def _direction(direction: str) -> None:
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ValueError(f"sort: direction {direction!r}; use 'ASCENDING' or 'DESCENDING'")


def sort(values: Any, axis: int = -1, direction: str = "ASCENDING", name: Any = None) -> Tensor:
    """`values` in order along `axis`."""
    _direction(direction)
    result = ops.sort(values, axis=axis)
    return ops.flip(result, axis) if direction == "DESCENDING" else result


def searchsorted(
    sorted_sequence: Any, values: Any, side: str = "left", out_type: Any = "int32", name: Any = None
) -> Tensor:
    """Where `values` would stand in the sorted last axis."""
    return ops.cast(ops.searchsorted(sorted_sequence, values, side=side), out_type)


@needs_values("x", gives=lambda a: (rows(a["x"]), like(a["x"], a["out_idx"])))
def unique(x: Any, out_idx: Any = "int32", name: Any = None) -> tuple[Tensor, Tensor]:
    """The different values as they first occur, and the place of each element among them."""
    values = np.asarray(convert_to_tensor(x).numpy())
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return (
        convert_to_tensor(values[np.sort(first)]),
        ops.cast(convert_to_tensor(places[inverse]), out_idx),
    )


def tensor_scatter_nd_update(tensor: Any, indices: Any, updates: Any, name: Any = None) -> Tensor:
    """`tensor` with `updates` at the coordinates `indices`."""
    return ops.scatter_update(tensor, indices, updates)


def tensor_scatter_nd_add(tensor: Any, indices: Any, updates: Any, name: Any = None) -> Tensor:
    """`tensor` with `updates` added at the coordinates `indices`; equal ones add up."""
    result: Tensor = PRIMITIVES["scatter_nd_add"].op(
        convert_to_tensor(tensor), convert_to_tensor(indices), convert_to_tensor(updates)
    )
    return result


def tensor_scatter_nd_sub(tensor: Any, indices: Any, updates: Any, name: Any = None) -> Tensor:
    """`tensor` with `updates` subtracted at the coordinates `indices`."""
    return tensor_scatter_nd_add(tensor, indices, ops.negative(updates))


def _scattered(a: Bound) -> Spec:
    rank = len(a["shape"]) if isinstance(a["shape"], list | tuple) else a["shape"].shape[0]
    return Spec((None,) * rank, convert_to_tensor(a["updates"]).dtype)


@needs_values("shape", gives=_scattered)
def scatter_nd(indices: Any, updates: Any, shape: Any, name: Any = None) -> Tensor:
    """Zeros of `shape` with `updates` added at the coordinates `indices`."""
    return ops.scatter(indices, updates, plain(shape))


def reverse_sequence(
    input: Any, seq_lengths: Any, seq_axis: int = 1, batch_axis: int = 0, name: Any = None
) -> Tensor:
    """Along `seq_axis` the first `seq_lengths[i]` items of batch entry i in reverse order."""
    x = convert_to_tensor(input)
    lengths = convert_to_tensor(seq_lengths)
    n = x.shape[seq_axis]
    steps = ops.arange(n)
    ends = ops.expand_dims(ops.cast(lengths, "int32"), 1)
    index = ops.where(steps < ends, ends - 1 - steps, steps)
    moved = ops.moveaxis(x, (batch_axis, seq_axis), (0, 1))
    full = ops.reshape(index, tuple(index.shape) + (1,) * (len(x.shape) - 2))
    full = ops.broadcast_to(full, tuple(moved.shape))
    return ops.moveaxis(ops.take_along_axis(moved, full, axis=1), (0, 1), (batch_axis, seq_axis))
