"""Items picked from each entry of a batch: gather and gather_nd with batch axes, reverse_sequence.

The arguments are TensorFlow's; `name` is not kept.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor, wrap
from trainkit.core.values.type_aliases import TensorLike
from trainkit.ops.arrays.axes import expand_dims, moveaxis
from trainkit.ops.arrays.broadcasting import broadcast_to
from trainkit.ops.arrays.concat_and_split import concatenate
from trainkit.ops.arrays.creation import zeros_like
from trainkit.ops.arrays.ranges import arange
from trainkit.ops.arrays.shaping import reshape
from trainkit.ops.arrays.shaping import shape as shape_of
from trainkit.ops.core.axis_numbers import plain
from trainkit.ops.core.dynamic_shapes import is_later, later
from trainkit.ops.indexing.bad_indices import gathered, ignores
from trainkit.ops.indexing.counted_positions import positions_from_start
from trainkit.ops.indexing.gathering import gather as gather_
from trainkit.ops.indexing.gathering import gather_nd as gather_nd_
from trainkit.ops.indexing.gathering import take_along_axis
from trainkit.ops.math.elementwise import cast
from trainkit.ops.math.elementwise import where as where_


def gather(
    params: Any,
    indices: Any,
    validate_indices: Any = None,
    axis: Any = None,
    batch_dims: int = 0,
    name: str | None = None,
) -> Tensor:
    """Items of `params` at `indices` along `axis`.

    Args:
        params: tensor.
        indices: integers in [0, size of the axis).
        validate_indices: indices are always checked.
        axis: by default the first after the batch axes.
        batch_dims: how many leading axes `params` and `indices` share.

    Raises:
        InvalidArgumentError: an index is out of range.

    Example:
        >>> tk.gather([10, 20, 30], [2, 0]).numpy()
        array([30, 10], dtype=int32)
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
        return gather_(params, indices, axis=axis)
    axis = axis if axis >= 0 else len(params.shape) + axis
    # Rows of all batch entries stand one after the other; an offset picks out the right ones.
    moved = params if axis == batch else moveaxis(params, axis, batch)
    sizes = _sizes(moved)
    lead, n = sizes[:batch], sizes[batch]
    count = math.prod(lead)
    flat = reshape(moved, (count * n, *sizes[batch + 1 :]))
    indices = positions_from_start(indices, moved, operation="gather", axis=batch, rows=False)
    picked = gather_(flat, _rows(indices, lead, n, params), axis=0)
    if axis == batch:
        return picked
    return moveaxis(
        picked,
        tuple(builtins.range(len(indices.shape), len(indices.shape) + axis - batch)),
        tuple(builtins.range(batch, axis)),
    )


def _rows(indices: Tensor, lead: tuple[Any, ...], n: Any, params: Tensor) -> Tensor:
    """The numbers of rows, where those of all batch entries stand one after the other."""
    count = math.prod(lead)
    ones = (1,) * (len(indices.shape) - len(lead))
    if type(params) is type(indices) is Tensor and _is_on_cpu(params) and _is_on_cpu(indices):
        # Four calls of NumPy; by operations each is a tensor, which takes ten times as long.
        positions = indices._array
        if positions.dtype != np.int32 or count * n > np.iinfo(np.int32).max:
            positions = positions.astype(np.int64, copy=False)
        offsets = np.arange(count, dtype=positions.dtype).reshape(lead + ones) * n
        return wrap(positions + offsets)
    offsets = reshape(arange(count) * n, lead + ones)
    return cast(indices, "int64") + cast(offsets, "int64")


def _is_on_cpu(x: Tensor) -> bool:
    return type(x._array) is np.ndarray


def _sizes(x: Tensor) -> tuple[Any, ...]:
    """Sizes of all axes, scalar tensors for those that are known when the graph runs."""
    later_sizes: Any = shape_of(x) if None in x.shape else None
    return tuple([later_sizes[i] if n is None else n for i, n in enumerate(x.shape)])


def _batch_axes(batch_dims: int, indices: Tensor) -> int:
    return int(batch_dims) if batch_dims >= 0 else len(indices.shape) + int(batch_dims)


def gather_nd(
    params: TensorLike,
    indices: TensorLike,
    batch_dims: int = 0,
    name: str | None = None,
    bad_indices_policy: str = "",
) -> Tensor:
    """Slices of `params` at the coordinates in the last axis of `indices`.

    Args:
        params: tensor.
        indices: ints (..., n).
        batch_dims: how many leading axes both share.
        bad_indices_policy: for coordinates outside of `params`: `"IGNORE"` gives zeros, `"ERROR"`
            raises (on a CPU alone), `""` or `"DEFAULT"` raises on a CPU and gives zeros on a GPU.

    Raises:
        InvalidArgumentError: coordinates are outside, or the policy is none of these.

    Example:
        >>> tk.gather_nd([[1, 2], [3, 4]], [[0, 1], [1, 0]]).numpy()
        array([2, 3], dtype=int32)
    """
    params, indices = convert_to_tensor(params), convert_to_tensor(indices)
    lookup: Callable[..., Tensor] = _lookup
    if bad_indices_policy and ignores(bad_indices_policy, "gather_nd", params, indices):
        lookup = gathered
    if not batch_dims:
        return lookup(params, indices)
    lead = tuple(params.shape[:batch_dims])
    if None in (*lead, *indices.shape[batch_dims:-1]):
        return lookup(params, _with_batch(indices, batch_dims))
    grids = np.meshgrid(*[np.arange(n) for n in lead], indexing="ij")
    tail = tuple(indices.shape[batch_dims:-1])
    columns = [
        np.broadcast_to(g.reshape(lead + (1,) * (len(tail) + 1)), (*lead, *tail, 1)) for g in grids
    ]
    rows = [cast(c.copy(), indices.dtype) for c in columns]
    return lookup(params, concatenate([*rows, indices], axis=-1))


def _lookup(params: Tensor, indices: Tensor) -> Tensor:
    rows = positions_from_start(indices, params, operation="gather_nd")
    result: Tensor = gather_nd_(params, rows)
    return result


def _with_batch(indices: Tensor, batch_dims: int) -> Tensor:
    """Rows of `indices` behind the coordinates of their batch entries, whose sizes come later."""
    first = zeros_like(indices[..., :1])
    rank = len(indices.shape)
    columns = []
    for axis in range(batch_dims):
        steps = cast(arange(shape_of(indices)[axis]), indices.dtype)
        columns.append(first + reshape(steps, (-1,) + (1,) * (rank - axis - 1)))
    return concatenate([*columns, indices], axis=-1)


def reverse_sequence(
    input: TensorLike,
    seq_lengths: Any,
    seq_axis: int = 1,
    batch_axis: int = 0,
    name: str | None = None,
) -> Tensor:
    """Along `seq_axis` the first `seq_lengths[i]` items of batch entry i in reverse order.

    Args:
        input: tensor.
        seq_lengths: ints (batch,).
        seq_axis: along which items are reversed.
        batch_axis: the axis of `seq_lengths`.

    Example:
        >>> tk.reverse_sequence([[1, 2, 3], [4, 5, 6]], [2, 3], seq_axis=1, batch_axis=0).numpy()
        array([[2, 1, 3],
               [6, 5, 4]], dtype=int32)
    """
    x = convert_to_tensor(input)
    lengths = convert_to_tensor(seq_lengths)
    n = x.shape[seq_axis]
    steps = arange(n)
    ends = expand_dims(cast(lengths, "int32"), 1)
    index = where_(steps < ends, ends - 1 - steps, steps)
    moved = moveaxis(x, (batch_axis, seq_axis), (0, 1))
    full = reshape(index, tuple(index.shape) + (1,) * (len(x.shape) - 2))
    full = broadcast_to(full, tuple(moved.shape))
    return moveaxis(take_along_axis(moved, full, axis=1), (0, 1), (batch_axis, seq_axis))
