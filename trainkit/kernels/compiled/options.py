"""Numba's decorator with the options that all compiled bodies share."""

from __future__ import annotations

from typing import Any

import numba


def compiled(parallel: bool = True, exact: bool = False) -> Any:
    """Numba's decorator.

    Args:
        parallel: `prange` spreads over the cores.
        exact: floating-point arithmetic in the order in which it is written.
    """
    return numba.njit(
        parallel=parallel,
        fastmath=not exact,
        error_model="numpy",
        boundscheck=False,
        cache=True,
        nogil=True,
    )
