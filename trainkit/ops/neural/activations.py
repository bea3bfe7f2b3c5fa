"""Activation functions of neural networks, element by element unless they say otherwise.

Each is one primitive whose kernel makes few passes over memory; softmax and its relatives along an
axis are in `axis_activations.py`.
"""

from __future__ import annotations

from typing import Any

from trainkit.core import shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch import late_ops
from trainkit.core.dispatch.facets import ELEMENTWISE, FLOATS, RESULT, YES_OR_NO
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.dtypes import refuse_complex
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.kernels.elementwise import elementwise_reference, elementwise_tuned
from trainkit.ops.math.comparisons import greater, greater_equal, less, less_equal, logical_and
from trainkit.ops.math.elementwise import (
    absolute,
    add,
    along,
    divide,
    exp,
    keep_where,
    kept_by_kernel,
    minimum,
    multiply,
    rsqrt,
    square,
    subtract,
    tanh,
    where,
)

# ------------------------------------------------------------------ rectifiers


@primitive(
    shapes.unchanged,
    semantics=ELEMENTWISE,
    tuned=elementwise_tuned.relu_gradient.facet(
        elementwise_tuned.by_dtype(elementwise_tuned.relu_gradient)
    ),
)
def relu_gradient(xp: ArrayModule, g: Array, y: Array) -> Array:
    """`g` where the output `y` of a rectifier is above 0, else 0."""
    return elementwise_reference.relu_gradient(xp, g, y)


# The slope is flat, which is a gradient of zeros by `y` and not the lack of one: what adds or clips
# second derivatives of a rectifier gets tensors.
relu_gradient.gradients(
    lambda g, out, before, y: relu_gradient(g, y),
    lambda g, out, before, y: late_ops.zeros_like(y, dtype=None),
)


@primitive(
    shapes.unchanged_number,
    semantics=ELEMENTWISE,
    recompute="cheap",
    tuned=elementwise_tuned.relu.facet(elementwise_tuned.by_dtype(elementwise_tuned.relu)),
)
def relu(xp: ArrayModule, x: Array) -> Array:
    """Rectifier max(x, 0); the slope at 0 is 0.

    Source: Nair and Hinton 2010, "Rectified linear units improve restricted Boltzmann machines".
    """
    return elementwise_reference.relu(xp, x)


relu.gradients(lambda g, y, x: relu_gradient(g, y))
relu.declare(residuals=frozenset({RESULT}))


@primitive(
    shapes.unchanged_number,
    semantics=ELEMENTWISE,
    tuned=elementwise_tuned.relu6.facet(elementwise_tuned.by_dtype(elementwise_tuned.relu6)),
)
def relu6(xp: ArrayModule, x: Array) -> Array:
    """Rectifier with a ceiling, min(max(x, 0), 6). Source: Krizhevsky 2010.

    Example:
        >>> tk.ops.relu6([-1.0, 9.0]).numpy()
        array([0., 6.], dtype=float32)
    """
    return elementwise_reference.relu6(xp, x)


def _kept_between(xp: ArrayModule, g: Array, x: Array, *, low: float, high: float) -> Array:
    # CuPy chooses between float32 where bfloat16 is given
    return keep_between.primitive.body(xp, g, x, low=low, high=high).astype(g.dtype, copy=False)


@primitive(
    shapes.unchanged_number,
    semantics=ELEMENTWISE,
    tuned=elementwise_tuned.keep_where.facet(
        lambda g, x, *, low, high: kept_by_kernel((x > low) & (x < high), g),
        on_gpu=(_kept_between,),
    ),
)
def keep_between(xp: ArrayModule, g: Array, x: Array, *, low: float, high: float) -> Array:
    """`g` where `x` lies strictly between two limits, 0 elsewhere: the gradient of a ramp."""
    return xp.where(xp.logical_and(x > low, x < high), g, 0)


keep_between.gradients(
    lambda h, out, g, x, **limits: keep_between(h, x, **limits),
    lambda h, out, g, x, **limits: late_ops.zeros_like(x, dtype=None),
)

# the result lies between the limits where the input does, so a tape need not keep both
relu6.gradients(lambda g, y, x: keep_between(g, y, low=0.0, high=6.0))
relu6.declare(residuals=frozenset({RESULT}))


def _leaky_by_kernel(x: Array, *, negative_slope: float) -> Array | None:
    return elementwise_tuned.leaky_relu(x, negative_slope) if 0 < negative_slope <= 1 else None


@primitive(
    shapes.floating,
    name="leaky_relu",
    semantics=ELEMENTWISE,
    tuned=elementwise_tuned.leaky_relu.facet(_leaky_by_kernel),
)
def _leaky_relu(xp: ArrayModule, x: Array, *, negative_slope: float) -> Array:
    """`x` above 0, negative_slope * x below it."""
    if 0 < negative_slope <= 1:
        return elementwise_reference.leaky_relu(xp, x, negative_slope=negative_slope)
    return xp.where(x > 0, x, x * negative_slope)


def _leaky_gradient_on_gpu(xp: ArrayModule, g: Array, x: Array, *, negative_slope: float) -> Array:
    # CuPy chooses between float32 where bfloat16 is given
    result = leaky_relu_gradient.primitive.body(xp, g, x, negative_slope=negative_slope)
    return result.astype(g.dtype, copy=False)


@primitive(
    shapes.unchanged,
    promotion=FLOATS,
    semantics=ELEMENTWISE,
    tuned=elementwise_tuned.where.facet(
        lambda g, x, *, negative_slope: elementwise_tuned.choose(x > 0, g, g * negative_slope),
        on_gpu=(_leaky_gradient_on_gpu,),
    ),
)
def leaky_relu_gradient(xp: ArrayModule, g: Array, x: Array, *, negative_slope: float) -> Array:
    """`g` where `x` is above 0, negative_slope * g elsewhere."""
    return xp.where(x > 0, g, g * negative_slope)


leaky_relu_gradient.gradients(
    lambda h, out, g, x, **slope: leaky_relu_gradient(h, x, **slope),
    lambda h, out, g, x, **slope: late_ops.zeros_like(x, dtype=None),
)
_leaky_relu.gradients(lambda g, y, x, **slope: leaky_relu_gradient(g, x, **slope))


def leaky_relu(x: TensorLike, negative_slope: float = 0.2) -> Tensor:
    """`x` above 0 and `negative_slope * x` below it.

    Source: Maas, Hannun and Ng 2013, "Rectifier nonlinearities improve neural network acoustic
        models".

    Args:
        x: tensor of any shape.
        negative_slope: slope below 0.

    Returns:
        A tensor like `x`, of floats.

    Example:
        >>> tk.ops.leaky_relu([-1.0, 1.0], negative_slope=0.5).numpy()
        array([-0.5,  1. ], dtype=float32)
    """
    return _leaky_relu(x, negative_slope=float(negative_slope))


def threshold(x: TensorLike, threshold: float, default_value: float) -> Tensor:
    """`x` above `threshold` and `default_value` elsewhere.

    Args:
        x: tensor of any shape.
        threshold: values up to it are replaced.
        default_value: what replaces them.

    Returns:
        A tensor like `x`.

    Example:
        >>> tk.ops.threshold([-1.0, 2.0], 0.0, 9.0).numpy()
        array([9., 2.], dtype=float32)
    """
    x = x if isinstance(x, Tensor) else convert_to_tensor(x)
    return where(greater(x, threshold), x, default_value)


# ------------------------------------------------------------------ sigmoids


@primitive(
    shapes.floating,
    semantics=ELEMENTWISE,
    tuned=elementwise_tuned.sigmoid.facet(),
    logits_of=YES_OR_NO,
)
def sigmoid(xp: ArrayModule, x: Array) -> Array:
    """Logistic function 1 / (1 + exp(-x)); exact in both tails."""
    return elementwise_reference.sigmoid(xp, x)


sigmoid.gradients(lambda g, y, x: along(g, multiply(y, subtract(1, y))))
sigmoid.declare(residuals=frozenset({RESULT}))


@primitive(shapes.floating, semantics=ELEMENTWISE)
def log_sigmoid(xp: ArrayModule, x: Array) -> Array:
    """Logarithm of the logistic function, -log(1 + exp(-x)), without overflow.

    Example:
        >>> tk.math.log_sigmoid([0.0]).numpy().round(4)
        array([-0.6931], dtype=float32)
    """
    x = refuse_complex(x)
    return xp.minimum(x, 0) - xp.log1p(xp.exp(-xp.abs(x)))


log_sigmoid.gradients(lambda g, y, x: multiply(g, sigmoid(-x)))


@primitive(shapes.floating, semantics=ELEMENTWISE, tuned=elementwise_tuned.softplus.facet())
def softplus(xp: ArrayModule, x: Array) -> Array:
    """Smooth rectifier log(1 + exp(x)), without overflow.

    Source: Dugas et al. 2001, "Incorporating second-order functional knowledge for better option
        pricing".
    """
    return elementwise_reference.softplus(xp, refuse_complex(x))


softplus.gradients(lambda g, y, x: multiply(g, sigmoid(x)))


@primitive(shapes.floating, semantics=ELEMENTWISE)
def softsign(xp: ArrayModule, x: Array) -> Array:
    """`x / (1 + |x|)`.

    Example:
        >>> tk.ops.softsign([-1.0, 1.0]).numpy()
        array([-0.5,  0.5], dtype=float32)
    """
    return x / (1 + xp.abs(x))


softsign.gradients(lambda g, y, x: divide(g, square(add(absolute(x), 1))))


@primitive(shapes.floating, semantics=ELEMENTWISE, tuned=elementwise_tuned.hard_sigmoid.facet())
def hard_sigmoid(xp: ArrayModule, x: Array) -> Array:
    """Piecewise linear sigmoid: x / 6 + 1/2 between -3 and 3, 0 below, 1 above.

    Example:
        >>> tk.ops.hard_sigmoid([-9.0, 0.0, 9.0]).numpy()
        array([0. , 0.5, 1. ], dtype=float32)
    """
    return elementwise_reference.hard_sigmoid(xp, x)


hard_sigmoid.gradients(lambda g, y, x: multiply(keep_between(g, x, low=-3.0, high=3.0), 1 / 6))


@primitive(shapes.floating, semantics=ELEMENTWISE)
def sparse_sigmoid(xp: ArrayModule, x: Array) -> Array:
    """Piecewise linear sigmoid: (x + 1) / 2 between -1 and 1, 0 below, 1 above.

    Example:
        >>> tk.ops.sparse_sigmoid([-2.0, 0.0, 2.0]).numpy()
        array([0. , 0.5, 1. ], dtype=float32)
    """
    return xp.minimum(xp.maximum((x + 1) * 0.5, 0), 1)


sparse_sigmoid.gradients(lambda g, y, x: multiply(keep_where(g, between(x, -1, 1)), 0.5))


@primitive(
    shapes.unchanged_number,
    semantics=ELEMENTWISE,
    tuned=elementwise_tuned.clip.facet(lambda x: elementwise_tuned.clip(x, -1, 1)),
)
def hard_tanh(xp: ArrayModule, x: Array) -> Array:
    """`x` limited to the range from -1 to 1.

    Example:
        >>> tk.ops.hard_tanh([-9.0, 0.5, 9.0]).numpy()
        array([-1. ,  0.5,  1. ], dtype=float32)
    """
    return elementwise_reference.clip(xp, x, x_min=-1, x_max=1)


# at the limits the slope is 1, as that of `clip` is
hard_tanh.gradients(lambda g, y, x: keep_where(g, less_equal(absolute(x), 1)))


def between(x: Any, low: float, high: float) -> Tensor:
    """Whether `x` is inside an open interval."""
    return logical_and(greater(x, low), less(x, high))


# ------------------------------------------------------------------ exponential below 0


@primitive(
    shapes.unchanged,
    promotion=FLOATS,
    semantics=ELEMENTWISE,
    tuned=elementwise_tuned.elu_gradient.facet(
        lambda g, x, *, alpha: elementwise_tuned.elu_gradient(g, x, alpha)
    ),
)
def elu_gradient(xp: ArrayModule, g: Array, x: Array, *, alpha: float) -> Array:
    """`g` times the slope of `elu`: 1 above 0, alpha * exp(x) elsewhere."""
    return elementwise_reference.elu_gradient(xp, g, x, alpha=alpha)


def _elu_bend(h: Tensor, out: Tensor, g: Tensor, x: Tensor, *, alpha: float) -> Tensor:
    bend = where(greater_equal(x, 0), 0, multiply(exp(minimum(x, 0)), alpha))
    return multiply(multiply(h, g), bend)


elu_gradient.gradients(lambda h, out, g, x, *, alpha: elu_gradient(h, x, alpha=alpha), _elu_bend)


@primitive(shapes.floating, name="elu", semantics=ELEMENTWISE)
def _elu(xp: ArrayModule, x: Array, *, alpha: float) -> Array:
    """`x` above 0, alpha * (exp(x) - 1) below it."""
    return xp.maximum(x, 0) + alpha * xp.expm1(xp.minimum(x, 0))


_elu.gradients(lambda g, y, x, *, alpha: elu_gradient(g, x, alpha=alpha))


def elu(x: TensorLike, alpha: float = 1.0) -> Tensor:
    """Exponential linear unit: `x` above 0, `alpha * (exp(x) - 1)` below it.

    Source: Clevert, Unterthiner and Hochreiter 2015, arXiv:1511.07289.

    Args:
        x: tensor of any shape.
        alpha: the limit at minus infinity is `-alpha`.

    Returns:
        A tensor like `x`, of floats.

    Example:
        >>> tk.ops.elu([-1.0, 1.0]).numpy().round(4)
        array([-0.6321,  1.    ], dtype=float32)
    """
    return _elu(x, alpha=float(alpha))


@primitive(
    shapes.unchanged,
    promotion=FLOATS,
    semantics=ELEMENTWISE,
    tuned=elementwise_tuned.selu_gradient.facet(),
)
def selu_gradient(xp: ArrayModule, g: Array, x: Array) -> Array:
    """`g` times the slope of `selu`: scale from 0 on, scale * alpha * exp(x) below it."""
    return elementwise_reference.selu_gradient(xp, g, x)


def _selu_bend(h: Tensor, out: Tensor, g: Tensor, x: Tensor) -> Tensor:
    return multiply(h, keep_where(selu_gradient(g, x), less(x, 0)))


selu_gradient.gradients(lambda h, out, g, x: selu_gradient(h, x), _selu_bend)


@primitive(shapes.floating, semantics=ELEMENTWISE)
def selu(xp: ArrayModule, x: Array) -> Array:
    """Scaled exponential linear unit, which keeps mean 0 and variance 1 from layer to layer.

    Source: Klambauer et al. 2017, arXiv:1706.02515; its constants alpha and lambda.

    Example:
        >>> tk.ops.selu([-1.0, 1.0]).numpy().round(4)
        array([-1.1113,  1.0507], dtype=float32)
    """
    return elementwise_reference.selu(xp, x)


selu.gradients(lambda g, y, x: selu_gradient(g, x))


@primitive(shapes.floating, name="celu", semantics=ELEMENTWISE)
def _celu(xp: ArrayModule, x: Array, *, alpha: float) -> Array:
    """`x` above 0, alpha * (exp(x / alpha) - 1) below it."""
    return xp.maximum(x, 0) + alpha * xp.expm1(xp.minimum(x, 0) / alpha)


_celu.gradients(lambda g, y, x, *, alpha: multiply(g, exp(divide(minimum(x, 0), alpha))))


def celu(x: TensorLike, alpha: float = 1.0) -> Tensor:
    """Exponential linear unit whose slope is continuous for every `alpha`.

    `x` above 0, `alpha * (exp(x / alpha) - 1)` below it. Source: Barron 2017, arXiv:1704.07483.

    Args:
        x: tensor of any shape.
        alpha: the limit at minus infinity is `-alpha`.

    Returns:
        A tensor like `x`, of floats.

    Example:
        >>> tk.ops.celu([-1.0, 1.0]).numpy().round(4)
        array([-0.6321,  1.    ], dtype=float32)
    """
    return _celu(x, alpha=float(alpha))


@primitive(shapes.floating, name="squareplus", semantics=ELEMENTWISE)
def _squareplus(xp: ArrayModule, x: Array, *, b: float) -> Array:
    """(x + sqrt(x**2 + b)) / 2."""
    return 0.5 * (x + xp.sqrt(x * x + b))


_squareplus.gradients(
    lambda g, y, x, *, b: multiply(g, multiply(add(multiply(x, rsqrt(add(square(x), b))), 1), 0.5))
)


def squareplus(x: TensorLike, b: float = 4) -> Tensor:
    """Smooth rectifier (x + sqrt(x**2 + b)) / 2. Source: Barron 2021, arXiv:2112.11687.

    Args:
        x: tensor of any shape.
        b: how wide the bend at 0 is.

    Returns:
        A tensor like `x`, of floats.

    Example:
        >>> tk.ops.squareplus([0.0]).numpy()
        array([1.], dtype=float32)
    """
    return _squareplus(x, b=float(b))


@primitive(shapes.floating, semantics=ELEMENTWISE, tuned=elementwise_tuned.sparse_plus.facet())
def sparse_plus(xp: ArrayModule, x: Array) -> Array:
    """Smooth rectifier with exact zeros: 0 below -1, (x + 1)**2 / 4 up to 1, then x.

    Example:
        >>> tk.ops.sparse_plus([-2.0, 0.0, 2.0]).numpy()
        array([0.  , 0.25, 2.  ], dtype=float32)
    """
    return elementwise_reference.sparse_plus(xp, x)


sparse_plus.gradients(lambda g, y, x: multiply(g, sparse_sigmoid(x)))

# ------------------------------------------------------------------ shrinkage


@primitive(
    shapes.floating,
    name="soft_shrink",
    semantics=ELEMENTWISE,
    tuned=elementwise_tuned.soft_shrink.facet(
        lambda x, *, threshold: elementwise_tuned.soft_shrink(x, threshold)
    ),
)
def _soft_shrink(xp: ArrayModule, x: Array, *, threshold: float) -> Array:
    """`x` moved towards 0 by the threshold, 0 within it."""
    return elementwise_reference.soft_shrink(xp, x, threshold=threshold)


@primitive(
    shapes.floating,
    name="hard_shrink",
    semantics=ELEMENTWISE,
    tuned=elementwise_tuned.hard_shrink.facet(
        lambda x, *, threshold: elementwise_tuned.hard_shrink(x, threshold)
    ),
)
def _hard_shrink(xp: ArrayModule, x: Array, *, threshold: float) -> Array:
    """`x` beyond the threshold, 0 within it."""
    return elementwise_reference.hard_shrink(xp, x, threshold=threshold)


def _shrink_gradient(g: Tensor, y: Tensor, x: Tensor, *, threshold: float) -> Tensor:
    return keep_where(g, greater(absolute(x), threshold))


_soft_shrink.gradients(_shrink_gradient)
_hard_shrink.gradients(_shrink_gradient)


def soft_shrink(x: TensorLike, threshold: float = 0.5) -> Tensor:
    """`x` moved towards 0 by `threshold`, and 0 within it.

    Args:
        x: tensor of any shape.
        threshold: not negative.

    Returns:
        A tensor like `x`, of floats.

    Example:
        >>> tk.ops.soft_shrink([-1.0, 0.25, 1.0]).numpy()
        array([-0.5,  0. ,  0.5], dtype=float32)
    """
    return _soft_shrink(x, threshold=float(threshold))


def hard_shrink(x: TensorLike, threshold: float = 0.5) -> Tensor:
    """`x` where |x| is above `threshold`, and 0 within it.

    Args:
        x: tensor of any shape.
        threshold: not negative.

    Returns:
        A tensor like `x`, of floats.

    Example:
        >>> tk.ops.hard_shrink([-1.0, 0.25, 1.0]).numpy()
        array([-1.,  0.,  1.], dtype=float32)
    """
    return _hard_shrink(x, threshold=float(threshold))


@primitive(shapes.floating, semantics=ELEMENTWISE)
def tanh_shrink(xp: ArrayModule, x: Array) -> Array:
    """`x - tanh(x)`.

    Example:
        >>> tk.ops.tanh_shrink([0.0, 1.0]).numpy().round(4)
        array([0.    , 0.2384], dtype=float32)
    """
    return x - xp.tanh(x)


tanh_shrink.gradients(lambda g, y, x: multiply(g, square(tanh(x))))
