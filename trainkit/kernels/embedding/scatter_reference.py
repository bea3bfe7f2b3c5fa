"""Adding to elements picked by position, or taking the extreme with them, over `xp`.

CuPy's atomic operations know few dtypes; others go through a wider one, complex numbers part by
part.
"""

from __future__ import annotations

from typing import Any

import numpy as np

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
        name: `"add"`, `"maximum"` or `"minimum"`.
        out: array that is written to.
        index: what indexes `out`.
        values: an array that broadcasts to what is picked.
    """
    ufunc = getattr(xp, name)
    if xp is not np and name == "add" and pools.determined():
        _added_in_order(xp, out, index, values)
    elif xp is np or out.dtype.name in _ATOMIC[name]:
        ufunc.at(out, index, values)
    elif out.dtype.kind == "c":
        for part in ("real", "imag"):
            sums = xp.ascontiguousarray(getattr(out, part))
            ufunc.at(sums, index, xp.ascontiguousarray(getattr(values, part)))
            setattr(out, part, sums)
    else:
        wide = out.astype(np.int32 if out.dtype.kind in "biu" else np.float32)
        ufunc.at(wide, index, values.astype(wide.dtype))
        out[...] = wide.astype(out.dtype)


def _added_in_order(xp: Any, out: Array, index: Any, values: Array) -> None:
    """`add.at` on a GPU with the same bits in each run: each element by its flat position."""
    flat = xp.arange(out.size).reshape(out.shape)[index]
    rows = xp.broadcast_to(xp.asarray(values, out.dtype), flat.shape)
    sums = xp.ascontiguousarray(out).reshape(-1, 1)
    if not rows_gpu.add_rows(xp, sums, flat.reshape(-1), rows.reshape(-1, 1), wrap=False):
        xp.add.at(sums, flat.reshape(-1), rows.reshape(-1, 1))  # integers, in any order the same
    if not out.flags.c_contiguous or sums.data.ptr != out.data.ptr:
        out[...] = sums.reshape(out.shape)
