"""Shapes, positions and order, with the names and signatures of the Array API standard."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError, PositionError, ShapeError
from trainkit.core.tensor import Tensor, wrap
from trainkit.core.values.type_aliases import Axis, Shape, TensorLike
from trainkit.ops.arrays.shaping import as_tensor
from trainkit.ops.arrays.unique_parts import UniqueAll as UniqueAll
from trainkit.ops.arrays.unique_parts import UniqueCounts as UniqueCounts
from trainkit.ops.arrays.unique_parts import UniqueInverse as UniqueInverse
from trainkit.ops.arrays.unique_parts import argsort as argsort
from trainkit.ops.arrays.unique_parts import unique_all as unique_all
from trainkit.ops.arrays.unique_parts import unique_counts as unique_counts
from trainkit.ops.arrays.unique_parts import unique_inverse as unique_inverse
from trainkit.ops.arrays.unique_parts import unique_values as unique_values

# ------------------------------------------------------------------ shapes


def broadcast_arrays(*arrays: Any) -> tuple[Tensor, ...]:
    """The tensors broadcast to the shape that they have in common."""
    tensors = [as_tensor(x) for x in arrays]
    dims = broadcast_shapes(*(tuple(x.shape) for x in tensors))
    return tuple(ops.broadcast_to(x, dims) for x in tensors)


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape to which all of `shapes` broadcast together."""
    return tuple(ops.broadcast_shapes(*shapes))


def broadcast_to(x: Any, /, shape: Shape) -> Tensor:
    """`x` repeated, without a copy, so that it has the shape `shape`."""
    return ops.broadcast_to(x, shape)


def concat(arrays: Any, /, *, axis: int | None = 0) -> Tensor:
    """Tensors one after the other along an axis; `None` flattens them first."""
    return ops.concatenate(list(arrays), axis=axis)


def expand_dims(x: Any, /, axis: Axis = 0) -> Tensor:
    """`x` with a new axis of size 1.

    Raises:
        IndexError: `axis` is out of range.
    """
    try:
        return ops.expand_dims(x, axis)
    except ShapeError as error:
        raise PositionError(str(error)) from None


def flip(x: Any, /, *, axis: Axis | None = None) -> Tensor:
    """The elements in reverse order along `axis`, by default along all."""
    return ops.flip(x, axis)


def moveaxis(x: Any, source: Any, destination: Any, /) -> Tensor:
    """`x` with the axes `source` moved to `destination`."""
    return ops.moveaxis(x, source, destination)


def permute_dims(x: Any, /, axes: Axis) -> Tensor:
    """`x` with its axes in another order."""
    return ops.transpose(x, axes)


def repeat(x: Any, repeats: Any, /, *, axis: int | None = None) -> Tensor:
    """Each element, or each slice along `axis`, several times in a row."""
    return ops.repeat(x, repeats, axis)


def reshape(x: Any, /, shape: Any, *, copy: bool | None = None) -> Tensor:
    """The elements of `x`, in row-major order, in another shape.

    Raises:
        ValueError: the number of elements differs, or `copy=False` and a copy is needed.
    """
    if copy is False:
        tensor = as_tensor(x)
        try:
            return wrap(np.reshape(tensor._array, tuple(shape), copy=False))
        except ValueError as error:
            raise InvalidArgumentError(f"reshape: {error}") from None
    return ops.reshape(x, shape)


def roll(x: Any, /, shift: TensorLike, *, axis: Axis | None = None) -> Tensor:
    """The elements moved `shift` places; those that leave come back at the other end."""
    return ops.roll(x, shift, axis)


def squeeze(x: Any, /, axis: Axis) -> Tensor:
    """`x` without the axes `axis`, whose sizes must be 1."""
    return ops.squeeze(x, axis)


def stack(arrays: Any, /, *, axis: int = 0) -> Tensor:
    """Tensors of one shape along a new axis."""
    return ops.stack(list(arrays), axis=axis)


def tile(x: Any, repetitions: Any, /) -> Tensor:
    """`x` laid side by side along each axis."""
    return ops.tile(x, repetitions)


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices of `x` along an axis, which goes away."""
    return tuple(ops.unstack(x, axis=axis))


# ------------------------------------------------------------------ positions


def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Tensor:
    """The slices of `x` at positions along an axis, which a vector may leave out.

    Raises:
        ShapeError: `axis` is left out, and `x` has another number of axes than one.
    """
    tensor = as_tensor(x)
    if axis is None and len(tensor.shape) != 1:
        raise ShapeError(f"take: axis must be given for a tensor of shape {tuple(tensor.shape)}")
    return ops.take(tensor, indices, axis)


def take_along_axis(x: Any, indices: Any, /, *, axis: int = -1) -> Tensor:
    """For each position the element of `x` there along an axis."""
    return ops.take_along_axis(x, indices, axis)


def argmax(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The position of the first greatest element."""
    return ops.argmax(x, axis=axis, keepdims=keepdims)


def argmin(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The position of the first least element."""
    return ops.argmin(x, axis=axis, keepdims=keepdims)


def nonzero(x: Any, /) -> tuple[Tensor, ...]:
    """The positions of the elements that are not 0, a vector for each axis."""
    return ops.nonzero(x)


def where(condition: Any, x1: Any, x2: Any, /) -> Tensor:
    """`x1` where the condition is true, else `x2`."""
    return ops.where(condition, x1, x2)


def searchsorted(x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None) -> Tensor:
    """The positions at which `x2` would go into the rising vector `x1`, or `x1[sorter]`."""
    line = x1 if sorter is None else ops.take(x1, sorter, 0)
    return ops.searchsorted(line, x2, side=side)


def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Tensor:
    """Whether each element of `x1` is among those of `x2`."""
    return ops.isin(x1, x2, invert=invert)


def diff(
    x: Any, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None
) -> Tensor:
    """The n-th differences of neighbours, with more elements before and behind if given."""
    parts = [part for part in (prepend, x, append) if part is not None]
    return ops.diff(ops.concatenate(parts, axis) if len(parts) > 1 else x, n=n, axis=axis)


# ------------------------------------------------------------------ order


def sort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements in rising order along an axis, or in falling order."""
    y = ops.sort(x, axis)
    return ops.flip(y, axis) if descending else y
