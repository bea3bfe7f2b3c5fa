"""Pooling of images whose sizes stay.

The compiled kernel takes 2 to 6 microseconds for an image of a small network, and to find out where
windows lie and what serves them takes Python as long again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.kernels.convolution.sliding_windows import Windows
from trainkit.kernels.jit.kernel_family import Family
from trainkit.kernels.pooling.pool_tuned import pool_call
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


class RepeatedPool(RepeatedCalls):
    """`max_pool` or `average_pool` of float32 images.

    Args:
        pool: function of windows and images, `None` where the plain version is to do it.
        family: its kernels of float32.
        windows_of: function of images that says where the windows lie.
    """

    __slots__ = ("_family", "_pool", "_windows_of")

    def __init__(
        self,
        pool: Callable[[Windows, Array], Array | None],
        family: Family,
        windows_of: Callable[[Array], Windows],
    ) -> None:
        self._pool, self._family, self._windows_of = pool, family, windows_of
        super().__init__()

    def _run(self, x: Array) -> Array | None:
        return self._pool(self._windows_of(x), x)

    def _plan(self, x: Array) -> Callable[..., Any] | None:
        if x.dtype is not _F32:
            return None
        call = pool_call(self._windows_of(x), len(x), x.shape[-1], _F32.itemsize)
        is_shared = shared(call.nanoseconds)[1] > 1

        def shares() -> tuple[int, int]:
            return shared(call.nanoseconds)[0], len(x) if is_shared else 1

        plan = CallPlan(
            self._family,
            (),
            (*shares(), None, None, call.window),
            (CalledArray((2,), call.x_image, call.x_shape, is_copied=True),),
            NewArray(3, call.y_image, call.shape),
            fresh=((0, 1), shares) if is_shared else None,
        )
        return plan_call(plan)
