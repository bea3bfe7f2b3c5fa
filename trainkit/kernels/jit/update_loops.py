"""Compiles the loops that optimizers write for their update rules."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import from_dtype, int64

from trainkit.kernels.jit.builders import by_parts
from trainkit.kernels.jit.object_addresses import numbers_at
from trainkit.kernels.threads.parallel_for import chunk_range


def update(source: str, dtype: str, buffers: int, scalars: int) -> Any:
    """The function `loop(part, parts, b0, ..., s0, ...)` of `source`, as a kernel.

    Args:
        source: text of a function.
        dtype: that of all arrays and numbers.
        buffers: how many flat arrays it takes.
        scalars: how many numbers it takes then.
    """
    real = from_dtype(np.dtype(dtype))
    return _kernel(source, dtype, [real[::1]] * buffers + [real] * scalars)


def joint_update(source: str, dtype: str, scalars: int) -> Any:
    """The function `loop(part, parts, items, offset, sizes, s0, ...)` of `source`, as a kernel.

    Args:
        source: text of a function.
        dtype: that of the numbers in the arrays, and of the numbers that follow.
        scalars: how many numbers it takes.
    """
    real = from_dtype(np.dtype(dtype))
    return _kernel(source, dtype, [int64[:, ::1], int64, int64[::1], *[real] * scalars])


def _kernel(source: str, dtype: str, kinds: list[Any]) -> Any:
    scope: dict[str, Any] = {
        "np": np,
        "real": np.dtype(dtype).type,
        "chunk_range": chunk_range,
        "numbers_at": numbers_at,
        "__name__": __name__,
    }
    exec(compile(source, __file__, "exec"), scope)
    return by_parts(*kinds, exact=True)(scope["loop"])()
