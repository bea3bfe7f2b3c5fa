"""Searching: searchsorted, digitize, unique and isin, all by sorted values."""

from __future__ import annotations

import math
from typing import Any, Literal, overload

import numpy as np

from trainkit.core import dtypes, shapes
from trainkit.core.devices import Array, ArrayModule, to_numpy
from trainkit.core.dispatch.facets import COMMON, INDEXING, INTEGERS, Direct, one_by_one
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.ops.arrays.shaping import as_tensor, ravel, reshape, reshape_like
from trainkit.ops.core.one_node import one_node
from trainkit.ops.math.comparisons import equal, logical_not
from trainkit.ops.math.elementwise import cast, where


@primitive(
    lambda sorted_sequence, values, *, side, dtype="int32": Spec(values.shape, dtype),
    name="searchsorted",
    promotion=COMMON,
    semantics=INDEXING,
    no_gradient=INTEGERS,
    direct=Direct("search"),
)
def _searchsorted(
    xp: ArrayModule, sorted_sequence: Array, values: Array, *, side: str, dtype: str = "int32"
) -> Array:
    """Positions at which `values` would go into `sorted_sequence`."""
    if xp is np:
        sorted_sequence, values = map(dtypes.sort_keys, (sorted_sequence, values))
    if sorted_sequence.ndim == 1:
        return xp.asarray(xp.searchsorted(sorted_sequence, values, side)).astype(dtype)
    if not values.size:
        return xp.zeros(values.shape, dtype)
    *leading, length = sorted_sequence.shape
    lines = sorted_sequence.reshape(math.prod(leading), length)
    queries = values.reshape(len(lines), -1)
    positions = [xp.searchsorted(a, v, side) for a, v in zip(lines, queries, strict=True)]
    return xp.stack(positions).reshape(values.shape).astype(dtype)


_searchsorted.declare(stackable=True)


def searchsorted(sorted_sequence: TensorLike, values: TensorLike, side: str = "left") -> Tensor:
    """The positions at which `values` would go into a rising sequence and keep it rising.

    Args:
        sorted_sequence: tensor (..., n) that rises along its last axis.
        values: tensor of any shape; (..., m) if the sequence has more than one axis.
        side: `"left"` for the position before equal elements, `"right"` for that behind them.

    Returns:
        An int32 tensor of the shape of `values`; int64 where the length of the sequence is not
        known yet.

    Raises:
        ValueError: `side` is another one.
        ShapeError: the sequence is a scalar, or the leading axes differ.

    Example:
        >>> tk.ops.searchsorted([1, 3, 5], [0, 3, 9]).numpy()
        array([0, 1, 3], dtype=int32)
    """
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side is 'left' or 'right', not {side!r}")
    line, queries = as_tensor(sorted_sequence), as_tensor(values)
    if len(line.shape) == 0 or (len(line.shape) > 1 and line.shape[:-1] != queries.shape[:-1]):
        raise ShapeError(
            f"searchsorted: a sequence of shape {tuple(line.shape)} does not go with values of "
            "shape "
            f"{tuple(queries.shape)}"
        )
    width = "int64" if line.shape[-1] is None else "int32"
    result: Tensor = _searchsorted(line, queries, side=side, dtype=width)
    return result


def digitize(x: TensorLike, bins: Any) -> Tensor:
    """The number of the bin of each element of `x`.

    Args:
        x: tensor of any shape.
        bins: the rising edges between bins, a vector.

    Returns:
        An int32 tensor of the shape of `x`: i where `bins[i - 1] <= x < bins[i]`.

    Raises:
        ShapeError: `bins` is no vector.

    Example:
        >>> tk.ops.digitize([0.2, 6.4], [0.0, 1.0, 2.5]).numpy()
        array([1, 3], dtype=int32)
    """
    edges = as_tensor(bins)
    if len(edges.shape) != 1:
        raise ShapeError(f"digitize: bins are a vector, got shape {tuple(edges.shape)}")
    return cast(searchsorted(edges, x, side="right"), dtypes.int32)


def _unique_rule(x: Spec, *, sorted: bool, axis: int, size: int | None) -> Any:
    axis_index = shapes.canonical_axis(axis, len(x.shape), "unique")
    n = x.shape[axis_index]
    values = Spec((*x.shape[:axis_index], size, *x.shape[axis_index + 1 :]), x.dtype)
    count = Spec((size,), dtypes.int32)
    return values, count, Spec((n,), dtypes.int32), count


@primitive(
    _unique_rule, name="unique", semantics=INDEXING, text="beside numbers", no_gradient=INTEGERS
)
def _unique(xp: ArrayModule, x: Array, *, sorted: bool, axis: int, size: int | None) -> Any:
    """The different slices along an axis, their first positions, which each one is, and counts."""
    host = to_numpy(x)
    values, first, inverse, counts = np.unique(
        dtypes.sort_keys(host),
        return_index=True,
        return_inverse=True,
        return_counts=True,
        axis=axis,
    )
    values, inverse = dtypes.cast_array(values, host.dtype), inverse.reshape(-1)
    if axis == 0 and host.ndim == 1 and counts.size and counts[-1] > 1 and values[-1] != values[-1]:
        values, first, inverse, counts = _split_nans(host, values, first, inverse, counts)
    if not sorted:
        order = np.argsort(first, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        values, inverse = np.take(values, order, axis), rank[inverse]
        first, counts = first[order], counts[order]
    start = first[0] if len(first) else 0
    values, counts = _fit(values, axis, size, 0), _fit(counts, 0, size, 0)
    first = _fit(first, 0, size, start)
    outputs = (values, *(a.astype(np.int32) for a in (first, inverse, counts)))
    return tuple(xp.asarray(a) for a in outputs)


_unique.declare(batch=one_by_one("items have different numbers of different values"))


def _split_nans(host: Any, values: Any, first: Any, inverse: Any, counts: Any) -> Any:
    """The findings of `numpy.unique` with each NaN for itself, as no two of them are equal."""
    nans = np.flatnonzero(host != host)
    start = len(values) - 1
    inverse = inverse.copy()
    inverse[nans] = start + np.arange(len(nans))
    values = np.concatenate([values[:start], host[nans]])
    counts = np.concatenate([counts[:start], np.ones(len(nans), counts.dtype)])
    return values, np.concatenate([first[:start], nans]), inverse, counts


def _fit(array: Any, axis: int, size: int | None, fill: Any) -> Any:
    """`array` cut or filled up to `size` along an axis."""
    if size is None:
        return array
    array = array[(slice(None),) * axis + (slice(size),)]
    widths = [(0, 0)] * array.ndim
    widths[axis] = (0, size - array.shape[axis])
    return np.pad(array, widths, constant_values=fill)


@overload
def unique(
    x: TensorLike,
    sorted: bool = True,
    return_index: Literal[False] = False,
    return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False,
    axis: int | None = None,
    size: int | None = None,
    fill_value: Any = None,
) -> Tensor: ...
@overload
def unique(
    x: TensorLike,
    sorted: bool = True,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    size: int | None = None,
    fill_value: Any = None,
) -> Any: ...
@one_node("unique")
def unique(
    x: TensorLike,
    sorted: bool = True,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """The different elements of `x`, or its different slices along `axis`.

    Args:
        x: tensor of any shape.
        sorted: in rising order; without it in that of their first positions.
        return_index: give the first position of each, too.
        return_inverse: give for each element the position of its value in the result, too.
        return_counts: give the number of each, too.
        axis: along which slices are compared; `None` compares elements.
        size: how many to give: the others are cut off, what is missing is filled up.
        fill_value: the number to fill up with, 0 by default.

    Returns:
        The values; or a tuple of the values and, as asked for, int32 tensors of first positions,
        the inverse (of the shape of `x` without an axis) and counts (0 where filled up). Each NaN
        is one of its own. The result has no gradient.

    Raises:
        ShapeError: `axis` is out of range.
        ValueError: `size` is negative.

    Example:
        >>> tk.ops.unique([3, 1, 3]).numpy()
        array([1, 3], dtype=int32)
    """
    if size is not None and size < 0:
        raise ValueError(f"unique: size must be 0 or more, got {size}")
    tensor = as_tensor(x)
    flat = ravel(tensor) if axis is None else tensor
    axis_index = 0 if axis is None else shapes.canonical_axis(axis, len(tensor.shape), "unique")
    values, first, inverse, counts = _unique(flat, sorted=bool(sorted), axis=axis_index, size=size)
    if axis is None and len(tensor.shape) != 1:
        inverse = reshape_like(inverse, tensor)
    if fill_value and size is not None:
        values = _fill_empty(values, counts, fill_value, axis_index)
    options = zip(
        (first, inverse, counts), (return_index, return_inverse, return_counts), strict=True
    )
    more = [tensor for tensor, is_returned in options if is_returned]
    return (values, *more) if more else values


def _fill_empty(values: Tensor, counts: Tensor, fill_value: Any, axis: int) -> Tensor:
    """`values` with `fill_value` in the slices that count 0."""
    line = [1] * len(values.shape)
    line[axis] = -1
    missing = reshape(equal(counts, 0), line)
    return where(missing, cast(as_tensor(fill_value), values.dtype), values)


_MOST_COMPARED = 1 << 12
"""Pairs of an element and a member that are compared one by one."""


@primitive(
    lambda x, members: Spec(x.shape, dtypes.bool_),
    name="isin",
    promotion=COMMON,
    semantics=INDEXING,
    text="alone",
    no_gradient=INTEGERS,
)
def _isin(xp: ArrayModule, x: Array, members: Array) -> Array:
    """Whether each element is one of `members`."""
    if xp is np and x.size * members.size <= _MOST_COMPARED:  # where sorting takes longer
        return np.equal(x.reshape(-1, 1), members.reshape(1, -1)).any(1).reshape(x.shape)
    return xp.isin(x, members)


_isin.declare(stackable=True)


def isin(
    x1: TensorLike, x2: TensorLike, assume_unique: bool = False, invert: bool = False
) -> Tensor:
    """Whether each element of `x1` is among the elements of `x2`.

    Args:
        x1: tensor of any shape.
        x2: tensor of any shape; dtypes promote.
        assume_unique: no element stands twice in either. The result is the same without it.
        invert: whether it is not among them, instead.

    Returns:
        A bool tensor of the shape of `x1`.

    Example:
        >>> tk.ops.isin([1, 2, 3], [2]).numpy()
        array([False,  True, False])
    """
    is_member: Tensor = _isin(x1, x2)
    return logical_not(is_member) if invert else is_member
