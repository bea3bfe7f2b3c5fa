"""Bessel functions of the first and second kind, orders 0 and 1: J0, J1, Y0, Y1.

Values are good to 1e-15 for x below 100, and to the rounding of x in sin(x) beyond; those of Y are
NaN below 0.
"""

from __future__ import annotations

from trainkit.core import shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import SPECIAL_FUNCTION
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.dtypes import real_floats
from trainkit.core.tensor import Tensor
from trainkit.kernels.special import bessel_reference, special_tuned
from trainkit.ops.math.comparisons import equal
from trainkit.ops.math.elementwise import divide, multiply, negative, subtract, where


@primitive(shapes.floating, **SPECIAL_FUNCTION, tuned=special_tuned.BESSEL_J0.facet())
def bessel_j0(xp: ArrayModule, x: Array) -> Array:
    """Bessel function of the first kind, order 0.

    Example:
        >>> tk.math.special.bessel_j0([0.0]).numpy()
        array([1.], dtype=float32)
    """
    return bessel_reference.bessel_j0(xp, real_floats(x).astype(xp.float64)).astype(x.dtype)


@primitive(shapes.floating, **SPECIAL_FUNCTION, tuned=special_tuned.BESSEL_J1.facet())
def bessel_j1(xp: ArrayModule, x: Array) -> Array:
    """Bessel function of the first kind, order 1.

    Example:
        >>> tk.math.special.bessel_j1([0.0]).numpy()
        array([0.], dtype=float32)
    """
    return bessel_reference.bessel_j1(xp, real_floats(x).astype(xp.float64)).astype(x.dtype)


@primitive(shapes.floating, **SPECIAL_FUNCTION, tuned=special_tuned.BESSEL_Y0.facet())
def bessel_y0(xp: ArrayModule, x: Array) -> Array:
    """Bessel function of the second kind, order 0; -inf at 0, NaN below.

    Example:
        >>> tk.math.special.bessel_y0([1.0]).numpy()
        array([0.08825697], dtype=float32)
    """
    return bessel_reference.bessel_y0(xp, real_floats(x).astype(xp.float64)).astype(x.dtype)


@primitive(shapes.floating, **SPECIAL_FUNCTION, tuned=special_tuned.BESSEL_Y1.facet())
def bessel_y1(xp: ArrayModule, x: Array) -> Array:
    """Bessel function of the second kind, order 1; -inf at 0, NaN below.

    Example:
        >>> tk.math.special.bessel_y1([1.0]).numpy()
        array([-0.78121287], dtype=float32)
    """
    return bessel_reference.bessel_y1(xp, real_floats(x).astype(xp.float64)).astype(x.dtype)


def over_argument(y: Tensor, x: Tensor) -> Tensor:
    """J1(x) / x or I1(x) / x, whose limit at 0 is 1/2."""
    at_zero = equal(x, 0)
    return where(at_zero, 0.5, divide(y, where(at_zero, 1, x)))


bessel_j0.gradients(lambda g, y, x: multiply(g, negative(bessel_j1(x))))
bessel_j1.gradients(lambda g, y, x: multiply(g, subtract(bessel_j0(x), over_argument(y, x))))
bessel_y0.gradients(lambda g, y, x: multiply(g, negative(bessel_y1(x))))
bessel_y1.gradients(lambda g, y, x: multiply(g, subtract(bessel_y0(x), divide(y, x))))
