"""Picking elements by tensors of positions: take, take_along_axis, gather_nd.

Gradients add up where a position was picked more than once. A position outside its axis is an
error on the CPU; on a GPU, where looking at it would hold the program up, it picks 0 and gets no
gradient, as in TensorFlow.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainkit.core import nest, shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import BY_ELEMENT, INDEXING, INTEGERS, PICKED, SHAPE, Direct
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.process.later_imports import DeferredModule
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.kernels.embedding.row_additions import add_rows, fold_rows
from trainkit.kernels.embedding.row_gradient import RowGradient, pays
from trainkit.kernels.embedding.scatter_reference import all_inside, scatter_at
from trainkit.ops.arrays.shaping import as_tensor, ravel
from trainkit.ops.core.axis_numbers import whole_number
from trainkit.ops.core.dynamic_shapes import Bound, needs_values
from trainkit.ops.math.elementwise import cast

rows_gpu = DeferredModule("trainkit.kernels.indexing.rows_gpu")

# ------------------------------------------------------------------ positions


def positions(indices: Any, op: str) -> Tensor:
    """`indices` as a tensor of integers.

    Raises:
        InvalidArgumentError: they are of another kind; floats that Keras would cut off, too.
    """
    if isinstance(indices, list | tuple) and not any(map(is_tensor, nest.flatten(indices))):
        array = np.asarray(indices)
        if not array.size:  # a list without numbers would be one of floats
            return convert_to_tensor(array.astype(np.int32))
    tensor = as_tensor(indices)
    if tensor.dtype.is_integer:
        return tensor
    if tensor.dtype.is_bool or (tensor.dtype.is_floating and hasattr(tensor, "apply_function")):
        return cast(tensor, "int32")  # an `Input` without a dtype holds whole numbers here
    raise InvalidArgumentError(
        f"{op}: positions are integers, got {tensor.dtype.name}; cast them to int32 or int64"
    )


def first_outside(indices: Any, size: int, low: int) -> str:
    """The first of `indices` outside [low, size), in TensorFlow's words, which leave `low` out."""
    indices = np.asarray(indices)
    wrong = np.argwhere((indices < low) | (indices >= size))
    if not len(wrong):
        return ""
    index = tuple(wrong[0].tolist())
    at = "[" + ",".join(map(str, index)) + "]" if index else ""
    return f"indices{at} = {indices[index]} is not in [0, {size})"


def check_range(xp: ArrayModule, indices: Array, size: int, low: int, op: str, tf_op: str) -> None:
    """Raise for the first of `indices` outside [low, size); arrays of a GPU are not looked at."""
    if xp is not np or not indices.size or (indices.min() >= low and indices.max() < size):
        return
    raise InvalidArgumentError(f"{op}: {first_outside(indices, size, low)} [Op:{tf_op}]")


# ------------------------------------------------------------------ take


def _take_rule(x: Spec, indices: Spec, *, axis: int, wrap: bool = True) -> Spec:
    axis_index = shapes.canonical_axis(axis, len(x.shape), "take")
    return Spec((*x.shape[:axis_index], *indices.shape, *x.shape[axis_index + 1 :]), x.dtype)


@primitive(
    _take_rule,
    name="take",
    semantics=INDEXING,
    graph_name="GatherV2",
    text="beside numbers",
    rows=lambda settings: "read" if settings["axis"] == 0 else None,
    sizes=PICKED,
    direct=Direct("take"),
)
def _take(xp: ArrayModule, x: Array, indices: Array, *, axis: int, wrap: bool = True) -> Array:
    """Slices along an axis, picked by position; below 0 they count from the end if `wrap`."""
    axis_index = shapes.canonical_axis(axis, x.ndim, "take")
    if xp is not np:
        return take_on_gpu(xp, x, xp.asarray(indices), axis_index, wrap)
    n = x.shape[axis]
    if not wrap:
        check_range(np, indices, n, 0, "gather", "GatherV2")
    try:
        return x.take(indices, axis)
    except IndexError:
        check_range(np, np.asarray(indices), n, -n if n else 0, "take", "GatherV2")
        raise


def take_on_gpu(xp: ArrayModule, x: Array, indices: Array, axis: int, wrap: bool) -> Array:
    """Slices picked by position, zeros for a position outside: a GPU is not waited for."""
    rows = rows_gpu.picked(xp, x, indices, axis, wrap)
    if rows is not None:
        return rows
    n = x.shape[axis]
    safe = xp.clip(xp.where(indices < 0, indices + n, indices) if wrap else indices, 0, n - 1)
    picked = xp.take(x, safe, axis)
    inside = (indices >= (-n if wrap else 0)) & (indices < n)
    after = x.ndim - axis % x.ndim - 1
    return xp.where(inside.reshape(inside.shape + (1,) * after), picked, xp.zeros((), x.dtype))


def _untake_rule(g: Spec, indices: Spec, x: Spec, *, axis: int, wrap: bool = True) -> Spec:
    return Spec(x.shape, g.dtype)


@primitive(_untake_rule, semantics=INDEXING, reads={2: SHAPE})
def take_sum(
    xp: ArrayModule, g: Array, indices: Array, x: Array, *, axis: int, wrap: bool = True
) -> Array:
    """Zeros in the shape of `x` to which the picks of `take` are added."""
    axis %= x.ndim
    indices = xp.asarray(indices)
    n = x.shape[axis]
    out = xp.zeros((n, *x.shape[:axis], *x.shape[axis + 1 :]), g.dtype)
    if out.size and indices.size:
        picked = tuple(range(axis, axis + indices.ndim))
        rows = xp.moveaxis(g, picked, tuple(range(indices.ndim))).reshape((indices.size, -1))
        add_rows(xp, out.reshape(n, -1), indices.reshape(-1), rows, wrap)
    return xp.moveaxis(out, 0, axis)


def pick_gradient(
    g: Array, indices: Array, x: Array, *, axis: int, wrap: bool = True
) -> Array | RowGradient:
    """What `take_sum` gives, or a `RowGradient`, for an optimizer's step in a program."""
    ids, n = np.asarray(indices).reshape(-1), len(x)
    if axis % x.ndim == 0 and g.dtype is x.dtype and pays(x, ids.size):
        ids = np.where(ids < 0, ids + n, ids) if wrap else ids
        if all_inside(ids, n):
            return RowGradient(g.reshape(ids.size, -1), ids, x.shape, _rows_added_up)
    return take_sum.primitive.kernel(np, g, indices, x, axis=axis, wrap=wrap)


def _rows_added_up(rows: Array, ids: Array, count: int) -> Array:
    sums = np.zeros((count, rows.shape[1]), rows.dtype)
    add_rows(np, sums, ids, rows, wrap=False)
    return sums


_take.gradients(lambda g, y, x, indices, **settings: take_sum(g, indices, x, **settings), None)
_take.declare(stackable=True)
take_sum.gradients(
    lambda gg, y, g, indices, x, **settings: _take(gg, indices, **settings), None, None
)


def take(x: TensorLike, indices: TensorLike, axis: int | None = None) -> Tensor:
    """Slices of `x` along an axis, picked by position.

    Args:
        x: tensor of any shape.
        indices: positions, a tensor of integers of any shape; negative ones count from the end.
        axis: along which; by default `x` is flattened first.

    Returns:
        A tensor of shape `x.shape[:axis] + indices.shape + x.shape[axis + 1:]`.

    Raises:
        InvalidArgumentError: a position is outside the axis (a GPU gives 0 there), or is no
            integer.
        ShapeError: `axis` is out of range.

    >>> take([10, 20, 30], [2, 0], axis=0).numpy().tolist()
    [30, 10]
    """
    if axis is None:
        x, axis = ravel(x), 0
    result: Tensor = _take(x, positions(indices, "take"), axis=axis)
    return result


def gather(x: TensorLike, indices: TensorLike, axis: int = 0) -> Tensor:
    """As `take`, but a negative position is outside, too.

    Args:
        x: tensor of rank 1 at least.
        indices: positions, a tensor of integers of any shape.
        axis: along which to pick.

    Returns:
        A tensor of shape `x.shape[:axis] + indices.shape + x.shape[axis + 1:]`.

    Raises:
        InvalidArgumentError: a position is not in [0, size) (a GPU gives 0 there).
        ShapeError: `axis` is out of range.

    Example:
        >>> tk.ops.gather([10, 20, 30], [2, 0]).numpy()
        array([30, 10], dtype=int32)
    """
    result: Tensor = _take(
        x, positions(indices, "gather"), axis=whole_number(axis, "gather", "axis"), wrap=False
    )
    return result


# ------------------------------------------------------------------ take_along_axis


def _along_rule(x: Spec, indices: Spec, *, axis: int) -> Spec:
    if len(x.shape) != len(indices.shape):
        raise ShapeError(
            f"take_along_axis: x and indices need as many axes, got shapes {x.shape} and "
            f"{indices.shape}"
        )
    axis_index = shapes.canonical_axis(axis, len(x.shape), "take_along_axis")
    rest_x, rest_i = list(x.shape), list(indices.shape)
    rest_x[axis_index] = rest_i[axis_index] = 1
    dims = list(shapes.broadcast_dims(rest_x, rest_i, op="take_along_axis"))
    dims[axis_index] = indices.shape[axis_index]
    return Spec(dims, x.dtype)


def _grid(xp: ArrayModule, dims: Any, indices: Array, axis: int) -> Any:
    """Index arrays that broadcast to the result: `indices` at `axis`, all positions elsewhere."""
    grid = []
    for i, n in enumerate(dims):
        line = (1,) * i + (-1,) + (1,) * (len(dims) - i - 1)
        grid.append(indices if i == axis else (0 if n == 1 else xp.arange(n).reshape(line)))
    return tuple(grid)


def _differ_along(dims: Any, others: Any, axis: int) -> bool:
    """Whether two shapes of one rank are the same but for one axis."""
    return bool(dims[:axis] == others[:axis] and dims[axis + 1 :] == others[axis + 1 :])


def _positions_along(dims: Any, indices: Array, axis: int) -> Array:
    """Where, in an array of `dims` as a vector, the elements are that `indices` pick along an axis.

    NumPy picks by one array of positions in half the time that it takes for one of each axis.
    """
    n, inner = dims[axis], math.prod(dims[axis + 1 :])
    flat = indices.astype(np.intp)
    if flat.size and np.minimum.reduce(flat, None) < 0:
        flat += n * (flat < 0)
    if inner != 1:
        flat *= inner
        flat += np.arange(inner).reshape(dims[axis + 1 :])
    if axis:
        lines = (*dims[:axis], *(1,) * (len(dims) - axis))
        flat += (np.arange(math.prod(dims[:axis])) * (n * inner)).reshape(lines)
    return flat


@primitive(_along_rule, name="take_along_axis", semantics=INDEXING, text="beside numbers")
def _take_along_axis(xp: ArrayModule, x: Array, indices: Array, *, axis: int) -> Array:
    """For each position of `indices` the element of `x` there along an axis."""
    _along_rule(Spec(x.shape, "float32"), Spec(indices.shape, "int32"), axis=axis)
    axis %= x.ndim
    n = x.shape[axis]
    indices = xp.asarray(indices)
    check_range(xp, indices, n, -n if n else 0, "take_along_axis", "GatherNd")
    if xp is np and x.flags.c_contiguous and _differ_along(x.shape, indices.shape, axis):
        return x.reshape(-1).take(_positions_along(x.shape, indices, axis))
    return x[_grid(xp, x.shape, indices, axis)]


@primitive(
    lambda g, indices, x, *, axis: Spec(x.shape, g.dtype), semantics=INDEXING, reads={2: SHAPE}
)
def take_along_axis_sum(xp: ArrayModule, g: Array, indices: Array, x: Array, *, axis: int) -> Array:
    """Zeros in the shape of `x`, to which the picks of `take_along_axis` are added."""
    out = xp.zeros(x.shape, g.dtype)
    scatter_at(xp, "add", out, _grid(xp, x.shape, xp.asarray(indices), axis % x.ndim), g)
    return out


_take_along_axis.gradients(
    lambda g, y, x, indices, *, axis: take_along_axis_sum(g, indices, x, axis=axis), None
)
_take_along_axis.declare(stackable=True)
take_along_axis_sum.gradients(
    lambda gg, y, g, indices, x, *, axis: _take_along_axis(gg, indices, axis=axis), None, None
)


def take_along_axis(x: TensorLike, indices: TensorLike, axis: int | None = None) -> Tensor:
    """For each position in `indices` the element of `x` at that position along `axis`.

    Args:
        x: tensor of any shape.
        indices: integers, a tensor with as many axes, whose other sizes broadcast with those of
            `x`; negative ones count from the end.
        axis: along which; by default both are flattened first.

    Returns:
        A tensor of the broadcast shape, with the size of `indices` along `axis`.

    Raises:
        InvalidArgumentError: a position is outside the axis.
        ShapeError: the numbers of axes differ, or `axis` is out of range.

    Example:
        >>> tk.ops.take_along_axis([[3, 1, 2]], [[1, 2]], axis=1).numpy()
        array([[1, 2]], dtype=int32)
    """
    where = positions(indices, "take_along_axis")
    if axis is None:
        x, where, axis = ravel(x), ravel(where), 0
    result: Tensor = _take_along_axis(x, where, axis=axis)
    return result


# ------------------------------------------------------------------ gather_nd


def depth_of(x: Spec, indices: Spec, op: str) -> int:
    """How many axes of `x` a row of `indices` (..., k) names.

    Raises:
        ShapeError: more than `x` has, or the number is not known.
    """
    depth = indices.shape[-1] if len(indices.shape) else None
    if depth is None or depth > len(x.shape):
        raise ShapeError(
            f"{op}: rows of indices of shape {tuple(indices.shape)} name {depth} axes, the tensor "
            f"has shape {tuple(x.shape)}"
        )
    return depth


def rows_as_index(xp: ArrayModule, x: Array, indices: Array, op: str) -> Any:
    """The index arrays for rows of positions `indices` (..., k), one for each of k axes.

    Raises:
        InvalidArgumentError: a row points outside.
    """
    depth = depth_of(x, indices, op)
    indices = _whole(xp, xp.asarray(indices), op)
    wrong = _outside(xp, indices, x.shape[:depth])
    if wrong.any():
        row_index = tuple(int(i) for i in np.argwhere(_plain(wrong.any(axis=-1)))[0])
        row = _plain(indices)[row_index].tolist()
        at = ",".join(map(str, row_index))
        raise InvalidArgumentError(
            f"{op}: indices[{at}] = {row} does not index into shape {list(x.shape)}"
        )
    return tuple(indices[..., i] for i in range(depth))


def _outside(xp: ArrayModule, indices: Array, sizes: tuple[int, ...]) -> Array:
    """Which of the positions (..., k) point outside of axes of these sizes."""
    if xp is np:
        ends = np.asarray(sizes, np.int64)
        return (indices < -ends) | (indices >= ends)
    wrong = xp.zeros(indices.shape, bool)  # the sizes are not sent: they travel with the launches
    for i, n in enumerate(sizes):
        wrong[..., i] = (indices[..., i] < -n) | (indices[..., i] >= n)
    return wrong


def _whole(xp: ArrayModule, indices: Array, op: str) -> Array:
    """`indices` as integers; lists that stand beside floats come as floats."""
    if indices.dtype.kind in "iu":
        return indices
    integers = indices.astype(np.int64)
    if indices.dtype.kind != "f" or (integers != indices).any():
        raise InvalidArgumentError(f"{op}: positions are integers, got {indices.dtype.name}")
    return integers


def _plain(array: Array) -> Any:
    return array if isinstance(array, np.ndarray | np.generic) else array.get()


def _gather_rule(x: Spec, indices: Spec) -> Spec:
    depth = depth_of(x, indices, "gather_nd")
    return Spec((*indices.shape[:-1], *x.shape[depth:]), x.dtype)


@primitive(_gather_rule, semantics=INDEXING, text="beside numbers", direct=Direct("gather_nd"))
def gather_nd(xp: ArrayModule, x: Array, indices: Array) -> Array:
    """The slices of `x` at the rows of `indices`.

    Shapes: `x` (n1, ..., nk, ...) and `indices` (..., k) of integers give (..., the rest of `x`).
    Raises `InvalidArgumentError` when a row points outside of `x` (a GPU gives 0), `ShapeError`
    when rows are longer than the rank of `x`.

    Example:
        >>> tk.ops.gather_nd([[1, 2], [3, 4]], [[0, 1]]).numpy()
        array([2], dtype=int32)
    """
    if xp is not np:
        slices = _gathered_on_gpu(xp, x, indices)
        if slices is not None:
            return slices
    sizes = x.shape[: depth_of(x, indices, "gather_nd")]
    if xp is np and sizes and x.flags.c_contiguous and has_rows_inside(indices, sizes):
        rows = x.reshape((math.prod(sizes), *x.shape[len(sizes) :]))
        return rows.take(_row_numbers(indices, sizes), axis=0)
    where = rows_as_index(xp, x, indices, "gather_nd")
    return x[where] if where else xp.broadcast_to(x, (*indices.shape[:-1], *x.shape))


def _gathered_on_gpu(xp: ArrayModule, x: Array, indices: Array) -> Array | None:
    depth = depth_of(x, indices, "gather_nd")
    if not depth:
        return None
    flat = rows_gpu.flat_positions(xp, _whole(xp, indices, "gather_nd"), x.shape[:depth])
    if flat is None:
        return None
    lead, slice_dims = math.prod(x.shape[:depth]), x.shape[depth:]
    return rows_gpu.picked(xp, x.reshape((lead, *slice_dims)), flat, 0, wrap=False)


@primitive(lambda g, indices, x: Spec(x.shape, g.dtype), semantics=INDEXING, reads={2: SHAPE})
def gather_nd_sum(xp: ArrayModule, g: Array, indices: Array, x: Array) -> Array:
    """Zeros in the shape of `x`, to which the picks of `gather_nd` are added."""
    out = xp.zeros(x.shape, g.dtype)
    add_at(xp, out, indices, g, "gather_nd")
    return out


def add_at(xp: ArrayModule, out: Array, indices: Array, values: Array, op: str) -> None:
    """Add `values` to `out` in place at the rows of `indices`; equal rows add up.

    Raises:
        InvalidArgumentError: a row points outside; on a GPU such a row is left out.
    """
    if not depth_of(out, indices, op):
        out += values.reshape((-1, *out.shape)).sum(axis=0)
        return
    flat, rows = _flat_rows(xp, out, indices, values, op)
    if out.size and rows.size:
        add_rows(xp, out.reshape(-1, rows.shape[1]), flat, rows, wrap=False)


def fold_at(name: str, out: Array, indices: Array, values: Array, op: str) -> None:
    """What `add_at` does, by another ufunc's `at`, to an array of NumPy.

    Raises:
        InvalidArgumentError: a row points outside.
    """
    if not depth_of(out, indices, op):
        scatter_at(np, name, out, ..., values)
        return
    flat, rows = _flat_rows(np, out, indices, values, op)
    if out.size and rows.size:
        fold_rows(name, out.reshape(-1, rows.shape[1]), flat, rows)


def _flat_rows(
    xp: ArrayModule, out: Array, indices: Array, values: Array, op: str
) -> tuple[Array, Array]:
    """Which rows of `out` as a matrix `indices` name, and the rows of `values` for them."""
    flat = flat_positions(xp, out, indices, op)
    inner = out.shape[indices.shape[-1] :]
    row_dims = (*flat.shape, *inner)
    rows = values if values.shape == row_dims else xp.broadcast_to(values, row_dims)
    return flat.reshape(-1), rows.reshape(flat.size, math.prod(inner))


def flat_positions(xp: ArrayModule, x: Array, indices: Array, op: str) -> Array:
    """Rows of positions as positions among all that they may name; outside ones of a GPU are -1."""
    sizes = x.shape[: indices.shape[-1]]
    if xp is not np:
        gpu_positions = rows_gpu.flat_positions(xp, _whole(xp, indices, op), sizes)
        if gpu_positions is not None:
            return gpu_positions
    elif sizes and has_rows_inside(indices, sizes):
        return _row_numbers(indices, sizes)
    where = rows_as_index(xp, x, indices, op)
    flat = xp.zeros(where[0].shape, np.int64)
    for size, position in zip(x.shape, where, strict=False):
        flat = flat * size + xp.where(position < 0, position + size, position)
    return flat


def has_rows_inside(indices: Array, sizes: tuple[int, ...]) -> bool:
    """Whether all positions (..., k) of NumPy are integers in [0, size) of their axes."""
    if indices.dtype.kind not in "iu":
        return False
    if len(sizes) == 1:
        return all_inside(indices, sizes[0])
    if indices.dtype.kind == "i":  # negative ones stand above all others
        indices = indices.view(f"u{indices.dtype.itemsize}")
    return bool((indices < np.asarray(sizes, np.uint64)).all())


def _row_numbers(indices: Array, sizes: tuple[int, ...]) -> Array:
    """Positions (..., k) in axes of `sizes` as one position in all of them."""
    numbers = indices[..., 0].astype(np.int64, copy=False)
    for axis in range(1, len(sizes)):
        numbers = numbers * sizes[axis] + indices[..., axis].astype(np.int64, copy=False)
    return numbers


gather_nd.gradients(lambda g, y, x, indices: gather_nd_sum(g, indices, x), None)
gather_nd.declare(stackable=True)
gather_nd_sum.gradients(lambda gg, y, g, indices, x: gather_nd(gg, indices), None, None)


def _places_specs(a: Bound) -> Any:
    where, sizes = positions(a["indices"], "unravel_index"), a["shape"]
    rank = len(sizes) if isinstance(sizes, list | tuple) else as_tensor(sizes).shape[0]
    if rank is None:
        raise InvalidArgumentError("unravel_index: the number of axes of the shape must be known")
    return (Spec(where.shape, where.dtype),) * rank


@needs_values("shape", gives=_places_specs)
def unravel_index(indices: Any, shape: Any) -> tuple[Tensor, ...]:
    """Positions in a flattened tensor as positions along each axis.

    Args:
        indices: integers of any shape, in [-size, size).
        shape: the sizes of the tensor.

    Returns:
        A tuple with a tensor of the shape and dtype of `indices` for each axis.

    Raises:
        InvalidArgumentError: a position is outside of the tensor.

    Example:
        >>> [int(i) for i in tk.ops.unravel_index(5, (2, 3))]
        [1, 2]
    """
    where = positions(indices, "unravel_index")
    sizes = tuple(int(n) for n in shape)
    axis_positions = _unravel(where, shape=sizes)
    return tuple(axis_positions)


def _unravel_rule(indices: Spec, *, shape: Any) -> Any:
    return tuple(Spec(indices.shape, indices.dtype) for _ in shape)


@primitive(_unravel_rule, name="unravel_index", semantics=INDEXING, no_gradient=INTEGERS)
def _unravel(xp: ArrayModule, indices: Array, *, shape: Any) -> Any:
    """Positions along each axis of positions in a flattened tensor."""
    size = int(np.prod(shape, dtype=np.int64))
    check_range(xp, indices, size, -size, "unravel_index", "UnravelIndex")
    left = xp.where(indices < 0, indices + size, indices)
    axis_positions = []
    for n in reversed(shape):
        axis_positions.append((left % n).astype(indices.dtype))
        left = left // n
    return tuple(reversed(axis_positions))


_unravel.declare(batch=BY_ELEMENT, stackable=True)
