"""`keras.backend` before Keras 3: shapes, types and the order of elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from trainkit import ops
from trainkit.core import dtypes
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import Tensor
from trainkit.core.variable import Variable
from trainkit.tf import arrays

if TYPE_CHECKING:
    from trainkit.core.values.type_aliases import Axis, DTypeLike, Shape, TensorLike


def shape(x: TensorLike) -> Tensor:
    """The shape of a tensor as a tensor of integers, known when the program runs."""
    return arrays.shape(x)


def int_shape(x: Tensor | Variable) -> tuple[int | None, ...]:
    """The shape of a tensor as a tuple, `None` for sizes that are not known yet.

    Example:
        >>> tk.keras.backend.int_shape(tk.keras.Input((4,)))
        (None, 4)
    """
    return tuple(x.shape)


def ndim(x: Tensor | Variable) -> int:
    """How many axes a tensor has."""
    return len(x.shape)


def dtype(x: Tensor | Variable) -> str:
    """The name of a tensor's element type.

    Example:
        >>> tk.keras.backend.dtype(tk.ones(2))
        'float32'
    """
    return dtypes.as_dtype(x.dtype).name


def cast_to_floatx(x: TensorLike) -> Any:
    """`x` with the default float type: a tensor for a tensor, an array of NumPy's otherwise."""
    if isinstance(x, (Tensor, Variable)):
        return ops.cast(x, dtypes.floatx())
    return np.asarray(x, dtype=dtypes.as_dtype(dtypes.floatx()).as_numpy_dtype)


def is_sparse(tensor: TensorLike) -> bool:
    """`False`: there are no sparse tensors."""
    return False


def to_dense(tensor: TensorLike) -> Any:
    """The tensor itself, since all are dense."""
    return tensor


def flatten(x: TensorLike) -> Tensor:
    """All elements of a tensor along one axis."""
    return ops.reshape(x, (-1,))


def batch_flatten(x: Tensor | Variable) -> Tensor:
    """A tensor as a matrix: its first axis and all others together.

    Example:
        >>> tk.keras.backend.batch_flatten(tk.ones((2, 3, 4))).shape
        TensorShape([2, 12])
    """
    return arrays.reshape(x, (-1, math.prod(x.shape[1:])))


def reshape(x: TensorLike, shape: Shape) -> Tensor:
    """`x` with this shape; -1 for one size that follows from the others."""
    return arrays.reshape(x, shape)


def permute_dimensions(x: TensorLike, pattern: Any) -> Tensor:
    """The axes of `x` in the order of `pattern`."""
    return ops.transpose(x, pattern)


def transpose(x: TensorLike) -> Tensor:
    """The axes of `x` in reverse order."""
    return ops.transpose(x)


def expand_dims(x: TensorLike, axis: int = -1) -> Tensor:
    """`x` with one more axis of size 1, at `axis`."""
    return ops.expand_dims(x, axis)


def squeeze(x: TensorLike, axis: int) -> Tensor:
    """`x` without its axis `axis`, which has size 1."""
    return ops.squeeze(x, axis)


def concatenate(tensors: Sequence[Any], axis: int = -1) -> Tensor:
    """Tensors one after the other along `axis`."""
    return ops.concatenate(tensors, axis)


def repeat(x: Tensor | Variable, n: int) -> Tensor:
    """A matrix `(samples, features)` repeated along a new axis: `(samples, n, features)`.

    Raises:
        InvalidArgumentError: `x` is no matrix.
    """
    if len(x.shape) != 2:
        raise InvalidArgumentError(f"repeat: x must have two axes, its shape is {tuple(x.shape)}")
    return ops.tile(ops.expand_dims(x, 1), (1, n, 1))


def repeat_elements(x: TensorLike, rep: int, axis: int) -> Tensor:
    """Each element of `x` `rep` times, one after the other along `axis`.

    Example:
        >>> tk.keras.backend.repeat_elements(tk.constant([1, 2]), 2, axis=0).numpy()
        array([1, 1, 2, 2], dtype=int32)
    """
    return ops.repeat(x, rep, axis)


def tile(x: TensorLike, n: Any) -> Tensor:
    """`x` `n` times along each axis."""
    return ops.tile(x, [n] if isinstance(n, int) else n)


def reverse(x: TensorLike, axes: Axis) -> Tensor:
    """`x` from its end to its beginning along `axes`, a number or several."""
    return ops.flip(x, tuple(axes) if isinstance(axes, (list, tuple)) else axes)


def arange(
    start: TensorLike, stop: TensorLike | None = None, step: Any = 1, dtype: DTypeLike = "int32"
) -> Tensor:
    """Numbers from `start` to before `stop`, or from 0 to before `start`; none below zero steps.

    Args:
        start: the first number, or where they end.
        stop: where they end.
        step: between two numbers.
        dtype: of the result; by default that of the numbers, which floats make floats.

    Example:
        >>> tk.keras.backend.arange(0, 2, 0.5).numpy()
        array([0. , 0.5, 1. , 1.5], dtype=float32)
    """
    numbers = arrays.range(start, stop, step)
    return numbers if dtypes.as_dtype(dtype) == dtypes.int32 else ops.cast(numbers, dtype)


def gather(reference: TensorLike, indices: TensorLike) -> Tensor:
    """The rows of `reference` at `indices`."""
    return ops.take(reference, indices, 0)


def one_hot(indices: TensorLike, num_classes: int) -> Tensor:
    """A vector of `num_classes` for each index, 1 at it and 0 elsewhere."""
    return ops.one_hot(indices, num_classes)
