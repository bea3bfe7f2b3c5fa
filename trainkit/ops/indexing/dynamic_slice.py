"""Blocks of a tensor: `slice` and `slice_update`; a graph may know where they start only later."""

from __future__ import annotations

from builtins import slice as python_slice
from collections.abc import Sequence
from typing import Any

from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch import late_ops
from trainkit.core.dispatch.facets import INDEXING, SHAPE, VIEW, Absent
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor
from trainkit.core.values.type_aliases import Shape, TensorLike
from trainkit.ops.arrays.creation import zeros_like
from trainkit.ops.arrays.shaping import as_tensor, filled, known_sizes, sizes_of
from trainkit.ops.core.dynamic_shapes import needs_values, unknown


def _block(dims: Any, start: Sequence[Any], sizes: Sequence[Any], op: str) -> Any:
    """Slices for a block of `sizes` at `start`; -1 is the rest of the axis.

    Raises:
        ShapeError: the block reaches outside.
    """
    if len(start) != len(dims) or len(sizes) != len(dims):
        raise ShapeError(
            f"{op}: a tensor of shape {tuple(dims)} needs {len(dims)} start indices and sizes, got "
            f"{tuple(start)} and {tuple(sizes)}"
        )
    block = []
    for axis, (n, a, k) in enumerate(zip(dims, start, sizes, strict=True)):
        end = n if k == -1 else a + k
        if not 0 <= a <= end <= n:
            raise ShapeError(
                f"{op}: positions {a} to {end} of axis {axis} are outside of a tensor of shape "
                f"{tuple(dims)}"
            )
        block.append(python_slice(a, end))
    return tuple(block)


def _slice_rule(x: Spec, *live: Spec, start: Any, sizes: Any) -> Spec:
    if len(start) != len(x.shape) or len(sizes) != len(x.shape):
        _block(x.shape, start, sizes, "slice")
    dims: list[int | None] = []
    for n, a, k in zip(x.shape, start, sizes, strict=True):
        if None not in (n, a):
            _block((n,), (a,), (k,), "slice")
        dims.append(k if k != -1 else (None if None in (n, a) else n - a))
    return Spec(dims, x.dtype)


@primitive(_slice_rule, name="slice", semantics=VIEW, recompute="cheap", text="beside numbers")
def _slice(xp: ArrayModule, x: Array, *live: Array, start: Any, sizes: Any) -> Array:
    """A block of the tensor; scalar tensors stand for the `None`s of `start`."""
    return x[_block(x.shape, filled(start, live), sizes, "slice")]


@primitive(
    lambda x, like, *live, start: Spec(like.shape, x.dtype),
    semantics=VIEW,
    reads={1: SHAPE},
    recompute="cheap",
    lowering=Absent("where the block starts may be known when it runs"),
)
def slice_like(xp: ArrayModule, x: Array, like: Array, *live: Array, start: Any) -> Array:
    """A block of the tensor as large as `like`, whose values are not looked at."""
    return x[_block(x.shape, filled(start, live), like.shape, "slice")]


def _update_rule(x: Spec, updates: Spec, *live: Spec, start: Any) -> Spec:
    if len(updates.shape) != len(x.shape) or len(start) != len(x.shape):
        _block(x.shape, start, updates.shape, "slice_update")
    for n, a, k in zip(x.shape, start, updates.shape, strict=True):
        if None not in (n, a, k):
            _block((n,), (a,), (k,), "slice_update")
    return Spec(x.shape, x.dtype)


@primitive(_update_rule, name="slice_update", semantics=INDEXING)
def _slice_update(xp: ArrayModule, x: Array, updates: Array, *live: Array, start: Any) -> Array:
    """The tensor with a block of it replaced."""
    block = _block(x.shape, filled(start, live), updates.shape, "slice_update")
    out = xp.array(x)
    out[block] = updates
    return out


def _slice_gradient(g: Tensor, y: Tensor, x: Tensor, *live: Tensor, start: Any, sizes: Any) -> Any:
    return (_slice_update(zeros_like(x), g, *live, start=start), *[None] * len(live))


_slice.joint_gradient(_slice_gradient)


def _slice_like_gradient(
    g: Tensor, y: Tensor, x: Tensor, like: Tensor, *live: Tensor, start: Any
) -> Any:
    return (_slice_update(zeros_like(x), g, *live, start=start), None, *[None] * len(live))


slice_like.joint_gradient(_slice_like_gradient)


def _slice_update_gradient(
    g: Tensor, y: Tensor, x: Tensor, updates: Tensor, *live: Tensor, start: Any
) -> Any:
    outside = _slice_update(g, zeros_like(updates), *live, start=start)
    inside = slice_like(g, updates, *live, start=start)
    return (outside, inside, *[None] * len(live))


_slice_update.joint_gradient(_slice_update_gradient)
_slice_update.declare(stackable=True)


@needs_values("shape", gives=lambda a: unknown(a["inputs"]))
def slice(inputs: TensorLike, start_indices: Any, shape: Shape) -> Tensor:  # the name in keras.ops
    """The block of `inputs` that begins at `start_indices` and has the given shape.

    Args:
        inputs: tensor of any shape.
        start_indices: first position along each axis, ints or scalar tensors.
        shape: sizes of the block; -1 takes the rest of an axis.

    Returns:
        A tensor of that shape.

    Raises:
        ShapeError: the block reaches outside, or there is not one number for each axis.

    Example:
        >>> tk.ops.slice([1, 2, 3, 4], [1], [2]).numpy()
        array([2, 3], dtype=int32)
    """
    x = as_tensor(inputs)
    start, live = sizes_of(start_indices, "slice")
    sizes = known_sizes(shape, "slice", "the shape")
    result: Tensor = _slice(x, *live, start=start, sizes=sizes)
    return result


def slice_update(inputs: TensorLike, start_indices: Any, updates: TensorLike) -> Tensor:
    """`inputs` with the block that begins at `start_indices` replaced by `updates`.

    Args:
        inputs: tensor of any shape.
        start_indices: first position along each axis, ints or scalar tensors.
        updates: the new values of the block; cast to the dtype of `inputs`.

    Returns:
        A tensor of the shape and dtype of `inputs`, which stay as they are.

    Raises:
        ShapeError: the block reaches outside, or the numbers of axes differ.

    Example:
        >>> tk.ops.slice_update([0, 0, 0], [1], [5]).numpy()
        array([0, 5, 0], dtype=int32)
    """
    x, new = as_tensor(inputs), as_tensor(updates)
    if new.dtype != x.dtype:
        new = late_ops.cast(new, dtype=x.dtype.name)
    start, live = sizes_of(start_indices, "slice_update")
    result: Tensor = _slice_update(x, new, *live, start=start)
    return result
