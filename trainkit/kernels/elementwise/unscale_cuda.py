"""Many gradients divided by a loss scale on a GPU, and whether all are finite, by one launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trainkit.kernels.cuda import pointer_table
from trainkit.kernels.cuda.formula_lines import formula_lines
from trainkit.kernels.cuda.raw_kernel import RawKernel

Array = Any

_F32 = np.dtype(np.float32)


def unscale(xp: Any, x: Array, scale: Any) -> Array:
    """x / scale, on arrays of any device or on tensors."""
    return xp.divide(x, scale)


_LINES, _RESULT = formula_lines(unscale, _F32)
_CHECK, _FINITE = formula_lines(lambda xp, y: xp.isfinite(y), _F32)

KERNEL = RawKernel(
    "unscaled",
    f"""\
{pointer_table.TEXT}
static __device__ inline float part(const float x, const float scale, bool& bad) {{
  {" ".join(_LINES)}
  const float y = {_RESULT};
  {{ {" ".join(_CHECK)} bad = bad || !{_FINITE}; }}
  return y;
}}
extern "C" __global__ void unscaled(const Table t, const float scale, bool* all) {{
  const int k = array_of(t);
  const long long start = (long long)((int)blockIdx.x - t.first[k]) * {pointer_table.PIECE};
  const long long rest = t.size[k] - start;
  const int count = rest < {pointer_table.PIECE} ? (int)rest : {pointer_table.PIECE};
  const float* x = (const float*)t.place[k] + start;
  float* y = (float*)t.extra[k] + start;
  bool bad = false;
  const int wide = (((unsigned long long)x | (unsigned long long)y) & 15) == 0 ? count / 4 : 0;
  for (int i = threadIdx.x; i < wide; i += blockDim.x) {{
    float4 v = ((const float4*)x)[i];
    v.x = part(v.x, scale, bad);
    v.y = part(v.y, scale, bad);
    v.z = part(v.z, scale, bad);
    v.w = part(v.w, scale, bad);
    ((float4*)y)[i] = v;
  }}
  for (int i = 4 * wide + threadIdx.x; i < count; i += blockDim.x) y[i] = part(x[i], scale, bad);
  if (bad) *all = false;
}}
""",
)


def unscaled(
    xp: Any, arrays: Sequence[Array], scale: np.float32
) -> tuple[list[Array], Array] | None:
    """Arrays of float32 divided by `scale`, and whether all results are finite, a bool of the GPU.

    `None` where the kernel can't be launched. A graph has kernels of its own for this.
    """
    if not KERNEL.is_there(xp):
        return None
    contiguous = [xp.ascontiguousarray(x) for x in arrays]
    results = [xp.empty(x.shape, np.float32) for x in contiguous]
    finite = xp.ones((), np.bool_)
    addresses = [y.data.ptr for y in results]
    for table, blocks in pointer_table.tables(contiguous, [x.size for x in contiguous], addresses):
        KERNEL(blocks, (table, np.float32(scale), finite))
    return results, finite
