"""Positions outside of a tensor that are passed over: `bad_indices_policy="IGNORE"`.

Without it the operations refuse such positions on a CPU and pass over them on a GPU. Rows of
positions become positions in a flat axis, one for each item that a row may name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainkit.core.errors import InvalidArgumentError, UnimplementedError
from trainkit.core.tensor import Tensor
from trainkit.ops.arrays.axes import expand_dims
from trainkit.ops.arrays.concat_and_split import concatenate
from trainkit.ops.arrays.creation import zeros
from trainkit.ops.arrays.shaping import reshape, reshape_like
from trainkit.ops.arrays.shaping import shape as sizes
from trainkit.ops.indexing.gathering import gather_nd
from trainkit.ops.math.comparisons import logical_and
from trainkit.ops.math.elementwise import cast, multiply, where

POLICIES = ("", "DEFAULT", "ERROR", "IGNORE")


def ignores(policy: str, operation: str, *tensors: Any) -> bool:
    """Whether positions outside are passed over.

    Raises:
        InvalidArgumentError: `policy` is none of TensorFlow's.
        UnimplementedError: it is `"ERROR"` for arrays of a GPU, where nothing is looked at.
    """
    if policy not in POLICIES:
        raise InvalidArgumentError(
            f"{operation}: bad_indices_policy is {policy!r}; it can be '' or 'DEFAULT' (a CPU "
            "raises, a GPU passes over them), 'ERROR' or 'IGNORE'"
        )
    if policy == "ERROR" and any(type(x) is Tensor and "GPU" in x.device for x in tensors):
        raise UnimplementedError(
            f"{operation}: bad_indices_policy='ERROR' needs arrays of a CPU; bring them there with "
            ".cpu(), or take 'IGNORE'"
        )
    return policy == "IGNORE"


def gathered(params: Tensor, indices: Tensor) -> Tensor:
    """`gather_nd` with zeros for the rows that point outside."""
    flat, inside, rows = _flat(params, indices)
    slice_sizes = sizes(params)[int(indices.shape[-1]) :]
    padded = concatenate(
        [reshape(params, (rows, *slice_sizes)), zeros((1, *slice_sizes), params.dtype)], axis=0
    )
    return gather_nd(padded, expand_dims(where(inside, flat, rows), -1))


def scattered(
    scatter: Callable[[Tensor, Tensor, Tensor], Tensor],
    tensor: Tensor,
    indices: Tensor,
    updates: Tensor,
) -> Tensor:
    """What `scatter` gives without the updates whose rows point outside.

    These are written to a row of their own, which is cut off.
    """
    flat, inside, rows = _flat(tensor, indices)
    slice_sizes = sizes(tensor)[int(indices.shape[-1]) :]
    padded = concatenate(
        [reshape(tensor, (rows, *slice_sizes)), zeros((1, *slice_sizes), tensor.dtype)], axis=0
    )
    padded_result = scatter(padded, expand_dims(where(inside, flat, rows), -1), updates)
    return reshape_like(padded_result[:-1], tensor)


def _flat(tensor: Tensor, indices: Tensor) -> tuple[Tensor, Tensor, Any]:
    """Rows of positions in a flat axis, which of them are inside, and how long that axis is."""
    depth = indices.shape[-1]
    if depth is None or depth < 1 or depth > len(tensor.shape):
        raise InvalidArgumentError(
            f"bad_indices_policy='IGNORE': the last axis of indices has the size {depth}; for a "
            f"tensor of shape {tuple(tensor.shape)} it can be 1 to {len(tensor.shape)}"
        )
    indices = cast(indices, "int64")
    flat: Any = 0
    inside: Any = True
    rows: Any = 1
    for axis, size in enumerate(sizes(tensor)[:depth]):
        size = size if isinstance(size, int) else cast(size, "int64")
        position = indices[..., axis]
        inside = logical_and(inside, logical_and(position >= 0, position < size))
        flat = multiply(flat, size) + position
        rows = rows * size
    return flat, inside, rows
