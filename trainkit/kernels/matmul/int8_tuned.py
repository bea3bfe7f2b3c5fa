"""When the compiled product of int8 pays: for few rows, as it reads the matrix but once."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.kernels.jit.kernel_family import Family, owned
from trainkit.kernels.threads.thread_pool import shared

Array = Any

INT8_PRODUCT = Family("int8_product", "matmul.int8_compiled", "int8_product", exact=True)
MOST_ROWS = 8
FEWEST = 1 << 16
"""Elements of the matrix from which on the kernel is asked."""

_PLAIN, _COMPILED = 0.35, 0.06
"""Nanoseconds for an element of the matrix on one core: by way of float32, and compiled."""


def int8_product(a: Array, b: Array) -> Array | None:
    """`a @ b` as int32, or `None` where BLAS in float32 is to do it.

    Args:
        a: int8, shape (rows, n) or (..., rows, n).
        b: int8, shape (n, columns).
    """
    if b.ndim != 2 or b.size < FEWEST or not a.size or a.shape[-1] != b.shape[0]:
        return None
    rows = a.size // a.shape[-1]
    if rows > MOST_ROWS:
        return None
    run = INT8_PRODUCT.find((), _PLAIN * 1e-9 * b.size)
    if run is None:
        return None
    result = np.empty((rows, b.shape[1]), np.int32)
    pool, parts = shared(_COMPILED * rows * b.size)
    run(pool, parts, owned(a).reshape(rows, -1), owned(b), result)
    return result.reshape(*a.shape[:-1], b.shape[1])
