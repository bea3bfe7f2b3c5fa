"""Exponentials, logarithms and roots beyond those that arithmetic itself needs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainkit.core import dtypes, shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.primitive import primitive, ufunc
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.ops.elementwise import (
    add,
    along,
    cast,
    conjugated,
    divide,
    divide_no_nan,
    exp,
    multiply,
    negative,
    not_equal,
    square,
    subtract,
)

exp2 = ufunc("exp2", np.exp2, shapes.floating, "Power 2**x.")
exp2.gradients(lambda g, y, x: along(g, multiply(y, math.log(2))))

log2 = ufunc("log2", np.log2, shapes.floating, "Logarithm to the base 2.")
log2.gradients(lambda g, y, x: divide(multiply(g, 1 / math.log(2)), conjugated(x)))

log10 = ufunc("log10", np.log10, shapes.floating, "Logarithm to the base 10.")
log10.gradients(lambda g, y, x: divide(multiply(g, 1 / math.log(10)), conjugated(x)))

logaddexp = ufunc(
    "logaddexp", np.logaddexp, shapes.floating_broadcast, "log(exp(x1) + exp(x2)), no overflow."
)
logaddexp.gradients(
    lambda g, y, a, b: multiply(g, exp(subtract(a, y))),
    lambda g, y, a, b: multiply(g, exp(subtract(b, y))),
)

logaddexp2 = ufunc(
    "logaddexp2", np.logaddexp2, shapes.floating_broadcast, "log2(2**x1 + 2**x2), no overflow."
)
logaddexp2.gradients(
    lambda g, y, a, b: multiply(g, exp2(subtract(a, y))),
    lambda g, y, a, b: multiply(g, exp2(subtract(b, y))),
)

cbrt = ufunc("cbrt", np.cbrt, shapes.floating, "Cube root, negative for negative values.")
cbrt.gradients(lambda g, y, x: divide(g, multiply(square(y), 3)))

hypot = ufunc(
    "hypot", np.hypot, shapes.floating_broadcast, "Length sqrt(x1**2 + x2**2), no overflow."
)
hypot.gradients(
    lambda g, y, a, b: multiply(g, divide_no_nan(a, y)),
    lambda g, y, a, b: multiply(g, divide_no_nan(b, y)),
)


def ldexp(x1: Any, x2: Any) -> Tensor:
    """`x1` times 2 to the power `x2`.

    Args:
        x1: tensor of numbers.
        x2: tensor of integers; the shapes broadcast.

    Returns:
        A float tensor of the dtype of `x1`.

    Raises:
        TypeError: `x2` has no integers.
    """
    x1, x2 = convert_to_tensor(x1), convert_to_tensor(x2)
    if not x2.dtype.is_integer:
        raise TypeError(f"ldexp: the exponent x2 must be an integer, it has dtype {x2.dtype.name}")
    wanted = shapes.float_dtype(dtypes.result_type(x1, x2))
    return multiply(cast(x1, wanted), exp2(cast(x2, wanted)))  # type: ignore[no-any-return]


# ------------------------------------------------------------------ products that are 0 at 0


@primitive(shapes.floating_broadcast, elementwise=True)
def xlogy(xp: ArrayModule, x: Array, y: Array) -> Array:
    """Product x * log(y), and 0 where x is 0 whatever y is."""
    return xp.where(x == 0, 0, x * xp.log(xp.where(x == 0, 1, y)))


@primitive(shapes.floating_broadcast, elementwise=True)
def xlog1py(xp: ArrayModule, x: Array, y: Array) -> Array:
    """Product x * log(1 + y), and 0 where x is 0 whatever y is."""
    return xp.where(x == 0, 0, x * xp.log1p(xp.where(x == 0, 0, y)))


@primitive(shapes.floating_broadcast, elementwise=True)
def xdivy(xp: ArrayModule, x: Array, y: Array) -> Array:
    """Quotient x / y, and 0 where x is 0 whatever y is."""
    return xp.where(x == 0, 0, x / xp.where(x == 0, 1, y))


xlogy.gradients(
    lambda g, out, x, y: multiply(g, xlogy(_nonzero(x), y)),
    lambda g, out, x, y: multiply(g, xdivy(x, y)),
)

xlog1py.gradients(
    lambda g, out, x, y: multiply(g, xlog1py(_nonzero(x), y)),
    lambda g, out, x, y: multiply(g, xdivy(x, add(y, 1))),
)

xdivy.gradients(
    lambda g, out, x, y: multiply(g, xdivy(_nonzero(x), y)),
    lambda g, out, x, y: multiply(g, xdivy(negative(x), square(y))),
)


def _nonzero(x: Any) -> Tensor:
    """1 where `x` is not 0, else 0."""
    return cast(not_equal(x, 0), x.dtype)
