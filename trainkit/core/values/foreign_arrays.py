"""Objects that stand for arrays of their own: what can be checked of what they say."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from trainkit.core.errors import InvalidArgumentError


def require_room(value: Any) -> None:
    """Refuse an object whose `__array_interface__` says more than its buffer holds.

    NumPy takes it at its word, and reads what lies behind. An address, as the interface may also
    give, can't be checked.

    Raises:
        InvalidArgumentError: shape and strides reach out of the buffer, or the items are objects.
    """
    if isinstance(value, np.ndarray | np.generic):
        return
    said = getattr(value, "__array_interface__", None)
    if not isinstance(said, dict) or isinstance(said.get("data"), tuple):
        return
    try:
        buffer_size = memoryview(value if said.get("data") is None else said["data"]).nbytes
        item = np.dtype(said["typestr"])
        shape = [operator.index(n) for n in said["shape"]]
        strides = said.get("strides")
        if strides is None:
            strides = [item.itemsize * math.prod(shape[i + 1 :]) for i in range(len(shape))]
        steps = [(n - 1) * operator.index(s) for n, s in zip(shape, strides, strict=True)]
        start = operator.index(said.get("offset", 0)) + sum(min(step, 0) for step in steps)
        end = start + sum(abs(step) for step in steps) + item.itemsize
    except (TypeError, ValueError, KeyError):
        return  # NumPy says what is wrong with it
    if (
        item.hasobject
        or min(shape, default=0) < 0
        or (0 not in shape and not 0 <= start <= end <= buffer_size)
    ):
        raise InvalidArgumentError(
            f"the array interface of a {type(value).__name__} says {item} of shape {shape}, its "
            f"buffer has {buffer_size} bytes"
        )


def as_dense(value: Any) -> Any:
    """A matrix of `scipy.sparse` as an array of all its numbers; anything else as it is."""
    if type(value).__module__.startswith("scipy.sparse") and hasattr(value, "toarray"):
        return value.toarray()
    return value
