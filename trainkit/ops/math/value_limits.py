"""Values limited to a range, `clip`, and the penalty whose slope they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core import dtypes, shapes
from trainkit.core.cpu.cost_model import CALL_FLOATS
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import ELEMENTWISE
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.kernels.elementwise import elementwise_reference, elementwise_tuned
from trainkit.ops.math.comparisons import greater, greater_equal, less, less_equal, logical_and
from trainkit.ops.math.elementwise import (
    cast,
    keep_where,
    minimum,
    multiply,
    negative,
    promoted,
    subtract,
)


def _run_compiled(x: Array, *, x_min: float, x_max: float) -> Array | None:
    # beside a limit that is NaN there is NaN, which the kernel does not look for
    if x_min != x_min or x_max != x_max:
        return None
    return elementwise_tuned.clip(x, x_min, x_max)


@primitive(
    lambda x, *, x_min, x_max: Spec(x.shape, x.dtype),
    name="clip",
    semantics=ELEMENTWISE,
    tuned=elementwise_tuned.clip.facet(_run_compiled),
)
def _clip(xp: ArrayModule, x: Array, *, x_min: float, x_max: float) -> Array:
    """Values below the number x_min become x_min, those above x_max become x_max."""
    if type(x) is np.ndarray and x.dtype.kind in "iu" and x.size > CALL_FLOATS:
        # by vectors, which NumPy's minimum and maximum of integers beside a number are not
        return np.clip(x, x_min, x_max)
    return elementwise_reference.clip(xp, x, x_min=x_min, x_max=x_max)


def _clip_gradient(g: Tensor, y: Tensor, x: Tensor, *, x_min: float, x_max: float) -> Tensor:
    inside = logical_and(greater_equal(x, x_min), less_equal(x, x_max))
    return keep_where(g, inside)


_clip.gradients(_clip_gradient)


@primitive(shapes.broadcast, semantics=ELEMENTWISE)
def clip_by_tensors(xp: ArrayModule, x: Array, x_min: Array, x_max: Array) -> Array:
    """Values above x_max become x_max, then those below x_min become x_min; all three broadcast."""
    return xp.maximum(xp.minimum(x, x_max), x_min)


clip_by_tensors.gradients(
    lambda g, y, x, low, high: keep_where(
        g, logical_and(greater_equal(x, low), less_equal(x, high))
    ),
    lambda g, y, x, low, high: keep_where(g, less(minimum(x, high), low)),
    lambda g, y, x, low, high: keep_where(g, logical_and(greater(x, high), less_equal(low, high))),
)


def clip(x: TensorLike, x_min: Any, x_max: Any) -> Tensor:
    """Limit the values of `x` to the range from `x_min` to `x_max`.

    No gradient passes outside the range. Where `x_min` is above `x_max`, all values are `x_min`.

    Args:
        x: tensor of any shape.
        x_min: number, or tensor whose shape broadcasts with that of `x`.
        x_max: likewise.

    Returns:
        A tensor of the promoted dtype.

    Example:
        >>> tk.ops.clip([-1.0, 0.5, 9.0], 0.0, 1.0).numpy()
        array([0. , 0.5, 1. ], dtype=float32)
    """
    x = x if isinstance(x, Tensor) else convert_to_tensor(x)
    weak = (int, float)
    if type(x_min) in weak and type(x_max) in weak:
        if x_min > x_max:
            x_max = x_min
        kinds = "iuf" if type(x_min) is type(x_max) is int else "f"
        if type(x) is not Tensor or x._array.dtype.kind not in kinds:
            x = cast(x, dtypes.result_type(x.dtype, x_min, x_max))
            if x.dtype is dtypes.bfloat16:  # which NumPy widens beside a Python number
                return clip_by_tensors(*promoted(x, x_min, x_max))
        return _clip(x, x_min=x_min, x_max=x_max)
    return clip_by_tensors(*promoted(x, x_min, x_max))


# ------------------------------------------------------------------ the penalty with that slope


@primitive(
    shapes.floating,
    name="huber_penalty",
    semantics=ELEMENTWISE,
    tuned=elementwise_tuned.huber_penalty.facet(
        lambda x, *, delta: elementwise_tuned.huber_penalty(x, delta)
    ),
)
def _huber_penalty(xp: ArrayModule, x: Array, *, delta: float) -> Array:
    """x**2 / 2 up to `delta` on either side of 0, a straight line beyond."""
    return elementwise_reference.huber_penalty(xp, x, delta=delta)


_huber_penalty.gradients(lambda g, y, x, *, delta: multiply(g, clip(x, -delta, delta)))


def huber_penalty(x: TensorLike, delta: Any) -> Tensor:
    """x**2 / 2 up to `delta` on either side of 0, a straight line beyond.

    Args:
        x: tensor of any shape.
        delta: a number above 0, or a tensor that broadcasts with `x`.

    Returns:
        A tensor like `x`, of floats.

    Example:
        >>> huber_penalty([0.5, -2.0], 1.0).numpy()
        array([0.125, 1.5  ], dtype=float32)
    """
    if type(delta) is int or type(delta) is float:
        result: Tensor = _huber_penalty(x, delta=float(delta))
        return result
    x, delta = promoted(x, delta)
    bounded = clip(x, negative(delta), delta)
    return multiply(bounded, subtract(x, multiply(bounded, 0.5)))
