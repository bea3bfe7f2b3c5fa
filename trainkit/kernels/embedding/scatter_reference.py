"""Adding to elements picked by position, or taking the extreme with them, over `xp`.

CuPy's atomic operations know few dtypes; others go through a wider one, complex numbers part by
part.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainkit.core.cpu.cost_model import CALL_FLOATS
from trainkit.core.process.later_imports import DeferredModule
from trainkit.kernels.threads import pools

rows_gpu = DeferredModule("trainkit.kernels.indexing.rows_gpu")

Array = Any

_NUMBERS = frozenset({"int32", "int64", "uint32", "uint64", "float32", "float64"})
_ATOMIC = {"add": _NUMBERS | {"float16"}, "maximum": _NUMBERS, "minimum": _NUMBERS}


def scatter_at(xp: Any, name: str, out: Array, index: Any, values: Array) -> None:
    """What `np.add.at(out, index, values)` does, or the `at` of another ufunc.

    Args:
        xp: the array module of `out`.
        name: `"add"`, `"maximum"` or `"minimum"`; `"multiply"` for NumPy alone.
        out: array that is written to.
        index: what indexes `out`.
        values: an array that broadcasts to what is picked.
    """
    ufunc = getattr(xp, name)
    if xp is not np and name == "add" and pools.determined():
        _added_in_order(xp, out, index, values)
    elif xp is np:
        positions = _flat_positions(out, index)
        if positions is None:
            ufunc.at(out, index, values)
        else:  # several times as fast, and each number meets its values in the same order
            picked = np.broadcast_to(values, positions.shape)
            ufunc.at(out.reshape(-1), positions.reshape(-1), picked.reshape(-1))
    elif out.dtype.name in _ATOMIC[name]:
        ufunc.at(out, index, values)
    elif out.dtype.kind == "c":
        for part in ("real", "imag"):
            sums = xp.ascontiguousarray(getattr(out, part))
            ufunc.at(sums, index, xp.ascontiguousarray(getattr(values, part)))
            setattr(out, part, sums)
    else:
        accumulator = out.astype(np.int32 if out.dtype.kind in "biu" else np.float32)
        ufunc.at(accumulator, index, values.astype(accumulator.dtype))
        out[...] = accumulator.astype(out.dtype)


def all_inside(ids: Array, count: int) -> bool:
    """Whether all integers `ids` are in [0, count), of no ids too."""
    if ids.dtype.kind == "i":  # negative ones stand above all others, so one pass finds both kinds
        ids = ids.view(f"u{ids.dtype.itemsize}")
    return not ids.size or bool(ids.max() < count)


def _flat_positions(out: Array, index: Any) -> Array | None:
    """Where the numbers that an index picks stand among all of `out`, in the shape of the picks.

    `None` for few, which are not worth the passes that make them, for other indices than integers
    of the first axes, and for those outside of their axis, which NumPy has an error for.
    """
    parts = [np.asarray(part) for part in (index if isinstance(index, tuple) else (index,))]
    if any(part.dtype.kind not in "iu" for part in parts) or not out.size:
        return None
    if not out.flags.c_contiguous or len(parts) > out.ndim:
        return None
    inner_dims = out.shape[len(parts) :]
    if max(part.size for part in parts) * math.prod(inner_dims) < CALL_FLOATS:
        return None
    positions: Array = np.int64(0)
    for axis, part in enumerate(parts):
        n = out.shape[axis]
        if part.size and (part.min() < -n or part.max() >= n):
            return None
        step = math.prod(out.shape[axis + 1 :])
        positions = positions + np.where(part < 0, part + n, part).astype(np.int64) * step
    rows = np.asarray(positions)
    if not inner_dims:
        return rows
    inner = np.arange(math.prod(inner_dims)).reshape(inner_dims)
    return rows.reshape(rows.shape + (1,) * len(inner_dims)) + inner


def _added_in_order(xp: Any, out: Array, index: Any, values: Array) -> None:
    """`add.at` on a GPU with the same bits in each run: each element by its flat position."""
    flat = xp.arange(out.size).reshape(out.shape)[index]
    rows = xp.broadcast_to(xp.asarray(values, out.dtype), flat.shape)
    sums = xp.ascontiguousarray(out).reshape(-1, 1)
    if not rows_gpu.add_rows(xp, sums, flat.reshape(-1), rows.reshape(-1, 1), wrap=False):
        xp.add.at(sums, flat.reshape(-1), rows.reshape(-1, 1))  # integers, in any order the same
    if not out.flags.c_contiguous or sums.data.ptr != out.data.ptr:
        out[...] = sums.reshape(out.shape)
