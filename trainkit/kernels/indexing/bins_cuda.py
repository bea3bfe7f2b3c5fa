"""Counting numbers on a GPU: one launch, which adds to bins in any order.

Counts are whole and the same in any order; sums of weights are float64, as the CPU's are.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from trainkit.kernels.cuda.raw_kernel import RawKernel, blocks_for
from trainkit.kernels.indexing.rows_cuda import INTEGERS

Array = Any

_TEXT = """
extern "C" __global__ void counted_bins(const {index}* __restrict__ x,
                                        const double* __restrict__ weights, {sum}* sums,
                                        long long columns, long long bins, long long size) {{
  const long long step = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < size; i += step) {{
    const long long bin = (long long)x[i];
    if (bin >= 0 && bin < bins) atomicAdd(sums + i / columns * bins + bin, {weight});
  }}
}}
"""


@cache
def counted_bins(dtype: str, weighted: bool) -> RawKernel:
    """Counts, or sums of weights, for each row: `(x, weights, sums, columns, bins, size)`."""
    kind, weight = ("double", "weights[i]") if weighted else ("int", "1")
    return RawKernel("counted_bins", _TEXT.format(index=INTEGERS[dtype], sum=kind, weight=weight))


def counted(xp: Any, rows: Array, weights: Array | None, bins: int) -> Array | None:
    """How often each of the numbers below `bins` occurs in each row, or the sum of its weights.

    Args:
        xp: CuPy.
        rows: integers (rows, columns); negative ones and those from `bins` on are left out.
        weights: of the same shape, or `None`.
        bins: how many.

    Returns:
        (rows, bins), int32, or float64 with weights; `None` where the kernel can't run.
    """
    device = int(xp.cuda.Device().id)
    if rows.dtype.name not in INTEGERS or int(rows.device.id) != device:
        return None
    kernel = counted_bins(rows.dtype.name, weights is not None)
    if not kernel.is_there(xp):
        return None
    sums = xp.zeros((len(rows), bins), np.int32 if weights is None else np.float64)
    if rows.size and bins:
        if weights is not None:
            weights = xp.ascontiguousarray(weights.astype(np.float64, copy=False))
        numbers = [np.int64(n) for n in (rows.shape[1], bins, rows.size)]
        kernel(blocks_for(rows.size), (xp.ascontiguousarray(rows), weights, sums, *numbers))
    return sums
