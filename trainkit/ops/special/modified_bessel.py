"""Modified Bessel functions of the first and second kind, orders 0 and 1.

Values are good to 3e-14 of their size.
"""

from __future__ import annotations

from trainkit.core import shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import SPECIAL_FUNCTION
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.dtypes import real_floats
from trainkit.kernels.special import modified_bessel_reference as formulas
from trainkit.kernels.special import special_tuned
from trainkit.ops.math.elementwise import add, divide, multiply, negative, sign, subtract
from trainkit.ops.special.bessel import over_argument


@primitive(shapes.floating, **SPECIAL_FUNCTION, tuned=special_tuned.BESSEL_I0E.facet())
def i0e(xp: ArrayModule, x: Array) -> Array:
    """exp(-|x|) I0(x), which never overflows.

    Example:
        >>> tk.math.bessel_i0e([0.0]).numpy()
        array([1.], dtype=float32)
    """
    return formulas.bessel_i0e(xp, real_floats(x).astype(xp.float64)).astype(x.dtype)


@primitive(shapes.floating, **SPECIAL_FUNCTION, tuned=special_tuned.BESSEL_I1E.facet())
def i1e(xp: ArrayModule, x: Array) -> Array:
    """exp(-|x|) I1(x), which never overflows.

    Example:
        >>> tk.math.bessel_i1e([0.0]).numpy()
        array([0.], dtype=float32)
    """
    return formulas.bessel_i1e(xp, real_floats(x).astype(xp.float64)).astype(x.dtype)


@primitive(shapes.wide_floating, **SPECIAL_FUNCTION, tuned=special_tuned.BESSEL_I0.facet())
def i0(xp: ArrayModule, x: Array) -> Array:
    """Modified Bessel function of the first kind, order 0.

    Example:
        >>> tk.math.bessel_i0([0.0]).numpy()
        array([1.], dtype=float32)
    """
    return formulas.bessel_i0(xp, real_floats(x).astype(xp.float64)).astype(x.dtype)


@primitive(shapes.floating, **SPECIAL_FUNCTION, tuned=special_tuned.BESSEL_I1.facet())
def i1(xp: ArrayModule, x: Array) -> Array:
    """Modified Bessel function of the first kind, order 1.

    Example:
        >>> tk.math.bessel_i1([0.0]).numpy()
        array([0.], dtype=float32)
    """
    return formulas.bessel_i1(xp, real_floats(x).astype(xp.float64)).astype(x.dtype)


@primitive(shapes.floating, **SPECIAL_FUNCTION, tuned=special_tuned.BESSEL_K0.facet())
def bessel_k0(xp: ArrayModule, x: Array) -> Array:
    """Modified Bessel function of the second kind, order 0; inf at 0, NaN below.

    Example:
        >>> tk.math.special.bessel_k0([1.0]).numpy()
        array([0.42102444], dtype=float32)
    """
    return formulas.bessel_k0(xp, real_floats(x).astype(xp.float64)).astype(x.dtype)


@primitive(shapes.floating, **SPECIAL_FUNCTION, tuned=special_tuned.BESSEL_K1.facet())
def bessel_k1(xp: ArrayModule, x: Array) -> Array:
    """Modified Bessel function of the second kind, order 1; inf at 0, NaN below.

    Example:
        >>> tk.math.special.bessel_k1([1.0]).numpy()
        array([0.60190725], dtype=float32)
    """
    return formulas.bessel_k1(xp, real_floats(x).astype(xp.float64)).astype(x.dtype)


@primitive(shapes.floating, **SPECIAL_FUNCTION, tuned=special_tuned.BESSEL_K0E.facet())
def bessel_k0e(xp: ArrayModule, x: Array) -> Array:
    """exp(x) K0(x); inf at 0, NaN below.

    Example:
        >>> tk.math.special.bessel_k0e([1.0]).numpy()
        array([1.1444631], dtype=float32)
    """
    return formulas.bessel_k0e(xp, real_floats(x).astype(xp.float64)).astype(x.dtype)


@primitive(shapes.floating, **SPECIAL_FUNCTION, tuned=special_tuned.BESSEL_K1E.facet())
def bessel_k1e(xp: ArrayModule, x: Array) -> Array:
    """exp(x) K1(x); inf at 0, NaN below.

    Example:
        >>> tk.math.special.bessel_k1e([1.0]).numpy()
        array([1.6361536], dtype=float32)
    """
    return formulas.bessel_k1e(xp, real_floats(x).astype(xp.float64)).astype(x.dtype)


i0.gradients(lambda g, y, x: multiply(g, i1(x)))
i1.gradients(lambda g, y, x: multiply(g, subtract(i0(x), over_argument(y, x))))
i0e.gradients(lambda g, y, x: multiply(g, subtract(i1e(x), multiply(sign(x), y))))
i1e.gradients(
    lambda g, y, x: multiply(g, subtract(i0e(x), add(over_argument(y, x), multiply(sign(x), y))))
)
bessel_k0.gradients(lambda g, y, x: multiply(g, negative(bessel_k1(x))))
bessel_k1.gradients(lambda g, y, x: multiply(g, negative(add(bessel_k0(x), divide(y, x)))))
bessel_k0e.gradients(lambda g, y, x: multiply(g, subtract(y, bessel_k1e(x))))
bessel_k1e.gradients(
    lambda g, y, x: multiply(g, subtract(subtract(y, bessel_k0e(x)), divide(y, x)))
)
