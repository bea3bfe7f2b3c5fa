"""Axes of a tensor: their order, and those of size 1. The results are views."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from trainkit.core import shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import ALONG_AXIS, MOVED, VIEW, Direct
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import ShapeError
from trainkit.core.shapes import CALLS, Dims, Spec
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor
from trainkit.core.values.type_aliases import Axis, TensorLike
from trainkit.ops.arrays.shaping import as_tensor, known_sizes, rank_of
from trainkit.ops.core.axis_numbers import whole_number


def _transpose_rule(x: Spec, *, axes: tuple[int, ...] | None = None) -> Spec:
    return Spec(tuple(x.shape[i] for i in _permutation(axes, len(x.shape))), x.dtype)


def _permutation(axes: Sequence[int] | None, rank: int) -> tuple[int, ...]:
    if axes is None:
        return tuple(range(rank))[::-1]
    order = shapes.canonical_axes(tuple(axes), rank, "transpose")
    if len(order) != rank:
        raise ShapeError(f"transpose: axes {tuple(axes)} must name each of the {rank} axes once")
    return order


@primitive(
    _transpose_rule,
    name="transpose",
    semantics=VIEW,
    text="beside numbers",
    direct=Direct("transpose"),
)
def _transpose(xp: ArrayModule, x: Array, *, axes: tuple[int, ...] | None = None) -> Array:
    """The axes in another order."""
    return x.transpose() if axes is None else x.transpose(axes)


def _transpose_gradient(g: Tensor, y: Tensor, x: Tensor, *, axes: Any = None) -> Tensor:
    if axes is None:
        result: Tensor = _transpose(g)
        return result
    rank = len(axes)
    inverse = [0] * rank
    for position, axis in enumerate(axes):
        inverse[axis % rank] = position
    back: Tensor = _transpose(g, axes=tuple(inverse))
    return back


_transpose.gradients(_transpose_gradient)


def transpose(x: TensorLike, axes: Axis | None = None) -> Tensor:
    """`x` with its axes in another order.

    Args:
        x: tensor of any shape.
        axes: axis `axes[i]` of `x` becomes axis i of the result; by default their order is
            reversed.

    Returns:
        A tensor of shape `(x.shape[axes[0]], ...)`.

    Raises:
        ShapeError: `axes` does not name each axis once.

    Example:
        >>> tk.ops.transpose([[1, 2, 3], [4, 5, 6]]).numpy()
        array([[1, 4],
               [2, 5],
               [3, 6]], dtype=int32)
    """
    if axes is None:
        result: Tensor = _transpose(x)
    else:
        order = known_sizes(axes, "transpose", "the axes")
        result = _transpose(x, axes=order)
    return result


def swap_last_axes(x: TensorLike) -> Tensor:
    """`x` (..., n, m) as (..., m, n).

    Raises:
        ShapeError: `x` has fewer than two axes.
    """
    rank = x._array.ndim if type(x) is Tensor else len(as_tensor(x).shape)
    if rank == 2:
        result: Tensor = _transpose(x)
        return result
    if rank < 2:
        raise ShapeError(f"matrices have two axes at least, got shape {tuple(as_tensor(x).shape)}")
    swapped: Tensor = _transpose(x, axes=(*range(rank - 2), rank - 1, rank - 2))
    return swapped


def swapaxes(x: TensorLike, axis1: int, axis2: int) -> Tensor:
    """`x` with `axis1` and `axis2` exchanged.

    Raises:
        ShapeError: an axis is out of range.

    Example:
        >>> tk.ops.swapaxes(tk.ones((2, 3, 4)), 0, 2).shape
        TensorShape([4, 3, 2])
    """
    x = as_tensor(x)
    rank = rank_of(x)
    order = list(range(rank))
    one = shapes.canonical_axis(axis1, rank, "swapaxes")
    two = shapes.canonical_axis(axis2, rank, "swapaxes")
    order[one], order[two] = two, one
    result: Tensor = _transpose(x, axes=tuple(order))
    return result


def moveaxis(x: TensorLike, source: Any, destination: Any) -> Tensor:
    """`x` with the axes `source` moved to the positions `destination`; the others keep their order.

    Args:
        x: tensor of any shape.
        source: an axis or a sequence of axes.
        destination: as many positions.

    Raises:
        ShapeError: an axis is out of range or named twice, or the numbers of axes differ.

    Example:
        >>> tk.ops.moveaxis(tk.ones((2, 3, 4)), 0, -1).shape
        TensorShape([3, 4, 2])
    """
    x = as_tensor(x)
    rank = rank_of(x)
    sources = (source,) if type(source) is int else source
    targets = (destination,) if type(destination) is int else destination
    come = shapes.canonical_axes(sources, rank, "moveaxis")
    go = shapes.canonical_axes(targets, rank, "moveaxis")
    if len(come) != len(go):
        raise ShapeError(f"moveaxis: {len(come)} axes to move, {len(go)} places for them")
    if come == go:
        return x
    result: Tensor = _transpose(x, axes=_moved_order(come, go, rank))
    return result


@lru_cache(maxsize=CALLS)
def _moved_order(come: tuple[int, ...], go: tuple[int, ...], rank: int) -> tuple[int, ...]:
    order = [axis for axis in range(rank) if axis not in come]
    for position, axis in sorted(zip(go, come, strict=True)):
        order.insert(position, axis)
    return tuple(order)


def _axes(axis: Any, op: str) -> tuple[int, ...]:
    if type(axis) is int:
        return (axis,)
    if type(axis) in (list, tuple) and all(type(a) is int for a in axis):
        return tuple(axis)
    if hasattr(type(axis), "_is_variable"):
        axis = axis.value()  # which a graph being traced does not have
    return tuple(whole_number(a, op, "axis") for a in np.ravel(axis))


def _expand(dims: Dims, axis: tuple[int, ...]) -> Any:
    rank = len(dims) + len(axis)
    axes = shapes.canonical_axes(axis, rank, "expand_dims")
    sizes = iter(dims)
    return tuple(1 if i in axes else next(sizes) for i in range(rank))


@primitive(
    lambda x, *, axis: Spec(_expand(x.shape, axis), x.dtype),
    name="expand_dims",
    sizes=MOVED,
    semantics=VIEW,
    text="beside numbers",
    direct=Direct("expand_dims"),
)
def _expand_dims(xp: ArrayModule, x: Array, *, axis: tuple[int, ...]) -> Array:
    """New axes of size 1."""
    if len(axis) == 1 and -x.ndim - 1 <= axis[0] <= x.ndim:
        at = axis[0] % (x.ndim + 1)
        return x.reshape((*x.shape[:at], 1, *x.shape[at:]))
    return x.reshape(_expand(x.shape, axis))


def expand_dims(x: TensorLike, axis: Axis) -> Tensor:
    """`x` with new axes of size 1.

    Args:
        x: tensor of any shape.
        axis: place, or sequence of places, of the new axes in the result.

    Returns:
        A tensor with the elements of `x`.

    Raises:
        ShapeError: `axis` is out of range.

    Example:
        >>> tk.ops.expand_dims([1, 2], 0).shape
        TensorShape([1, 2])
    """
    result: Tensor = _expand_dims(x, axis=_axes(axis, "expand_dims"))
    return result


def _squeeze_dims(dims: Dims, axis: tuple[int, ...]) -> Any:
    axes = shapes.canonical_axes(axis, len(dims), "squeeze")
    for i in axes:
        if dims[i] not in (1, None):
            raise ShapeError(
                f"squeeze: axis {i} of a tensor of shape {dims} has size {dims[i]}; only axes of "
                "size 1 go away"
            )
    return tuple(n for i, n in enumerate(dims) if i not in axes)


@primitive(
    lambda x, *, axis: Spec(_squeeze_dims(x.shape, axis), x.dtype),
    name="squeeze",
    sizes=MOVED,
    semantics=VIEW,
    text="beside numbers",
    direct=Direct("squeeze"),
)
def _squeeze(xp: ArrayModule, x: Array, *, axis: tuple[int, ...]) -> Array:
    """Take axes of size 1 away."""
    return x.reshape(_squeeze_dims(x.shape, axis))


_expand_dims.gradients(lambda g, y, x, *, axis: _squeeze(g, axis=axis))


_expand_dims.declare(batch=ALONG_AXIS)


_squeeze.gradients(
    lambda g, y, x, *, axis: _expand_dims(g, axis=tuple(a % len(x.shape) for a in axis))
)


_squeeze.declare(batch=ALONG_AXIS)


def squeeze(x: TensorLike, axis: Axis | None = None) -> Tensor:
    """`x` without axes of size 1.

    Args:
        x: tensor of any shape.
        axis: axis, or sequence of axes, to take away; by default all that are known to have size 1.

    Returns:
        A tensor with the elements of `x`.

    Raises:
        ShapeError: an axis is out of range or its size is not 1; that of a model's symbol must be
            known.

    Example:
        >>> tk.ops.squeeze(tk.ones((1, 2, 1))).shape
        TensorShape([2])
    """
    if axis is None:
        x = as_tensor(x)
        dims = x._array.shape if type(x) is Tensor else x.shape
        axes = tuple([i for i, n in enumerate(dims) if n == 1])
        result: Tensor = _squeeze(x, axis=axes) if axes else x
        return result
    if isinstance(x, SymbolicTensor) and not x.unknown_sizes_fit:
        dims = tuple(x.shape)
        axes = shapes.canonical_axes(axis, len(dims), "squeeze")
        if [i for i in axes if dims[i] is None]:
            raise ShapeError(
                f"squeeze: axis {axis} of a symbol of shape {dims} has no known size; only axes of "
                "size 1 go away"
            )
    result = _squeeze(x, axis=_axes(axis, "squeeze"))
    return result
