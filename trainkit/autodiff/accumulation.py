"""Sums of the gradients that come to one tensor, in the memory of the first where that is free."""

from __future__ import annotations

from sys import getrefcount
from typing import Any

import numpy as np

from trainkit.core.tensor import Tensor

SMALL, _LARGE = 16, 1024
"""Sums of fewer elements than the first are faster in new memory; from the second on it pays to
find out whether the old memory is free to be used."""

_add = np.add


def sum_of(before: Any, more: Any, x: Tensor, sums: set[int]) -> Any:
    """The sum of two gradients by `x`, which `sums` holds from now on if that can be added to.

    It is made in the memory of the first if that is large and nobody's else: the caller has it in
    one variable.
    """
    if before.dtype is not more.dtype or before.shape != more.shape:
        return _add(before, more)
    if (
        before.size >= _LARGE
        # in the dict of gradients, at the caller's, here, and as the argument of this call
        and getrefcount(before) == 4
        and before.base is None
    ):
        sums.add(id(x))
        return _add(before, more, before)
    if before.size >= SMALL:
        sums.add(id(x))
    return _add(before, more)


def accumulate(x: Tensor, gx: Any, grads: dict[Tensor, Any], sums: set[int]) -> None:
    """Add `gx` to the gradient by `x`."""
    before = grads.get(x)
    if before is None:
        grads[x] = gx
    elif id(x) in sums and before.dtype is gx.dtype and before.shape == gx.shape:
        _add(before, gx, before)
    else:
        grads[x] = sum_of(before, gx, x, sums)
