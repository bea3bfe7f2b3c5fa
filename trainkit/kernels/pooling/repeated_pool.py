"""Pooling of images whose sizes stay.

The compiled kernel takes 2 to 6 microseconds for an image of a small network, and to find out where
windows lie and what serves them takes Python as long again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.kernels.convolution.sliding_windows import Windows
from trainkit.kernels.jit.kernel_family import Family, owned
from trainkit.kernels.pooling.pool_tuned import pool_call
from trainkit.kernels.threads.thread_pool import shared

Array = Any

_F32 = np.dtype(np.float32)


class RepeatedPool:
    """`max_pool` or `average_pool`, which remembers what the sizes of float32 images decide.

    Args:
        pool: function of windows and images, `None` where the plain version is to do it.
        family: its kernels of float32.
        windows_of: function of images that says where the windows lie.
    """

    __slots__ = ("_call", "_family", "_pool", "_windows_of")

    def __init__(
        self,
        pool: Callable[[Windows, Array], Array | None],
        family: Family,
        windows_of: Callable[[Array], Windows],
    ) -> None:
        self._pool, self._family, self._windows_of = pool, family, windows_of
        self._call: Any = None

    def __call__(self, x: Array) -> Array | None:
        """The result, `None` where the plain version is to do it."""
        # another thread may replace what is remembered: the call says itself what it is for
        call = self._call
        if call is None or x.shape != call.x_shape or x.dtype is not _F32:
            return self._first(x)
        run = self._family.find((), call.seconds)
        if run is None:
            return self._first(x)
        y = np.empty(call.shape, _F32)
        pool, parts = shared(call.nanoseconds)
        parts = len(x) if parts > 1 else 1
        run(pool, parts, owned(x).reshape(call.x_image), y.reshape(call.y_image), call.window)
        return y

    def _first(self, x: Array) -> Array | None:
        w = self._windows_of(x)
        y = self._pool(w, x)
        if y is not None and x.dtype is _F32:
            self._call = pool_call(w, len(x), x.shape[-1], _F32.itemsize)
        return y
