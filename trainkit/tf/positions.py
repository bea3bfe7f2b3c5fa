"""Places of elements: finding them, sorting by them, and writing to them.

Each takes TensorFlow's argument names, and `name`, which is not kept.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from trainkit import ops
from trainkit.core import dtypes
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.docstrings import describe_arguments as _describe_arguments
from trainkit.ops import in_top_k as _in_top_k
from trainkit.ops.arrays.sorting import TopK
from trainkit.ops.core.axis_numbers import plain, reduced
from trainkit.ops.core.dynamic_shapes import Bound, needs_values
from trainkit.ops.indexing.counted_positions import positions_from_start
from trainkit.ops.indexing.nd_scattering import scatter_nd as scatter_nd
from trainkit.ops.indexing.nd_scattering import tensor_scatter_nd_add as tensor_scatter_nd_add
from trainkit.ops.indexing.nd_scattering import tensor_scatter_nd_max as tensor_scatter_nd_max
from trainkit.ops.indexing.nd_scattering import tensor_scatter_nd_min as tensor_scatter_nd_min
from trainkit.ops.indexing.nd_scattering import tensor_scatter_nd_sub as tensor_scatter_nd_sub
from trainkit.ops.math.nan_reductions import argmax_of_numbers, argmin_of_numbers, top_k_of_numbers

if TYPE_CHECKING:
    from trainkit.core.values.type_aliases import Axis, DTypeLike, TensorLike


def searchsorted(
    sorted_sequence: TensorLike,
    values: TensorLike,
    side: str = "left",
    out_type: DTypeLike = "int32",
    name: str | None = None,
) -> Tensor:
    """Where `values` would stand in the sorted last axis.

    Args:
        sorted_sequence: (..., n), ascending.
        values: (..., m).
        side: `"left"` or `"right"` of equal ones.
        out_type: int32 or int64.

    Example:
        >>> tk.searchsorted([1, 3, 5], [0, 3, 9]).numpy()
        array([0, 1, 3], dtype=int32)
    """
    return ops.cast(ops.searchsorted(sorted_sequence, values, side=side), out_type)


def tensor_scatter_nd_update(
    tensor: TensorLike, indices: TensorLike, updates: TensorLike, name: str | None = None
) -> Tensor:
    """`tensor` with `updates` at the coordinates `indices`.

    Args:
        tensor: of any shape.
        indices: ints (n, k), each once.
        updates: tensor (n, ...).

    Example:
        >>> tk.tensor_scatter_nd_update([1, 1, 1], [[0], [2]], [5, 6]).numpy()
        array([5, 1, 6], dtype=int32)
    """
    target = convert_to_tensor(tensor)
    rows = positions_from_start(
        convert_to_tensor(indices), target, operation="tensor_scatter_nd_update"
    )
    return ops.scatter_update(target, rows, updates)


def unravel_index(indices: TensorLike, dims: Any, name: str | None = None) -> Any:
    """The positions along each axis of positions in a flat array of sizes `dims`.

    Args:
        indices: ints, of any shape.
        dims: ints (k,).

    Returns:
        Ints (k, ...).

    Example:
        >>> tk.unravel_index([5, 2], (2, 3)).numpy()
        array([[1, 0],
               [2, 2]], dtype=int32)
    """
    return ops.stack(ops.unravel_index(indices, dims), axis=0)


def in_top_k(
    targets: TensorLike, predictions: TensorLike, k: int, name: str | None = None
) -> Tensor:
    """Whether each target is among the `k` best predictions of its row.

    Args:
        targets: ints (batch,).
        predictions: floats (batch, classes).
        k: how many count as best.

    Example:
        >>> tk.math.in_top_k([2, 0], [[0.1, 0.3, 0.6], [0.1, 0.3, 0.6]], k=2).numpy()
        array([ True, False])
    """
    return _in_top_k(targets, predictions, k)


def argmax(
    input: TensorLike, axis: Axis = 0, output_type: DTypeLike = "int64", name: str | None = None
) -> Tensor:
    """The position of the greatest value along `axis`, the first of equal ones; NaN is none.

    Args:
        input: tensor of one axis or more.
        axis: int, or a scalar tensor.
        output_type: int32 or int64.

    Example:
        >>> tk.math.argmax([[1.0, 3.0, 2.0], [9.0, 0.0, 1.0]], axis=1).numpy()
        array([1, 0])
    """
    return _positions(argmax_of_numbers, input, axis, output_type)


def argmin(
    input: TensorLike, axis: Axis = 0, output_type: DTypeLike = "int64", name: str | None = None
) -> Tensor:
    """The position of the least value along `axis`, the first of equal ones; NaN is none.

    Args:
        input: tensor of one axis or more.
        axis: int, or a scalar tensor.
        output_type: int32 or int64.

    Example:
        >>> tk.math.argmin([[1.0, 3.0, 2.0], [9.0, 0.0, 1.0]], axis=1).numpy()
        array([0, 1])
    """
    return _positions(argmin_of_numbers, input, axis, output_type)


def _positions(find: Callable[..., Tensor], input: Any, axis: Any, output_type: Any) -> Tensor:
    dtype = dtypes.as_dtype(output_type).name
    if type(input) is Tensor and (axis is None or type(axis) is int):
        return find(input, axis, False, dtype)
    # Of what has no values yet: Keras, which reads models that are saved, knows positions of int32.
    positions = reduced(functools.partial(find, dtype="int32"), input, axis, False)
    return ops.cast(positions, dtype)


def _top_specs(a: Bound) -> Any:
    x = convert_to_tensor(a["input"])
    dims = (*x.shape[:-1], None)
    pair: Any = TopK  # of specs, this once
    return pair(Spec(dims, x.dtype), Spec(dims, dtypes.as_dtype(a["index_type"])))


@needs_values("k", gives=_top_specs)
def top_k(
    input: TensorLike,
    k: int = 1,
    sorted: bool = True,
    index_type: Any = "int32",
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """The `k` greatest values of the last axis and their places: a pair `(values, indices)`.

    NaN comes behind all numbers, so that the first is that of `argmax`.

    Args:
        input: (..., n).
        k: how many, at most n.
        sorted: the greatest first; in any order otherwise.
        index_type: int32 or int64.

    Example:
        >>> values, positions = tk.math.top_k([1.0, 9.0, 5.0], k=2)
        >>> values.numpy(), positions.numpy()
        (array([9., 5.], dtype=float32), array([1, 2], dtype=int32))
    """
    values, indices = top_k_of_numbers(input, plain(k), sorted)
    return TopK(values, ops.cast(indices, index_type))


_describe_arguments(globals(), "name: not kept.", package="trainkit")
