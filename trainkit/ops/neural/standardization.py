"""Standardization along axes, without parameters: the core of group and RMS normalization on a GPU.

There it is one kernel, or two; on the CPU the layers compute it by an operation for each step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core import shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import AXIS, Tuned
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.dtypes import widen_halves
from trainkit.core.process.later_imports import DeferredModule
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor
from trainkit.kernels.normalization import norm_reference
from trainkit.ops.core.double_backward import replayed_second_gradient
from trainkit.ops.math.elementwise import add, multiply, rsqrt, square, subtract
from trainkit.ops.math.reductions import mean

norm_gpu = DeferredModule("trainkit.kernels.normalization.norm_gpu")

Axes = tuple[int, ...]


@primitive(
    shapes.unchanged,
    name="standardized",
    semantics=AXIS,
    tuned=Tuned(on_gpu=(norm_gpu.standardized,)),
)
def standardized(
    xp: ArrayModule, x: Array, *, axis: Axes, epsilon: float, centred: bool = True
) -> Array:
    """(x - mean) / sqrt(variance + epsilon) along axes; not centred, the mean counts as 0."""
    floats = widen_halves(x)
    deviations = floats - floats.mean(axis=axis, keepdims=True) if centred else floats
    y: Array = norm_reference.apart(xp, deviations, axis, epsilon)[0]
    return y.astype(x.dtype, copy=False)


@primitive(
    lambda g, x, **settings: Spec(x.shape, x.dtype),
    name="standardized_gradient",
    semantics=AXIS,
    tuned=Tuned(on_gpu=(norm_gpu.standardized_gradient,)),
)
def standardized_gradient(
    xp: ArrayModule, g: Array, x: Array, *, axis: Axes, epsilon: float, centred: bool = True
) -> Array:
    """What `standardized` sends back: (g - mean(g) - y mean(g y)) / sqrt(variance + epsilon)."""
    floats, g = widen_halves(x), widen_halves(g)
    deviations = floats - floats.mean(axis=axis, keepdims=True) if centred else floats
    y, factor = norm_reference.apart(xp, deviations, axis, epsilon)
    along = g - g.mean(axis=axis, keepdims=True) if centred else g
    grad: Array = (along - y * (g * y).mean(axis=axis, keepdims=True)) * factor
    return grad.astype(x.dtype, copy=False)


def _formula(x: Tensor, *, axis: Axes, epsilon: float, centred: bool = True) -> Tensor:
    """The same in plain operations."""
    deviations = subtract(x, mean(x, axis, True)) if centred else x
    y: Tensor = multiply(deviations, rsqrt(add(mean(square(deviations), axis, True), epsilon)))
    return y


def _second(gg: Tensor, y: Tensor, g: Tensor, x: Tensor, **settings: Any) -> Any:
    by_g, (by_x,) = replayed_second_gradient(lambda x: _formula(x, **settings), g, (x,), (gg,))
    return by_g, by_x


standardized.gradients(lambda g, y, x, **settings: standardized_gradient(g, x, **settings))
standardized_gradient.joint_gradient(_second)


def is_one_kernel(x: Tensor) -> bool:
    """Whether `x` is where `standardized` is one operation of the device rather than many."""
    if type(x) is Tensor and type(x._array) is np.ndarray:
        return False
    return "GPU" in x.device and x.dtype.is_floating
