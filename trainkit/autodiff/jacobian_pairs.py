"""Jacobians by the tape beside those by differences, as TensorFlow's tests compare them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trainkit.autodiff.tape import GradientTape
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor
from trainkit.ops.arrays.filling import constant

_STEP = 1.0 / 1024  # a float of each type, so that it is not rounded


def _evaluate(f: Callable[..., Any], xs: Sequence[Any]) -> Tensor:
    y = f(*(constant(x) for x in xs))
    if not is_tensor(y) or not y.dtype.is_differentiable:
        raise InvalidArgumentError(
            "compute_gradient: f must give one tensor of floats or complex numbers, got "
            f"{y.dtype.name if is_tensor(y) else type(y).__name__}"
        )
    return convert_to_tensor(y)


def _reals(array: Any) -> Any:
    """The numbers as a vector, complex ones as pairs of real and imaginary parts."""
    flat = np.ascontiguousarray(array).ravel()
    return flat.view(flat.real.dtype)


def _theoretical_jacobian(f: Callable[..., Any], xs: list[Any], index: int) -> Any:
    tensors = [constant(x) for x in xs]
    with GradientTape(persistent=True) as tape:
        tape.watch(tensors[index])
        y = convert_to_tensor(f(*tensors))
    direction = np.zeros(tuple(y.shape), y.dtype.as_numpy_dtype)
    parts = _reals(direction)
    columns = _reals(xs[index])
    jacobian = np.zeros((len(parts), len(columns)), columns.dtype)
    for row in range(len(parts)):
        parts[:] = np.arange(len(parts)) == row
        seed = parts.view(direction.dtype).reshape(direction.shape)
        gradient = tape.gradient(y, tensors[index], output_gradients=constant(seed))
        if gradient is not None:
            jacobian[row] = _reals(convert_to_tensor(gradient).numpy())
    return jacobian


def _numerical_jacobian(f: Callable[..., Any], xs: list[Any], index: int, delta: float) -> Any:
    base, columns = xs[index], _reals(xs[index])
    rows = _reals(_evaluate(f, xs).numpy())
    jacobian = np.zeros((len(rows), len(columns)), columns.dtype)

    def result_at(column: int, step: float) -> Any:
        moved = columns.copy()
        moved[column] += step
        x = moved.view(base.dtype).reshape(base.shape)
        return _reals(_evaluate(f, [*xs[:index], x, *xs[index + 1 :]]).numpy())

    width = np.asarray(2 * delta, rows.dtype)
    for column in range(len(columns)):
        difference = result_at(column, delta) - result_at(column, -delta)
        jacobian[:, column] = difference / width
    return jacobian


def compute_gradient(
    f: Callable[..., Any], x: Sequence[Any], delta: float | None = None
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The Jacobians of `f` by the tape, and those by central differences.

    Complex numbers count as pairs of their real and imaginary parts.

    Args:
        f: takes the elements of `x` by position, gives a tensor of floats or complex numbers.
        x: list or tuple of tensors, arrays or numbers, floating or complex.
        delta: how far each number is moved to either side; by default 1 / 1024.

    Returns:
        Two tuples with a matrix (numbers of the result, numbers of the argument) for each argument,
        NumPy arrays of the argument's dtype.

    Raises:
        ValueError: `x` is no list or tuple.
        InvalidArgumentError: an argument or the result is neither floating nor complex.

    Example:
        >>> theoretical, numerical = tk.test.compute_gradient(lambda x: x * x, [[1.0, 2.0]])
        >>> theoretical[0]
        array([[2., 0.],
               [0., 4.]], dtype=float32)
        >>> bool(np.allclose(theoretical[0], numerical[0], atol=1e-3))
        True
    """
    if not isinstance(x, list | tuple):
        raise ValueError(
            f"compute_gradient: x must be a list or tuple of f's arguments, got {type(x).__name__}"
        )
    tensors = [convert_to_tensor(value) for value in x]
    for index, tensor in enumerate(tensors):
        if not tensor.dtype.is_differentiable:
            raise InvalidArgumentError(
                f"compute_gradient: argument {index} must be floating or complex, got "
                f"{tensor.dtype.name}"
            )
    xs = [tensor.numpy() for tensor in tensors]
    _evaluate(f, xs)
    step = _STEP if delta is None else float(delta)
    theoretical = tuple(_theoretical_jacobian(f, xs, k) for k in range(len(xs)))
    numerical = tuple(_numerical_jacobian(f, xs, k, step) for k in range(len(xs)))
    return theoretical, numerical
