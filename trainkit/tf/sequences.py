"""Functions on whole sequences: order, permutations, polynomials, parts, edits."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core.dtypes import as_dtype, float32
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import SymbolicTensor, Tensor, convert_to_tensor
from trainkit.ops.later import Bound, like, needs_values, rows
from trainkit.tf.arrays import plain


def concrete(x: Any, op: str) -> Any:
    """The values of a tensor as a NumPy array.

    Raises:
        InvalidArgumentError: it belongs to a graph and has no values yet.
    """
    tensor = convert_to_tensor(x)
    if isinstance(tensor, SymbolicTensor):
        raise InvalidArgumentError(
            f"{op}: works on values, which a graph does not have while it is traced. Call it "
            "outside of tk.function, or through tk.numpy_function."
        )
    return np.asarray(tensor.numpy())


def _parts(a: Bound) -> list[Spec]:
    count = plain(a["num_partitions"])
    if not isinstance(count, int):
        raise InvalidArgumentError(
            "dynamic_partition: num_partitions must be known while a graph is traced; give an int"
        )
    return [rows(a["data"], len(convert_to_tensor(a["partitions"]).shape))] * count


def _stitched(a: Bound) -> Spec:
    return rows(a["data"][0], len(convert_to_tensor(a["indices"][0]).shape))


def _distances(a: Bound) -> Spec:
    return Spec(convert_to_tensor(a["truth"]).shape[:-1], float32)


def _counted(a: Bound) -> tuple[Spec, Spec, Spec]:
    values = rows(a["x"])
    return values, like(a["x"], a["out_idx"]), Spec(values.shape, as_dtype(a["out_idx"]))


def is_non_decreasing(x: Any, name: Any = None) -> Tensor:
    """Whether no element is less than the one before it, over all elements in row-major order."""
    flat = ops.reshape(x, (-1,))
    return ops.all(ops.less_equal(flat[:-1], flat[1:]))


def is_strictly_increasing(x: Any, name: Any = None) -> Tensor:
    """Whether each element is greater than the one before it, in row-major order."""
    flat = ops.reshape(x, (-1,))
    return ops.all(ops.less(flat[:-1], flat[1:]))


def polyval(coeffs: Any, x: Any, name: Any = None) -> Tensor:
    """The polynomial with `coeffs`, highest power first, at `x`, by Horner's rule.

    Args:
        coeffs: list of numbers or tensors that broadcast with `x`; 0 for an empty list.
        x: tensor.
        name: not kept.

    Raises:
        ValueError: `coeffs` is no list.
    """
    if not isinstance(coeffs, list | tuple):
        raise ValueError(f"polyval: coeffs must be a list, got {type(coeffs).__name__}")
    x = convert_to_tensor(x)
    total: Tensor = ops.zeros_like(x)
    for coefficient in coeffs:
        total = ops.add(ops.multiply(total, x), coefficient)
    return total


def invert_permutation(x: Any, name: Any = None) -> Tensor:
    """The permutation y with y[x[i]] = i.

    Args:
        x: integers (n,), each of 0 to n - 1 once.
        name: not kept.

    Raises:
        InvalidArgumentError: a number is missing or out of range, or `x` is no vector of integers.
    """
    x = convert_to_tensor(x)
    if len(x.shape) != 1 or not x.dtype.is_integer:
        raise InvalidArgumentError(
            f"invert_permutation: needs a vector of integers, got {tuple(x.shape)} {x.dtype.name}"
        )
    if hasattr(x, "_array"):
        _check_permutation(x.numpy())
    return ops.cast(ops.argsort(x), x.dtype)


def _check_permutation(values: Any) -> None:
    found = np.sort(values)
    if not np.array_equal(found, np.arange(len(found))):
        raise InvalidArgumentError(
            f"invert_permutation: {values.tolist()} is no permutation of 0 to {len(found) - 1}"
        )


@needs_values("partitions", "num_partitions", gives=_parts)
def dynamic_partition(
    data: Any, partitions: Any, num_partitions: int, name: Any = None
) -> list[Tensor]:
    """The slices of `data` by the part that each belongs to.

    Args:
        data: tensor whose first axes are those of `partitions`.
        partitions: integers in [0, num_partitions).
        num_partitions: how many tensors to give.
        name: not kept.

    Returns:
        A list of tensors (count, ...), slices in the order of `data`.

    Raises:
        InvalidArgumentError: a number is out of range.
        ShapeError: the shapes do not fit.
    """
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
    rows = ops.reshape(data, (numbers.size, *data.shape[lead:]))
    return [ops.take(rows, np.flatnonzero(numbers == k), axis=0) for k in range(num_partitions)]


@needs_values("indices", gives=_stitched)
def dynamic_stitch(indices: Any, data: Any, name: Any = None) -> Tensor:
    """One tensor of slices from several: result[indices[m][i]] = data[m][i]; later ones win.

    Args:
        indices: list of integer tensors.
        data: list of tensors; the first axes of each are those of its indices.
        name: not kept.

    Returns:
        A tensor (greatest index + 1, ...), 0 where no index points to.

    Raises:
        InvalidArgumentError: the lists differ in length, or an index is negative.
    """
    if len(indices) != len(data) or not len(data):
        raise InvalidArgumentError(
            f"dynamic_stitch: {len(indices)} indices and {len(data)} data; give as many of each"
        )
    places = [concrete(i, "dynamic_stitch") for i in indices]
    rows = []
    for place, values in zip(places, data, strict=True):
        values = convert_to_tensor(values)
        rows.append(ops.reshape(values, (place.size, *values.shape[place.ndim :])))
    flat = np.concatenate([place.reshape(-1) for place in places])
    if flat.size and flat.min() < 0:
        raise InvalidArgumentError(f"dynamic_stitch: the index {flat.min()} is negative")
    size = int(flat.max()) + 1 if flat.size else 0
    source = np.full(size, len(flat))
    source[flat] = np.arange(len(flat))
    joined = ops.concatenate(rows, axis=0)
    padded = ops.concatenate([joined, ops.zeros((1, *joined.shape[1:]), joined.dtype)], axis=0)
    return ops.take(padded, source, axis=0)


@needs_values("hypothesis", "truth", gives=_distances)
def edit_distance(
    hypothesis: Any,
    truth: Any,
    normalize: bool = True,
    name: Any = "edit_distance",
    *,
    padding: int = -1,
) -> Tensor:
    """Levenshtein's distance between sequences of integers: insertions, deletions, exchanges.

    Args:
        hypothesis: integers (..., n); entries equal to `padding` are left out.
        truth: integers (..., m); the leading axes are those of `hypothesis`.
        normalize: divide by the length of the truth, which gives inf where only that is empty.
        name: not kept.
        padding: the number that fills up short sequences. (TensorFlow takes sparse tensors.)

    Returns:
        A float32 tensor of the leading axes.

    Raises:
        ShapeError: the leading axes differ.
    """
    left, right = (concrete(t, "edit_distance") for t in (hypothesis, truth))
    if left.ndim < 1 or left.shape[:-1] != right.shape[:-1]:
        raise ShapeError(
            f"edit_distance: hypothesis {left.shape} and truth {right.shape} must agree in all "
            "axes but the last"
        )
    found = np.zeros(left.shape[:-1], np.float32)
    for place in np.ndindex(found.shape):
        one, two = left[place], right[place]
        one, two = one[one != padding], two[two != padding]
        distance = _levenshtein(one, two)
        if normalize:
            distance = distance / len(two) if len(two) else (np.inf if len(one) else 0.0)
        found[place] = distance
    return convert_to_tensor(found)


def _levenshtein(one: Any, two: Any) -> float:
    """Row by row; within a row the insertions are a running minimum."""
    steps = np.arange(len(two) + 1)
    row = steps.copy()
    for item in one:
        best = np.minimum(row[1:] + 1, row[:-1] + (two != item))
        row = np.concatenate([[row[0] + 1], best])
        row = np.minimum.accumulate(row - steps) + steps
    return float(row[-1])


def unsorted_segment_sqrt_n(
    data: Any, segment_ids: Any, num_segments: Any, name: Any = None
) -> Tensor:
    """Sums of the rows with equal ids, each divided by the root of how many rows there are."""
    x, ids, count = convert_to_tensor(data), convert_to_tensor(segment_ids), plain(num_segments)
    sums = ops.segment_sum(x, ids, count)
    sizes = ops.segment_sum(ops.ones_like(ids, x.dtype), ids, count)
    root = ops.sqrt(ops.maximum(sizes, 1))
    return ops.divide(sums, ops.reshape(root, (-1,) + (1,) * (len(sums.shape) - 1)))


@needs_values("value_range", "nbins", gives=lambda a: like(a["values"], a["dtype"]))
def histogram_fixed_width_bins(
    values: Any, value_range: Any, nbins: int = 100, dtype: Any = "int32", name: Any = None
) -> Tensor:
    """For each value the number of its bin, of `nbins` equal ones; outliers in the outermost.

    Args:
        values: numbers of any shape.
        value_range: least and greatest value.
        nbins: how many bins.
        dtype: of the result.
        name: not kept.

    Raises:
        InvalidArgumentError: the range is empty, or `nbins` is not above 0.
    """
    low, high = (float(v) for v in plain(value_range))
    if not low < high:
        raise InvalidArgumentError(f"histogram_fixed_width: value_range [{low}, {high}] is empty")
    if plain(nbins) < 1:
        raise InvalidArgumentError(f"histogram_fixed_width: nbins must be above 0, got {nbins}")
    x = convert_to_tensor(values)
    x = x if x.dtype.is_floating else ops.cast(x, "float64")
    scaled = ops.floor(ops.divide(ops.subtract(x, low), high - low) * plain(nbins))
    return ops.cast(ops.clip(scaled, 0, plain(nbins) - 1), dtype)


@needs_values("value_range", "nbins", gives=lambda a: Spec((None,), as_dtype(a["dtype"])))
def histogram_fixed_width(
    values: Any, value_range: Any, nbins: int = 100, dtype: Any = "int32", name: Any = None
) -> Tensor:
    """How many values lie in each of `nbins` equal bins; see `histogram_fixed_width_bins`."""
    bins = ops.reshape(histogram_fixed_width_bins(values, value_range, nbins), (-1,))
    return ops.cast(ops.bincount(bins, minlength=plain(nbins)), dtype)


@needs_values("x", gives=_counted)
def unique_with_counts(
    x: Any, out_idx: Any = "int32", name: Any = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The different values in the order of their first place, where each element is, and counts.

    Args:
        x: vector.
        out_idx: dtype of places and counts.
        name: not kept.
    """
    from trainkit.tf.indexing import unique

    values, places = unique(x, out_idx)
    return values, places, ops.cast(ops.bincount(places), out_idx)
