"""Sums of the columns of 16-bit floats, and gradients of a rectifier with theirs."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from trainkit.core.cpu.cost_model import BYTE_NANOSECONDS
from trainkit.core.dtypes import bfloat16
from trainkit.kernels.jit import target
from trainkit.kernels.jit.kernel_family import BYTE_SECONDS, Family
from trainkit.kernels.threads.part_functions import PartFunction, part_function
from trainkit.kernels.threads.pools import MATRIX_SHARES
from trainkit.kernels.threads.thread_pool import shared

Array = Any

_FILE = "matmul.half_columns_compiled"
_BF16, _F16 = bfloat16.dtype, np.dtype(np.float16)
_BITS, _F32 = np.dtype(np.uint16), np.dtype(np.float32)
_SUMS = {
    _BF16: Family("bfloat16_column_sums", _FILE, "column_sums", alone=True),
    _F16: Family("float16_column_sums", _FILE, "float16_column_sums", alone=True),
}
_RECTIFIED = {
    _BF16: Family("bfloat16_rectified_gradient", _FILE, "rectified_gradient", alone=True),
    _F16: Family("float16_rectified_gradient", _FILE, "float16_rectified_gradient", alone=True),
}


def column_sums(rows: Array) -> Array | None:
    """The sums of the columns of a matrix, float32 that is rounded once; or `None`."""
    run = _kernel(_SUMS, rows)
    if run is None:
        return None
    bits = np.ascontiguousarray(rows).view(_BITS)
    sums = _sums_of(rows)
    run(*shared(BYTE_NANOSECONDS * rows.nbytes), bits, bits, np.empty((0, 0), _BITS), sums)
    return _total(sums, rows.dtype)


def rectified_gradient(g: Array, y: Array) -> tuple[Array, Array] | None:
    """`g` where the output `y` of a rectifier is above 0, and its sum for each feature; or `None`.

    Both are of any number of axes, the last of which is that of features.
    """
    run = _kernel(_RECTIFIED, g)
    if run is None or y.dtype is not g.dtype or y.shape != g.shape:
        return None
    result = np.empty(g.shape, g.dtype)
    g, y, rows = (np.ascontiguousarray(a).reshape(-1, a.shape[-1]) for a in (g, y, result))
    sums = _sums_of(g)
    work = shared(3 * BYTE_NANOSECONDS * g.nbytes)
    run(*work, g.view(_BITS), y.view(_BITS), rows.view(_BITS), sums)
    return result, _total(sums, g.dtype)


def column_function(dtype: Any, rectifies: bool) -> PartFunction | None:
    """What both do to (g, y, result, sums), or `None`; sums alone need no y and no result."""
    family = _family(_RECTIFIED if rectifies else _SUMS, dtype)
    run = None if family is None else family.find((), 0.0)
    return None if family is None or run is None else _function_of(family.name, run)


@lru_cache
def _function_of(name: str, run: Any) -> PartFunction:
    bits = np.empty((1, 1), _BITS)
    return part_function(name, run, bits, bits, bits, np.empty((1, 1), _F32))


def _family(families: dict[Any, Family], dtype: Any) -> Family | None:
    return None if dtype is _F16 and not target.converts_float16() else families.get(dtype)


def _kernel(families: dict[Any, Family], g: Array) -> Any:
    family = _family(families, g.dtype)
    if family is None or not g.ndim or not g.size:
        return None
    return family.find((), BYTE_SECONDS * 2 * g.nbytes)


def _sums_of(rows: Array) -> Array:
    return np.empty((share_count(len(rows)), rows.shape[1]), _F32)


def share_count(rows: int) -> int:
    """How many sums of so many rows there are for each column, which are then added up."""
    return MATRIX_SHARES if rows >= 2 * MATRIX_SHARES else 1


def _total(sums: Array, dtype: Any) -> Array:
    return (sums[0] if len(sums) == 1 else np.add.reduce(sums, 0)).astype(dtype)
