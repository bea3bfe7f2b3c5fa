"""Labels and features as one-hot rows and rows of length 1, arrays or tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import is_tensor


def to_categorical(x: Any, num_classes: int | None = None) -> Any:
    """Class numbers as one-hot rows.

    Args:
        x: ints in [0, classes), an array (...) or (..., 1), whose last axis then goes away.
        num_classes: length of the rows; by default the greatest number plus 1.

    Returns:
        A NumPy array (..., classes) of float64, or for a tensor one of float32: 1 at the class, 0
        elsewhere.

    Raises:
        InvalidArgumentError: a number is no class.

    >>> to_categorical([0, 2], 3).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    numbers = np.asarray(x)
    if numbers.ndim > 1 and numbers.shape[-1] == 1:
        numbers = numbers[..., 0]
    numbers = numbers.astype(np.int64)
    if num_classes is None:
        num_classes = int(numbers.max()) + 1 if numbers.size else 0
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < num_classes:
        raise InvalidArgumentError(
            f"to_categorical: labels go from {numbers.min()} to {numbers.max()}, classes from 0 to "
            f"{num_classes - 1}"
        )
    return ops.one_hot(numbers, num_classes) if is_tensor(x) else np.eye(num_classes)[numbers]


def normalize(x: Any, axis: int = -1, order: int = 2) -> Any:
    """Vectors along an axis divided by their norm; zero vectors stay.

    Args:
        x: array of any shape with one axis or more.
        axis: along which the vectors lie.
        order: of the norm, as `numpy.linalg.norm` takes it.

    Returns:
        An array like `x`, or for a tensor a tensor.

    Example:
        >>> tk.utils.normalize(np.array([[3.0, 4.0]]))
        array([[0.6, 0.8]])
    """
    if is_tensor(x):
        return ops.normalize(x, axis=axis, order=order)
    vectors = np.atleast_1d(np.asarray(x))
    norms = np.atleast_1d(np.linalg.norm(vectors, order, axis))
    norms[norms == 0] = 1
    return vectors / np.expand_dims(norms, axis)
