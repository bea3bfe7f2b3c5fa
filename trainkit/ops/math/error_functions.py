"""The error function, its complement and its inverse, and the normal distribution made of them.

float64 is good to a few units in the last place; float32 and below are rounded from it, but for
`erf`, which has a shorter rational function that was fitted to the same accuracy of their own.
"""

from __future__ import annotations

import math

import numpy as np

from trainkit.core import shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import ELEMENTWISE, LONG_FORMULA, SPECIAL_FUNCTION
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.dtypes import real_floats
from trainkit.core.process.later_imports import DeferredModule
from trainkit.kernels.elementwise import elementwise_reference, elementwise_tuned
from trainkit.kernels.special import special_reference, special_tuned
from trainkit.ops.math.elementwise import exp, multiply, negative, square

gelu_cuda = DeferredModule("trainkit.kernels.elementwise.gelu_cuda")

# ------------------------------------------------------------------ erf and erfc


@primitive(
    shapes.floating,
    semantics=ELEMENTWISE,
    lowering=LONG_FORMULA,
    tuned=elementwise_tuned.erf.facet(on_gpu=(gelu_cuda.erf,)),
)
def erf(xp: ArrayModule, x: Array) -> Array:
    """Error function 2 / sqrt(pi) times the integral of exp(-t**2) from 0 to x."""
    if x.dtype != np.float64:
        return elementwise_reference.erf(xp, real_floats(x)).astype(x.dtype, copy=False)
    return special_reference.erf(xp, x)


@primitive(
    shapes.floating, semantics=ELEMENTWISE, lowering=LONG_FORMULA, tuned=special_tuned.ERFC.facet()
)
def erfc(xp: ArrayModule, x: Array) -> Array:
    """Complement 1 - erf(x), exact in its tail.

    Example:
        >>> tk.math.erfc([0.0, 1.0]).numpy().round(4)
        array([1.    , 0.1573], dtype=float32)
    """
    return special_reference.erfc(xp, real_floats(x).astype(xp.float64)).astype(x.dtype)


_SLOPE = 2 / math.sqrt(math.pi)

erf.gradients(lambda g, y, x: multiply(g, multiply(exp(negative(square(x))), _SLOPE)))
erfc.gradients(lambda g, y, x: multiply(g, multiply(exp(negative(square(x))), -_SLOPE)))


_TAIL32 = elementwise_reference.tail_by_mills_ratio(lambda xp, t: xp.exp(t * t * -0.5), 15.0)
_TAIL64 = elementwise_reference.tail_by_erfc(lambda t: erfc.primitive.run((t,), {}))


def normal_tail(x: Array) -> elementwise_reference.NormalTail:
    """The normal distribution to the digits of `x`, float32 or float64, of which `gelu` is made."""
    return _TAIL64 if x.dtype == np.float64 else _TAIL32


# ------------------------------------------------------------------ inverses


@primitive(shapes.floating, **SPECIAL_FUNCTION, tuned=special_tuned.ERFINV.facet())
def erfinv(xp: ArrayModule, x: Array) -> Array:
    """Inverse of erf: infinite at -1 and 1, NaN beyond.

    Example:
        >>> tk.math.erfinv([0.0, 0.5]).numpy().round(4)
        array([0.    , 0.4769], dtype=float32)
    """
    return special_reference.erfinv(xp, real_floats(x).astype(xp.float64)).astype(x.dtype)


@primitive(shapes.floating, **SPECIAL_FUNCTION, tuned=special_tuned.ERFCINV.facet())
def erfcinv(xp: ArrayModule, x: Array) -> Array:
    """Inverse of erfc: infinite at 0 and 2, NaN beyond.

    Example:
        >>> tk.math.erfcinv([1.0]).numpy().round(4) + 0.0
        array([0.], dtype=float32)
    """
    return special_reference.erfcinv(xp, real_floats(x).astype(xp.float64)).astype(x.dtype)


@primitive(shapes.floating, **SPECIAL_FUNCTION, tuned=special_tuned.NDTRI.facet())
def ndtri(xp: ArrayModule, x: Array) -> Array:
    """The point below which the normal distribution has the share x; NaN outside of [0, 1].

    Example:
        >>> tk.math.ndtri([0.5]).numpy().round(4) + 0.0
        array([0.], dtype=float32)
    """
    return special_reference.ndtri(xp, real_floats(x).astype(xp.float64)).astype(x.dtype)


erfinv.gradients(lambda g, y, x: multiply(g, multiply(exp(square(y)), 1 / _SLOPE)))
erfcinv.gradients(lambda g, y, x: multiply(g, multiply(exp(square(y)), -1 / _SLOPE)))
ndtri.gradients(
    lambda g, y, x: multiply(g, multiply(exp(multiply(square(y), 0.5)), math.sqrt(2 * math.pi)))
)
