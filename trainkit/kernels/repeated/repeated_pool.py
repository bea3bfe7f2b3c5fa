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
from trainkit.kernels.pooling.pool_tuned import PoolCall, pool_call
from trainkit.kernels.repeated.planned_call import (
    CalledArray,
    CallPlan,
    NewArray,
    plan_call,
    repeat_call,
)
from trainkit.kernels.threads.thread_pool import shared

Array = Any

_F32 = np.dtype(np.float32)


class RepeatedPool:
    """`max_pool` or `average_pool`, which remembers what the sizes of float32 images decide.

    Attributes:
        calls: function of images, which gives `None` where the plain version is to do it.

    Args:
        pool: function of windows and images, `None` where the plain version is to do it.
        family: its kernels of float32.
        windows_of: function of images that says where the windows lie.
    """

    __slots__ = ("_family", "_pool", "_windows_of", "calls")

    def __init__(
        self,
        pool: Callable[[Windows, Array], Array | None],
        family: Family,
        windows_of: Callable[[Array], Windows],
    ) -> None:
        self._pool, self._family, self._windows_of = pool, family, windows_of
        self.calls = repeat_call(self._first)

    def _first(self, x: Array) -> Array | None:
        w = self._windows_of(x)
        y = self._pool(w, x)
        if y is not None and x.dtype is _F32:
            call = pool_call(w, len(x), x.shape[-1], _F32.itemsize)
            self.calls.remember(plan_call(_plan(self._family, call)))
        return y


def _plan(family: Family, call: PoolCall) -> CallPlan:
    images, is_shared = call.x_shape[0], shared(call.nanoseconds)[1] > 1

    def shares() -> tuple[int, int]:
        return shared(call.nanoseconds)[0], images if is_shared else 1

    return CallPlan(
        family,
        (),
        (*shares(), None, None, call.window),
        (CalledArray((2,), call.x_image, call.x_shape, is_copied=True),),
        NewArray(3, call.y_image, call.shape),
        fresh=((0, 1), shares) if is_shared else None,
    )
