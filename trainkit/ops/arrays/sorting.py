"""Order: sort, argsort, argpartition, top_k and in_top_k.

Sorting is stable: equal elements keep their order, so the position of the first of several equal
ones comes first. The gradient of a sorted tensor goes back to where each element came from.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from trainkit.core import dtypes, shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import AXIS, INTEGERS, LAST_AXES, Direct, Tuned
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.process.later_imports import DeferredModule
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.ops.arrays.shaping import as_tensor, known_number, ravel
from trainkit.ops.core.axis_numbers import whole_number
from trainkit.ops.core.dynamic_shapes import Bound, like, needs_values
from trainkit.ops.indexing.gathering import positions, take_along_axis_sum

sort_gpu = DeferredModule("trainkit.kernels.sorting.sort_gpu")

_INT32 = np.int32


def _axis_rule(x: Spec, *, axis: int) -> Spec:
    shapes.canonical_axis(axis, len(x.shape), "sort")
    return Spec(x.shape, x.dtype)


def _sort_on_gpu(xp: ArrayModule, x: Array, *, axis: int) -> Array | None:
    _axis_rule(Spec(x.shape, "float32"), axis=axis)
    return sort_gpu.sort(xp, x, axis)


def _argsort_on_gpu(xp: ArrayModule, x: Array, *, axis: int) -> Array | None:
    _axis_rule(Spec(x.shape, "float32"), axis=axis)
    return sort_gpu.argsort(xp, x, axis)


def _top_k_on_gpu(xp: ArrayModule, x: Array, *, k: int, sorted: bool) -> Any:
    _top_rule(Spec(x.shape, "float32"), k=k, sorted=sorted)
    return sort_gpu.top_k(xp, x, k)


@primitive(_axis_rule, name="sort", semantics=AXIS, tuned=Tuned(on_gpu=(_sort_on_gpu,)))
def _sort(xp: ArrayModule, x: Array, *, axis: int) -> Array:
    """The elements in rising order along an axis."""
    if xp is np and x.dtype == dtypes.bfloat16.dtype:
        return dtypes.cast_array(np.sort(dtypes.sort_keys(x), axis=axis), x.dtype)
    return xp.sort(x, axis=axis)


@primitive(
    lambda x, *, axis: Spec(_axis_rule(x, axis=axis).shape, dtypes.int32),
    name="argsort",
    semantics=AXIS,
    no_gradient=INTEGERS,
    tuned=Tuned(on_gpu=(_argsort_on_gpu,)),
)
def _argsort(xp: ArrayModule, x: Array, *, axis: int) -> Array:
    """The positions that put the elements in rising order along an axis, int32."""
    if xp is np:
        return np.argsort(dtypes.sort_keys(x), axis, kind="stable").astype(_INT32)
    return xp.argsort(x, axis).astype(_INT32)


_argsort.declare(stackable=True)


_sort.gradients(
    lambda g, y, x, *, axis: take_along_axis_sum(g, _argsort(x, axis=axis), x, axis=axis)
)
_sort.declare(stackable=True)


def sort(x: TensorLike, axis: int | None = -1) -> Tensor:
    """The elements of `x` in rising order along `axis`; NaN comes last.

    Args:
        x: tensor of rank 1 at least.
        axis: along which; `None` flattens `x` first.

    Returns:
        A tensor of the dtype of `x`.

    Raises:
        ShapeError: `axis` is out of range.

    Example:
        >>> tk.ops.sort([3, 1, 2]).numpy()
        array([1, 2, 3], dtype=int32)
    """
    result: Tensor = _sort(ravel(x), axis=0) if axis is None else _sort(x, axis=axis)
    return result


def argsort(x: TensorLike, axis: int | None = -1) -> Tensor:
    """The positions of the elements of `x` in rising order along `axis`; equal ones in their order.

    Args:
        x: tensor of rank 1 at least.
        axis: along which; `None` flattens `x` first.

    Returns:
        An int32 tensor.

    Raises:
        ShapeError: `axis` is out of range.

    Example:
        >>> tk.ops.argsort([3.0, 1.0, 2.0]).numpy()
        array([1, 2, 0], dtype=int32)
    """
    result: Tensor = _argsort(ravel(x), axis=0) if axis is None else _argsort(x, axis=axis)
    return result


def _partition_rule(x: Spec, *, kth: int, axis: int) -> Spec:
    n = x.shape[shapes.canonical_axis(axis, len(x.shape), "argpartition")]
    if n is not None and not -n <= kth < n:
        raise InvalidArgumentError(f"argpartition: kth={kth} is outside of an axis of size {n}")
    return Spec(x.shape, dtypes.int32)


@primitive(_partition_rule, name="argpartition", semantics=AXIS, no_gradient=INTEGERS)
def _argpartition(xp: ArrayModule, x: Array, *, kth: int, axis: int) -> Array:
    """Positions that put the element of rank `kth` in its place, lesser ones before it, int32."""
    return xp.argpartition(dtypes.sort_keys(x) if xp is np else x, kth, axis=axis).astype(_INT32)


def argpartition(x: TensorLike, kth: int, axis: int | None = -1) -> Tensor:
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

    Example:
        >>> int(tk.ops.argpartition([3.0, 1.0, 2.0], 0)[0])
        1
    """
    if axis is None:
        x, axis = ravel(x), 0
    result: Tensor = _argpartition(x, kth=whole_number(kth, "argpartition", "kth"), axis=axis)
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


@primitive(
    _top_rule,
    name="top_k",
    semantics=LAST_AXES,
    tuned=Tuned(on_gpu=(_top_k_on_gpu,)),
    direct=Direct("top_k"),
)
def _top_k(xp: ArrayModule, x: Array, *, k: int, sorted: bool) -> Any:
    """The `k` greatest elements along the last axis and their positions."""
    if not x.ndim or not 0 <= k <= x.shape[-1]:
        _top_rule(Spec(x.shape, "float32"), k=k, sorted=sorted)  # has the words
    n = x.shape[-1]
    few = _greatest_in_turn(x, k) if xp is np and 0 < k <= _IN_TURN and 8 * k < n else None
    if few is not None:
        return few
    keys = dtypes.sort_keys(x) if xp is np else x
    if xp is np and 0 < 8 * k < n and not (x != x).any():
        where = _few_greatest(keys, k)
    else:
        rising = xp.argsort(keys[..., ::-1], axis=-1, kind="stable")
        where = n - 1 - rising[..., ::-1][..., :k]
    if xp is np and x.ndim == 2:
        rows = np.arange(len(x))[:, None]
        return x[rows, where], where.astype(_INT32)
    return xp.take_along_axis(x, where, axis=-1), where.astype(_INT32)


_IN_TURN = 8
"""Greatest elements that are looked for one after the other."""


def _greatest_in_turn(x: Any, k: int) -> Any:
    """Values and positions of the `k` greatest, each looked for when those before are taken out.

    `None` where one of them can't be distinguished from what stands for those: for NaN, and where
    few elements are above the least number of their dtype.
    """
    if x.dtype.kind not in "fiu" or not x.size:
        return None
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    rows = x.reshape(-1, x.shape[-1])
    left = rows.copy() if k > 1 else rows
    numbers = np.arange(len(rows))
    values, where = np.empty((len(rows), k), x.dtype), np.empty((len(rows), k), _INT32)
    for i in range(k):
        at = left.argmax(axis=-1)  # the first of equal ones, and of NaNs
        values[:, i], where[:, i] = left[numbers, at], at
        if i + 1 < k:
            left[numbers, at] = lowest
    if not (values > lowest).all():
        return None
    dims = (*x.shape[:-1], k)
    return values.reshape(dims), where.reshape(dims)


def _few_greatest(x: Any, k: int) -> Any:
    """Positions of the `k` greatest, greatest first, without sorting the others.

    All elements above the k-th greatest value, then as many of those equal to it as fit.
    """
    rows = x.reshape(-1, x.shape[-1])
    threshold = np.partition(rows, -k, axis=-1)[:, -k, None]
    above = rows > threshold
    room = k - above.sum(axis=-1, keepdims=True)
    level = rows == threshold
    selected = above | (level & (np.cumsum(level, axis=-1) <= room))
    where = np.nonzero(selected)[1].reshape(-1, k)
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
def top_k(x: TensorLike, k: int, sorted: bool = True, is_stable: bool = True) -> TopK:
    """The `k` greatest elements along the last axis; of equal ones the first.

    Args:
        x: tensor (..., n).
        k: how many, at most n.
        sorted: the greatest first. They come in this order also without it.
        is_stable: of equal ones the first come first. They do also without it.

    Returns:
        `values` and `indices`, both (..., k); the indices are int32.

    Raises:
        InvalidArgumentError: `k` is negative, greater than n, or no whole number.

    Example:
        >>> values, positions = tk.ops.top_k([1.0, 9.0, 5.0], 2)
        >>> values.numpy(), positions.numpy()
        (array([9., 5.], dtype=float32), array([1, 2], dtype=int32))
    """
    values, indices = _top_k(x, k=known_number(k, "top_k"), sorted=bool(sorted))
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


@primitive(_in_top_rule, name="in_top_k", semantics=LAST_AXES, no_gradient=INTEGERS)
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
def in_top_k(targets: TensorLike, predictions: TensorLike, k: int) -> Tensor:
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

    Example:
        >>> tk.ops.in_top_k([2, 0], [[0.1, 0.3, 0.6], [0.1, 0.3, 0.6]], 2).numpy()
        array([ True, False])
    """
    result: Tensor = _in_top_k(
        positions(targets, "in_top_k"), as_tensor(predictions), k=whole_number(k, "in_top_k", "k")
    )
    return result
