"""Sums, products, maxima and minima over the elements that share a segment number.

A negative number belongs to no segment. One beyond the last segment is an error on the CPU; a GPU,
where looking at it would hold the program up, drops the element, as TensorFlow does.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainkit.core import dtypes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import INDEXING, Direct
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.process.later_imports import DeferredModule
from trainkit.core.shapes import Spec
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.kernels.embedding.row_additions import add_rows, fold_rows
from trainkit.kernels.embedding.scatter_reference import all_inside, scatter_at
from trainkit.ops.arrays.shaping import as_tensor, reshape
from trainkit.ops.core.dynamic_shapes import Bound, needs_values
from trainkit.ops.core.vmap import ItemStack, moved, reshaped, stacked
from trainkit.ops.indexing.gathering import first_outside, positions, take
from trainkit.ops.math.comparisons import equal, greater_equal, less
from trainkit.ops.math.elementwise import add, cast, divide, multiply, where
from trainkit.ops.vmap_rules.gather_rules import check_now

rows_gpu = DeferredModule("trainkit.kernels.indexing.rows_gpu")
sort_gpu = DeferredModule("trainkit.kernels.sorting.sort_gpu")


def _rule(data: Spec, segment_ids: Spec, *, num_segments: int | None) -> Spec:
    rank = len(segment_ids.shape)
    pairs = zip(data.shape, segment_ids.shape, strict=False)
    if not rank or rank > len(data.shape) or any(None not in p and p[0] != p[1] for p in pairs):
        raise ShapeError(
            f"segments: segment_ids of shape {tuple(segment_ids.shape)} must be the first axes of "
            f"data of shape {tuple(data.shape)}"
        )
    return Spec((num_segments, *data.shape[rank:]), data.dtype)


def _prepare(xp: ArrayModule, data: Array, ids: Array, count: int | None) -> Any:
    """Rows of data, their segments, the number of segments, and the axes of a row.

    What belongs to no segment is dropped, or on a GPU, where that would take a wait for the size of
    the rest, put into a segment more.
    """
    _rule(Spec(data.shape, "float32"), Spec(ids.shape, "int32"), num_segments=count)
    inner = data.shape[ids.ndim :]
    flat = xp.asarray(ids).reshape(-1)
    rows = data.reshape((flat.size, math.prod(inner)))
    if count is None:
        count = int(flat.max()) + 1 if flat.size else 0
    if xp is np and all_inside(flat, count):
        return rows, flat, count, inner
    if xp is np and flat.max() >= count:
        wrong = first_outside(ids, count, np.iinfo(np.int64).min)
        raise InvalidArgumentError(f"segments: segment_{wrong.replace('indices', 'ids')}")
    keep = (flat >= 0) & (flat < count)
    if xp is not np:
        flat = xp.where(keep, flat, count)
    elif not keep.all():
        rows, flat = rows[keep], flat[keep]
    return rows, flat, count, inner


def _start_rows(xp: ArrayModule, count: int, rows: Array, start: Any) -> Array:
    """What the rows are added to: a row per segment, and one for those without a segment."""
    return xp.full((count + 1, rows.shape[1]), start, rows.dtype)


@primitive(_rule, name="segment_sum", semantics=INDEXING, direct=Direct("segment_sum"))
def _sum(xp: ArrayModule, data: Array, ids: Array, *, num_segments: int | None) -> Array:
    """The sum of each segment, 0 for an empty one."""
    rows, flat, count, inner = _prepare(xp, data, ids, num_segments)
    out = _start_rows(xp, count, rows, 0)
    if out.size and rows.size:
        add_rows(xp, out, flat, rows)
    return out[:count].reshape((count, *inner))


def _by_ufunc(
    name: str, xp: ArrayModule, data: Array, ids: Array, count: int | None, start: Any
) -> Any:
    rows, flat, count, inner = _prepare(xp, data, ids, count)
    out = _start_rows(xp, count, rows, start)
    if xp is np:
        fold_rows(name, out, flat, rows)
    elif name == "multiply":
        if out.size and not rows_gpu.take_in_rows(xp, "multiply", out, flat, rows):
            _multiply_at(xp, out, flat, rows)
    else:
        scatter_at(xp, name, out, flat, rows)
    return out[:count].reshape((count, *inner))


def _multiply_at(xp: ArrayModule, out: Array, ids: Array, rows: Array) -> None:
    """Store the product of the rows of each segment, by a scan: CuPy has no `multiply.at`.

    Sorted by segment, each row takes in the one `reach` before it where they share a segment; then
    `reach` doubles, and in the end the last row of a segment holds its product.
    Source: Hillis and Steele 1986, "Data parallel algorithms".
    """
    order = sort_gpu.stable_order(xp, ids)
    ids, rows, reach = ids[order], rows[order], 1
    while reach < ids.size:
        shared = (ids[reach:] == ids[:-reach])[:, None]
        longer = xp.where(shared, rows[reach:] * rows[:-reach], rows[reach:])
        rows, reach = xp.concatenate([rows[:reach], longer]), 2 * reach
    if ids.size:
        last = xp.concatenate([ids[1:] != ids[:-1], xp.ones(1, bool)])
        out[xp.where(last, ids, out.shape[0] - 1)] = rows


@primitive(_rule, name="segment_max", semantics=INDEXING)
def _max(xp: ArrayModule, data: Array, ids: Array, *, num_segments: int | None) -> Array:
    """The greatest of each segment, the least number of the dtype for an empty one."""
    return _by_ufunc("maximum", xp, data, ids, num_segments, dtypes.as_dtype(data.dtype).min)


@primitive(_rule, name="segment_min", semantics=INDEXING)
def _min(xp: ArrayModule, data: Array, ids: Array, *, num_segments: int | None) -> Array:
    """The least of each segment, the greatest number of the dtype for an empty one."""
    return _by_ufunc("minimum", xp, data, ids, num_segments, dtypes.as_dtype(data.dtype).max)


@primitive(_rule, name="segment_prod", semantics=INDEXING)
def _prod(xp: ArrayModule, data: Array, ids: Array, *, num_segments: int | None) -> Array:
    """The product of each segment, 1 for an empty one."""
    return _by_ufunc("multiply", xp, data, ids, num_segments, 1)


# ------------------------------------------------------------------ gradients


def _spread(g: Tensor, ids: Tensor, data: Tensor) -> Tensor:
    """For each element of `data` the entry of `g` of its segment, 0 without a segment."""
    inside = greater_equal(ids, 0)
    picked = take(g, where(inside, ids, 0), axis=0)
    extra = len(data.shape) - len(ids.shape)
    mask = reshape(inside, [*(-1 if n is None else n for n in ids.shape), *(1,) * extra])
    return multiply(picked, cast(mask, g.dtype))


_sum.gradients(lambda g, y, data, ids, *, num_segments: _spread(g, ids, data), None)


def _extreme_gradient(
    g: Tensor, y: Tensor, data: Tensor, ids: Tensor, *, num_segments: int | None
) -> Tensor:
    """The gradient shared equally among the equal maxima or minima of a segment."""
    is_extreme = cast(equal(data, _spread_values(y, ids, data)), g.dtype)
    count = _sum(is_extreme, ids, num_segments=num_segments)
    share = divide(g, where(equal(count, 0), 1.0, count))
    return multiply(is_extreme, _spread(share, ids, data))


def _spread_values(y: Tensor, ids: Tensor, data: Tensor) -> Tensor:
    return take(y, where(greater_equal(ids, 0), ids, 0), axis=0)


_max.gradients(_extreme_gradient, None)
_min.gradients(_extreme_gradient, None)


def _prod_gradient(
    g: Tensor, y: Tensor, data: Tensor, ids: Tensor, *, num_segments: int | None
) -> Tensor:
    """The product of the others: divided out, or where a zero is in the way, multiplied anew."""
    zero = equal(data, 0)
    one = where(zero, 1.0, data)
    others = _prod(cast(one, data.dtype), ids, num_segments=num_segments)
    zeros = _sum(cast(zero, g.dtype), ids, num_segments=num_segments)
    count = _spread_values(zeros, ids, data)
    left = divide(_spread(multiply(g, others), ids, data), cast(one, data.dtype))
    alone = where(zero, equal(count, 1), equal(count, 0))
    return multiply(left, cast(alone, g.dtype))


_prod.gradients(_prod_gradient, None)

# ------------------------------------------------------------------ stacks


def _segment_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    data, ids = inputs
    rank = len(ids.shape)
    if not isinstance(ids, ItemStack):
        return moved(primitive.op(moved(data.stacked, 0, rank), ids, **settings), 1, 0)
    n = settings["num_segments"]
    if n is None:
        return NotImplemented  # items have different numbers of segments
    own = cast(ids.stacked, "int64")
    check_now(own, n, np.iinfo(np.int64).min, "segments", "UnsortedSegment")
    first = np.arange(count, dtype=np.int64).reshape(count, *(1,) * rank) * n
    beyond = where(less(own, n), add(own, first), np.int64(count * n))
    where_ = where(less(own, 0), np.int64(-1), beyond)
    y = primitive.op(stacked(data, count), where_, num_segments=count * n)
    return reshaped(y, (count, n, *tuple(y.shape)[1:]))


for _reduction in (_sum, _max, _min, _prod):
    _reduction.batch_by(_segment_stack)

# ------------------------------------------------------------------ public


def _call(op: Any, data: Any, segment_ids: Any, num_segments: Any, sorted: bool) -> Tensor:
    x, ids = as_tensor(data), positions(segment_ids, op.__name__)
    if sorted:
        _check_sorted(op.__name__, ids)
    if num_segments is not None:
        num_segments = int(num_segments)
    result: Tensor = op(x, ids, num_segments=num_segments)
    return result


def _check_sorted(op: str, ids: Tensor) -> None:
    if isinstance(ids, SymbolicTensor) or len(ids.shape) != 1:
        return
    values = ids.numpy()
    if (values[1:] < values[:-1]).any():
        raise InvalidArgumentError(
            f"{op}: segment ids are not increasing, though sorted=True says so"
        )


def _by_segment(a: Bound) -> Spec:
    x, ids = as_tensor(a["data"]), as_tensor(a["segment_ids"])
    return Spec((None, *x.shape[len(ids.shape) :]), x.dtype)


@needs_values("num_segments", gives=_by_segment)
def segment_sum(
    data: TensorLike, segment_ids: TensorLike, num_segments: int | None = None, sorted: bool = False
) -> Tensor:
    """The sums of the elements of `data` that share a segment, 0 for an empty segment.

    Args:
        data: tensor (n, ...).
        segment_ids: integers (n,), or the first axes of `data`; a negative one belongs to no
            segment.
        num_segments: how many segments there are; by default the greatest number plus one.
        sorted: the numbers rise; this is checked.

    Returns:
        A tensor (num_segments, ...) of the dtype of `data`.

    Raises:
        InvalidArgumentError: a number is `num_segments` or more, or they do not rise though
            `sorted` says so.
        ShapeError: shapes don't fit.

    >>> segment_sum([1, 2, 10], [0, 0, 1]).numpy().tolist()
    [3, 10]
    """
    return _call(_sum, data, segment_ids, num_segments, sorted)


@needs_values("num_segments", gives=_by_segment)
def segment_max(
    data: TensorLike, segment_ids: TensorLike, num_segments: int | None = None, sorted: bool = False
) -> Tensor:
    """The greatest of the elements of `data` that share a segment; arguments as in `segment_sum`.

    An empty segment gives the least finite number of the dtype. Equal greatest elements share the
    gradient.

    Example:
        >>> tk.ops.segment_max([1.0, 5.0, 2.0], [0, 0, 1]).numpy()
        array([5., 2.], dtype=float32)
    """
    return _call(_max, data, segment_ids, num_segments, sorted)


@needs_values("num_segments", gives=_by_segment)
def segment_min(
    data: TensorLike, segment_ids: TensorLike, num_segments: int | None = None, sorted: bool = False
) -> Tensor:
    """The least of the elements of `data` that share a segment; arguments as in `segment_sum`.

    An empty segment gives the greatest finite number of the dtype. Equal least elements share the
    gradient.

    Example:
        >>> tk.ops.segment_min([1.0, 5.0, 2.0], [0, 0, 1]).numpy()
        array([1., 2.], dtype=float32)
    """
    return _call(_min, data, segment_ids, num_segments, sorted)


@needs_values("num_segments", gives=_by_segment)
def segment_prod(
    data: TensorLike, segment_ids: TensorLike, num_segments: int | None = None, sorted: bool = False
) -> Tensor:
    """The products of the elements of `data` that share a segment, 1 for an empty segment.

    Arguments as in `segment_sum`.

    Example:
        >>> tk.ops.segment_prod([2.0, 5.0, 3.0], [0, 0, 1]).numpy()
        array([10.,  3.], dtype=float32)
    """
    return _call(_prod, data, segment_ids, num_segments, sorted)
