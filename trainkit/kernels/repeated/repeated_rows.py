"""A kernel over rows whose sizes stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.kernels.jit.array_kernel import ArrayKernel
from trainkit.kernels.repeated.planned_call import (
    CalledArray,
    CallPlan,
    NewArray,
    RepeatedCalls,
    plan_call,
)
from trainkit.kernels.threads.thread_pool import shared

Array = Any

_F32 = np.dtype(np.float32)
_STANDING = {"ones": np.ones, "zeros": np.zeros}
"""What stands for a vector that there is not, by its layout."""


class RepeatedRows(RepeatedCalls):
    """A kernel of float32 rows and of vectors beside them, `None` for those that are not there.

    Args:
        kernel: takes rows first, then vectors ("ones" and "zeros"), then numbers, and gives rows.
        run: function of the same arrays that may call it.
        width: function of rows that tells how many numbers each has.
        numbers: what the kernel takes behind its arrays.
    """

    __slots__ = ("_kernel", "_numbers", "_run", "_width")

    def __init__(
        self,
        kernel: ArrayKernel,
        run: Callable[..., Array | None],
        width: Callable[[Array], int],
        numbers: tuple[Any, ...],
    ) -> None:
        self._kernel, self._run, self._width, self._numbers = kernel, run, width, numbers
        super().__init__()

    def _plan(self, x: Array, *vectors: Array | None) -> Callable[..., Any] | None:
        # of other dtypes there is no plan, and another shape may be made by another kernel
        if not all(v is None or v.dtype is _F32 for v in (x, *vectors)):
            return None
        kernel, width = self._kernel, self._width(x)
        nanoseconds = kernel.nanoseconds * x.size
        rows = x.size // width, width
        standing = [_STANDING[layout](width, _F32) for layout in kernel.takes[1 : 1 + len(vectors)]]
        shares = shared(nanoseconds)
        expected = (
            None if v is None else CalledArray((3 + i,), (width,), v.shape, is_copied=True)
            for i, v in enumerate(vectors)
        )
        plan = CallPlan(
            kernel,
            (),
            (*shares, None, *standing, *self._numbers, None),
            (CalledArray((2,), rows, x.shape, is_copied=True), *expected),
            NewArray(3 + len(vectors) + len(self._numbers), rows, x.shape),
            fresh=((0, 1), lambda: shared(nanoseconds)) if shares[1] > 1 else None,
        )
        return plan_call(plan)
