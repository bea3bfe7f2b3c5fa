"""How often values occur: bins, histograms of equal bins, confusion matrices, zeros.

The arguments are TensorFlow's; `name` is not kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core import dtypes
from trainkit.core.dispatch import trace_state
from trainkit.core.dtypes import as_dtype
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor, wrap
from trainkit.core.values.type_aliases import Axis, DTypeLike, TensorLike
from trainkit.ops.arrays.concat_and_split import stack
from trainkit.ops.arrays.creation import ones_like
from trainkit.ops.arrays.shaping import as_tensor, reshape
from trainkit.ops.core.assertions import assert_non_negative
from trainkit.ops.core.axis_numbers import plain, reduced
from trainkit.ops.core.dynamic_shapes import Bound, like, needs_values
from trainkit.ops.indexing.scattering import scatter
from trainkit.ops.math.comparisons import equal, not_equal
from trainkit.ops.math.elementwise import cast, divide, maximum, subtract
from trainkit.ops.math.max_and_argmax import max as max_
from trainkit.ops.math.reductions import mean
from trainkit.ops.math.reductions import sum as sum_
from trainkit.ops.math.rounding import floor
from trainkit.ops.math.statistics import counts_of
from trainkit.ops.math.value_limits import clip


def count_nonzero(
    input: TensorLike,
    axis: Axis | None = None,
    keepdims: bool = False,
    dtype: DTypeLike = "int64",
    name: str | None = None,
) -> Tensor:
    """The number of elements that are not 0.

    Args:
        input: tensor of any shape.
        axis: int, ints, or a tensor of them; by default all.
        keepdims: keep the reduced axes with size 1.
        dtype: of the result.

    Example:
        >>> int(tk.math.count_nonzero([[0, 1], [2, 3]]))
        3
    """
    x = as_tensor(input)
    if axis is None and not keepdims and type(x) is Tensor and type(x._array) is np.ndarray:
        if not (trace_state.TAPES or trace_state.THREAD.traces) and x._array.dtype.kind in "biuf":
            return wrap(np.array(np.count_nonzero(x._array)).astype(as_dtype(dtype).dtype))
    counted = x if x.dtype == dtypes.bool_ else not_equal(x, 0)
    size = x._array.size if type(x) is Tensor else x.shape.num_elements()
    if size is None or size >= 1 << 31:  # more than the int32 in which bools are summed may hold
        counted = cast(counted, dtype)
    return cast(reduced(sum_, counted, axis, keepdims), dtype)


# ---------------------------------------------------------------------- counting, segments


def _counts(a: Bound) -> Spec:
    lead = as_tensor(a["arr"]).shape[:-1] if a["axis"] == -1 else ()
    sums = a["weights"]
    return Spec((*lead, None), a["dtype"] if sums is None else as_tensor(sums).dtype)


@needs_values("minlength", "maxlength", gives=_counts)
def bincount(
    arr: TensorLike,
    weights: Any = None,
    minlength: Any = None,
    maxlength: Any = None,
    dtype: DTypeLike = "int32",
    name: str | None = None,
    axis: Axis | None = None,
    binary_output: bool = False,
) -> Tensor:
    """How often each number from 0 on occurs, or the sum of its weights.

    Args:
        arr: integers, 0 or above.
        weights: of the shape of `arr`.
        minlength: the result has at least so many entries.
        maxlength: numbers from here on are left out. Where it is `minlength` too, the shape of the
            result is known beforehand: a GPU then is not waited for, a CUDA graph may hold the
            call, and negative numbers are left out on a GPU. Else `arr` is waited for.
        dtype: of the counts.
        axis: `None` or 0, all elements count together; or -1, each row by itself.
        binary_output: 1 where a number occurs, in place of the count.

    Raises:
        ValueError: another `axis`.
        ShapeError: `axis` is -1 and `arr` has neither one nor two axes.

    Example:
        >>> tk.math.bincount([1, 1, 3]).numpy()
        array([0, 2, 0, 1], dtype=int32)
    """
    if axis not in (None, 0, -1):
        raise ValueError(f"bincount: axis {axis} is not supported; use None, 0 or -1")
    x = as_tensor(arr) if axis == -1 else reshape(as_tensor(arr), (-1,))
    sums = None if weights is None else as_tensor(weights)
    if sums is not None and axis != -1:
        sums = reshape(sums, (-1,))
    limit = plain(maxlength)
    counts = counts_of(x, sums, int(plain(minlength) or 0), None if limit is None else int(limit))
    if binary_output:
        counts = cast(not_equal(counts, 0), dtype)
    return counts if weights is not None else cast(counts, dtype)


def zero_fraction(value: TensorLike, name: str | None = None) -> Tensor:
    """The share of elements that are 0, in [0, 1].

    Args:
        value: tensor of any shape.

    Example:
        >>> float(tk.math.zero_fraction([0.0, 1.0, 2.0, 0.0]))
        0.5
    """
    return mean(cast(equal(value, 0), dtypes.float32))


@needs_values("value_range", "nbins", gives=lambda a: like(a["values"], a["dtype"]))
def histogram_fixed_width_bins(
    values: TensorLike,
    value_range: Any,
    nbins: int = 100,
    dtype: DTypeLike = "int32",
    name: str | None = None,
) -> Tensor:
    """For each value the number of its bin, of `nbins` equal ones; outliers in the outermost.

    Args:
        values: numbers of any shape.
        value_range: least and greatest value.
        nbins: how many bins.
        dtype: of the result.

    Raises:
        InvalidArgumentError: the range is empty, or `nbins` is not above 0.

    Example:
        >>> tk.histogram_fixed_width_bins([0.0, 0.5, 1.5, 9.0], [0.0, 2.0], nbins=2).numpy()
        array([0, 0, 1, 1], dtype=int32)
    """
    low, high = (float(v) for v in plain(value_range))
    if not low < high:
        raise InvalidArgumentError(f"histogram_fixed_width: value_range [{low}, {high}] is empty")
    if plain(nbins) < 1:
        raise InvalidArgumentError(f"histogram_fixed_width: nbins must be above 0, got {nbins}")
    x = convert_to_tensor(values)
    x = x if x.dtype.is_floating else cast(x, "float64")
    scaled = floor(divide(subtract(x, low), high - low) * plain(nbins))
    return cast(clip(scaled, 0, plain(nbins) - 1), dtype)


@needs_values("value_range", "nbins", gives=lambda a: Spec((None,), as_dtype(a["dtype"])))
def histogram_fixed_width(
    values: TensorLike,
    value_range: Any,
    nbins: int = 100,
    dtype: DTypeLike = "int32",
    name: str | None = None,
) -> Tensor:
    """How many values lie in each of `nbins` equal bins; see `histogram_fixed_width_bins`.

    Args:
        values: numbers of any shape.
        value_range: least and greatest value.
        nbins: how many bins.
        dtype: of the result.

    Example:
        >>> tk.histogram_fixed_width([0.0, 0.5, 1.5, 9.0], [0.0, 2.0], nbins=2).numpy()
        array([2, 2], dtype=int32)
    """
    bins = reshape(histogram_fixed_width_bins(values, value_range, nbins), (-1,))
    return cast(counts_of(bins, None, int(plain(nbins)), int(plain(nbins))), dtype)


def confusion_matrix(
    labels: TensorLike,
    predictions: TensorLike,
    num_classes: int | None = None,
    weights: Any = None,
    dtype: DTypeLike = "int32",
    name: str | None = None,
) -> Tensor:
    """How often label i (row) was predicted as j (column).

    Args:
        labels: integers (n,) of 0 or above; floats are rounded towards 0.
        predictions: likewise.
        num_classes: size of the matrix; by default the greatest number plus 1.
        weights: (n,), by default 1 each.
        dtype: of the result.

    Raises:
        InvalidArgumentError: a label or prediction is negative, or too large for `num_classes`.

    Example:
        >>> tk.math.confusion_matrix([0, 1, 1], [0, 1, 0]).numpy()
        array([[1, 0],
               [1, 1]], dtype=int32)
    """
    size = plain(num_classes)
    labels, predictions = as_tensor(labels), as_tensor(predictions)
    if size is not None and weights is None:
        counts = _confusion_counts(labels, predictions, size)
        if counts is not None:
            return wrap(counts.astype(as_dtype(dtype).dtype))
    labels, predictions = cast(labels, "int64"), cast(predictions, "int64")
    for classes, title in ((labels, "labels"), (predictions, "predictions")):
        assert_non_negative(classes, f"confusion_matrix: negative {title}")
    if size is None:
        return _confusion_of_all(labels, predictions, weights, dtype)
    ones = ones_like(labels, dtype) if weights is None else cast(weights, dtype)
    return scatter(stack([labels, predictions], axis=1), ones, (size, size))


_UNSIGNED = {np.dtype(np.int32): np.uint32, np.dtype(np.int64): np.uint64}


def _confusion_counts(labels: Tensor, predictions: Tensor, size: int) -> Any:
    """The counts of NumPy's integers; `None` for others, and where one is out of range."""
    pair: list[Any] = [x._array if type(x) is Tensor else None for x in (labels, predictions)]
    if trace_state.THREAD.traces or not all(type(x) is np.ndarray and x.ndim == 1 for x in pair):
        return None
    rows, columns = pair
    unsigned = _UNSIGNED.get(rows.dtype)
    if unsigned is None or columns.dtype != rows.dtype or len(rows) != len(columns):
        return None
    if not len(rows) or size < 1 or size * size > np.iinfo(rows.dtype).max:
        return None
    # of unsigned numbers the negative ones are the greatest
    if max(rows.view(unsigned).max(), columns.view(unsigned).max()) >= size:
        return None
    return np.bincount(rows * size + columns, minlength=size * size).reshape(size, size)


@needs_values(
    "labels", "predictions", gives=lambda a: Spec((None, None), dtypes.as_dtype(a["dtype"]))
)
def _confusion_of_all(labels: Any, predictions: Any, weights: Any, dtype: Any) -> Tensor:
    size = 1 + int(maximum(max_(labels), max_(predictions)))
    return confusion_matrix(labels, predictions, size, weights, dtype)
