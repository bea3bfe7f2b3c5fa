"""The different elements with their places and counts, and order by rank, stable both ways.

The arguments are those of the Array API standard.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from trainkit.core.dtypes import cast_array, sort_keys
from trainkit.core.tensor import Tensor, wrap
from trainkit.ops.arrays.pad_and_roll import flip
from trainkit.ops.arrays.shaping import as_tensor
from trainkit.ops.arrays.sorting import argsort as argsort_
from trainkit.ops.math.elementwise import subtract


def argsort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The positions of the elements in rising order, or in falling; equal ones in their order."""
    if not descending:
        return argsort_(x, axis)
    tensor = as_tensor(x)
    backwards = flip(argsort_(flip(tensor, axis), axis), axis)
    return subtract(tensor.shape[axis] - 1, backwards)


# ------------------------------------------------------------------ sets


class UniqueAll(NamedTuple):
    """What `unique_all` gives."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """What `unique_counts` gives."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """What `unique_inverse` gives."""

    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Any, /) -> UniqueAll:
    """The different elements, their first positions, which one each element is, and their counts.

    NaNs differ from each other.
    """
    tensor = as_tensor(x)
    host = tensor.numpy()
    outputs = np.unique(
        sort_keys(host), return_index=True, return_inverse=True, return_counts=True, equal_nan=False
    )
    values, first, inverse, counts = outputs
    values = cast_array(values, host.dtype)
    parts = (first, np.reshape(inverse, np.shape(host)), counts)
    back = tensor.device
    placed = [wrap(values), *(wrap(np.asarray(part, np.int32)) for part in parts)]
    return UniqueAll(*(part.to_device(back) for part in placed))  # type: ignore[attr-defined]


def unique_counts(x: Any, /) -> UniqueCounts:
    """The different elements and the number of each."""
    uniques = unique_all(x)
    return UniqueCounts(uniques.values, uniques.counts)


def unique_inverse(x: Any, /) -> UniqueInverse:
    """The different elements, and for each element of `x` which one it is."""
    uniques = unique_all(x)
    return UniqueInverse(uniques.values, uniques.inverse_indices)


def unique_values(x: Any, /) -> Tensor:
    """The different elements."""
    return unique_all(x).values
