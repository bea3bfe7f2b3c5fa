"""Tensors repeated to a larger shape without a copy, and copied to other devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trainkit.core import devices, shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import (
    ELEMENTWISE,
    IF_ALIKE,
    LEADING_AXES,
    ON_ONE_DEVICE,
    SIZE_AT_RUN,
    VIEW,
    Absent,
)
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import ShapeError
from trainkit.core.shapes import Dims, Spec
from trainkit.core.tensor import Tensor
from trainkit.core.values.type_aliases import Shape, TensorLike
from trainkit.ops.arrays.shaping import filled, sizes_of
from trainkit.ops.core.vmap import aligned, any_stacks
from trainkit.ops.math.reductions import sum_to_like

# ------------------------------------------------------------------ broadcast


def _broadcast_rule(x: Spec, *, shape: tuple[int, ...]) -> Spec:
    return Spec(_broadcast_dims(x.shape, shape), x.dtype)


def _broadcast_dims(dims: Dims, target: Sequence[int | None]) -> Dims:
    """`target`, where -1 keeps the size, if `dims` broadcasts to it.

    Raises:
        ShapeError: it does not.
    """
    extra = len(target) - len(dims)
    sizes = tuple(dims[i - extra] if n == -1 and i >= extra else n for i, n in enumerate(target))
    ends = zip(dims, sizes[extra:], strict=True) if extra >= 0 else None
    if ends is None or any(None not in (a, b) and a not in (1, b) for a, b in ends):
        raise ShapeError(f"broadcast_to: shape {tuple(dims)} does not broadcast to {tuple(target)}")
    return sizes


@primitive(
    _broadcast_rule, name="broadcast_to", semantics=VIEW, simplify=IF_ALIKE, text="beside numbers"
)
def _broadcast_to(xp: ArrayModule, x: Array, *, shape: tuple[int, ...]) -> Array:
    """Repeat along axes of size 1 and new leading axes, without a copy."""
    added = len(shape) - len(x.shape)
    if xp is np and shape[added:] == x.shape and added > 0 and x.dtype.kind in "fiub":
        if x.size and x.flags.c_contiguous and min(shape) > 0:
            # What `broadcast_to` gives for new axes in front, in a fifth of its time.
            repeated = np.ndarray(shape, x.dtype, x, 0, (0,) * added + x.strides)
            repeated.flags.writeable = False
            return repeated
    if -1 in shape:
        shape = _broadcast_dims(x.shape, shape)  # type: ignore[assignment]
    return xp.broadcast_to(x, shape)


_broadcast_to.gradients(lambda g, y, x, *, shape: sum_to_like(g, x))


@primitive(
    lambda x, *sizes, shape: Spec(tuple(None if n == -1 else n for n in shape), x.dtype),
    semantics=VIEW,
    lowering=SIZE_AT_RUN,
    text="beside numbers",
)
def broadcast_to_sized(
    xp: ArrayModule, x: Array, *sizes: Array, shape: tuple[int | None, ...]
) -> Array:
    """`broadcast_to` where some sizes are scalar tensors; they stand for the `None`s of `shape`."""
    return xp.broadcast_to(x, _broadcast_dims(x.shape, filled(shape, sizes)))


broadcast_to_sized.joint_gradient(
    lambda g, y, x, *sizes, shape: (sum_to_like(g, x), *[None] * len(sizes))
)


@_broadcast_to.batch_by
@broadcast_to_sized.batch_by
def _broadcast_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    x, *sizes = inputs
    if any_stacks(sizes):
        return NotImplemented
    shape = settings["shape"]
    return primitive.op(aligned(x, len(shape)), *sizes, shape=(count, *shape))


def broadcast_to(x: TensorLike, shape: Shape) -> Tensor:
    """`x` repeated, without a copy, so that it has the shape `shape`.

    Args:
        x: tensor whose shape broadcasts to `shape` by NumPy's rule.
        shape: the sizes of the result; -1 keeps that of `x`.

    Returns:
        A tensor of shape `shape`.

    Raises:
        ShapeError: the shape of `x` does not broadcast to `shape`.

    Example:
        >>> tk.ops.broadcast_to([1, 2], (2, 2)).numpy()
        array([[1, 2],
               [1, 2]], dtype=int32)
    """
    sizes, tensors = sizes_of(shape, "broadcast_to", free=True)
    if tensors:
        dynamic: Tensor = broadcast_to_sized(x, *tensors, shape=sizes)
        return dynamic
    result: Tensor = _broadcast_to(x, shape=sizes)
    return result


def broadcast_shapes(*shapes_: Any) -> list[Any]:
    """The shape to which all of `shapes_` broadcast together, as a list of sizes.

    Raises:
        ShapeError: two sizes differ and neither is 1.

    >>> broadcast_shapes((2, 1), (3,))
    [2, 3]
    """
    return list(shapes.broadcast_dims(*shapes_, op="broadcast_shapes"))


# ------------------------------------------------------------------ devices


@primitive(
    shapes.unchanged,
    semantics=ELEMENTWISE,
    lowering=Absent("it moves arrays between devices"),
    memory="view",
    export=Absent("the reader has one device"),
)
def copy_to_device(xp: ArrayModule, x: Array, *, device: str) -> Array:
    """The values on the device of that name."""
    return devices.to_device(x, devices.parse(device))


@primitive(
    lambda g, x: Spec(g.shape, g.dtype),
    semantics=ELEMENTWISE,
    lowering=Absent("it moves arrays between devices"),
    memory="view",
    simplify=ON_ONE_DEVICE,
    export=Absent("the reader has one device"),
)
def copy_to_device_of(xp: ArrayModule, g: Array, x: Array) -> Array:
    """The values of `g` on the device of `x`."""
    return devices.to_device(g, devices.device_of(x))


copy_to_device.gradients(lambda g, y, x, *, device: copy_to_device_of(g, x))
copy_to_device_of.gradients(lambda gg, y, g, x: copy_to_device_of(gg, g), None)
copy_to_device_of.declare(batch=LEADING_AXES)
