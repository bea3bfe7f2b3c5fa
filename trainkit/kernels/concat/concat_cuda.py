"""Arrays put one behind the other on a GPU by one launch, of any number of them.

CuPy joins a few arrays by a copy each, and sends a table of addresses to the GPU for more, which
takes time in each call and is refused while a CUDA graph is captured.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from trainkit.kernels.cuda import pointer_table
from trainkit.kernels.cuda.raw_kernel import RawKernel

Array = Any

_UNITS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "uint2", 16: "uint4"}

_TEXT = """\
extern "C" __global__ void {name}(const Table t, {unit}* to, const long long rows,
                                  const long long width) {{
  const int k = array_of(t);
  const {unit}* from = (const {unit}*)t.place[k];
  const long long length = t.size[k] / rows;
  const long long start = (long long)((int)blockIdx.x - t.first[k]) * {piece};
  const long long end = start + {piece} < t.size[k] ? start + {piece} : t.size[k];
  {unit}* column = to + t.extra[k];
  for (long long i = start + threadIdx.x; i < end; i += blockDim.x) {{
    const long long row = i / length;
    column[row * width + (i - row * length)] = from[i];
  }}
}}
"""


@functools.cache
def _kernel(unit: int) -> RawKernel:
    name = f"join_{unit}"
    text = _TEXT.format(name=name, unit=_UNITS[unit], piece=pointer_table.PIECE)
    return RawKernel(name, pointer_table.TEXT + text)


def concatenated(xp: Any, *xs: Array, axis: int) -> Array | None:
    """The arrays along an axis; `None` where their dtypes or sizes are not alike."""
    first = xs[0]
    normalized_axis = axis + first.ndim if axis < 0 else axis
    if not 0 <= normalized_axis < first.ndim or not _are_alike(xs, normalized_axis):
        return None
    lengths = [x.shape[normalized_axis] for x in xs]
    dims = (*first.shape[:normalized_axis], sum(lengths), *first.shape[normalized_axis + 1 :])
    return _join(xp, xs, lengths, xp.empty(dims, first.dtype), normalized_axis)


def stacked(xp: Any, *xs: Array, axis: int) -> Array | None:
    """The arrays along a new axis; `None` where their dtypes or shapes are not alike."""
    first = xs[0]
    normalized_axis = axis + first.ndim + 1 if axis < 0 else axis
    if not 0 <= normalized_axis <= first.ndim or not _are_alike(xs, -1):
        return None
    dims = (*first.shape[:normalized_axis], len(xs), *first.shape[normalized_axis:])
    return _join(xp, xs, [1] * len(xs), xp.empty(dims, first.dtype), normalized_axis)


def _are_alike(xs: tuple[Array, ...], but: int) -> bool:
    """Whether dtypes are equal, all lie on the GPU, and sizes are equal except along one axis."""
    first = xs[0]
    return all(
        type(x) is type(first)
        and x.dtype == first.dtype
        and x.ndim == first.ndim
        and all(a == b or i == but for i, (a, b) in enumerate(zip(x.shape, first.shape)))  # noqa: B905
        for x in xs
    )


def _join(xp: Any, xs: tuple[Array, ...], lengths: list[int], out: Array, axis: int) -> Array:
    rows = math.prod(out.shape[:axis])
    inner = math.prod(out.shape[axis + 1 :])
    if not out.size:
        return out
    contiguous = [xp.ascontiguousarray(x) for x in xs]
    starts = [sum(lengths[:k]) for k in range(len(xs))]
    unit = _unit([n * inner * out.itemsize for n in lengths], [*contiguous, out])
    kernel = _kernel(unit)
    if not kernel.is_there(xp):
        return _copy(xs, lengths, out, axis)
    width = sum(lengths) * inner * out.itemsize // unit
    sizes = [x.nbytes // unit for x in contiguous]
    before = [n * inner * out.itemsize // unit for n in starts]
    for table, blocks in pointer_table.tables(contiguous, sizes, before):
        kernel(blocks, (table, out, np.int64(rows), np.int64(width)))
    return out


def _unit(row_bytes: list[int], arrays: list[Array]) -> int:
    """The most bytes that can be moved at once, whichever array they belong to."""
    common = math.gcd(16, *row_bytes, *(x.data.ptr for x in arrays if x.size))
    return common


def _copy(xs: tuple[Array, ...], lengths: list[int], out: Array, axis: int) -> Array:
    """Each array copied to where it belongs."""
    before: tuple[slice, ...] = (slice(None),) * axis
    start = 0
    for x, n in zip(xs, lengths, strict=True):
        room = out[(*before, slice(start, start + n))]
        room[...] = x.reshape(room.shape)
        start += n
    return out
