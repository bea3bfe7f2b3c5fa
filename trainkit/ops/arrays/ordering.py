"""Order of elements: sorting in either direction, permutations, different values.

The arguments are TensorFlow's; `name` is not kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core.dtypes import as_dtype, sort_keys
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.ops.arrays.pad_and_roll import flip
from trainkit.ops.arrays.shaping import reshape
from trainkit.ops.arrays.sorting import argsort as argsort_
from trainkit.ops.arrays.sorting import sort as sort_
from trainkit.ops.core.dynamic_shapes import Bound, like, needs_values, rows
from trainkit.ops.math.bitwise import bitwise_not
from trainkit.ops.math.comparisons import less, less_equal
from trainkit.ops.math.elementwise import cast, negative
from trainkit.ops.math.predicates import all as all_
from trainkit.ops.math.statistics import bincount


def argsort(
    values: TensorLike,
    axis: int = -1,
    direction: str = "ASCENDING",
    stable: bool = False,
    name: str | None = None,
) -> Tensor:
    """The int32 positions that sort `values` along `axis`; equal values keep their order.

    NaN comes last in either direction.

    Args:
        values: tensor of one axis or more.
        axis: int.
        direction: `"ASCENDING"` or `"DESCENDING"`.
        stable: changes nothing: the order of equal ones is always kept.

    Example:
        >>> tk.argsort([3.0, 1.0, 2.0]).numpy()
        array([1, 2, 0], dtype=int32)
    """
    _direction(direction)
    x = convert_to_tensor(values)
    if direction == "DESCENDING":
        x = _descending_key(x)
    return cast(argsort_(x, axis=axis), "int32")


def _descending_key(x: Tensor) -> Tensor:
    """What sorts in the opposite order, equal values in theirs."""
    if x.dtype.is_bool or x.dtype.is_unsigned:
        x = cast(x, "int64")
    return bitwise_not(x) if x.dtype.is_integer else negative(x)


def _direction(direction: str) -> None:
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ValueError(f"sort: direction {direction!r}; use 'ASCENDING' or 'DESCENDING'")


def sort(
    values: TensorLike, axis: int = -1, direction: str = "ASCENDING", name: str | None = None
) -> Tensor:
    """`values` in order along `axis`, in that of `argsort`: NaN comes last in either direction.

    Args:
        values: tensor of one axis or more.
        axis: int.
        direction: `"ASCENDING"` or `"DESCENDING"`.

    Example:
        >>> tk.sort([3, 1, 2], direction="DESCENDING").numpy()
        array([3, 2, 1], dtype=int32)
    """
    _direction(direction)
    x = convert_to_tensor(values)
    if direction == "ASCENDING":
        return sort_(x, axis=axis)
    if x.dtype.is_floating:
        return negative(sort_(negative(x), axis=axis))
    return flip(sort_(x, axis=axis), axis)


@needs_values("x", gives=lambda a: (rows(a["x"]), like(a["x"], a["out_idx"])))
def unique(x: TensorLike, out_idx: Any = "int32", name: str | None = None) -> tuple[Tensor, Tensor]:
    """The different values as they first occur, and the place of each element among them.

    A NaN equals nothing, so each is a value of its own.

    Args:
        x: tensor (n,).
        out_idx: dtype of the places, int32 or int64.

    Example:
        >>> values, positions = tk.unique([5, 5, 7])
        >>> values.numpy(), positions.numpy()
        (array([5, 7], dtype=int32), array([0, 0, 1], dtype=int32))
    """
    values = np.asarray(convert_to_tensor(x)._host_view())
    if values.size <= _FEW and values.ndim == 1 and values.dtype.kind in "iuf":
        # A dozen calls of NumPy take longer than a dictionary, in which each NaN is a key, too.
        ranks_of: dict[Any, int] = {}
        indices = [ranks_of.setdefault(value, len(ranks_of)) for value in values.tolist()]
        unique_values = np.array(list(ranks_of), values.dtype)
        return convert_to_tensor(unique_values), convert_to_tensor(indices, as_dtype(out_idx))
    first, inverse = (
        _of_small_span(values)
        or np.unique(sort_keys(values), return_index=True, return_inverse=True, equal_nan=False)[1:]
    )
    order = np.argsort(first, kind="stable")
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))
    return (
        convert_to_tensor(values[np.sort(first)]),
        cast(convert_to_tensor(ranks[inverse]), out_idx),
    )


_FEW = 1 << 6
"""Numbers that a dictionary tells apart in 17 microseconds, a dozen calls of NumPy in 45."""
_SPARSEST = 4
"""Numbers in the span of integers for each of them, up to which a table takes less than a sort."""


def _of_small_span(values: Any) -> tuple[Any, Any] | None:
    """First places and inverse, as `np.unique` gives them, by a table of all numbers of the span.

    `None` where the values are no integers, or lie far apart.
    """
    if values.dtype.kind not in "iu" or not values.size:
        return None
    lowest, greatest = int(values.min()), int(values.max())
    span = greatest - lowest + 1
    if span > _SPARSEST * values.size:
        return None
    # Differences of small integers may be too large for their dtype; without a sign they fit.
    differences = values - values.dtype.type(lowest)
    numbers = differences.view(f"u{values.itemsize}").astype(np.int64)
    first = np.full(span, values.size)
    # Backwards, as of several values for one place the last is kept.
    first[numbers[::-1]] = np.arange(values.size)[::-1]
    occurs = first < values.size
    return first[occurs], (np.cumsum(occurs) - 1)[numbers]


def _count(a: Bound) -> tuple[Spec, Spec, Spec]:
    values = rows(a["x"])
    return values, like(a["x"], a["out_idx"]), Spec(values.shape, as_dtype(a["out_idx"]))


def is_non_decreasing(x: TensorLike, name: str | None = None) -> Tensor:
    """Whether no element is less than the one before it, over all elements in row-major order.

    Args:
        x: tensor of numbers.

    Example:
        >>> bool(tk.math.is_non_decreasing([1, 1, 2]))
        True
    """
    flat = reshape(x, (-1,))
    return all_(less_equal(flat[:-1], flat[1:]))


def is_strictly_increasing(x: TensorLike, name: str | None = None) -> Tensor:
    """Whether each element is greater than the one before it, in row-major order.

    Args:
        x: tensor of numbers.

    Example:
        >>> bool(tk.math.is_strictly_increasing([1, 1, 2]))
        False
    """
    flat = reshape(x, (-1,))
    return all_(less(flat[:-1], flat[1:]))


def invert_permutation(x: TensorLike, name: str | None = None) -> Tensor:
    """The permutation y with y[x[i]] = i.

    Args:
        x: integers (n,), each of 0 to n - 1 once.

    Raises:
        InvalidArgumentError: a number is missing or out of range, or `x` is no vector of integers.

    Example:
        >>> tk.math.invert_permutation([2, 0, 1]).numpy()
        array([1, 2, 0], dtype=int32)
    """
    x = convert_to_tensor(x)
    if len(x.shape) != 1 or not x.dtype.is_integer:
        raise InvalidArgumentError(
            f"invert_permutation: needs a vector of integers, got {tuple(x.shape)} {x.dtype.name}"
        )
    if hasattr(x, "_array"):
        _check_permutation(x.numpy())
    return cast(argsort_(x), x.dtype)


def _check_permutation(values: Any) -> None:
    ordered = np.sort(values)
    if not np.array_equal(ordered, np.arange(len(ordered))):
        raise InvalidArgumentError(
            f"invert_permutation: {values.tolist()} is no permutation of 0 to {len(ordered) - 1}"
        )


@needs_values("x", gives=_count)
def unique_with_counts(
    x: TensorLike, out_idx: Any = "int32", name: str | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The different values in the order of their first place, where each element is, and counts.

    Args:
        x: vector.
        out_idx: dtype of places and counts.

    Example:
        >>> values, positions, counts = tk.unique_with_counts([5, 5, 7])
        >>> counts.numpy()
        array([2, 1], dtype=int32)
    """
    values, indices = unique(x, out_idx)
    return values, indices, cast(bincount(indices), out_idx)
