"""Diagonals and triangles of matrices."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from trainkit.core import shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import (
    ARRANGEMENT,
    LAST_AXES,
    LEADING_AXES,
    SHAPE,
    VIEW,
    Absent,
    Direct,
)
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.ops.arrays.shaping import as_tensor, rank_of, reshape
from trainkit.ops.core.axis_numbers import whole_number
from trainkit.ops.core.dynamic_shapes import Bound, like, needs_values
from trainkit.ops.core.vmap import later
from trainkit.ops.math.reductions import sum as sum_
from trainkit.ops.vmap_rules.shared_rules import with_settings


def _length(rows: int | None, columns: int | None, offset: int) -> int | None:
    if rows is None or columns is None:
        return None
    return max(min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns), 0)


def _diagonal_rule(x: Spec, *, offset: int, axis1: int, axis2: int) -> Spec:
    rank = len(x.shape)
    one, two = shapes.canonical_axes((axis1, axis2), rank, "diagonal")
    other_sizes = [n for i, n in enumerate(x.shape) if i not in (one, two)]
    return Spec((*other_sizes, _length(x.shape[one], x.shape[two], offset)), x.dtype)


@primitive(
    _diagonal_rule,
    name="diagonal",
    semantics=VIEW,
    recompute="cheap",
    lowering=Absent("a diagonal is no block of axes"),
    direct=Direct("diagonal"),
)
def _diagonal(xp: ArrayModule, x: Array, *, offset: int, axis1: int, axis2: int) -> Array:
    """The elements on a diagonal of two axes."""
    return x.diagonal(offset, axis1, axis2)


def _put_rule(g: Spec, x: Spec, *, offset: int, axis1: int, axis2: int) -> Spec:
    return Spec(x.shape, g.dtype)


@primitive(_put_rule, semantics=ARRANGEMENT, reads={1: SHAPE})
def diagonal_put(
    xp: ArrayModule, g: Array, x: Array, *, offset: int, axis1: int, axis2: int
) -> Array:
    """Zeros in the shape of `x`, whose values are not looked at, with `g` on a diagonal."""
    out = xp.zeros(x.shape, g.dtype)
    moved = xp.moveaxis(out, (axis1, axis2), (-2, -1))
    i = np.arange(g.shape[-1])
    moved[..., i + max(-offset, 0), i + max(offset, 0)] = g
    return out


_diagonal.gradients(lambda g, y, x, **settings: diagonal_put(g, x, **settings))
diagonal_put.gradients(lambda g, y, gx, x, **settings: _diagonal(g, **settings), None)
_diagonal.batch_by(
    with_settings(lambda s, rank, count: {"axis1": later(s["axis1"]), "axis2": later(s["axis2"])})
)
diagonal_put.batch_by(_diagonal.primitive.facets.batch)


def _diagonal_spec(a: Bound) -> Spec:
    x = as_tensor(a["x"])
    diagonal_axes = shapes.canonical_axes((a["axis1"], a["axis2"]), len(x.shape), "diagonal")
    return Spec((*(n for i, n in enumerate(x.shape) if i not in diagonal_axes), None), x.dtype)


@needs_values("offset", gives=_diagonal_spec)
def diagonal(x: TensorLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The diagonals of the matrices in two axes of `x`.

    Args:
        x: tensor of rank 2 at least.
        offset: how far above (or, negative, below) the main diagonal.
        axis1: the rows.
        axis2: the columns.

    Returns:
        A tensor with the other axes of `x`, then one along the diagonal.

    Raises:
        ShapeError: the axes are not two different ones that `x` has.

    Example:
        >>> tk.ops.diagonal([[1, 2], [3, 4]]).numpy()
        array([1, 4], dtype=int32)
    """
    x = as_tensor(x)
    rank = rank_of(x)
    if rank < 2:
        raise ShapeError(f"diagonal: needs two axes at least, got shape {tuple(x.shape)}")
    if rank == 2 and (axis1, axis2) in ((0, 1), (-2, -1)):
        one, two = 0, 1
    else:
        one, two = shapes.canonical_axes((axis1, axis2), rank, "diagonal")
    result: Tensor = _diagonal(
        x, offset=whole_number(offset, "diagonal", "offset"), axis1=one, axis2=two
    )
    return result


def trace(x: TensorLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The sums along the diagonals of the matrices in two axes of `x`; arguments as in `diagonal`.

    Raises:
        ShapeError: the axes are not two different ones that `x` has.

    Example:
        >>> float(tk.ops.trace([[1.0, 2.0], [3.0, 4.0]]))
        5.0
    """
    return sum_(diagonal(x, offset, axis1, axis2), axis=-1)


def _diag_rule(x: Spec, *, k: int) -> Spec:
    n = None if x.shape[-1] is None else x.shape[-1] + abs(k)
    return Spec((*x.shape[:-1], n, n), x.dtype)


@primitive(_diag_rule, name="diag", semantics=ARRANGEMENT)
def matrix_with_diagonal(xp: ArrayModule, x: Array, *, k: int) -> Array:
    """Matrices that are zero but for the diagonal `k`, which is `x` (..., n)."""
    lead, length = x.shape[:-1], x.shape[-1]
    n = length + abs(k)
    out = xp.zeros((*lead, n * n), x.dtype)
    start = max(-k, 0) * n + max(k, 0)
    out[..., start : start + length * (n + 1) : n + 1] = x
    return out.reshape((*lead, n, n))


matrix_with_diagonal.gradients(
    lambda g, y, x, *, k: _diagonal(g, offset=k, axis1=len(x.shape) - 1, axis2=len(x.shape))
)
matrix_with_diagonal.declare(batch=LEADING_AXES)


def _diag_spec(a: Bound) -> Spec:
    x = as_tensor(a["x"])
    return Spec((None,) * (3 - len(x.shape)), x.dtype)


@needs_values("k", gives=_diag_spec)
def diag(x: TensorLike, k: int = 0) -> Tensor:
    """The matrix with the vector `x` on its diagonal `k`, or the diagonal `k` of the matrix `x`.

    Raises:
        ShapeError: `x` is neither a vector nor a matrix.

    Example:
        >>> tk.ops.diag([1.0, 2.0]).numpy()
        array([[1., 0.],
               [0., 2.]], dtype=float32)
    """
    x = as_tensor(x)
    if len(x.shape) == 1:
        result: Tensor = matrix_with_diagonal(x, k=whole_number(k, "diag", "k"))
        return result
    if len(x.shape) == 2:
        return diagonal(x, offset=k)
    raise ShapeError(f"diag: takes a vector or a matrix, got shape {tuple(x.shape)}")


def diagflat(x: TensorLike, k: int = 0) -> Tensor:
    """The matrix with all elements of `x`, in row-major order, on its diagonal `k`.

    Example:
        >>> tk.ops.diagflat([1, 2]).numpy()
        array([[1, 0],
               [0, 2]], dtype=int32)
    """
    result: Tensor = matrix_with_diagonal(reshape(x, (-1,)), k=whole_number(k, "diagflat", "k"))
    return result


def _triangle_rule(x: Spec, *, k: int) -> Spec:
    if len(x.shape) < 2:
        raise ShapeError(f"tril, triu: need two axes at least, got shape {tuple(x.shape)}")
    return Spec(x.shape, x.dtype)


_MOST_STORED = 1 << 16
"""Elements of a mask that is stored for the next call: 64 kB."""


def _below(xp: ArrayModule, rows: int, columns: int, k: int) -> Array:
    """Where a matrix is not above the diagonal `k`."""
    if xp is np and rows * columns <= _MOST_STORED:
        return _mask_below(rows, columns, k)
    return xp.tri(rows, columns, k, bool)


@lru_cache(maxsize=16)
def _mask_below(rows: int, columns: int, k: int) -> Array:
    mask = np.tri(rows, columns, k, bool)
    mask.flags.writeable = False
    return mask


def lower_triangle(xp: ArrayModule, x: Array, k: int) -> Array:
    """Matrices with zeros above the diagonal `k`."""
    return xp.where(_below(xp, x.shape[-2], x.shape[-1], k), x, xp.zeros((), x.dtype))


def upper_triangle(xp: ArrayModule, x: Array, k: int) -> Array:
    """Matrices with zeros below the diagonal `k`."""
    return xp.where(_below(xp, x.shape[-2], x.shape[-1], k - 1), xp.zeros((), x.dtype), x)


@primitive(_triangle_rule, name="tril", semantics=LAST_AXES, direct=Direct("triangle", (False,)))
def _tril(xp: ArrayModule, x: Array, *, k: int) -> Array:
    """Zero above the diagonal `k`."""
    return lower_triangle(xp, x, k)


@primitive(_triangle_rule, name="triu", semantics=LAST_AXES, direct=Direct("triangle", (True,)))
def _triu(xp: ArrayModule, x: Array, *, k: int) -> Array:
    """Zero below the diagonal `k`."""
    return upper_triangle(xp, x, k)


_tril.gradients(lambda g, y, x, *, k: _tril(g, k=k))
_tril.declare(stackable=True)
_triu.gradients(lambda g, y, x, *, k: _triu(g, k=k))
_triu.declare(stackable=True)


@needs_values("k", gives=lambda a: like(a["x"]))
def tril(x: TensorLike, k: int = 0) -> Tensor:
    """The matrices `x` (..., n, m) with zeros above the diagonal `k`.

    Raises:
        ShapeError: `x` has fewer than two axes.

    Example:
        >>> tk.ops.tril([[1, 2], [3, 4]]).numpy()
        array([[1, 0],
               [3, 4]], dtype=int32)
    """
    result: Tensor = _tril(x, k=whole_number(k, "tril", "k"))
    return result


@needs_values("k", gives=lambda a: like(a["x"]))
def triu(x: TensorLike, k: int = 0) -> Tensor:
    """The matrices `x` (..., n, m) with zeros below the diagonal `k`.

    Raises:
        ShapeError: `x` has fewer than two axes.

    Example:
        >>> tk.ops.triu([[1, 2], [3, 4]]).numpy()
        array([[1, 2],
               [0, 4]], dtype=int32)
    """
    result: Tensor = _triu(x, k=whole_number(k, "triu", "k"))
    return result
