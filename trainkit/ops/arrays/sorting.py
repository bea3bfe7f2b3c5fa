"""Order: sort, argsort, top_k, searchsorted, unique and what is made of them.

Sorting is stable: equal elements keep their order, so the position of the first of several equal
ones comes first. The gradient of a sorted tensor goes back to where each element came from.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from trainkit.core import dtypes, shapes
from trainkit.core.devices import Array, ArrayModule, to_numpy
from trainkit.core.dispatch.facets import (
    AXIS,
    COMMON,
    INDEXING,
    INTEGERS,
    LAST_AXES,
    NO_LAYER,
    NOT_YET,
    one_by_one,
)
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor
from trainkit.ops.arrays.shaping import (
    as_tensor,
    ravel,
    reshape,
    reshape_like,
)
from trainkit.ops.core.dynamic_shapes import Bound, like, needs_values
from trainkit.ops.indexing.gathering import positions, take_along_axis_sum
from trainkit.ops.math.elementwise import (
    cast,
    equal,
    logical_not,
    where,
)

_INT32 = np.int32


def _axis_rule(x: Spec, *, axis: int) -> Spec:
    shapes.canonical_axis(axis, len(x.shape), "sort")
    return Spec(x.shape, x.dtype)


@primitive(_axis_rule, name="sort", semantics=AXIS, export=NOT_YET)
def _sort(xp: ArrayModule, x: Array, *, axis: int) -> Array:
    """The elements in rising order along an axis."""
    return xp.sort(x, axis=axis)


@primitive(
    lambda x, *, axis: Spec(_axis_rule(x, axis=axis).shape, dtypes.int32),
    name="argsort",
    semantics=AXIS,
    export=NOT_YET,
    no_gradient=INTEGERS,
)
def _argsort(xp: ArrayModule, x: Array, *, axis: int) -> Array:
    """The positions that put the elements in rising order along an axis, int32."""
    found = np.argsort(x, axis, kind="stable") if xp is np else xp.argsort(x, axis)
    return found.astype(_INT32)


_argsort.declare(stackable=True)


_sort.gradients(
    lambda g, y, x, *, axis: take_along_axis_sum(g, _argsort(x, axis=axis), x, axis=axis)
)
_sort.declare(stackable=True)


def sort(x: Any, axis: int | None = -1) -> Tensor:
    """The elements of `x` in rising order along `axis`; NaN comes last.

    Args:
        x: tensor of rank 1 at least.
        axis: along which; `None` flattens `x` first.

    Returns:
        A tensor of the dtype of `x`.

    Raises:
        ShapeError: `axis` is out of range.
    """
    result: Tensor = _sort(ravel(x), axis=0) if axis is None else _sort(x, axis=axis)
    return result


def argsort(x: Any, axis: int | None = -1) -> Tensor:
    """The positions of the elements of `x` in rising order along `axis`; equal ones in their order.

    Args:
        x: tensor of rank 1 at least.
        axis: along which; `None` flattens `x` first.

    Returns:
        An int32 tensor.

    Raises:
        ShapeError: `axis` is out of range.
    """
    result: Tensor = _argsort(ravel(x), axis=0) if axis is None else _argsort(x, axis=axis)
    return result


def _partition_rule(x: Spec, *, kth: int, axis: int) -> Spec:
    n = x.shape[shapes.canonical_axis(axis, len(x.shape), "argpartition")]
    if n is not None and not -n <= kth < n:
        raise InvalidArgumentError(f"argpartition: kth={kth} is outside of an axis of size {n}")
    return Spec(x.shape, dtypes.int32)


@primitive(
    _partition_rule, name="argpartition", semantics=AXIS, export=NOT_YET, no_gradient=INTEGERS
)
def _argpartition(xp: ArrayModule, x: Array, *, kth: int, axis: int) -> Array:
    """Positions that put the element of rank `kth` in its place, lesser ones before it, int32."""
    return xp.argpartition(x, kth, axis=axis).astype(_INT32)


def argpartition(x: Any, kth: int, axis: int | None = -1) -> Tensor:
    """Positions that put the element of rank `kth` in its place, lesser ones before, others behind.

    Args:
        x: tensor of rank 1 at least.
        kth: rank, from 0; negative ones count from the end.
        axis: along which; `None` flattens `x` first.

    Returns:
        An int32 tensor of the shape of `x`.

    Raises:
        InvalidArgumentError: `kth` is outside of the axis.
        ShapeError: `axis` is out of range.
    """
    if axis is None:
        x, axis = ravel(x), 0
    result: Tensor = _argpartition(x, kth=int(kth), axis=axis)
    return result


# ------------------------------------------------------------------ top k


class TopK(NamedTuple):
    """The greatest elements, and where they are.

    Attributes:
        values: the elements, greatest first.
        indices: their positions along the last axis, int32.
    """

    values: Tensor
    indices: Tensor


def _top_rule(x: Spec, *, k: int, sorted: bool) -> Any:
    if len(x.shape) == 0:
        raise ShapeError("top_k: needs one axis at least, got a scalar")
    if k < 0 or (x.shape[-1] is not None and k > x.shape[-1]):
        raise InvalidArgumentError(
            f"top_k: input must have at least k columns. Had {x.shape[-1]}, needed {k} [Op:TopKV2]"
        )
    dims = (*x.shape[:-1], k)
    return Spec(dims, x.dtype), Spec(dims, dtypes.int32)


@primitive(_top_rule, name="top_k", semantics=LAST_AXES)
def _top_k(xp: ArrayModule, x: Array, *, k: int, sorted: bool) -> Any:
    """The `k` greatest elements along the last axis and their positions."""
    _top_rule(Spec(x.shape, "float32"), k=k, sorted=sorted)
    n = x.shape[-1]
    if xp is np and 0 < 8 * k < n and not (x != x).any():
        where = _few_greatest(x, k)
    else:
        rising = xp.argsort(x[..., ::-1], axis=-1, kind="stable")
        where = n - 1 - rising[..., ::-1][..., :k]
    return xp.take_along_axis(x, where, axis=-1), where.astype(_INT32)


def _few_greatest(x: Any, k: int) -> Any:
    """Positions of the `k` greatest, greatest first, without sorting the others.

    All elements above the k-th greatest value, then as many of those equal to it as fit.
    """
    rows = x.reshape(-1, x.shape[-1])
    least = np.partition(rows, -k, axis=-1)[:, -k, None]
    above = rows > least
    room = k - above.sum(axis=-1, keepdims=True)
    level = rows == least
    chosen = above | (level & (np.cumsum(level, axis=-1) <= room))
    where = np.nonzero(chosen)[1].reshape(-1, k)
    values = np.take_along_axis(rows, where, axis=-1)
    falling = k - 1 - np.argsort(values[:, ::-1], axis=-1, kind="stable")[:, ::-1]
    return np.take_along_axis(where, falling, axis=-1).reshape((*x.shape[:-1], k))


_top_k.gradients(
    lambda g, y, x, *, k, sorted: take_along_axis_sum(g[0], y[1], x, axis=len(x.shape) - 1)
)
_top_k.declare(stackable=True)


def _top_specs(a: Bound) -> TopK:
    x = as_tensor(a["x"])
    dims = (*x.shape[:-1], None)
    return TopK(Spec(dims, x.dtype), Spec(dims, dtypes.int32))  # type: ignore[arg-type]


@needs_values("k", gives=_top_specs)
def top_k(x: Any, k: int, sorted: bool = True, is_stable: bool = True) -> TopK:
    """The `k` greatest elements along the last axis; of equal ones the first.

    Args:
        x: tensor (..., n).
        k: how many, at most n.
        sorted: the greatest first. They come in this order also without it.
        is_stable: of equal ones the first come first. They do also without it.

    Returns:
        `values` and `indices`, both (..., k); the indices are int32.

    Raises:
        InvalidArgumentError: `k` is negative or greater than n.
    """
    values, indices = _top_k(x, k=int(k), sorted=bool(sorted))
    return TopK(values, indices)


def _in_top_rule(targets: Spec, predictions: Spec, *, k: int) -> Spec:
    dims, rows = targets.shape, predictions.shape[:-1]
    pairs = zip(dims, rows, strict=False)
    if len(dims) != len(rows) or any(None not in p and p[0] != p[1] for p in pairs):
        raise ShapeError(
            f"in_top_k: targets {dims} need predictions (*targets.shape, classes), got "
            f"{predictions.shape}"
        )
    return Spec(dims, dtypes.bool_)


@primitive(_in_top_rule, name="in_top_k", semantics=LAST_AXES, export=NOT_YET, no_gradient=INTEGERS)
def _in_top_k(xp: ArrayModule, targets: Array, predictions: Array, *, k: int) -> Array:
    """Whether fewer than `k` predictions beat that of the target."""
    _in_top_rule(Spec(targets.shape, "int32"), Spec(predictions.shape, "float32"), k=k)
    classes = predictions.shape[-1]
    inside = (targets >= 0) & (targets < classes)
    safe = xp.where(inside, targets, 0)
    score = xp.take_along_axis(predictions, safe[..., None], axis=-1)
    winners = (predictions > score).sum(axis=-1)
    return inside & xp.isfinite(score[..., 0]) & (winners < k)


@needs_values("k", gives=lambda a: like(a["targets"], "bool"))
def in_top_k(targets: Any, predictions: Any, k: int) -> Tensor:
    """Whether the score of each target is among the `k` greatest of its row.

    A tie counts for the target; a target that is no class, or whose score is not finite, is not in.

    Args:
        targets: integers (...), the classes.
        predictions: scores (..., classes).
        k: how many of the greatest scores count.

    Returns:
        A bool tensor of the shape of `targets`.

    Raises:
        ShapeError: shapes don't fit.
    """
    result: Tensor = _in_top_k(positions(targets, "in_top_k"), as_tensor(predictions), k=int(k))
    return result


# ------------------------------------------------------------------ searching


def _search_rule(sorted_sequence: Spec, values: Spec, *, side: str, dtype: str = "int32") -> Spec:
    return Spec(values.shape, dtype)


@primitive(
    _search_rule,
    name="searchsorted",
    promotion=COMMON,
    semantics=INDEXING,
    export=NOT_YET,
    no_gradient=INTEGERS,
)
def _searchsorted(
    xp: ArrayModule, sorted_sequence: Array, values: Array, *, side: str, dtype: str = "int32"
) -> Array:
    """Positions at which `values` would go into `sorted_sequence`."""
    if sorted_sequence.ndim == 1:
        return xp.asarray(xp.searchsorted(sorted_sequence, values, side)).astype(dtype)
    lines = sorted_sequence.reshape(-1, sorted_sequence.shape[-1])
    wanted = values.reshape(len(lines), -1)
    found = [xp.searchsorted(a, v, side) for a, v in zip(lines, wanted, strict=True)]
    return xp.stack(found).reshape(values.shape).astype(dtype)


_searchsorted.declare(stackable=True)


def searchsorted(sorted_sequence: Any, values: Any, side: str = "left") -> Tensor:
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
    """
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side is 'left' or 'right', not {side!r}")
    line, wanted = as_tensor(sorted_sequence), as_tensor(values)
    if len(line.shape) == 0 or (len(line.shape) > 1 and line.shape[:-1] != wanted.shape[:-1]):
        raise ShapeError(
            f"searchsorted: a sequence of shape {tuple(line.shape)} does not go with values of "
            "shape "
            f"{tuple(wanted.shape)}"
        )
    width = "int64" if line.shape[-1] is None else "int32"
    result: Tensor = _searchsorted(line, wanted, side=side, dtype=width)
    return result


def digitize(x: Any, bins: Any) -> Tensor:
    """The number of the bin of each element of `x`.

    Args:
        x: tensor of any shape.
        bins: the rising edges between bins, a vector.

    Returns:
        An int32 tensor of the shape of `x`: i where `bins[i - 1] <= x < bins[i]`.

    Raises:
        ShapeError: `bins` is no vector.
    """
    edges = as_tensor(bins)
    if len(edges.shape) != 1:
        raise ShapeError(f"digitize: bins are a vector, got shape {tuple(edges.shape)}")
    return cast(searchsorted(edges, x, side="right"), dtypes.int32)


# ------------------------------------------------------------------ unique


def _unique_rule(x: Spec, *, sorted: bool, axis: int, size: int | None) -> Any:
    place = shapes.canonical_axis(axis, len(x.shape), "unique")
    n = x.shape[place]
    values = Spec((*x.shape[:place], size, *x.shape[place + 1 :]), x.dtype)
    count = Spec((size,), dtypes.int32)
    return values, count, Spec((n,), dtypes.int32), count


@primitive(
    _unique_rule,
    name="unique",
    semantics=INDEXING,
    text="beside numbers",
    export=NO_LAYER,
    no_gradient=INTEGERS,
)
def _unique(xp: ArrayModule, x: Array, *, sorted: bool, axis: int, size: int | None) -> Any:
    """The different slices along an axis, their first positions, which each one is, and counts."""
    host = to_numpy(x)
    values, first, inverse, counts = np.unique(
        host, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    inverse = inverse.reshape(-1)
    if axis == 0 and host.ndim == 1 and counts.size and counts[-1] > 1 and values[-1] != values[-1]:
        values, first, inverse, counts = _apart(host, values, first, inverse, counts)
    if not sorted:
        order = np.argsort(first, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        values, inverse = np.take(values, order, axis), rank[inverse]
        first, counts = first[order], counts[order]
    start = first[0] if len(first) else 0
    values, counts = _fitted(values, axis, size, 0), _fitted(counts, 0, size, 0)
    first = _fitted(first, 0, size, start)
    found = (values, *(a.astype(_INT32) for a in (first, inverse, counts)))
    return tuple(xp.asarray(a) for a in found)


_unique.declare(batch=one_by_one("items have different numbers of different values"))


def _apart(host: Any, values: Any, first: Any, inverse: Any, counts: Any) -> Any:
    """The findings of `numpy.unique` with each NaN for itself, as no two of them are equal."""
    nans = np.flatnonzero(host != host)
    start = len(values) - 1
    inverse = inverse.copy()
    inverse[nans] = start + np.arange(len(nans))
    values = np.concatenate([values[:start], host[nans]])
    counts = np.concatenate([counts[:start], np.ones(len(nans), counts.dtype)])
    return values, np.concatenate([first[:start], nans]), inverse, counts


def _fitted(array: Any, axis: int, size: int | None, fill: Any) -> Any:
    """`array` cut or filled up to `size` along an axis."""
    if size is None:
        return array
    array = array[(slice(None),) * axis + (slice(size),)]
    widths = [(0, 0)] * array.ndim
    widths[axis] = (0, size - array.shape[axis])
    return np.pad(array, widths, constant_values=fill)


def unique(
    x: Any,
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
    """
    if size is not None and size < 0:
        raise ValueError(f"unique: size must be 0 or more, got {size}")
    tensor = as_tensor(x)
    flat = ravel(tensor) if axis is None else tensor
    place = 0 if axis is None else shapes.canonical_axis(axis, len(tensor.shape), "unique")
    values, first, inverse, counts = _unique(flat, sorted=bool(sorted), axis=place, size=size)
    if axis is None and len(tensor.shape) != 1:
        inverse = reshape_like(inverse, tensor)
    if fill_value and size is not None:
        values = _filled(values, counts, fill_value, place)
    wanted = zip(
        (first, inverse, counts), (return_index, return_inverse, return_counts), strict=True
    )
    more = [tensor for tensor, asked in wanted if asked]
    return (values, *more) if more else values


def _filled(values: Tensor, counts: Tensor, fill_value: Any, axis: int) -> Tensor:
    """`values` with `fill_value` in the slices that count 0."""
    line = [1] * len(values.shape)
    line[axis] = -1
    missing = reshape(equal(counts, 0), line)
    return where(missing, cast(as_tensor(fill_value), values.dtype), values)  # type: ignore[no-any-return]


# ------------------------------------------------------------------ membership


@primitive(
    lambda x, members: Spec(x.shape, dtypes.bool_),
    name="isin",
    promotion=COMMON,
    semantics=INDEXING,
    text="alone",
    export=NO_LAYER,
    no_gradient=INTEGERS,
)
def _isin(xp: ArrayModule, x: Array, members: Array) -> Array:
    """Whether each element is one of `members`."""
    return xp.isin(x, members)


_isin.declare(stackable=True)


def isin(x1: Any, x2: Any, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Whether each element of `x1` is among the elements of `x2`.

    Args:
        x1: tensor of any shape.
        x2: tensor of any shape; dtypes promote.
        assume_unique: no element stands twice in either. The result is the same without it.
        invert: whether it is not among them, instead.

    Returns:
        A bool tensor of the shape of `x1`.
    """
    found: Tensor = _isin(x1, x2)
    return logical_not(found) if invert else found
