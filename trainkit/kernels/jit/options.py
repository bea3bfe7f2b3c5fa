"""Numba's decorators with the options that all compiled bodies share."""

from __future__ import annotations

from typing import Any

import numba

REORDERED = frozenset({"reassoc", "contract", "arcp", "nsz", "afn"})
"""What LLVM may do to floating-point arithmetic; it may not take NaN and inf for impossible, as
that would hide a run that diverges."""


def compiled(parallel: bool = True, exact: bool = False) -> Any:
    """Numba's decorator.

    Args:
        parallel: `prange` spreads over the cores.
        exact: floating-point arithmetic in the order in which it is written.
    """
    return numba.njit(
        parallel=parallel,
        fastmath=False if exact else set(REORDERED),
        error_model="numpy",
        boundscheck=False,
        cache=True,
        nogil=True,
    )


def inlined(function: Any) -> Any:
    """Numba's decorator for functions of numbers, made part of each loop that calls them."""
    return numba.njit(function, inline="always", error_model="numpy", fastmath=set(REORDERED))
