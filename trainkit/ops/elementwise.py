"""Arithmetic, comparison, rounding, exponential and trigonometric operations, element by element.

Two inputs broadcast against each other by NumPy's rule. Operands of different dtypes promote as in
Keras 3; Python numbers are weak. Integers become the default float where the result is no integer.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core import dtypes, shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dtypes import as_dtype
from trainkit.core.primitive import primitive, ufunc
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor

# ------------------------------------------------------------------ dtype and identity


def _cast_rule(x: Spec, *, dtype: str) -> Spec:
    return Spec(x.shape, dtype)


@primitive(_cast_rule, name="cast", elementwise=True)
def _cast(xp: ArrayModule, x: Array, *, dtype: str) -> Array:
    """Convert to the element type `dtype`."""
    wanted = as_dtype(dtype).dtype
    if x.dtype.kind == "c" and wanted.kind != "c":
        x = x.real
    return x.astype(wanted)


def _cast_gradient(g: Tensor, y: Tensor, x: Tensor, *, dtype: str) -> Tensor | None:
    if not (x.dtype.is_differentiable and y.dtype.is_differentiable):
        return None
    return _cast(g, dtype=x.dtype.name)


_cast.gradients(_cast_gradient)


def cast(x: Any, dtype: Any) -> Tensor:
    """Convert `x` to the element type `dtype`; floats lose their fraction on the way to integers.

    Args:
        x: tensor of any shape, or anything that converts to one.
        dtype: a `DType` or its name.

    Returns:
        A tensor of the shape of `x`; `x` itself if it has this dtype.

    Raises:
        TypeError: `dtype` names no element type.
    """
    wanted = as_dtype(dtype)
    tensor = x if isinstance(x, Tensor) else convert_to_tensor(x)
    if tensor.dtype == wanted:
        return tensor
    result: Tensor = _cast(tensor, dtype=wanted.name)
    return result


@primitive(shapes.unchanged)
def identity(xp: ArrayModule, x: Array) -> Array:
    """The same values as a new tensor."""
    return x


identity.gradients(lambda g, y, x: g)


# ------------------------------------------------------------------ arithmetic

add = ufunc("add", np.add, shapes.broadcast, "Sum x1 + x2, element by element.")
add.gradients(lambda g, y, a, b: g, lambda g, y, a, b: g)

subtract = ufunc("subtract", np.subtract, shapes.broadcast, "Difference x1 - x2.")
subtract.gradients(lambda g, y, a, b: g, lambda g, y, a, b: negative(g))

multiply = ufunc("multiply", np.multiply, shapes.broadcast, "Product x1 * x2.")
multiply.gradients(lambda g, y, a, b: multiply(g, b), lambda g, y, a, b: multiply(g, a))

divide = ufunc(
    "divide",
    np.true_divide,
    shapes.floating_broadcast,
    "Quotient x1 / x2; integers give the default float.",
)
divide.gradients(
    lambda g, y, a, b: divide(g, b),
    lambda g, y, a, b: negative(multiply(g, divide(y, b))),
)

negative = ufunc("negative", np.negative, shapes.unchanged, "The value with its sign changed.")
negative.gradients(lambda g, y, x: negative(g))
