"""When compiled running sums, products and recurrences pay, and how they lay arrays out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainkit.core.cpu.cost_model import BYTE_NANOSECONDS
from trainkit.kernels.jit.kernel_family import BYTE_SECONDS, Family, owned
from trainkit.kernels.threads.thread_pool import shared

Array = Any

_F32 = np.dtype(np.float32)


def _family(name: str) -> Family:
    return Family(name, "reductions.scans_compiled", name, exact=True)


SCAN_ROWS, SCAN_COLUMNS = _family("scan_rows"), _family("scan_columns")
RECUR_ROWS, RECUR_COLUMNS = _family("recur_rows"), _family("recur_columns")


def scan(x: Array, axis: int, multiplies: bool, backwards: bool, exclusive: bool) -> Array | None:
    """Sums or products of all elements up to each along `axis`, or before each where `exclusive`.

    `None` where the plain version is to make them.
    """
    flags = int(multiplies), int(backwards), int(exclusive)
    return _run_by_axis(SCAN_ROWS, SCAN_COLUMNS, (x,), axis, flags)


def recurrence(a: Array, b: Array, axis: int, backwards: bool) -> Array | None:
    """The solution of y[i] = b[i] + a[i] y[i - 1] along `axis`, or `None`."""
    if a.shape != b.shape:
        return None
    return _run_by_axis(RECUR_ROWS, RECUR_COLUMNS, (a, b), axis, (int(backwards),))


def _run_by_axis(
    rows: Family, columns: Family, arrays: tuple[Array, ...], axis: int, flags: tuple[int, ...]
) -> Array | None:
    x = arrays[0]
    if any(a.dtype is not _F32 for a in arrays) or not x.size or not -x.ndim <= axis < x.ndim:
        return None
    axis %= x.ndim
    size, inner = x.shape[axis], math.prod(x.shape[axis + 1 :])
    moved = (len(arrays) + 1) * x.nbytes
    run = (rows if inner == 1 else columns).find((), BYTE_SECONDS * moved)
    if run is None:
        return None
    y = np.empty(x.shape, np.float32)
    dims = (-1, size) if inner == 1 else (-1, size, inner)
    run(*shared(BYTE_NANOSECONDS * moved), *(owned(a).reshape(dims) for a in (*arrays, y)), *flags)
    return y
