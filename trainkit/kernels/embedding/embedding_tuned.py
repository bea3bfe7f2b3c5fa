"""When the compiled gradient of an embedding pays."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.kernels.jit import kernel_family
from trainkit.kernels.jit.kernel_family import owned
from trainkit.kernels.threads import pools
from trainkit.kernels.threads.thread_pool import shared

Array = Any

_F32 = np.dtype(np.float32)
SUM_BY_ID = kernel_family.Family("sum_by_id", "embedding.embedding_compiled", "sum_by_id")
_NANOSECONDS = 0.1
"""What the compiled kernel takes for an element."""


def sum_by_id(rows: Array, ids: Array, count: int) -> Array | None:
    """Rows of `rows` added up by their id, (count, features), or `None`; ids have been checked.

    Each sum is made in the order of the rows, whatever the number of threads.
    """
    if rows.dtype is not _F32 or not rows.size:
        return None
    moved = 6 * rows.nbytes + 4 * count * rows.shape[1]
    run = SUM_BY_ID.find((), moved / kernel_family.BYTES_PER_SECOND)
    if run is None:
        return None
    result = np.empty((count, rows.shape[1]), np.float32)
    pool, parts = shared(_NANOSECONDS * (rows.size + result.size))
    parts = min(parts, pools.compute_threads())  # each of them looks at all ids
    run(pool, parts, owned(rows), owned(ids.astype(np.int64, copy=False)), result)
    return result
