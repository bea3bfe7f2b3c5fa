"""TensorFlow's sums over segments, counts of pairs, and greatest elements."""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.core import dtypes
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor
from trainkit.core.tensor import convert_to_tensor as _tensor
from trainkit.ops.later import Bound, needs_values, rows
from trainkit.ops.sorting import TopK
from trainkit.tf.arrays import plain


def confusion_matrix(
    labels: Any,
    predictions: Any,
    num_classes: int | None = None,
    weights: Any = None,
    dtype: Any = "int32",
    name: Any = None,
) -> Tensor:
    """How often label i (row) was predicted as j (column).

    Args:
        labels: integers (n,).
        predictions: integers (n,).
        num_classes: size of the matrix; by default the greatest number plus 1.
        weights: (n,), by default 1 each.
        dtype: of the result.
        name: not kept.
    """
    labels, predictions = _tensor(labels), _tensor(predictions)
    if num_classes is None:
        return _confusion_of_all(labels, predictions, weights, dtype)
    size = plain(num_classes)
    ones = ops.ones_like(labels, dtype) if weights is None else ops.cast(weights, dtype)
    return ops.scatter(ops.stack([labels, predictions], axis=1), ones, (size, size))


@needs_values(
    "labels", "predictions", gives=lambda a: Spec((None, None), dtypes.as_dtype(a["dtype"]))
)
def _confusion_of_all(labels: Any, predictions: Any, weights: Any, dtype: Any) -> Tensor:
    size = 1 + int(ops.maximum(ops.max(labels), ops.max(predictions)))
    return confusion_matrix(labels, predictions, size, weights, dtype)


def _count_of(segment_ids: Any, num_segments: Any) -> int:
    if num_segments is not None:
        return int(plain(num_segments))
    ids = _tensor(segment_ids)
    return int(ops.max(ids)) + 1 if ids.size else 0


@needs_values("segment_ids", gives=lambda a: rows(a["data"]))
def segment_sum(data: Any, segment_ids: Any, name: Any = None) -> Tensor:
    """Sums of the rows with equal ids, which ascend."""
    return ops.segment_sum(data, segment_ids, _count_of(segment_ids, None))


@needs_values("segment_ids", gives=lambda a: rows(a["data"]))
def segment_mean(data: Any, segment_ids: Any, name: Any = None) -> Tensor:
    """Means of the rows with equal ids, which ascend; 0 for an id that does not occur."""
    return unsorted_segment_mean(data, segment_ids, _count_of(segment_ids, None))


@needs_values("segment_ids", gives=lambda a: rows(a["data"]))
def segment_max(data: Any, segment_ids: Any, name: Any = None) -> Tensor:
    """Greatest values of the rows with equal ids, which ascend; 0 for an id that does not occur."""
    return _zero_where_empty(
        ops.segment_max(data, segment_ids, _count_of(segment_ids, None)), segment_ids
    )


@needs_values("segment_ids", gives=lambda a: rows(a["data"]))
def segment_min(data: Any, segment_ids: Any, name: Any = None) -> Tensor:
    """Least values of the rows with equal ids, which ascend; 0 for an id that does not occur."""
    return _zero_where_empty(
        ops.segment_min(data, segment_ids, _count_of(segment_ids, None)), segment_ids
    )


@needs_values("segment_ids", gives=lambda a: rows(a["data"]))
def segment_prod(data: Any, segment_ids: Any, name: Any = None) -> Tensor:
    """Products of the rows with equal ids, which ascend; 1 for an id that does not occur."""
    return ops.segment_prod(data, segment_ids, _count_of(segment_ids, None))


def _zero_where_empty(y: Tensor, segment_ids: Any) -> Tensor:
    counts = ops.segment_sum(ops.ones_like(_tensor(segment_ids)), segment_ids, y.shape[0])
    some = ops.reshape(ops.greater(counts, 0), (-1,) + (1,) * (len(y.shape) - 1))
    return ops.where(some, y, ops.zeros_like(y))


def _segments(a: Bound) -> Spec:
    data, ids = _tensor(a["data"]), _tensor(a["segment_ids"])
    return Spec((None, *data.shape[len(ids.shape) :]), data.dtype)


@needs_values("num_segments", gives=_segments)
def unsorted_segment_sum(
    data: Any, segment_ids: Any, num_segments: Any, name: Any = None
) -> Tensor:
    """Sums of the rows with equal ids, in any order."""
    return ops.segment_sum(data, segment_ids, _count_of(segment_ids, num_segments))


@needs_values("num_segments", gives=_segments)
def unsorted_segment_mean(
    data: Any, segment_ids: Any, num_segments: Any, name: Any = None
) -> Tensor:
    """Means of the rows with equal ids; 0 for an id that does not occur."""
    x = _tensor(data)
    count = _count_of(segment_ids, num_segments)
    sums = ops.segment_sum(x, segment_ids, count)
    sizes = ops.segment_sum(ops.ones_like(_tensor(segment_ids), x.dtype), segment_ids, count)
    return sums / ops.reshape(ops.maximum(sizes, 1), (-1,) + (1,) * (len(sums.shape) - 1))


@needs_values("num_segments", gives=_segments)
def unsorted_segment_max(
    data: Any, segment_ids: Any, num_segments: Any, name: Any = None
) -> Tensor:
    """Greatest values of the rows with equal ids."""
    return ops.segment_max(data, segment_ids, _count_of(segment_ids, num_segments))


@needs_values("num_segments", gives=_segments)
def unsorted_segment_min(
    data: Any, segment_ids: Any, num_segments: Any, name: Any = None
) -> Tensor:
    """Least values of the rows with equal ids."""
    return ops.segment_min(data, segment_ids, _count_of(segment_ids, num_segments))


@needs_values("num_segments", gives=_segments)
def unsorted_segment_prod(
    data: Any, segment_ids: Any, num_segments: Any, name: Any = None
) -> Tensor:
    """Products of the rows with equal ids."""
    return ops.segment_prod(data, segment_ids, _count_of(segment_ids, num_segments))


def _top_specs(a: Bound) -> Any:
    x = _tensor(a["input"])
    dims = (*x.shape[:-1], None)
    pair: Any = TopK  # of specs, this once
    return pair(Spec(dims, x.dtype), Spec(dims, dtypes.as_dtype(a["index_type"])))


@needs_values("k", gives=_top_specs)
def top_k(
    input: Any, k: int = 1, sorted: bool = True, index_type: Any = "int32", name: Any = None
) -> Any:
    """The `k` greatest values of the last axis and their places: a pair `(values, indices)`."""
    found = ops.top_k(input, plain(k), sorted)
    return (
        type(found)(found[0], ops.cast(found[1], index_type))
        if hasattr(found, "_fields")
        else found
    )
