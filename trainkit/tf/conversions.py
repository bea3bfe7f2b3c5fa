"""Tensors seen or written in other ways: bits, texts, old names of divisions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit import ops
from trainkit.autodiff.custom import custom_gradient
from trainkit.core import dtypes
from trainkit.core.dtypes import int32
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import Spec, broadcast_dims
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.ops.later import needs_values
from trainkit.tf.arrays import plain


def bitcast(input: Any, type: Any, name: Any = None) -> Tensor:
    """The same bits read as another element type, without a gradient.

    Args:
        input: tensor (..., n).
        type: element type. One of half the size adds an axis of 2 behind, one of twice the size
            takes away a last axis of 2; and so on.
        name: not kept.

    Raises:
        InvalidArgumentError: the last axis does not fit the larger type, or a type has no bits.
    """
    x, wanted = convert_to_tensor(input), dtypes.as_dtype(type)
    if "string" in (x.dtype.name, wanted.name) or "bool" in (x.dtype.name, wanted.name):
        raise InvalidArgumentError(
            f"bitcast: from {x.dtype.name} to {wanted.name} is not possible; use numbers"
        )
    old, new = x.dtype.size, wanted.size
    if old > new:
        split = ops.view(ops.expand_dims(x, -1), wanted)
        return ops.reshape(split, (*x.shape, old // new))
    if old < new:
        if not x.shape or x.shape[-1] != new // old:
            raise InvalidArgumentError(
                f"bitcast: from {x.dtype.name} to {wanted.name} the last axis must have size "
                f"{new // old}, the shape is {tuple(x.shape)}"
            )
        return ops.squeeze(ops.view(x, wanted), -1)
    return ops.view(x, wanted)


def realdiv(x: Any, y: Any, name: Any = None) -> Tensor:
    """`x / y` of floats or complex numbers.

    Raises:
        InvalidArgumentError: they are integers; use `tk.truediv`.
    """
    a, b = convert_to_tensor(x), convert_to_tensor(y)
    if a.dtype.is_integer or b.dtype.is_integer:
        raise InvalidArgumentError(
            f"realdiv: takes floats, got {a.dtype.name} and {b.dtype.name}; use truediv"
        )
    return ops.divide(x, y)


def truncatediv(x: Any, y: Any, name: Any = None) -> Tensor:
    """The quotient rounded towards 0, of integers or floats."""
    a, b = convert_to_tensor(x), convert_to_tensor(y)
    if a.dtype.is_floating or b.dtype.is_floating:
        return ops.trunc(ops.divide(a, b))
    below = ops.not_equal(ops.less(a, 0), ops.less(b, 0))
    quotient = ops.floor_divide(a, b)
    inexact = ops.not_equal(ops.multiply(quotient, b), a)
    return ops.add(quotient, ops.cast(ops.logical_and(below, inexact), quotient.dtype))


def truncatemod(x: Any, y: Any, name: Any = None) -> Tensor:
    """What `truncatediv` leaves: x - y * truncatediv(x, y), with the sign of x."""
    return ops.fmod(x, y)


def shape_n(input: Any, out_type: Any = "int32", name: Any = None) -> list[Tensor]:
    """The shapes of a list of tensors, each as a tensor."""
    from trainkit.tf.arrays import shape

    return [shape(x, out_type) for x in input]


@needs_values("shape_x", "shape_y", gives=lambda a: Spec((None,), int32))
def broadcast_dynamic_shape(shape_x: Any, shape_y: Any) -> Tensor:
    """The shape that two shapes broadcast to, as a tensor.

    Raises:
        ShapeError: they do not broadcast.
    """
    dims = broadcast_dims(
        tuple(plain(shape_x)), tuple(plain(shape_y)), op="broadcast_dynamic_shape"
    )
    return convert_to_tensor(np.array(dims, np.int32))


def parallel_stack(values: Any, name: Any = None) -> Tensor:
    """Tensors of one shape stacked along a new first axis."""
    return ops.stack([convert_to_tensor(x) for x in values], axis=0)


@needs_values(
    "input_shape",
    "block_shape",
    "base_paddings",
    gives=lambda a: (Spec((None, 2), int32), Spec((None, 2), int32)),
)
def required_space_to_batch_paddings(
    input_shape: Any, block_shape: Any, base_paddings: Any = None, name: Any = None
) -> tuple[Tensor, Tensor]:
    """Paddings and crops with which `space_to_batch` fits a shape.

    Args:
        input_shape: of the spatial axes.
        block_shape: of the blocks, as many numbers.
        base_paddings: the least padding of each axis, (n, 2); 0 by default.
        name: not kept.

    Returns:
        Paddings and crops, (n, 2), int32.
    """
    sizes, blocks = np.array(plain(input_shape)), np.array(plain(block_shape))
    if base_paddings is None:
        base = np.zeros((len(sizes), 2), int)
    else:
        base = np.array(plain(base_paddings)).reshape(-1, 2)
    extra = -(sizes + base.sum(axis=1)) % blocks
    paddings = base + np.stack([np.zeros_like(extra), extra], axis=1)
    crops = np.stack([np.zeros_like(extra), extra], axis=1)
    return convert_to_tensor(paddings.astype(np.int32)), convert_to_tensor(crops.astype(np.int32))


def grad_pass_through(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function with the values of `f` whose gradient is that of the identity.

    Useful for rounding and the like, whose own gradient is 0. Variables that `f` reads have none.
    """

    @custom_gradient
    def passing(*args: Any, **kwargs: Any) -> Any:
        def rule(*gradients: Any, variables: Any = None) -> Any:
            passed = gradients[0] if len(gradients) == 1 else gradients
            return passed if variables is None else (passed, [None] * len(variables))

        return f(*args, **kwargs), rule

    return passing
