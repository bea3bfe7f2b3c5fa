"""Reductions of rows with equal ids, as many as the ids say.

The arguments are TensorFlow's; `name` is not kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.docstrings import describe_arguments
from trainkit.core.values.type_aliases import TensorLike
from trainkit.ops.arrays.creation import ones_like, zeros_like
from trainkit.ops.arrays.shaping import reshape
from trainkit.ops.core.axis_numbers import plain
from trainkit.ops.core.dynamic_shapes import Bound, needs_values, rows
from trainkit.ops.indexing.segments import segment_max as segment_max_
from trainkit.ops.indexing.segments import segment_min as segment_min_
from trainkit.ops.indexing.segments import segment_prod as segment_prod_
from trainkit.ops.indexing.segments import segment_sum as segment_sum_
from trainkit.ops.math.arithmetic import truncatediv
from trainkit.ops.math.comparisons import greater
from trainkit.ops.math.elementwise import divide, maximum, sqrt, where


def _count_of(segment_ids: Any) -> int:
    """One more than the last of ids that ascend.

    Raises:
        InvalidArgumentError: they don't, are below 0, or no vector.
    """
    ids = convert_to_tensor(segment_ids)
    if len(ids.shape) != 1:
        raise InvalidArgumentError(
            f"segment_ids must be a vector, they have shape {tuple(ids.shape)}; "
            "unsorted_segment_sum and its like take other shapes"
        )
    values = ids.numpy()
    if values.size and int(values.min()) < 0:
        raise InvalidArgumentError(f"segment_ids must be 0 or above, the least is {values.min()}")
    steps = np.flatnonzero(values[1:] < values[:-1])
    if steps.size:
        i = int(steps[0])
        raise InvalidArgumentError(
            f"segment_ids must ascend, segment_ids[{i}] is {values[i]} and the next {values[i + 1]}"
            "; unsorted_segment_sum and its like take any order"
        )
    return int(values[-1]) + 1 if values.size else 0


@needs_values("segment_ids", gives=lambda a: rows(a["data"]))
def segment_sum(data: TensorLike, segment_ids: TensorLike, name: str | None = None) -> Tensor:
    """Sums of the rows with equal ids, which ascend.

    Args:
        data: tensor (n, ...).
        segment_ids: ints (n,) of 0 or above, which ascend.

    Example:
        >>> tk.math.segment_sum([1.0, 5.0, 2.0], [0, 0, 1]).numpy()
        array([6., 2.], dtype=float32)
    """
    return segment_sum_(data, segment_ids, _count_of(segment_ids))


@needs_values("segment_ids", gives=lambda a: rows(a["data"]))
def segment_mean(data: TensorLike, segment_ids: TensorLike, name: str | None = None) -> Tensor:
    """Means of the rows with equal ids, which ascend; 0 for an id that does not occur.

    Args:
        data: tensor (n, ...).
        segment_ids: ints (n,) of 0 or above, which ascend.

    Returns:
        A tensor of the dtype of `data`; means of integers are rounded towards 0.

    Example:
        >>> tk.math.segment_mean([1.0, 5.0, 2.0], [0, 0, 1]).numpy()
        array([3., 2.], dtype=float32)
    """
    sums, sizes = _sums_and_sizes(data, segment_ids, _count_of(segment_ids))
    return truncatediv(sums, sizes) if sums.dtype.is_integer else divide(sums, sizes)


@needs_values("segment_ids", gives=lambda a: rows(a["data"]))
def segment_max(data: TensorLike, segment_ids: TensorLike, name: str | None = None) -> Tensor:
    """Greatest values of the rows with equal ids, which ascend; 0 for an id that does not occur.

    Args:
        data: tensor (n, ...).
        segment_ids: ints (n,) of 0 or above, which ascend.

    Example:
        >>> tk.math.segment_max([1.0, 5.0, 2.0], [0, 0, 1]).numpy()
        array([5., 2.], dtype=float32)
    """
    return _zero_where_empty(segment_max_(data, segment_ids, _count_of(segment_ids)), segment_ids)


@needs_values("segment_ids", gives=lambda a: rows(a["data"]))
def segment_min(data: TensorLike, segment_ids: TensorLike, name: str | None = None) -> Tensor:
    """Least values of the rows with equal ids, which ascend; 0 for an id that does not occur.

    Args:
        data: tensor (n, ...).
        segment_ids: ints (n,) of 0 or above, which ascend.

    Example:
        >>> tk.math.segment_min([1.0, 5.0, 2.0], [0, 0, 1]).numpy()
        array([1., 2.], dtype=float32)
    """
    return _zero_where_empty(segment_min_(data, segment_ids, _count_of(segment_ids)), segment_ids)


@needs_values("segment_ids", gives=lambda a: rows(a["data"]))
def segment_prod(data: TensorLike, segment_ids: TensorLike, name: str | None = None) -> Tensor:
    """Products of the rows with equal ids, which ascend; 1 for an id that does not occur.

    Args:
        data: tensor (n, ...).
        segment_ids: ints (n,) of 0 or above, which ascend.

    Example:
        >>> tk.math.segment_prod([2.0, 5.0, 3.0], [0, 0, 1]).numpy()
        array([10.,  3.], dtype=float32)
    """
    return segment_prod_(data, segment_ids, _count_of(segment_ids))


def _zero_where_empty(y: Tensor, segment_ids: Any) -> Tensor:
    counts = segment_sum_(ones_like(convert_to_tensor(segment_ids)), segment_ids, y.shape[0])
    some = reshape(greater(counts, 0), (-1,) + (1,) * (len(y.shape) - 1))
    return where(some, y, zeros_like(y))


def _segments(a: Bound) -> Spec:
    data, ids = convert_to_tensor(a["data"]), convert_to_tensor(a["segment_ids"])
    return Spec((None, *data.shape[len(ids.shape) :]), data.dtype)


@needs_values("num_segments", gives=_segments)
def unsorted_segment_sum(
    data: TensorLike, segment_ids: TensorLike, num_segments: TensorLike, name: str | None = None
) -> Tensor:
    """Sums of the rows with equal ids, in any order.

    Example:
        >>> tk.math.unsorted_segment_sum([1.0, 5.0, 2.0], [1, 0, 1], 2).numpy()
        array([5., 3.], dtype=float32)
    """
    return segment_sum_(data, segment_ids, int(plain(num_segments)))


@needs_values("num_segments", gives=_segments)
def unsorted_segment_mean(
    data: TensorLike, segment_ids: TensorLike, num_segments: TensorLike, name: str | None = None
) -> Tensor:
    """Means of the rows with equal ids; 0 for an id that does not occur.

    Example:
        >>> tk.math.unsorted_segment_mean([1.0, 5.0, 2.0], [1, 0, 1], 2).numpy()
        array([5. , 1.5], dtype=float32)
    """
    sums, sizes = _sums_and_sizes(data, segment_ids, int(plain(num_segments)))
    return sums / sizes


@needs_values("num_segments", gives=_segments)
def unsorted_segment_max(
    data: TensorLike, segment_ids: TensorLike, num_segments: TensorLike, name: str | None = None
) -> Tensor:
    """Greatest values of the rows with equal ids.

    Example:
        >>> tk.math.unsorted_segment_max([1.0, 5.0, 2.0], [1, 0, 1], 2).numpy()
        array([5., 2.], dtype=float32)
    """
    return segment_max_(data, segment_ids, int(plain(num_segments)))


@needs_values("num_segments", gives=_segments)
def unsorted_segment_min(
    data: TensorLike, segment_ids: TensorLike, num_segments: TensorLike, name: str | None = None
) -> Tensor:
    """Least values of the rows with equal ids.

    Example:
        >>> tk.math.unsorted_segment_min([1.0, 5.0, 2.0], [1, 0, 1], 2).numpy()
        array([5., 1.], dtype=float32)
    """
    return segment_min_(data, segment_ids, int(plain(num_segments)))


@needs_values("num_segments", gives=_segments)
def unsorted_segment_prod(
    data: TensorLike, segment_ids: TensorLike, num_segments: TensorLike, name: str | None = None
) -> Tensor:
    """Products of the rows with equal ids.

    Example:
        >>> tk.math.unsorted_segment_prod([3.0, 5.0, 2.0], [1, 0, 1], 2).numpy()
        array([5., 6.], dtype=float32)
    """
    return segment_prod_(data, segment_ids, int(plain(num_segments)))


def unsorted_segment_sqrt_n(
    data: TensorLike, segment_ids: TensorLike, num_segments: TensorLike, name: str | None = None
) -> Tensor:
    """Sums of the rows with equal ids, each divided by the root of how many rows there are.

    Example:
        >>> tk.math.unsorted_segment_sqrt_n([1.0, 5.0, 3.0, 4.0, 0.0], [1, 0, 1, 1, 1], 2).numpy()
        array([5., 4.], dtype=float32)
    """
    sums, sizes = _sums_and_sizes(data, segment_ids, plain(num_segments))
    return divide(sums, sqrt(sizes))


def _sums_and_sizes(data: Any, segment_ids: Any, count: Any) -> tuple[Tensor, Tensor]:
    """Sums of segments, and how many rows each has, at least 1, of a shape that broadcasts."""
    x, ids = convert_to_tensor(data), convert_to_tensor(segment_ids)
    sums = segment_sum_(x, ids, count)
    sizes = segment_sum_(ones_like(ids, x.dtype), ids, count)
    return sums, reshape(maximum(sizes, 1), (-1,) + (1,) * (len(sums.shape) - 1))


describe_arguments(
    globals(),
    """
    data: tensor, whose first axes are those of the ids.
    segment_ids: ints in [0, num_segments), of any shape.
    num_segments: rows of the result.
    """,
)
