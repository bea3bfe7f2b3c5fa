"""When compiled folds of rows by number pay, of which the gradient of an embedding is one."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core.cpu.cost_model import BYTE_NANOSECONDS
from trainkit.kernels.embedding.scatter_reference import all_inside
from trainkit.kernels.jit import kernel_family
from trainkit.kernels.jit.kernel_family import owned
from trainkit.kernels.threads import pools
from trainkit.kernels.threads.thread_pool import shared

Array = Any

_F32 = np.dtype(np.float32)
SUM_BY_ID = kernel_family.Family("sum_by_id", "embedding.embedding_compiled", "sum_by_id")


def _fold(name: str) -> kernel_family.Family:
    return kernel_family.Family(name, "embedding.embedding_compiled", name, exact=True)


FOLDS = {
    np.add: _fold("add_by_id"),
    np.multiply: _fold("multiply_by_id"),
    np.maximum: _fold("max_by_id"),
    np.minimum: _fold("min_by_id"),
}
"""The kernels by the ufuncs whose `at` they do."""


def sum_by_id(rows: Array, ids: Array, count: int) -> Array | None:
    """Rows of `rows` added up by their id, (count, features), or `None`."""
    if not rows.size:
        return None
    rows = rows.reshape(-1, rows.size // ids.size)
    run = sum_kernel(rows, count)
    return None if run is None else add_up(run, rows, ids, count)


def sum_kernel(rows: Array, count: int) -> Any:
    """What adds up `rows` (n, features) in a table of `count` rows, if that is compiled."""
    if rows.dtype is not _F32 or not rows.size:
        return None
    moved = 6 * rows.nbytes + 4 * count * rows.shape[1]
    return SUM_BY_ID.find((), moved * kernel_family.BYTE_SECONDS)


def add_up(run: Any, rows: Array, ids: Array, count: int) -> Array:
    """Sums (count, features) of `rows` (n, features) by the kernel `run`.

    Each is made in the order of the rows, from zero, whatever the number of threads. Ids of no row
    add nothing.
    """
    result = np.empty((count, rows.shape[1]), np.float32)
    run(*_arguments(rows, ids, result))
    return result


def fold_by_id(name: str, result: Array, ids: Array, rows: Array) -> bool:
    """Take rows of `rows` into those of `result` that their ids name; False if nothing was done.

    Each row is folded in the order of the rows, which is that of the `at` of the ufunc `name`. What
    has ids outside is left to the caller, who has an error to raise.
    """
    if rows.dtype is not _F32 or result.dtype is not _F32 or not rows.size:
        return False
    if not result.flags.carray:
        return False
    run = FOLDS[getattr(np, name)].find((), 6 * rows.nbytes * kernel_family.BYTE_SECONDS)
    if run is None or not all_inside(ids, len(result)):
        return False
    run(*_arguments(rows, ids, result))
    return True


def _arguments(rows: Array, ids: Array, result: Array) -> tuple[Any, ...]:
    """What a kernel takes: the pool, the parts, and the arrays in its layout."""
    pool, parts = shared(BYTE_NANOSECONDS * (rows.nbytes + result.nbytes))
    if parts > 1:  # each of them looks at all ids
        parts = min(parts, pools.compute_threads())
    flat = ids.reshape(-1).astype(np.int64, copy=False)
    return pool, parts, owned(rows), owned(flat), result
