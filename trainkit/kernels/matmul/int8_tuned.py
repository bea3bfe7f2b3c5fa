"""When the compiled product of int8 pays: for few rows, as it reads the matrix but once."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core.cpu.cost_model import BYTE_NANOSECONDS, COPIED_COLUMN, PRODUCT_NANOSECONDS
from trainkit.kernels.jit.kernel_family import BYTE_SECONDS, Family, owned
from trainkit.kernels.matmul.product_tuned import FEWEST_WEIGHTS
from trainkit.kernels.threads.thread_pool import shared

Array = Any

INT8_PRODUCT = Family("int8_product", "matmul.int8_compiled", "int8_product", exact=True)


def int8_product(a: Array, b: Array) -> Array | None:
    """`a @ b` as int32, or `None` where BLAS in float32 is to do it.

    Args:
        a: int8, shape (rows, n) or (..., rows, n).
        b: int8, shape (n, columns).
    """
    if b.ndim != 2 or b.size < FEWEST_WEIGHTS or not a.size or a.shape[-1] != b.shape[0]:
        return None
    rows = a.size // a.shape[-1]
    if rows > COPIED_COLUMN:  # BLAS copies the matrix, as float32
        return None
    run = INT8_PRODUCT.find((), BYTE_SECONDS * b.nbytes)
    if run is None:
        return None
    result = np.empty((rows, b.shape[1]), np.int32)
    pool, parts = shared(BYTE_NANOSECONDS * b.nbytes + PRODUCT_NANOSECONDS * rows * b.size)
    run(pool, parts, owned(a).reshape(rows, -1), owned(b), result)
    return result.reshape(*a.shape[:-1], b.shape[1])
