"""Writing slices into a tensor by rows of positions: scatter, scatter_update and their reductions.

A tensor never changes, so each of these gives a new one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import INDEXING, Direct
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import ShapeError
from trainkit.core.process.later_imports import DeferredModule
from trainkit.core.shapes import Dims, Spec
from trainkit.core.tensor import Tensor
from trainkit.core.values.type_aliases import Shape, TensorLike
from trainkit.kernels.embedding.scatter_reference import scatter_at
from trainkit.ops.arrays.creation import ones_like, zeros, zeros_like
from trainkit.ops.arrays.shaping import as_tensor, known_sizes
from trainkit.ops.core.vmap import as_stack, stacked
from trainkit.ops.indexing.gathering import (
    add_at,
    depth_of,
    flat_positions,
    fold_at,
    gather_nd,
    positions,
    rows_as_index,
)
from trainkit.ops.math.comparisons import equal
from trainkit.ops.math.elementwise import cast, divide, multiply, tensor_of, where
from trainkit.ops.math.reductions import sum_to_like
from trainkit.ops.vmap_rules.gather_rules import numbered

rows_gpu = DeferredModule("trainkit.kernels.indexing.rows_gpu")


def _fits(dims: Dims, target: Dims) -> bool:
    """Whether `dims` broadcasts to `target`."""
    ends = zip(reversed(dims), reversed(target), strict=False)
    return len(dims) <= len(target) and all(a in (1, b) or None in (a, b) for a, b in ends)


def _rule(x: Spec, indices: Spec, updates: Spec) -> Spec:
    depth = depth_of(x, indices, "scatter")
    needed_dims = (*indices.shape[:-1], *x.shape[depth:])
    update_dims = tuple(updates.shape)
    if update_dims != needed_dims and not _fits(update_dims, needed_dims):
        raise ShapeError(
            f"scatter: updates of shape {update_dims} do not fit indices of shape "
            f"{tuple(indices.shape)} and a tensor of shape {tuple(x.shape)}; they need "
            f"{needed_dims}"
        )
    return Spec(x.shape, x.dtype)


def _check(x: Array, indices: Array, updates: Array) -> None:
    specs = [Spec(a.shape, "float32") for a in (x, indices, updates)]
    _rule(*specs)


@primitive(_rule, semantics=INDEXING, direct=Direct("scatter", (True,)))
def scatter_nd_add(xp: ArrayModule, x: Array, indices: Array, updates: Array) -> Array:
    """`x` with `updates` added at the rows of `indices`; equal rows add up.

    Shapes: `x` (n1, ..., nk, ...), `indices` (..., k) of integers, `updates` (..., the rest of
    `x`). Raises `InvalidArgumentError` when a row points outside of `x` (a GPU leaves it out),
    `ShapeError` when shapes don't fit.
    """
    _check(x, indices, updates)
    out = xp.array(x, order="C")
    add_at(xp, out, indices, updates, "scatter_nd_add")
    return out


scatter_nd_add.gradients(
    lambda g, y, x, indices, updates: g,
    None,
    lambda g, y, x, indices, updates: _like(gather_nd(g, indices), updates),
)


def _like(g: Tensor, updates: Tensor) -> Tensor:
    """`g` summed over axes along which `updates` were broadcast."""
    if tuple(g.shape) == tuple(updates.shape):
        return g
    return sum_to_like(g, updates)


@primitive(_rule, name="scatter_update", semantics=INDEXING, direct=Direct("scatter", (False,)))
def _scatter_update(xp: ArrayModule, x: Array, indices: Array, updates: Array) -> Array:
    """`x` with `updates` at the rows of `indices`; of equal rows the last one stays."""
    _check(x, indices, updates)
    if xp is not np and indices.shape[-1]:
        return _taken_in(xp, "last", x, indices, updates)
    out = xp.array(x, order="C")
    out[rows_as_index(xp, x, indices, "scatter_update") or ...] = updates
    return out


def _taken_in(xp: ArrayModule, op: str, x: Array, indices: Array, updates: Array) -> Array | None:
    """What scattering gives on a GPU, which leaves out rows that point outside.

    Args:
        xp: CuPy.
        op: `"last"`, `"multiply"`, `"maximum"` or `"minimum"`.
        x: what is copied first.
        indices: rows of positions.
        updates: of a shape that broadcasts.

    Returns:
        A new array; `None` for products without a kernel.
    """
    depth = indices.shape[-1]
    n, slice_dims = math.prod(x.shape[:depth]), x.shape[depth:]
    flat = flat_positions(xp, x, indices, f"scatter_{op}")
    rows = xp.broadcast_to(updates, (*flat.shape, *slice_dims)).astype(x.dtype, copy=False)
    rows, flat = rows.reshape((flat.size, math.prod(slice_dims))), flat.reshape(-1)
    out = xp.array(x, order="C").reshape(n, -1) if x.size else xp.array(x, order="C")
    if not out.size or not rows.size:
        return out.reshape(x.shape)
    if op in ("last", "multiply") and rows_gpu.take_in_rows(xp, op, out, flat, rows):
        return out.reshape(x.shape)
    if op == "multiply":
        return None
    padded = xp.empty((n + 1, out.shape[1]), x.dtype)  # what is outside goes to the last row
    padded[:n] = out
    target_rows = xp.where(flat < 0, n, flat)
    if op == "last":
        padded[target_rows] = rows
    else:
        scatter_at(xp, op, padded, target_rows, rows)
    return padded[:n].reshape(x.shape)


_scatter_update.gradients(
    lambda g, y, x, indices, updates: _scatter_update(g, indices, zeros_like(updates)),
    None,
    lambda g, y, x, indices, updates: _like(gather_nd(g, indices), updates),
)


@primitive(_rule, semantics=INDEXING)
def scatter_max(xp: ArrayModule, x: Array, indices: Array, updates: Array) -> Array:
    """`x` with the greatest of its own element and `updates` at the rows of `indices`."""
    return _extreme(xp, "maximum", x, indices, updates, "scatter_max")


@primitive(_rule, semantics=INDEXING)
def scatter_min(xp: ArrayModule, x: Array, indices: Array, updates: Array) -> Array:
    """`x` with the least of its own element and `updates` at the rows of `indices`."""
    return _extreme(xp, "minimum", x, indices, updates, "scatter_min")


def _extreme(
    xp: ArrayModule, name: str, x: Array, indices: Array, updates: Array, op: str
) -> Array:
    _check(x, indices, updates)
    if xp is not np and indices.shape[-1]:
        return _taken_in(xp, name, x, indices, updates)
    out = xp.array(x, order="C")
    if xp is np:
        fold_at(name, out, indices, updates, op)
    else:
        scatter_at(xp, name, out, ..., updates)
    return out


def _share(g: Tensor, y: Tensor, x: Tensor, indices: Tensor, updates: Tensor) -> Any:
    """The gradient of an extreme, shared equally among all that reach it."""
    own = cast(equal(x, y), g.dtype)
    theirs = cast(equal(updates, gather_nd(y, indices)), g.dtype)
    count = scatter_nd_add(own, indices, theirs)
    share = where(equal(count, 0), zeros_like(g), divide(g, where(equal(count, 0), 1, count)))
    return multiply(own, share), None, _like(multiply(theirs, gather_nd(share, indices)), updates)


scatter_max.primitive.joint = _share
scatter_min.primitive.joint = _share


@primitive(_rule, semantics=INDEXING)
def scatter_multiply(xp: ArrayModule, x: Array, indices: Array, updates: Array) -> Array:
    """`x` multiplied by `updates` at the rows of `indices`; equal rows multiply."""
    _check(x, indices, updates)
    if xp is np:
        out = xp.array(x, order="C")
        fold_at("multiply", out, indices, updates, "scatter_multiply")
        return out
    scattered = _taken_in(xp, "multiply", x, indices, updates) if indices.shape[-1] else None
    if scattered is not None:
        return scattered
    host = np.array(x.get())
    host_index: Any = rows_as_index(np, host, indices.get(), "scatter_multiply") or ...
    np.multiply.at(host, host_index, updates.get())
    return xp.asarray(host)


def _multiply_gradient(g: Tensor, y: Tensor, x: Tensor, indices: Tensor, updates: Tensor) -> Any:
    factor = scatter_multiply(ones_like(x), indices, updates)
    gy = multiply(g, y)
    return multiply(g, factor), None, _like(divide(gather_nd(gy, indices), updates), updates)


scatter_multiply.primitive.joint = _multiply_gradient

_REDUCTIONS: dict[str | None, Any] = {
    None: _scatter_update,
    "add": scatter_nd_add,
    "max": scatter_max,
    "min": scatter_min,
    "mul": scatter_multiply,
}


def _scatter_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    x, indices, updates = inputs
    rank = len(indices.shape) - 1 + len(x.shape) - indices.shape[-1]
    stacks = stacked(x, count), numbered(indices, count), as_stack(updates, rank, count)
    return primitive.op(*stacks)


for _scatter in (scatter_nd_add, _scatter_update, scatter_max, scatter_min, scatter_multiply):
    _scatter.batch_by(_scatter_stack)


def scatter_update(
    inputs: TensorLike, indices: TensorLike, updates: TensorLike, reduction: str | None = None
) -> Tensor:
    """`inputs` with `updates` written at the rows of `indices`.

    Args:
        inputs: tensor (n1, ..., nk, ...).
        indices: integers (..., k); a row names a position along each of the first k axes.
        updates: new values (..., the rest of `inputs`); cast to the dtype of `inputs`.
        reduction: how an update joins what is there: `None` replaces it (of equal rows the last one
            stays), or `"add"`, `"max"`, `"min"`, `"mul"`.

    Returns:
        A tensor of the shape and dtype of `inputs`, which stay as they are.

    Raises:
        ValueError: `reduction` is another one.
        InvalidArgumentError: a row points outside of `inputs`; a GPU leaves it out.
        ShapeError: shapes don't fit.

    Example:
        >>> tk.ops.scatter_update([1, 1, 1], [[0], [2]], [5, 6]).numpy()
        array([5, 1, 6], dtype=int32)
    """
    if reduction not in _REDUCTIONS:
        raise ValueError(
            f"scatter_update: reduction {reduction!r} is none of None, 'add', 'max', 'min', 'mul'"
        )
    x, where_ = as_tensor(inputs), positions(indices, "scatter_update")
    result: Tensor = _REDUCTIONS[reduction](x, where_, tensor_of(updates, x.dtype))
    return result


def scatter(indices: TensorLike, values: TensorLike, shape: Shape) -> Tensor:
    """Zeros of shape `shape` with `values` added at the rows of `indices`; equal rows add up.

    Args:
        indices: integers (..., k); a row names a position along each of the first k axes.
        values: tensor (..., the other axes of `shape`).
        shape: sizes of the result.

    Returns:
        A tensor of the dtype of `values`.

    Raises:
        InvalidArgumentError: a row points outside of `shape` (a GPU leaves it out), or `shape` is
            not known while a graph is traced.
        ShapeError: shapes don't fit.

    Example:
        >>> tk.ops.scatter([[1], [3]], [5, 6], (4,)).numpy()
        array([0, 5, 0, 6], dtype=int32)
    """
    new = as_tensor(values)
    sizes = known_sizes(shape, "scatter", "the shape")
    empty = zeros(sizes, dtype=new.dtype)
    result: Tensor = scatter_nd_add(empty, positions(indices, "scatter"), new)
    return result
