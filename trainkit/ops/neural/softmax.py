"""Activations along an axis: softmax, log_softmax, sparsemax and the gated linear unit."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from trainkit.core import shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import AXIS, CLASSES, FLAT, FLOATS, RESULT, TRACE, Direct
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import ShapeError
from trainkit.core.process.later_imports import DeferredModule
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import Axis, TensorLike
from trainkit.kernels.softmax import softmax_reference, softmax_tuned
from trainkit.ops.arrays.concat_and_split import split
from trainkit.ops.core.axis_numbers import whole_number
from trainkit.ops.math.comparisons import greater
from trainkit.ops.math.elementwise import cast, exp, keep_where, multiply, negative, subtract
from trainkit.ops.math.reductions import axis_setting
from trainkit.ops.math.reductions import sum as total
from trainkit.ops.neural.activations import sigmoid

softmax_gpu = DeferredModule("trainkit.kernels.softmax.softmax_gpu")
sort_gpu = DeferredModule("trainkit.kernels.sorting.sort_gpu")


def _check_axis(x: Any, axis: Any, op: str) -> None:
    """Axes of what has no values yet and of empty tensors; NumPy looks at all others."""
    if isinstance(x, SymbolicTensor) or (type(x) is Tensor and not x._array.size):
        shapes.canonical_axes(axis, len(x.shape), op)


# ------------------------------------------------------------------ softmax


@primitive(
    shapes.floating,
    name="softmax",
    semantics=AXIS,
    lowering=TRACE,
    tuned=softmax_tuned.SOFTMAX.facet(softmax_tuned.softmax, on_gpu=(softmax_gpu.softmax,)),
    direct=Direct("softmax", (np.maximum, np.subtract, np.exp, np.add, np.true_divide)),
    logits_of=CLASSES,
)
def _softmax(xp: ArrayModule, x: Array, *, axis: Any) -> Array:
    """exp(x) over its sum along axes."""
    return softmax_reference.softmax(xp, x, axis) if x.size else x


@primitive(
    shapes.unchanged,
    promotion=FLOATS,
    semantics=AXIS,
    lowering=TRACE,
    tuned=softmax_tuned.SOFTMAX_GRADIENT.facet(
        softmax_tuned.softmax_gradient, on_gpu=(softmax_gpu.softmax_gradient,)
    ),
)
def softmax_gradient(xp: ArrayModule, g: Array, y: Array, *, axis: Any) -> Array:
    """Gradient by the input of softmax, y * (g - sum(g * y)), from its output `y`."""
    share = g * y
    return share - y * share.sum(axis=axis, keepdims=True)


def _by_output(g: Tensor, out: Tensor, before: Tensor, y: Tensor, *, axis: Any) -> Tensor:
    mean = total(multiply(before, y), axis=axis, keepdims=True)
    level = total(multiply(g, y), axis=axis, keepdims=True)
    return subtract(multiply(g, subtract(before, mean)), multiply(before, level))


softmax_gradient.gradients(
    lambda g, out, before, y, *, axis: softmax_gradient(g, y, axis=axis), _by_output
)
_softmax.gradients(lambda g, y, x, *, axis: softmax_gradient(g, y, axis=axis))
_softmax.declare(residuals=frozenset({RESULT}))


def softmax(x: TensorLike, axis: Axis = -1) -> Tensor:
    """exp(x) / sum(exp(x)) along `axis`: positive numbers whose sum is 1.

    Args:
        x: tensor of any shape but a scalar.
        axis: int, a sequence of ints whose axes count as one, or `None` for all axes.

    Returns:
        A tensor like `x`, of floats.

    Raises:
        InvalidArgumentError: an axis is out of range.

    Warns:
        UserWarning: the axis has size 1, where every result is 1.

    Example:
        >>> tk.ops.softmax([0.0, 0.0]).numpy()
        array([0.5, 0.5], dtype=float32)
    """
    dims = x._array.shape if type(x) is Tensor else getattr(x, "shape", ())
    if type(axis) is int and -len(dims) <= axis < len(dims) and dims[axis] == 1:
        warnings.warn(
            f"softmax: axis {axis} of a tensor of shape {tuple(dims)} has size 1, so that every "
            "result is 1; use sigmoid for a single score",
            stacklevel=2,
        )
    return powers_share(x, axis)


def powers_share(x: Any, axis: Any = -1) -> Tensor:
    """`softmax` without a warning, for axes that may have size 1 by right."""
    _check_axis(x, axis, "softmax")
    return _softmax(x, axis=axis_setting(axis))


@primitive(
    shapes.floating,
    name="log_softmax",
    semantics=AXIS,
    lowering=TRACE,
    tuned=softmax_tuned.LOG_SOFTMAX.facet(
        softmax_tuned.log_softmax, on_gpu=(softmax_gpu.log_softmax,)
    ),
    direct=Direct("log_softmax", (np.maximum, np.subtract, np.exp, np.add, np.log)),
)
def _log_softmax(xp: ArrayModule, x: Array, *, axis: Any) -> Array:
    """`x` less the logarithm of the sum of exponentials along axes."""
    return softmax_reference.log_softmax(xp, x, axis) if x.size else x


@primitive(
    shapes.unchanged,
    promotion=FLOATS,
    semantics=AXIS,
    lowering=TRACE,
    tuned=softmax_tuned.LOG_SOFTMAX_GRADIENT.facet(softmax_tuned.log_softmax_gradient),
)
def log_softmax_gradient(xp: ArrayModule, g: Array, y: Array, *, axis: Any) -> Array:
    """Gradient by the input of log_softmax, g - exp(y) * sum(g), from its output `y`."""
    return g - xp.exp(y) * g.sum(axis=axis, keepdims=True)


log_softmax_gradient.gradients(
    lambda h, out, g, y, *, axis: subtract(h, total(multiply(h, exp(y)), axis=axis, keepdims=True)),
    lambda h, out, g, y, *, axis: negative(
        multiply(multiply(h, exp(y)), total(g, axis=axis, keepdims=True))
    ),
)
_log_softmax.gradients(lambda g, y, x, *, axis: log_softmax_gradient(g, y, axis=axis))


def log_softmax(x: TensorLike, axis: Axis = -1) -> Tensor:
    """Logarithm of `softmax(x, axis)`, exact where that is close to 0.

    Args:
        x: tensor of any shape but a scalar.
        axis: int, a sequence of ints whose axes count as one, or `None` for all axes.

    Returns:
        A tensor like `x`, of floats.

    Raises:
        InvalidArgumentError: an axis is out of range.

    Example:
        >>> tk.ops.log_softmax([0.0, 0.0]).numpy().round(4)
        array([-0.6931, -0.6931], dtype=float32)
    """
    _check_axis(x, axis, "log_softmax")
    return _log_softmax(x, axis=axis_setting(axis))


# ------------------------------------------------------------------ sparsemax


def _threshold_weights(xp: ArrayModule, x: Array, axis: int) -> tuple[Array, Array]:
    """How much each element moves the threshold of Keras's sparsemax; the size of the support."""
    z = xp.moveaxis(x, axis, -1)
    order = sort_gpu.stable_order(xp, -z)
    descending = xp.take_along_axis(z, order, axis=-1)
    ranks = xp.arange(1, z.shape[-1] + 1, dtype=z.dtype)
    inside = 1 + ranks * descending > xp.cumsum(descending, axis=-1)
    size = xp.sum(inside, axis=-1, keepdims=True).astype(z.dtype)
    by_rank = xp.where(inside, (size - ranks + 1) / size, 0)
    inverse_order = np.argsort(order, axis=-1) if xp is np else sort_gpu.stable_order(xp, order)
    weights = xp.take_along_axis(by_rank, inverse_order, axis=-1)
    return xp.moveaxis(weights, -1, axis), xp.moveaxis(size, -1, axis)


@primitive(shapes.floating, semantics=AXIS, no_gradient=FLAT)
def sparsemax_weights(xp: ArrayModule, x: Array, *, axis: int) -> Array:
    """How much each element moves the threshold of Keras's sparsemax; constant between kinks."""
    return _threshold_weights(xp, x, axis)[0]


@primitive(shapes.floating, name="sparsemax", semantics=AXIS)
def _sparsemax(xp: ArrayModule, x: Array, *, axis: int) -> Array:
    """`x` less a threshold, and 0 below it."""
    weights, size = _threshold_weights(xp, x, axis)
    threshold = xp.sum(weights * x, axis=axis, keepdims=True) - 1 / size
    return xp.maximum(x - threshold, 0)


def _sparsemax_gradient(g: Tensor, y: Tensor, x: Tensor, *, axis: int) -> Tensor:
    inside = keep_where(g, greater(y, 0))
    by_threshold = total(inside, axis=axis, keepdims=True)
    return subtract(inside, multiply(sparsemax_weights(x, axis=axis), by_threshold))


_sparsemax.gradients(_sparsemax_gradient)


def sparsemax(x: TensorLike, axis: int = -1) -> Tensor:
    """`x` less a threshold along `axis`, and 0 below it, with the numbers of Keras 3.

    With the elements in descending order, their running sums c and the support of the k elements
    with 1 + i x[i] > c[i], Keras takes (c[1] + ... + c[k] - 1) / k for the threshold, where the
    paper has (c[k] - 1) / k. The two agree for k = 1; otherwise the results do not add up to 1.
    Source: Martins and Astudillo 2016, arXiv:1602.02068, with this difference.

    Args:
        x: tensor of any shape but a scalar.
        axis: an int.

    Returns:
        A tensor like `x`, of floats.

    Raises:
        InvalidArgumentError: the axis is out of range.

    Example:
        >>> tk.ops.sparsemax([1.0, 0.5, 0.0]).numpy()
        array([0.25, 0.  , 0.  ], dtype=float32)
    """
    axis = whole_number(axis, "sparsemax", "axis")
    _check_axis(x, axis, "sparsemax")
    return _sparsemax(x, axis=axis)


# ------------------------------------------------------------------ gated linear unit


def glu(x: TensorLike, axis: int = -1) -> Tensor:
    """Gated linear unit: the first half of `x` times the sigmoid of the second half.

    Source: Dauphin et al. 2017, arXiv:1612.08083.

    Args:
        x: tensor whose size along `axis` is even.
        axis: an int.

    Returns:
        A tensor with half the size along `axis`.

    Raises:
        ShapeError: the size along `axis` is odd, or the axis out of range.

    Example:
        >>> tk.ops.glu([4.0, 0.0]).numpy()
        array([2.], dtype=float32)
    """
    x = x if isinstance(x, Tensor) else convert_to_tensor(x)
    size = x.shape[shapes.canonical_axis(axis, len(x.shape), "glu")]
    if size is not None and size % 2:
        raise ShapeError(
            f"glu: axis {axis} has the odd size {size}; it is cut in halves, so it must be even"
        )

    x = cast(x, shapes.float_dtype(x.dtype))
    value, gate = split(x, 2, axis=axis)
    return multiply(value, sigmoid(gate))
