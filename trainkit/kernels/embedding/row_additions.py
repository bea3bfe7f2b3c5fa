"""Rows taken into those of an array that numbers name, on every device, in their order."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core.process.later_imports import DeferredModule
from trainkit.kernels.embedding import embedding_tuned
from trainkit.kernels.embedding.scatter_reference import scatter_at

rows_gpu = DeferredModule("trainkit.kernels.indexing.rows_gpu")

Array = Any


def add_rows(xp: Any, out: Array, rows: Array, values: Array, wrap: bool = True) -> None:
    """Add `values` (m, d) to `out` (n, d) at `rows` (m,); equal rows add up.

    Rows below 0 count from the end if `wrap`; a GPU leaves out what is outside.
    """
    n = len(out)
    if xp is not np:
        if rows_gpu.add_rows(xp, out, rows, values, wrap):
            return
        inside = (rows >= (-n if wrap else 0)) & (rows < n)
        scatter_at(xp, "add", out, xp.where(inside, rows, 0), xp.where(inside[:, None], values, 0))
        return
    fold_rows("add", out, rows, values)


def fold_rows(name: str, out: Array, rows: Array, values: Array) -> None:
    """What `np.add.at(out, rows, values)` does, or the `at` of another ufunc.

    Args:
        name: `"add"`, `"multiply"`, `"maximum"` or `"minimum"`.
        out: array (n, d) that is written to.
        rows: integers (m,); those below 0 count from the end.
        values: (m, d).
    """
    if embedding_tuned.fold_by_id(name, out, rows, values):
        return
    rows = np.where(rows < 0, rows + len(out), rows)
    if not embedding_tuned.fold_by_id(name, out, rows, values):
        scatter_at(np, name, out, rows, values)
