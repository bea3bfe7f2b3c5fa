"""Sums, products and quotients made of other operations.

The arguments are TensorFlow's; `name` is not kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from trainkit.core.dtypes import as_dtype
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor
from trainkit.core.values.docstrings import describe_arguments
from trainkit.core.values.type_aliases import Shape, TensorLike
from trainkit.ops.arrays.creation import zeros_like
from trainkit.ops.arrays.shaping import as_tensor
from trainkit.ops.math.comparisons import equal, isfinite, less, logical_and, logical_not, not_equal
from trainkit.ops.math.complex_parts import conj
from trainkit.ops.math.elementwise import (
    add,
    cast,
    divide,
    lists_as_tensors,
    multiply,
    promoted,
    square,
    subtract,
    where,
)
from trainkit.ops.math.gamma import lgamma
from trainkit.ops.math.reductions import sum as sum_
from trainkit.ops.math.rounding import floor_divide, trunc


def multiply_no_nan(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """`x * y`, and 0 where y is 0 even if x is inf or nan.

    Example:
        >>> tk.math.multiply_no_nan([1.0, float("nan")], [2.0, 0.0]).numpy()
        array([2., 0.], dtype=float32)
    """
    x, y = promoted(*lists_as_tensors(x, y))
    # A finite x stays: the slope by y at 0 is x.
    safe = where(logical_and(equal(y, 0), logical_not(isfinite(x))), zeros_like(x), x)
    return multiply(safe, y)


def squared_difference(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """(x - y)**2; for complex numbers |x - y|**2.

    Example:
        >>> tk.math.squared_difference([1.0, 5.0], [3.0, 5.0]).numpy()
        array([4., 0.], dtype=float32)
    """
    difference = subtract(x, y)
    if difference.dtype.is_complex:
        return multiply(conj(difference), difference)
    return square(difference)


def add_n(inputs: TensorLike | Iterable[TensorLike], name: str | None = None) -> Tensor:
    """The sum of a list of tensors of one shape.

    Args:
        inputs: list of tensors, or whatever else gives them one by one; of a tensor the parts along
            its first axis.

    Raises:
        InvalidArgumentError: there are none, or shapes differ.

    Example:
        >>> tk.math.add_n([[1.0, 2.0], [3.0, 4.0]]).numpy()
        array([4., 6.], dtype=float32)
    """
    items: list[Any]
    if not is_tensor(inputs):
        items = list(inputs) if isinstance(inputs, Iterable) else [inputs]
    else:
        rows = as_tensor(inputs)
        count = rows.shape[0] if len(rows.shape) else None
        if not count and len(rows.shape):  # none, or a number that is not known
            return cast(sum_(rows, axis=0), rows.dtype)
        items = [rows] if count is None else [rows[i] for i in range(count)]
    if not items:
        raise InvalidArgumentError("add_n: the list of tensors is empty")
    total, *others = map(as_tensor, items)
    for item in others:
        if not _have_one_shape(total, item):
            raise InvalidArgumentError(
                f"add_n: tensors must have one shape, there are {total.shape} and {item.shape}"
            )
        total = add(total, item)
    return total


def _have_one_shape(a: Tensor, b: Tensor) -> bool:
    """Whether the shapes agree as far as they are known."""
    if type(a) is Tensor and type(b) is Tensor:
        return bool(a._array.shape == b._array.shape)
    return bool(a.shape.is_compatible_with(b.shape))


def accumulate_n(
    inputs: TensorLike,
    shape: Shape | None = None,
    tensor_dtype: Any = None,
    name: str | None = None,
) -> Tensor:
    """The sum of a list of tensors of one shape, as `add_n` gives it.

    Args:
        inputs: list of tensors.
        shape: what their shape must be compatible with.
        tensor_dtype: what their dtype must be.

    Raises:
        InvalidArgumentError: the list is empty, or shapes differ among themselves or from `shape`.
        TypeError: they have another dtype than `tensor_dtype`.

    Example:
        >>> tk.math.accumulate_n([[1, 2], [3, 4]], shape=(2,), tensor_dtype=tk.int32).numpy()
        array([4, 6], dtype=int32)
    """
    total = add_n(inputs)
    if shape is not None and not total.shape.is_compatible_with(shape):
        raise InvalidArgumentError(
            f"accumulate_n: the tensors have shape {tuple(total.shape)}, not {shape}"
        )
    if tensor_dtype is not None and total.dtype != as_dtype(tensor_dtype):
        raise TypeError(
            f"accumulate_n: the tensors have dtype {total.dtype.name}, and tensor_dtype is "
            f"{as_dtype(tensor_dtype).name}; cast them first"
        )
    return total


def lbeta(x: TensorLike, name: str | None = None) -> Tensor:
    """Log of the beta function of many arguments: sum(lgamma(x)) - lgamma(sum(x)), last axis.

    Args:
        x: floats (..., n).

    Example:
        >>> round(float(tk.math.lbeta([1.0, 2.0])), 4)
        -0.6931
    """
    x = as_tensor(x)
    return subtract(sum_(lgamma(x), axis=-1), lgamma(sum_(x, axis=-1)))


def polyval(coeffs: Any, x: TensorLike, name: str | None = None) -> Tensor:
    """The polynomial with `coeffs`, highest power first, at `x`, by Horner's rule.

    Args:
        coeffs: list of numbers or tensors that broadcast with `x`; 0 for an empty list.
        x: tensor.

    Raises:
        ValueError: `coeffs` is no list.

    Example:
        >>> float(tk.math.polyval([1.0, 2.0, 3.0], 2.0))
        11.0
    """
    if not isinstance(coeffs, list | tuple):
        raise ValueError(f"polyval: coeffs must be a list, got {type(coeffs).__name__}")
    x = convert_to_tensor(x)
    total: Tensor = zeros_like(x)
    for coefficient in coeffs:
        total = add(multiply(total, x), coefficient)
    return total


def realdiv(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """`x / y` of floats or complex numbers.

    Raises:
        InvalidArgumentError: they are integers; use `tk.truediv`.

    Example:
        >>> tk.realdiv([1.0, 3.0], 2.0).numpy()
        array([0.5, 1.5], dtype=float32)
    """
    a, b = convert_to_tensor(x), convert_to_tensor(y)
    if a.dtype.is_integer or b.dtype.is_integer:
        raise InvalidArgumentError(
            f"realdiv: takes floats, got {a.dtype.name} and {b.dtype.name}; use truediv"
        )
    return divide(x, y)


def truncatediv(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """The quotient rounded towards 0, of integers or floats.

    Example:
        >>> tk.truncatediv([-5], [2]).numpy()
        array([-2], dtype=int32)
    """
    a, b = promoted(*lists_as_tensors(x, y))
    if a.dtype.is_floating or b.dtype.is_floating:
        return trunc(divide(a, b))
    below = not_equal(less(a, 0), less(b, 0))
    quotient = floor_divide(a, b)
    inexact = not_equal(multiply(quotient, b), a)
    return add(quotient, cast(logical_and(below, inexact), quotient.dtype))


describe_arguments(
    globals(),
    """
    x: tensor of numbers.
    y: tensor that broadcasts with `x`.
    """,
)
