"""How many bytes of weights may be made: while a model is read from a file, so many as fit it.

A file of a few bytes can name a layer of any size; it must not fill the memory before its weights
are looked at.
"""

from __future__ import annotations

import math
import threading
from typing import Any

from trainkit.core.dtypes import as_dtype
from trainkit.core.errors import CheckpointError


class _Open(threading.local):
    def __init__(self) -> None:
        self.budget: WeightBudget | None = None


_OPEN = _Open()


class WeightBudget:
    """Context in which weights may be made up to so many bytes in all."""

    def __init__(self, max_bytes: int, source: str) -> None:
        self.max_bytes = self.left = max_bytes
        self.source = source

    def __enter__(self) -> WeightBudget:
        self._outer, _OPEN.budget = _OPEN.budget, self
        return self

    def __exit__(self, *exc: object) -> None:
        _OPEN.budget = self._outer

    def spend(self, owner: Any, label: str, sizes: tuple[int, ...], dtype: Any) -> None:
        """Take a weight into account, before it is made.

        Raises:
            CheckpointError: it is more than is left.
        """
        size = math.prod(sizes) * as_dtype(dtype).dtype.itemsize
        if size > self.left:
            raise CheckpointError(
                f"{self.source} is refused: {type(owner).__name__} {owner.name!r} is to make the "
                f"weight {label!r} of shape {sizes}, {size} bytes, and the file is so small that "
                f"all weights can't have more than {self.max_bytes} bytes"
            )
        self.left -= size


def spend(owner: Any, label: str, sizes: tuple[int, ...], dtype: Any) -> None:
    """Take a weight that is going to be made into account, where a `WeightBudget` is open."""
    if _OPEN.budget is not None:
        _OPEN.budget.spend(owner, label, sizes, dtype)
