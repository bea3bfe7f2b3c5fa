"""`keras.backend` before Keras 3: variables, their values, random numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trainkit import ops
from trainkit.core import dtypes
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.variable import Variable
from trainkit.ops.sampling import keras_random as _random
from trainkit.ops.sampling.keras_random import normal as random_normal
from trainkit.ops.sampling.keras_random import truncated_normal as truncated_normal
from trainkit.ops.sampling.keras_random import uniform as random_uniform
from trainkit.tf import arrays

if TYPE_CHECKING:
    from trainkit.core.values.type_aliases import DTypeLike, Seed, Shape, TensorLike


def constant(
    value: TensorLike,
    dtype: DTypeLike | None = None,
    shape: Shape | None = None,
    name: str | None = None,
) -> Tensor:
    """A tensor of the value, of the default float type unless `dtype` says otherwise.

    Args:
        value: a number, a list or an array.
        dtype: element type; `floatx()` for `None`.
        shape: of the result; a single number fills it.
        name: not looked at: tensors have no names of their own.

    Example:
        >>> tk.keras.backend.constant([1, 2]).dtype.name
        'float32'
    """
    return arrays.constant(value, dtype=dtype or dtypes.floatx(), shape=shape)


def variable(
    value: TensorLike,
    dtype: DTypeLike | None = None,
    name: str | None = None,
    constraint: Any = None,
) -> Variable:
    """A variable of the default float type unless `dtype` says otherwise.

    Args:
        value: its first value.
        dtype: element type; `floatx()` for `None`.
        name: of the variable.
        constraint: function that optimizers apply to it after each step.

    Example:
        >>> K = tk.keras.backend
        >>> K.get_value(K.update_add(K.variable(2), 1))
        3.0
    """
    initial_value = convert_to_tensor(value, dtype=dtype or dtypes.floatx())
    return Variable(initial_value, name=name, constraint=constraint)


def zeros(shape: Shape, dtype: DTypeLike | None = None, name: str | None = None) -> Variable:
    """A variable of zeros, as `K.zeros` always was."""
    return variable(ops.zeros(shape, dtype or dtypes.floatx()), dtype, name)


def ones(shape: Shape, dtype: DTypeLike | None = None, name: str | None = None) -> Variable:
    """A variable of ones, as `K.ones` always was."""
    return variable(ops.ones(shape, dtype or dtypes.floatx()), dtype, name)


def eye(size: Any, dtype: DTypeLike | None = None, name: str | None = None) -> Variable:
    """A variable with the identity matrix; `size` is a number, or rows and columns."""
    rows, columns = size if isinstance(size, (tuple, list)) else (size, size)
    return variable(ops.eye(rows, columns, dtype=dtype or dtypes.floatx()), dtype, name)


def random_normal_variable(
    shape: Shape,
    mean: float,
    scale: float,
    dtype: DTypeLike | None = None,
    name: str | None = None,
    seed: Seed | None = None,
) -> Variable:
    """A variable with values of a normal distribution of this `mean` and deviation `scale`."""
    return variable(random_normal(shape, mean, scale, dtype, seed), dtype, name)


def random_uniform_variable(
    shape: Shape,
    low: float,
    high: float,
    dtype: DTypeLike | None = None,
    name: str | None = None,
    seed: Seed | None = None,
) -> Variable:
    """A variable with values drawn evenly from `low` to `high`."""
    return variable(random_uniform(shape, low, high, dtype, seed), dtype, name)


def get_value(x: TensorLike) -> Any:
    """The value of a tensor or variable as an array of NumPy's."""
    return eval(x)


def eval(x: TensorLike) -> Any:
    """The value of a tensor or variable as an array of NumPy's; a number if it has no axes.

    Example:
        >>> tk.keras.backend.eval(tk.ones(2))
        array([1., 1.], dtype=float32)
    """
    array = convert_to_tensor(x).numpy()
    return array.item() if not array.ndim and array.dtype.kind in "fiub" else array


def set_value(x: Variable, value: TensorLike) -> None:
    """Give a variable a value, which is cast to its type."""
    x.assign(ops.cast(value, x.dtype))


def batch_get_value(tensors: Sequence[Any]) -> list[Any]:
    """The values of several tensors or variables as arrays of NumPy's."""
    return [convert_to_tensor(x).numpy() for x in tensors]


def batch_set_value(tuples: Sequence[tuple[Variable, Any]]) -> None:
    """Give variables values: pairs of a variable and its value."""
    for x, value in tuples:
        set_value(x, value)


def update(x: Variable, new_x: Any) -> Any:
    """`x.assign(new_x)`."""
    return x.assign(new_x)


def update_add(x: Variable, increment: Any) -> Any:
    """`x.assign_add(increment)`."""
    return x.assign_add(increment)


def update_sub(x: Variable, decrement: Any) -> Any:
    """`x.assign_sub(decrement)`."""
    return x.assign_sub(decrement)


def moving_average_update(x: Variable, value: TensorLike, momentum: float) -> Any:
    """Move a variable towards `value`: `x = momentum * x + (1 - momentum) * value`.

    Example:
        >>> K = tk.keras.backend
        >>> K.get_value(K.moving_average_update(K.variable(1.0), 3.0, momentum=0.5))
        2.0
    """
    return x.assign_sub((x - ops.cast(value, x.dtype)) * (1 - momentum))


def count_params(x: Tensor | Variable) -> int:
    """How many elements a tensor has.

    Example:
        >>> tk.keras.backend.count_params(tk.ones((2, 3)))
        6
    """
    return math.prod(x.shape)


def random_bernoulli(
    shape: Shape, p: float = 0.0, dtype: DTypeLike | None = None, seed: Seed | None = None
) -> Tensor:
    """Ones with probability `p`, zeros otherwise."""
    drawn = _random.uniform(shape, 0.0, 1.0, None, seed)
    return ops.cast(drawn < p, dtype or dtypes.floatx())


def dropout(
    x: TensorLike, level: float, noise_shape: Any = None, seed: Seed | None = None
) -> Tensor:
    """`x` with the share `level` of its elements zero and the others enlarged to make up for it."""
    return _random.dropout(x, level, noise_shape, seed)
