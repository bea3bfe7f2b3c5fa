"""Updates at coordinates: into zeros, or added, subtracted, and compared with what is there.

The arguments are TensorFlow's; `name` is not kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.docstrings import describe_arguments
from trainkit.core.values.type_aliases import Shape, TensorLike
from trainkit.ops.arrays.creation import zeros
from trainkit.ops.core.axis_numbers import plain
from trainkit.ops.core.dynamic_shapes import Bound, needs_values
from trainkit.ops.indexing.bad_indices import ignores, scattered
from trainkit.ops.indexing.counted_positions import positions_from_start
from trainkit.ops.indexing.scattering import scatter_max, scatter_min, scatter_nd_add
from trainkit.ops.math.elementwise import negative


def _scatter(
    write: Callable[..., Tensor], tensor: Any, indices: Any, updates: Any, policy: str
) -> Tensor:
    tensors = convert_to_tensor(tensor), convert_to_tensor(indices), convert_to_tensor(updates)
    if policy and ignores(policy, "tensor_scatter_nd", *tensors):
        return scattered(write, *tensors)
    target, rows, values = tensors
    return write(target, positions_from_start(rows, target, operation="tensor_scatter_nd"), values)


def tensor_scatter_nd_max(
    tensor: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    bad_indices_policy: str = "",
    name: str | None = None,
) -> Tensor:
    """`tensor` with entries at `indices` (n, k) raised to `updates` (n, ...).

    Raises:
        InvalidArgumentError: coordinates are outside, or the policy is none of these.

    Example:
        >>> tk.tensor_scatter_nd_max([1, 9, 1], [[0], [1]], [5, 6]).numpy()
        array([5, 9, 1], dtype=int32)
    """
    return _scatter(scatter_max, tensor, indices, updates, bad_indices_policy)


def tensor_scatter_nd_min(
    tensor: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    bad_indices_policy: str = "",
    name: str | None = None,
) -> Tensor:
    """`tensor` with entries at `indices` (n, k) lowered to `updates` (n, ...).

    Raises:
        InvalidArgumentError: coordinates are outside, or the policy is none of these.

    Example:
        >>> tk.tensor_scatter_nd_min([1, 9, 1], [[0], [1]], [5, 6]).numpy()
        array([1, 6, 1], dtype=int32)
    """
    return _scatter(scatter_min, tensor, indices, updates, bad_indices_policy)


def tensor_scatter_nd_add(
    tensor: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    bad_indices_policy: str = "",
    name: str | None = None,
) -> Tensor:
    """`tensor` with `updates` added at the coordinates `indices`; equal ones add up.

    Raises:
        InvalidArgumentError: coordinates are outside, or the policy is none of these.

    Example:
        >>> tk.tensor_scatter_nd_add([1, 1, 1], [[0], [2]], [5, 6]).numpy()
        array([6, 1, 7], dtype=int32)
    """
    return _scatter(scatter_nd_add, tensor, indices, updates, bad_indices_policy)


def tensor_scatter_nd_sub(
    tensor: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    bad_indices_policy: str = "",
    name: str | None = None,
) -> Tensor:
    """`tensor` with `updates` subtracted at the coordinates `indices`.

    Raises:
        InvalidArgumentError: coordinates are outside, or the policy is none of these.

    Example:
        >>> tk.tensor_scatter_nd_sub([9, 9, 9], [[0], [2]], [5, 6]).numpy()
        array([4, 9, 3], dtype=int32)
    """
    return tensor_scatter_nd_add(tensor, indices, negative(updates), bad_indices_policy)


def _scatter_spec(a: Bound) -> Spec:
    rank = len(a["shape"]) if isinstance(a["shape"], list | tuple) else a["shape"].shape[0]
    return Spec((None,) * rank, convert_to_tensor(a["updates"]).dtype)


@needs_values("shape", gives=_scatter_spec)
def scatter_nd(
    indices: TensorLike,
    updates: TensorLike,
    shape: Shape,
    bad_indices_policy: str = "",
    name: str | None = None,
) -> Tensor:
    """Zeros of `shape` with `updates` added at the coordinates `indices`.

    Args:
        shape: sizes of the result, k or more.

    Raises:
        InvalidArgumentError: coordinates are outside, or the policy is none of these.

    Example:
        >>> tk.scatter_nd([[1], [3]], [5, 6], (4,)).numpy()
        array([0, 5, 0, 6], dtype=int32)
    """
    values = convert_to_tensor(updates)
    start = zeros(plain(shape), values.dtype)
    return tensor_scatter_nd_add(start, indices, values, bad_indices_policy)


describe_arguments(
    globals(),
    """
    tensor: of any shape.
    indices: ints (n, k).
    updates: tensor (n, ...).
    bad_indices_policy: for coordinates outside: `"IGNORE"` passes over them, `"ERROR"` raises
        (on a CPU alone), `""` or `"DEFAULT"` raises on a CPU and passes over them on a GPU.
    """,
)
