"""Adding rows to those of an array that numbers name, on every device, in the order of the rows."""

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
    rows = np.where(rows < 0, rows + n, rows)
    if embedding_tuned.add_by_id(out, rows, values):
        return
    scatter_at(np, "add", out, rows, values)
