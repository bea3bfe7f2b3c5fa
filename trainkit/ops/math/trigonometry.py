"""Trigonometric and hyperbolic functions, element by element; angles in radians."""

from __future__ import annotations

import math

import numpy as np

from trainkit.core import shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import ELEMENTWISE
from trainkit.core.dispatch.primitive import Operation, primitive, ufunc
from trainkit.core.tensor import Tensor
from trainkit.ops.math.comparisons import less
from trainkit.ops.math.elementwise import (
    absolute,
    add,
    along,
    conjugated,
    divide,
    multiply,
    negative,
    rsqrt,
    sqrt,
    square,
    subtract,
    where,
)

# ------------------------------------------------------------------ circle

sin = ufunc(
    np.sin, shapes.floating, "Sine.", ("tk.math.sin([0.0]).numpy()", "array([0.], dtype=float32)")
)
sin.gradients(lambda g, y, x: along(g, cos(x)))

cos: Operation[...] = ufunc(
    np.cos, shapes.floating, "Cosine.", ("tk.math.cos([0.0]).numpy()", "array([1.], dtype=float32)")
)
cos.gradients(lambda g, y, x: negative(along(g, sin(x))))

tan = ufunc(
    np.tan,
    shapes.floating,
    "Tangent.",
    ("tk.math.tan([0.0]).numpy()", "array([0.], dtype=float32)"),
)
tan.gradients(lambda g, y, x: along(g, add(square(y), 1)))

arcsin = ufunc(
    np.arcsin,
    shapes.floating,
    "Angle from -pi/2 to pi/2 with the sine x.",
    ("tk.math.asin([0.0]).numpy()", "array([0.], dtype=float32)"),
)
arcsin.gradients(lambda g, y, x: along(g, rsqrt(subtract(1, square(x)))))

arccos = ufunc(
    np.arccos,
    shapes.floating,
    "Angle from 0 to pi with the cosine x.",
    ("tk.math.acos([1.0]).numpy()", "array([0.], dtype=float32)"),
)
arccos.gradients(lambda g, y, x: negative(along(g, rsqrt(subtract(1, square(x))))))

arctan = ufunc(
    np.arctan,
    shapes.floating,
    "Angle from -pi/2 to pi/2 with the tangent x.",
    ("tk.math.atan([0.0]).numpy()", "array([0.], dtype=float32)"),
)
arctan.gradients(lambda g, y, x: divide(g, conjugated(add(square(x), 1))))

arctan2 = ufunc(
    np.arctan2,
    shapes.floating_broadcast,
    "Angle from -pi to pi of the point with height x1 and width x2.",
    (
        "tk.ops.arctan2([0.0, 1.0], [1.0, 0.0]).numpy().round(4)",
        "array([0.    , 1.5708], dtype=float32)",
    ),
)
arctan2.gradients(
    lambda g, y, a, b: multiply(g, divide(b, add(square(a), square(b)))),
    lambda g, y, a, b: negative(multiply(g, divide(a, add(square(a), square(b))))),
)

deg2rad = ufunc(
    np.deg2rad,
    shapes.wide_floating,
    "Degrees as radians, x * pi / 180.",
    ("tk.ops.deg2rad([180.0]).numpy().round(4)", "array([3.1416], dtype=float32)"),
)
deg2rad.gradients(lambda g, y, x: multiply(g, math.pi / 180))

rad2deg = ufunc(
    np.rad2deg,
    shapes.wide_floating,
    "Radians as degrees, x * 180 / pi.",
    ("tk.ops.rad2deg([0.0]).numpy()", "array([0.], dtype=float32)"),
)
rad2deg.gradients(lambda g, y, x: multiply(g, 180 / math.pi))

# ------------------------------------------------------------------ hyperbola

sinh = ufunc(
    np.sinh,
    shapes.floating,
    "Hyperbolic sine.",
    ("tk.math.sinh([0.0]).numpy()", "array([0.], dtype=float32)"),
)
sinh.gradients(lambda g, y, x: along(g, cosh(x)))

cosh: Operation[...] = ufunc(
    np.cosh,
    shapes.floating,
    "Hyperbolic cosine.",
    ("tk.math.cosh([0.0]).numpy()", "array([1.], dtype=float32)"),
)
cosh.gradients(lambda g, y, x: along(g, sinh(x)))

arcsinh = ufunc(
    np.arcsinh,
    shapes.floating,
    "Inverse of the hyperbolic sine.",
    ("tk.math.asinh([0.0]).numpy()", "array([0.], dtype=float32)"),
)
arcsinh.gradients(lambda g, y, x: along(g, rsqrt(add(square(x), 1))))

arccosh = ufunc(
    np.arccosh,
    shapes.floating,
    "Inverse of cosh for x >= 1, else NaN.",
    ("tk.math.acosh([1.0]).numpy()", "array([0.], dtype=float32)"),
)
arccosh.gradients(
    lambda g, y, x: divide(g, conjugated(multiply(sqrt(subtract(x, 1)), sqrt(add(x, 1)))))
)

arctanh = ufunc(
    np.arctanh,
    shapes.floating,
    "Inverse of tanh for |x| <= 1, else NaN.",
    ("tk.math.atanh([0.0]).numpy()", "array([0.], dtype=float32)"),
)
arctanh.gradients(lambda g, y, x: divide(g, conjugated(subtract(1, square(x)))))

# ------------------------------------------------------------------ sinc


@primitive(shapes.floating, semantics=ELEMENTWISE)
def sinc(xp: ArrayModule, x: Array) -> Array:
    """Normalised cardinal sine sin(pi x) / (pi x), and 1 at 0.

    Example:
        >>> tk.ops.sinc([0.0]).numpy()
        array([1.], dtype=float32)
    """
    angle = math.pi * x
    return xp.where(x == 0, 1, xp.sin(angle) / xp.where(x == 0, 1, angle))


_SERIES_BELOW = 0.25
# sinc'(x) = sum over k >= 1 of these times x**(2k - 1), from the power series of the sine.
_SLOPE_SERIES = [
    (-1) ** k * 2 * k * math.pi ** (2 * k) / math.factorial(2 * k + 1) for k in range(1, 10)
]


def _sinc_gradient(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
    # Close to 0 the two terms of the quotient cancel, and at 0 all derivatives must come out right.
    near = less(absolute(x), _SERIES_BELOW)
    t = where(near, x, 0)
    squared = square(t)
    series = _SLOPE_SERIES[-1]
    for coefficient in _SLOPE_SERIES[-2::-1]:
        series = add(multiply(squared, series), coefficient)
    safe_x = where(near, 1, x)
    quotient = divide(subtract(cos(multiply(safe_x, math.pi)), sinc(safe_x)), safe_x)
    return multiply(g, where(near, multiply(t, series), quotient))


sinc.gradients(_sinc_gradient)
