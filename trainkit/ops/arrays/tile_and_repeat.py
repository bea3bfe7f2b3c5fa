"""Copies along axes: tile and repeat, whose gradients are sums over the copies."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core import shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch import late_ops
from trainkit.core.dispatch.facets import ALONG_AXIS, ARRANGEMENT, SHAPE, Absent
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, is_tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.kernels.cuda.constants import on_device
from trainkit.kernels.embedding.scatter_reference import scatter_at
from trainkit.ops.arrays.shaping import as_tensor, filled, known_number, ravel, sizes_of
from trainkit.ops.core.dynamic_shapes import Bound, needs_values


def _align_repeats(dims: Any, repeats: Any) -> tuple[Any, Any]:
    """Shape and repeats with ones in front of the shorter."""
    extra = len(repeats) - len(dims)
    return (1,) * extra + tuple(dims), (1,) * -extra + tuple(repeats)


def _tiled_dims(dims: Any, repeats: Any) -> list[int]:
    return [n * r for n, r in zip(*_align_repeats(dims, repeats), strict=True)]


def _tile_rule(x: Spec, *, repeats: tuple[int, ...]) -> Spec:
    dims, counts = _align_repeats(x.shape, repeats)
    if any(r < 0 for r in counts):
        raise ShapeError(f"tile: repeats must be 0 or more, got {repeats}")
    return Spec((None if n is None else n * r for n, r in zip(dims, counts, strict=True)), x.dtype)


@primitive(_tile_rule, name="tile", semantics=ARRANGEMENT, text="beside numbers")
def _tile(xp: ArrayModule, x: Array, *, repeats: tuple[int, ...]) -> Array:
    """The tensor laid side by side."""
    shapes.bounded("tile", *_tiled_dims(x.shape, repeats))
    return xp.tile(x, repeats)


def _untile_rule(g: Spec, *, repeats: tuple[int, ...], rank: int) -> Spec:
    dims, counts = _align_repeats(g.shape, repeats)
    left = [None if n is None else n // max(r, 1) for n, r in zip(dims, counts, strict=True)]
    return Spec(left[len(left) - rank :], g.dtype)


@primitive(_untile_rule, semantics=ARRANGEMENT)
def tile_sum(xp: ArrayModule, g: Array, *, repeats: tuple[int, ...], rank: int) -> Array:
    """The sum of the copies that `tile` made of a tensor of `rank` axes."""
    dims, counts = _align_repeats(g.shape, repeats)
    folded: list[int] = []
    for n, r in zip(dims, counts, strict=True):
        folded += [r, n // max(r, 1)]
    total = g.reshape(folded).sum(axis=tuple(range(0, len(folded), 2)), dtype=g.dtype)
    return total.reshape(total.shape[total.ndim - rank :])


def _tile_gradient(g: Tensor, y: Tensor, x: Tensor, *, repeats: tuple[int, ...]) -> Tensor:
    if 0 in repeats:
        zeros: Tensor = late_ops.zeros_like(x)
        return zeros
    result: Tensor = tile_sum(g, repeats=repeats, rank=len(x.shape))
    return result


_tile.gradients(_tile_gradient)


tile_sum.gradients(lambda g, y, x, *, repeats, rank: _tile(g, repeats=repeats))


def _tile_sized_rule(x: Spec, *sizes: Spec, repeats: Any) -> Spec:
    dims, counts = _align_repeats(x.shape, repeats)
    return Spec(
        (None if None in (n, r) else n * r for n, r in zip(dims, counts, strict=True)), x.dtype
    )


@primitive(_tile_sized_rule, semantics=ARRANGEMENT)
def tile_sized(xp: ArrayModule, x: Array, *sizes: Array, repeats: Any) -> Array:
    """`tile` where some repeats are scalar tensors; they stand for the `None`s of `repeats`."""
    return _tile.primitive.kernel(xp, x, repeats=filled(repeats, sizes))


@primitive(
    lambda g, x, *sizes, repeats: Spec(x.shape, g.dtype), semantics=ARRANGEMENT, reads={1: SHAPE}
)
def tile_sum_sized(xp: ArrayModule, g: Array, x: Array, *sizes: Array, repeats: Any) -> Array:
    """The sum of the copies that `tile_sized` made of `x`."""
    return tile_sum.primitive.kernel(xp, g, repeats=filled(repeats, sizes), rank=x.ndim)


def _tile_sized_gradient(g: Tensor, y: Tensor, x: Tensor, *sizes: Tensor, repeats: Any) -> Any:
    return (tile_sum_sized(g, x, *sizes, repeats=repeats), *[None] * len(sizes))


tile_sized.joint_gradient(_tile_sized_gradient)


def _tile_sum_sized_gradient(
    gg: Tensor, y: Tensor, g: Tensor, x: Tensor, *sizes: Tensor, repeats: Any
) -> Any:
    return (tile_sized(gg, *sizes, repeats=repeats), None, *[None] * len(sizes))


tile_sum_sized.joint_gradient(_tile_sum_sized_gradient)


tile_sum.declare(stackable=Absent("it adds up numbers"))


tile_sum_sized.declare(stackable=Absent("it adds up numbers"))


def tile(x: TensorLike, repeats: Any) -> Tensor:
    """`x` laid side by side `repeats[i]` times along axis i.

    Args:
        x: tensor of any shape.
        repeats: an int or one for each axis; the shorter of shape and repeats gets ones in front.

    Returns:
        A tensor of shape `x.shape * repeats`.

    Raises:
        ShapeError: a repeat is negative.

    Example:
        >>> tk.ops.tile([1, 2], 2).numpy()
        array([1, 2, 1, 2], dtype=int32)
    """
    counts, tensors = sizes_of(repeats, "tile")
    if tensors:
        dynamic: Tensor = tile_sized(x, *tensors, repeats=counts)
        return dynamic
    result: Tensor = _tile(x, repeats=counts)
    return result


def _repeat_rule(x: Spec, *, repeats: Any, axis: int) -> Spec:
    axis_index = shapes.canonical_axis(axis, len(x.shape), "repeat")
    n = x.shape[axis_index]
    if isinstance(repeats, tuple):
        if n not in (None, len(repeats)) or min(repeats, default=0) < 0:
            raise ShapeError(
                f"repeat: axis {axis} of shape {x.shape} needs {n} repeats >= 0, got {repeats}"
            )
        n = sum(repeats)
    elif repeats < 0:
        raise ShapeError(f"repeat: repeats must be 0 or more, got {repeats}")
    else:
        n = None if n is None else n * repeats
    return Spec((*x.shape[:axis_index], n, *x.shape[axis_index + 1 :]), x.dtype)


@primitive(_repeat_rule, name="repeat", semantics=ARRANGEMENT, text="beside numbers")
def _repeat(xp: ArrayModule, x: Array, *, repeats: Any, axis: int) -> Array:
    """Each slice along an axis several times in a row."""
    axis_index = shapes.canonical_axis(axis, x.ndim, "repeat")
    n = sum(repeats) if isinstance(repeats, tuple) else x.shape[axis_index] * repeats
    shapes.bounded("repeat", *x.shape[:axis_index], n, *x.shape[axis_index + 1 :])
    if xp is not np and isinstance(repeats, tuple) and len(repeats) == x.shape[axis_index]:
        # `xp.repeat` would send the numbers in each call.
        return xp.take(x, _owner_on(xp, repeats), axis_index)
    return xp.repeat(x, repeats, axis)


def _owner_on(xp: ArrayModule, repeats: tuple[int, ...]) -> Array:
    """Of which element each place along the axis is a copy."""
    return on_device(
        xp, ("repeat owner", repeats), lambda: np.repeat(np.arange(len(repeats)), repeats)
    )


def _unrepeat_rule(g: Spec, *, repeats: Any, axis: int) -> Spec:
    axis_index = axis % len(g.shape)
    n = g.shape[axis_index]
    if isinstance(repeats, tuple):
        n = len(repeats)
    elif n is not None:
        n //= repeats
    return Spec((*g.shape[:axis_index], n, *g.shape[axis_index + 1 :]), g.dtype)


@primitive(_unrepeat_rule, semantics=ARRANGEMENT)
def repeat_sum(xp: ArrayModule, g: Array, *, repeats: Any, axis: int) -> Array:
    """The sums over the runs that `repeat` made."""
    axis_index = axis % g.ndim
    if not isinstance(repeats, tuple):
        folded = (
            *g.shape[:axis_index],
            g.shape[axis_index] // repeats,
            repeats,
            *g.shape[axis_index + 1 :],
        )
        runs = g.reshape(folded)
        if xp is np and repeats == 2:
            # The loop of NumPy's sum is along the run, however short that is; this one is not.
            first, second = (runs[(slice(None),) * (axis_index + 1) + (i,)] for i in (0, 1))
            return np.add(first, second)
        return runs.sum(axis=axis_index + 1, dtype=g.dtype)
    out = xp.zeros((*g.shape[:axis_index], len(repeats), *g.shape[axis_index + 1 :]), g.dtype)
    owner = _owner_on(xp, repeats)
    scatter_at(xp, "add", out, (slice(None),) * axis_index + (owner,), g)
    return out


def _repeat_gradient(g: Tensor, y: Tensor, x: Tensor, *, repeats: Any, axis: int) -> Tensor:
    if repeats == 0:
        zeros: Tensor = late_ops.zeros_like(x)
        return zeros
    result: Tensor = repeat_sum(g, repeats=repeats, axis=axis)
    return result


_repeat.gradients(_repeat_gradient)


_repeat.declare(batch=ALONG_AXIS)


repeat_sum.gradients(lambda g, y, x, *, repeats, axis: _repeat(g, repeats=repeats, axis=axis))


repeat_sum.declare(batch=ALONG_AXIS, stackable=Absent("it adds up numbers"))


def _repeated_spec(a: Bound) -> Spec:
    x = as_tensor(a["x"])
    if a["axis"] is None:
        return Spec((None,), x.dtype)
    dims = list(x.shape)
    dims[shapes.canonical_axis(a["axis"], len(dims), "repeat")] = None
    return Spec(dims, x.dtype)


@needs_values("repeats", gives=_repeated_spec)
def repeat(x: TensorLike, repeats: Any, axis: int | None = None) -> Tensor:
    """Each element, or each slice along `axis`, several times in a row.

    Args:
        x: tensor of any shape.
        repeats: an int, or one for each slice.
        axis: along which; by default `x` is flattened first.

    Returns:
        A tensor longer along `axis`.

    Raises:
        ShapeError: a repeat is negative, or there is not one for each slice.

    Example:
        >>> tk.ops.repeat([1, 2], 2).numpy()
        array([1, 1, 2, 2], dtype=int32)
    """
    if axis is None:
        x, axis = ravel(x), 0
    if not is_tensor(repeats) and type(repeats) is int:
        counts: Any = repeats
    else:
        counts = tuple(known_number(r, "repeat") for r in np.ravel(np.asarray(repeats)).tolist())
        counts = counts[0] if len(counts) == 1 else counts
    result: Tensor = _repeat(x, repeats=counts, axis=axis)
    return result
