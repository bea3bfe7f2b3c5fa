"""Arrays copied to others of their shapes on a GPU, as many as there are by one launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainkit.kernels.cuda import pointer_table
from trainkit.kernels.cuda.raw_kernel import RawKernel

Array = Any

_KERNEL = RawKernel(
    "copied_arrays",
    f"""{pointer_table.TEXT}
// Each array goes from `place` to `extra`; sizes are bytes.
extern "C" __global__ void copied_arrays(const Table t) {{
  const int k = array_of(t);
  const long long start = (long long)((int)blockIdx.x - t.first[k]) * {pointer_table.PIECE};
  const long long left = t.size[k] - start;
  const int here = (int)(left < {pointer_table.PIECE} ? left : {pointer_table.PIECE});
  const char* from = (const char*)t.place[k] + start;
  char* to = (char*)t.extra[k] + start;
  int done = 0;
  if (((unsigned long long)from | (unsigned long long)to) % 16 == 0) {{
    done = here / 16 * 16;
    for (int i = threadIdx.x; i < here / 16; i += blockDim.x)
      ((uint4*)to)[i] = ((const uint4*)from)[i];
  }}
  for (int i = done + threadIdx.x; i < here; i += blockDim.x) to[i] = from[i];
}}
""",
)


class Copies:
    """Copies between arrays of these sizes, again and again.

    Args:
        xp: CuPy.
        arrays: which have the shapes and dtypes of all that come later.
    """

    def __init__(self, xp: Any, arrays: Sequence[Array]) -> None:
        self._xp = xp
        self._chosen = [k for k, x in enumerate(arrays) if x.size]
        some = [arrays[k] for k in self._chosen]
        self._tables = list(pointer_table.tables(some, [x.nbytes for x in some]))
        self._is_one_launch = len(some) > 1 and _KERNEL.is_there(xp)

    def __call__(self, sources: Sequence[Array], targets: Sequence[Array]) -> None:
        """Copy each source to its target, on the current stream.

        Args:
            sources: on the current GPU.
            targets: in row-major order.
        """
        if not self._is_one_launch:
            for source, target in zip(sources, targets, strict=True):
                target[...] = source
            return
        contiguous = [self._xp.ascontiguousarray(sources[k]) for k in self._chosen]
        start = 0
        for table, blocks in self._tables:
            count = int(table["count"])
            table["place"][:count] = [x.data.ptr for x in contiguous[start : start + count]]
            indices = self._chosen[start : start + count]
            table["extra"][:count] = [targets[k].data.ptr for k in indices]
            _KERNEL(blocks, (table,))
            start += count
