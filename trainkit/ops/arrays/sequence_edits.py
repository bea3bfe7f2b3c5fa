"""Distances between sequences."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core.dtypes import float32
from trainkit.core.errors import ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.ops.core.dynamic_shapes import Bound, concrete, needs_values


def _distances(a: Bound) -> Spec:
    return Spec(convert_to_tensor(a["truth"]).shape[:-1], float32)


@needs_values("hypothesis", "truth", gives=_distances)
def edit_distance(
    hypothesis: TensorLike,
    truth: TensorLike,
    normalize: bool = True,
    name: Any = "edit_distance",
    *,
    padding: int = -1,
) -> Tensor:
    """Levenshtein's distance between sequences of integers: insertions, deletions, exchanges.

    Args:
        hypothesis: integers (..., n); entries equal to `padding` are left out.
        truth: integers (..., m); the leading axes are those of `hypothesis`.
        normalize: divide by the length of the truth, which gives inf where only that is empty.
        padding: the number that fills up short sequences. (TensorFlow takes sparse tensors.)

    Returns:
        A float32 tensor of the leading axes.

    Raises:
        ShapeError: the leading axes differ.

    Example:
        >>> tk.edit_distance([[1, 2, 3]], [[1, 3, -1]], normalize=False).numpy()
        array([1.], dtype=float32)
    """
    left, right = (concrete(t, "edit_distance") for t in (hypothesis, truth))
    if left.ndim < 1 or left.shape[:-1] != right.shape[:-1]:
        raise ShapeError(
            f"edit_distance: hypothesis {left.shape} and truth {right.shape} must agree in all "
            "axes but the last"
        )
    distances = np.zeros(left.shape[:-1], np.float32)
    for index in np.ndindex(distances.shape):
        one, two = left[index], right[index]
        one, two = one[one != padding], two[two != padding]
        distance = _levenshtein(one, two)
        if normalize:
            distance = distance / len(two) if len(two) else (np.inf if len(one) else 0.0)
        distances[index] = distance
    return convert_to_tensor(distances)


def _levenshtein(one: Any, two: Any) -> float:
    """Row by row; within a row the insertions are a running minimum."""
    steps = np.arange(len(two) + 1)
    row = steps.copy()
    for item in one:
        best = np.minimum(row[1:] + 1, row[:-1] + (two != item))
        row = np.concatenate([[row[0] + 1], best])
        row = np.minimum.accumulate(row - steps) + steps
    return float(row[-1])
