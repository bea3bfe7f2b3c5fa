"""Activation functions that weigh their input by a gate: SiLU, Mish, GELU and their like."""

from __future__ import annotations

from trainkit.core import shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import ELEMENTWISE, FLOATS, LONG_FORMULA
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.dtypes import real_floats, refuse_complex, widen_halves
from trainkit.core.process.later_imports import DeferredModule
from trainkit.core.tensor import Tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.kernels.elementwise import elementwise_reference, elementwise_tuned
from trainkit.ops.math.elementwise import (
    add,
    exp,
    keep_where,
    multiply,
    negative,
    square,
    subtract,
    tanh,
)
from trainkit.ops.math.error_functions import normal_tail
from trainkit.ops.neural.activations import between, sigmoid, softplus

gelu_cuda = DeferredModule("trainkit.kernels.elementwise.gelu_cuda")


@primitive(shapes.floating, semantics=ELEMENTWISE, tuned=elementwise_tuned.silu.facet())
def silu(xp: ArrayModule, x: Array) -> Array:
    """Sigmoid linear unit x * sigmoid(x), also called swish.

    Source: Ramachandran, Zoph and Le 2017, arXiv:1710.05941.
    """
    return elementwise_reference.silu(xp, x)


@primitive(
    shapes.unchanged,
    promotion=FLOATS,
    semantics=ELEMENTWISE,
    tuned=elementwise_tuned.silu_gradient.facet(),
)
def silu_gradient(xp: ArrayModule, g: Array, x: Array) -> Array:
    """`g` times the slope of `silu`, s * (1 + x * (1 - s)) with s = sigmoid(x)."""
    return elementwise_reference.silu_gradient(xp, g, x)


def _silu_bend(h: Tensor, out: Tensor, g: Tensor, x: Tensor) -> Tensor:
    s = sigmoid(x)
    bend = add(multiply(x, subtract(1, multiply(s, 2))), 2)
    bend = multiply(multiply(s, subtract(1, s)), bend)
    return multiply(multiply(h, g), bend)


silu_gradient.gradients(lambda h, out, g, x: silu_gradient(h, x), _silu_bend)
silu.gradients(lambda g, y, x: silu_gradient(g, x))
silu.declare(residuals=frozenset({0}))


@primitive(shapes.floating, semantics=ELEMENTWISE, tuned=elementwise_tuned.hard_silu.facet())
def hard_silu(xp: ArrayModule, x: Array) -> Array:
    """`x` times `hard_sigmoid(x)`. Source: Howard et al. 2019, arXiv:1905.02244.

    Example:
        >>> tk.ops.hard_silu([0.0, 9.0]).numpy()
        array([0., 9.], dtype=float32)
    """
    return elementwise_reference.hard_silu(xp, x)


@primitive(
    shapes.unchanged,
    promotion=FLOATS,
    semantics=ELEMENTWISE,
    tuned=elementwise_tuned.hard_silu_gradient.facet(),
)
def hard_silu_gradient(xp: ArrayModule, g: Array, x: Array) -> Array:
    """`g` times the slope of `hard_silu`."""
    return elementwise_reference.hard_silu_gradient(xp, g, x)


hard_silu_gradient.gradients(
    lambda h, out, g, x: hard_silu_gradient(h, x),
    lambda h, out, g, x: multiply(keep_where(multiply(h, g), between(x, -3, 3)), 1 / 3),
)
hard_silu.gradients(lambda g, y, x: hard_silu_gradient(g, x))


@primitive(shapes.floating, semantics=ELEMENTWISE)
def mish(xp: ArrayModule, x: Array) -> Array:
    """`x * tanh(softplus(x))`. Source: Misra 2019, arXiv:1908.08681.

    Example:
        >>> tk.ops.mish([-1.0, 1.0]).numpy().round(4)
        array([-0.3034,  0.8651], dtype=float32)
    """
    return x * xp.tanh(elementwise_reference.softplus(xp, refuse_complex(x)))


def _mish_gradient(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
    t = tanh(softplus(x))
    bend = multiply(multiply(x, sigmoid(x)), subtract(1, square(t)))
    return multiply(g, add(t, bend))


mish.gradients(_mish_gradient)

_TANH_SCALE, _CUBIC = elementwise_reference.TANH_SCALE, elementwise_reference.CUBIC
_DENSITY = elementwise_reference.DENSITY


@primitive(
    shapes.floating,
    semantics=ELEMENTWISE,
    tuned=elementwise_tuned.gelu_tanh.facet(on_gpu=(gelu_cuda.gelu_tanh,)),
)
def gelu_tanh(xp: ArrayModule, x: Array) -> Array:
    """Gaussian error linear unit with the tanh approximation of the normal distribution.

    (1 + tanh(u)) / 2 is 1 / (1 + exp(-2 * u)), which does not cancel where tanh(u) is near -1.
    """
    return elementwise_reference.gelu_tanh(xp, real_floats(x)).astype(x.dtype, copy=False)


@primitive(
    shapes.unchanged,
    promotion=FLOATS,
    semantics=ELEMENTWISE,
    tuned=elementwise_tuned.gelu_tanh_gradient.facet(on_gpu=(gelu_cuda.gelu_tanh_gradient,)),
)
def gelu_tanh_gradient(xp: ArrayModule, g: Array, x: Array) -> Array:
    """`g` times the slope of `gelu_tanh`, s * (1 + x * (1 - s) * slope of 2 * u)."""
    by_x = elementwise_reference.gelu_tanh_gradient(xp, g, widen_halves(x))
    return by_x.astype(g.dtype, copy=False)


def _gelu_tanh_bend(h: Tensor, out: Tensor, g: Tensor, x: Tensor) -> Tensor:
    squared = square(x)
    twice = multiply(x, add(multiply(squared, 2 * _TANH_SCALE * _CUBIC), 2 * _TANH_SCALE))
    s, complement = sigmoid(twice), sigmoid(negative(twice))
    inner = add(multiply(squared, 3 * _TANH_SCALE * _CUBIC), _TANH_SCALE)
    # With t = tanh(u) = s - complement: the slope of s is (1 - t**2) * inner / 2 with 1 - t**2 =
    # 4 * s * complement, that of inner is 6 * scale * cubic * x.
    part = add(inner, multiply(squared, 3 * _TANH_SCALE * _CUBIC))
    bend = subtract(part, multiply(multiply(x, subtract(s, complement)), square(inner)))
    bend = multiply(multiply(multiply(s, complement), 4), bend)
    return multiply(multiply(h, g), bend)


gelu_tanh_gradient.gradients(lambda h, out, g, x: gelu_tanh_gradient(h, x), _gelu_tanh_bend)
gelu_tanh.gradients(lambda g, y, x: gelu_tanh_gradient(g, x))
gelu_tanh.declare(residuals=frozenset({0}))


@primitive(
    shapes.floating,
    semantics=ELEMENTWISE,
    lowering=LONG_FORMULA,
    tuned=elementwise_tuned.gelu_erf.facet(on_gpu=(gelu_cuda.gelu_erf,)),
)
def gelu_erf(xp: ArrayModule, x: Array) -> Array:
    """Gaussian error linear unit: x times the normal distribution function of x.

    For x < 0 by the tail below x: 1 + erf(x / sqrt(2)) cancels there.
    """
    floats = real_floats(x)
    return elementwise_reference.gelu_erf(xp, floats, normal_tail(floats)).astype(
        x.dtype, copy=False
    )


@primitive(
    shapes.unchanged,
    semantics=ELEMENTWISE,
    lowering=LONG_FORMULA,
    promotion=FLOATS,
    tuned=elementwise_tuned.gelu_erf_gradient.facet(on_gpu=(gelu_cuda.gelu_erf_gradient,)),
)
def gelu_erf_gradient(xp: ArrayModule, g: Array, x: Array) -> Array:
    """`g` times the slope of `gelu_erf`: the normal distribution plus x times its density."""
    floats = widen_halves(x)
    by_x = elementwise_reference.gelu_erf_gradient(xp, g, floats, normal_tail(floats))
    return by_x.astype(g.dtype, copy=False)


def _gelu_erf_bend(h: Tensor, out: Tensor, g: Tensor, x: Tensor) -> Tensor:
    squared = square(x)
    density = multiply(exp(multiply(squared, -0.5)), _DENSITY)
    return multiply(multiply(h, g), multiply(density, subtract(2, squared)))


gelu_erf_gradient.gradients(lambda h, out, g, x: gelu_erf_gradient(h, x), _gelu_erf_bend)
gelu_erf.gradients(lambda g, y, x: gelu_erf_gradient(g, x))
gelu_erf.declare(residuals=frozenset({0}))


def gelu(x: TensorLike, approximate: bool = True) -> Tensor:
    """Gaussian error linear unit: `x` times the normal distribution function of `x`.

    Source: Hendrycks and Gimpel 2016, arXiv:1606.08415.

    Args:
        x: tensor of any shape.
        approximate: use the tanh approximation, which errs by at most 0.0005.

    Returns:
        A tensor like `x`, of floats.

    Example:
        >>> tk.ops.gelu([-1.0, 1.0]).numpy().round(4)
        array([-0.1588,  0.8412], dtype=float32)
    """
    return gelu_tanh(x) if approximate else gelu_erf(x)
