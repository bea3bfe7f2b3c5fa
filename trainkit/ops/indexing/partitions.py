"""Slices shared out to several tensors and put together again."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.ops.arrays.concat_and_split import concatenate
from trainkit.ops.arrays.creation import zeros
from trainkit.ops.arrays.shaping import reshape
from trainkit.ops.core.axis_numbers import plain
from trainkit.ops.core.dynamic_shapes import Bound, concrete, needs_values, rows
from trainkit.ops.indexing.gathering import take

_MOST_PARTITIONS = 1 << 20  # each is a tensor that is made


def _check_count(count: int) -> None:
    if count > _MOST_PARTITIONS:
        raise InvalidArgumentError(
            f"dynamic_partition: num_partitions {count} is more than {_MOST_PARTITIONS}"
        )


def _parts(a: Bound) -> list[Spec]:
    count = plain(a["num_partitions"])
    if not isinstance(count, int):
        raise InvalidArgumentError(
            "dynamic_partition: num_partitions must be known while a graph is traced; give an int"
        )
    _check_count(count)
    return [rows(a["data"], len(convert_to_tensor(a["partitions"]).shape))] * count


@needs_values("partitions", "num_partitions", gives=_parts)
def dynamic_partition(
    data: TensorLike, partitions: Any, num_partitions: int, name: str | None = None
) -> list[Tensor]:
    """The slices of `data` by the part that each belongs to.

    Args:
        data: tensor whose first axes are those of `partitions`.
        partitions: integers in [0, num_partitions).
        num_partitions: how many tensors to give.

    Returns:
        A list of tensors (count, ...), slices in the order of `data`.

    Raises:
        InvalidArgumentError: a number is out of range.
        ShapeError: the shapes do not fit.

    Example:
        >>> first, second = tk.dynamic_partition([1, 2, 3], [1, 0, 1], 2)
        >>> first.numpy(), second.numpy()
        (array([2], dtype=int32), array([1, 3], dtype=int32))
    """
    _check_count(num_partitions)
    data, parts = convert_to_tensor(data), convert_to_tensor(partitions)
    lead = len(parts.shape)
    if tuple(data.shape[:lead]) != tuple(parts.shape):
        raise ShapeError(
            f"dynamic_partition: partitions {tuple(parts.shape)} must be the first axes of data "
            f"{tuple(data.shape)}"
        )
    numbers = concrete(parts, "dynamic_partition").reshape(-1)
    outside = numbers[(numbers < 0) | (numbers >= num_partitions)]
    if outside.size:
        raise InvalidArgumentError(
            f"dynamic_partition: partitions hold {outside[0]}, which is not in "
            f"[0, {num_partitions})"
        )
    rows = reshape(data, (numbers.size, *data.shape[lead:]))
    return [take(rows, np.flatnonzero(numbers == k), axis=0) for k in range(num_partitions)]


@needs_values(
    "indices", gives=lambda a: rows(a["data"][0], len(convert_to_tensor(a["indices"][0]).shape))
)
def dynamic_stitch(indices: Any, data: Any, name: str | None = None) -> Tensor:
    """One tensor of slices from several: result[indices[m][i]] = data[m][i]; later ones win.

    Args:
        indices: list of integer tensors.
        data: list of tensors; the first axes of each are those of its indices.

    Returns:
        A tensor (greatest index + 1, ...), 0 where no index points to.

    Raises:
        InvalidArgumentError: the lists differ in length, or an index is negative.

    Example:
        >>> tk.dynamic_stitch([[0, 2], [1]], [[10, 30], [20]]).numpy()
        array([10, 20, 30], dtype=int32)
    """
    if len(indices) != len(data) or not len(data):
        raise InvalidArgumentError(
            f"dynamic_stitch: {len(indices)} indices and {len(data)} data; give as many of each"
        )
    index_arrays = [concrete(i, "dynamic_stitch") for i in indices]
    rows = []
    for index_array, values in zip(index_arrays, data, strict=True):
        values = convert_to_tensor(values)
        rows.append(reshape(values, (index_array.size, *values.shape[index_array.ndim :])))
    flat = np.concatenate([index_array.reshape(-1) for index_array in index_arrays])
    if flat.size and flat.min() < 0:
        raise InvalidArgumentError(f"dynamic_stitch: the index {flat.min()} is negative")
    size = int(flat.max()) + 1 if flat.size else 0
    source = np.full(size, len(flat))
    source[flat] = np.arange(len(flat))
    joined = concatenate(rows, axis=0)
    padded = concatenate([joined, zeros((1, *joined.shape[1:]), joined.dtype)], axis=0)
    return take(padded, source, axis=0)
