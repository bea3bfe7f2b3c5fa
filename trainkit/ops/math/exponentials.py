"""Exponentials, logarithms and roots beyond those that arithmetic itself needs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainkit.core import dtypes, shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import ELEMENTWISE, FLOATS, REDUCTION
from trainkit.core.dispatch.primitive import primitive, ufunc
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.kernels.special import special_tuned
from trainkit.ops.math.comparisons import equal, logical_or, not_equal
from trainkit.ops.math.elementwise import (
    absolute,
    add,
    along,
    cast,
    conjugated,
    divide,
    divide_no_nan,
    exp,
    multiply,
    negative,
    square,
    subtract,
    where,
)
from trainkit.ops.math.max_and_argmax import extreme
from trainkit.ops.math.reductions import Axis, axis_setting, check_axes, spread
from trainkit.ops.math.reductions import sum as total

exp2 = ufunc(
    np.exp2,
    shapes.floating,
    "Power 2**x.",
    ("tk.ops.exp2([3.0]).numpy()", "array([8.], dtype=float32)"),
)
exp2.gradients(lambda g, y, x: along(g, multiply(y, math.log(2))))

log2 = ufunc(
    np.log2,
    shapes.floating,
    "Logarithm to the base 2.",
    ("tk.ops.log2([8.0]).numpy()", "array([3.], dtype=float32)"),
)
log2.gradients(lambda g, y, x: divide(multiply(g, 1 / math.log(2)), conjugated(x)))

log10 = ufunc(
    np.log10,
    shapes.floating,
    "Logarithm to the base 10.",
    ("tk.ops.log10([100.0]).numpy().round(3)", "array([2.], dtype=float32)"),
)
log10.gradients(lambda g, y, x: divide(multiply(g, 1 / math.log(10)), conjugated(x)))


@primitive(
    shapes.floating_broadcast,
    promotion=FLOATS,
    semantics=ELEMENTWISE,
    tuned=special_tuned.LOGADDEXP.facet(),
)
def logaddexp(xp: ArrayModule, x1: TensorLike, x2: TensorLike) -> Array:
    """log(exp(x1) + exp(x2)), no overflow.

    Args:
        x1: a tensor, a Python number, or what becomes a tensor.
        x2: the same; the shapes broadcast.

    Example:
        >>> tk.ops.logaddexp([0.0], [0.0]).numpy().round(4)
        array([0.6931], dtype=float32)
    """
    return xp.logaddexp(x1, x2)


logaddexp.gradients(
    lambda g, y, a, b: multiply(g, exp(subtract(a, y))),
    lambda g, y, a, b: multiply(g, exp(subtract(b, y))),
)

logaddexp2 = ufunc(
    np.logaddexp2,
    shapes.floating_broadcast,
    "log2(2**x1 + 2**x2), no overflow.",
    ("tk.ops.logaddexp2([0.0], [0.0]).numpy()", "array([1.], dtype=float32)"),
)
logaddexp2.gradients(
    lambda g, y, a, b: multiply(g, exp2(subtract(a, y))),
    lambda g, y, a, b: multiply(g, exp2(subtract(b, y))),
)

cbrt = ufunc(
    np.cbrt,
    shapes.wide_floating,
    "Cube root, negative for negative values.",
    ("tk.ops.cbrt([8.0]).numpy()", "array([2.], dtype=float32)"),
)
cbrt.gradients(lambda g, y, x: divide(g, multiply(square(y), 3)))

hypot = ufunc(
    np.hypot,
    shapes.wide_floating_broadcast,
    "Length sqrt(x1**2 + x2**2), no overflow.",
    ("tk.ops.hypot([3.0], [4.0]).numpy()", "array([5.], dtype=float32)"),
)
hypot.gradients(
    lambda g, y, a, b: multiply(g, divide_no_nan(a, y)),
    lambda g, y, a, b: multiply(g, divide_no_nan(b, y)),
)


def ldexp(x1: TensorLike, x2: TensorLike) -> Tensor:
    """`x1` times 2 to the power `x2`; zeros and infinities stay what they are.

    Args:
        x1: tensor of numbers.
        x2: tensor of integers; the shapes broadcast.

    Returns:
        A float tensor of the dtype of `x1`.

    Raises:
        TypeError: `x2` has no integers.

    Example:
        >>> tk.ops.ldexp([1.0], [3]).numpy()
        array([8.], dtype=float32)
    """
    x1, x2 = convert_to_tensor(x1), convert_to_tensor(x2)
    if not x2.dtype.is_integer:
        raise TypeError(f"ldexp: the exponent x2 must be an integer, it has dtype {x2.dtype.name}")
    result_dtype = shapes.float_dtype(dtypes.result_type(x1, x2))
    x1 = cast(x1, result_dtype)
    still = logical_or(equal(x1, 0), equal(absolute(x1), np.inf))
    power = exp2(where(still, 0.0, cast(x2, result_dtype)))  # not 0 times infinity
    return multiply(x1, cast(power, result_dtype))


# ------------------------------------------------------------------ products that are 0 at 0


@primitive(shapes.floating_broadcast, semantics=ELEMENTWISE)
def xlogy(xp: ArrayModule, x: Array, y: Array) -> Array:
    """Product x * log(y), and 0 where x is 0 whatever y is.

    Example:
        >>> tk.math.xlogy([0.0, 1.0], [0.0, 1.0]).numpy()
        array([0., 0.], dtype=float32)
    """
    return xp.where(x == 0, 0, x * xp.log(xp.where(x == 0, 1, y)))


@primitive(shapes.floating_broadcast, semantics=ELEMENTWISE)
def xlog1py(xp: ArrayModule, x: Array, y: Array) -> Array:
    """Product x * log(1 + y), and 0 where x is 0 whatever y is.

    Example:
        >>> tk.math.xlog1py([0.0, 1.0], [-1.0, 0.0]).numpy()
        array([0., 0.], dtype=float32)
    """
    return xp.where(x == 0, 0, x * xp.log1p(xp.where(x == 0, 0, y)))


@primitive(shapes.floating_broadcast, semantics=ELEMENTWISE)
def xdivy(xp: ArrayModule, x: Array, y: Array) -> Array:
    """Quotient x / y, and 0 where x is 0 whatever y is.

    Example:
        >>> tk.math.xdivy([0.0, 1.0], [0.0, 2.0]).numpy()
        array([0. , 0.5], dtype=float32)
    """
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


def _logsumexp_rule(x: Spec, *, axis: Axis, keepdims: bool) -> Spec:
    return Spec(shapes.reduced_dims(x.shape, axis, keepdims), shapes.float_dtype(x.dtype))


_GREATEST = {d.dtype: d.max for d in dtypes.ALL if d.is_floating}


@primitive(_logsumexp_rule, name="logsumexp", semantics=REDUCTION)
def _logsumexp(xp: ArrayModule, x: Array, *, axis: Axis, keepdims: bool) -> Array:
    """Logarithm of the sum of exponentials along axes."""
    check_axes(x, axis, "logsumexp")
    if x.dtype.kind in "iub":
        x = x.astype(dtypes.floatx())
    if x.dtype.itemsize < 4:  # sums of 16-bit floats stop growing, or overflow
        kernel: Any = _logsumexp.primitive.kernel
        return kernel(xp, x.astype(np.float32), axis=axis, keepdims=keepdims).astype(x.dtype)
    if not x.size:
        return xp.log(xp.add.reduce(x, axis, None, None, keepdims))
    top = extreme(xp, "max", x, axis, True)
    limit = _GREATEST[x.dtype]
    top = xp.minimum(xp.maximum(top, -limit), limit)  # inf - inf would be NaN
    total = xp.log(xp.add.reduce(xp.exp(x - top), axis, None, None, keepdims))
    return total + top.reshape(total.shape)


def _logsumexp_gradient(
    g: Tensor, y: Tensor, x: Tensor, *, axis: Axis, keepdims: bool
) -> Tensor | None:
    if not x.dtype.is_differentiable:
        return None
    settings = {"axis": axis, "keepdims": keepdims, "mean": False}
    shares = exp(subtract(x, spread(y, x, **settings)))
    # They add up to 1, except where y is so great that what was added to the maximum is lost.
    share_sum = total(shares, axis=axis, keepdims=keepdims)
    return multiply(spread(divide(g, share_sum), x, **settings), shares)


_logsumexp.gradients(_logsumexp_gradient)


def logsumexp(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """log(sum(exp(x))) along `axis`, without overflow.

    Args:
        x: tensor of any shape.
        axis: int, sequence of ints, or `None` for all axes.
        keepdims: keep the reduced axes with size 1.

    Returns:
        A tensor of the dtype of `x`, or of the default float if that is no float.

    Example:
        >>> tk.ops.logsumexp([0.0, 0.0]).numpy().round(4)
        np.float32(0.6931)
    """
    return _logsumexp(x, axis=axis_setting(axis), keepdims=keepdims)
