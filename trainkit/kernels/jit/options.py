"""Numba's decorators with the options that all compiled bodies share."""

from __future__ import annotations

from typing import Any

import numba
from numba.core.compiler import Compiler

from trainkit.kernels.threads.parallel_for import WITHOUT_POOL

REORDERED = frozenset({"reassoc", "contract", "arcp", "nsz", "afn"})
"""What LLVM may do to floating-point arithmetic; it may not take NaN and inf for impossible, as
that would hide a run that diverges."""


class _ArraysApart(Compiler):
    """Promises LLVM that given arrays do not overlap, as Numba does for `prange` alone."""

    def __init__(self, typing: Any, target: Any, library: Any, *facts: Any) -> None:
        arguments, result, flags, names = facts
        flags = flags.copy()
        flags.noalias = True
        super().__init__(typing, target, library, arguments, result, flags, names)


def compiled(
    parallel: bool = True, exact: bool = False, ordered: bool = False, apart: bool = False
) -> Any:
    """Numba's decorator.

    Args:
        parallel: `prange` spreads over the cores.
        exact: floating-point arithmetic as it is written.
        ordered: in the order in which it is written; a product and a sum may be rounded once.
        apart: the arrays that are given do not overlap.
    """
    return numba.njit(
        parallel=parallel,
        # Reordering lets sums be vectors. The number of lanes is the target's, so such kernels have
        # bits of their own, and take over at a call that all runs have in common.
        fastmath=False if exact else set(REORDERED) - ({"reassoc"} if ordered else set()),
        error_model="numpy",
        boundscheck=False,
        # With the pool, code is kept by this package and needs no Numba to be loaded.
        cache=WITHOUT_POOL,
        nogil=True,
        pipeline_class=_ArraysApart if apart else Compiler,
    )


def inlined(function: Any) -> Any:
    """Numba's decorator for functions of numbers, made part of each loop that calls them."""
    return numba.njit(function, inline="always", error_model="numpy", fastmath=set(REORDERED))
