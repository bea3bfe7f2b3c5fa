"""Normalization of rows on a GPU: one launch forward, two back.

Some threads, a power of two, share a row: each holds some of its elements in registers, so
that the row is read once. Sums over them go by trees, first for the mean and then about it.
Gradients by scale and offset are summed over the rows of a block in registers, and over the blocks
by a second launch, in an order that depends on the sizes alone.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from trainkit.kernels.cuda.element_types import TypedKernel, computed_in, ready
from trainkit.kernels.cuda.raw_kernel import EACH, MOST_THREADS, THREADS, WARP
from trainkit.kernels.cuda.row_reductions import ROW_SUMS

Array = Any

EACH_BACK = EACH // 2
WIDEST, WIDEST_BACK = EACH * MOST_THREADS, EACH_BACK * MOST_THREADS
"""Wider rows are left to the reference."""
_MOST_BLOCKS = 512

_SHORT_PARAMETERS = """
typedef T S;
__device__ inline A given(S s) { return wide(s); }
__device__ inline S stored(A a) { return narrow(a); }
"""
_WIDE_PARAMETERS = """
typedef A S;
__device__ inline A given(S s) { return s; }
__device__ inline S stored(A a) { return a; }
"""


def _of_parameters(name: str, text: str) -> tuple[TypedKernel, TypedKernel]:
    """A kernel with scale and offset, `S`, of the elements' type, and of that computed in."""
    body = text.replace(f" {name}(", f" {name}_wide(")
    return (
        TypedKernel(name, _SHORT_PARAMETERS + text),
        TypedKernel(f"{name}_wide", _WIDE_PARAMETERS + body),
    )


FORWARD, FORWARD_WIDE = _of_parameters(
    "normalized_rows",
    f"""{ROW_SUMS}
#define EACH {EACH}
extern "C" __global__ void __launch_bounds__({MOST_THREADS}) normalized_rows(
    const T* __restrict__ x, const S* __restrict__ scale, const S* __restrict__ offset,
    T* __restrict__ y, long long rows, int width, int lanes, int centred, A epsilon) {{
  __shared__ A room[64];
  const int slots = blockDim.x / lanes, slot = threadIdx.x / lanes, lane = threadIdx.x % lanes;
  for (long long first = (long long)blockIdx.x * slots; first < rows;
       first += (long long)gridDim.x * slots) {{
    const bool is_row = first + slot < rows;
    const long long start = (first + slot) * width;
    A v[EACH], sum = 0, spread = 0, rest = 0;
#pragma unroll
    for (int k = 0; k < EACH; ++k) {{
      const int i = lane + k * lanes;
      v[k] = is_row && i < width ? wide(x[start + i]) : (A)0;
      sum += v[k];
    }}
    row_sums(room, lanes, sum, rest);
    const A mean = centred ? sum / width : (A)0;
    rest = 0;
#pragma unroll
    for (int k = 0; k < EACH; ++k) {{
      v[k] = lane + k * lanes < width ? v[k] - mean : (A)0;
      spread += v[k] * v[k];
      rest += v[k];
    }}
    row_sums(room, lanes, spread, rest);  // what rounding left of the mean
    const A factor = 1 / SQRT(spread / width + epsilon), shift = centred ? rest / width : (A)0;
#pragma unroll
    for (int k = 0; k < EACH; ++k) {{
      const int i = lane + k * lanes;
      if (is_row && i < width) {{
        A a = (v[k] - shift) * factor;
        if (scale) a *= given(scale[i]);
        if (offset) a += given(offset[i]);
        y[start + i] = narrow(a);
      }}
    }}
  }}
}}
""",
)

BACK, BACK_WIDE = _of_parameters(
    "normalized_rows_back",
    f"""{ROW_SUMS}
#define EACH {EACH_BACK}
// Elements of float64 come from a cache each time, as there are no registers for them.
#define KEEPS (sizeof(A) < 8)
extern "C" __global__ void __launch_bounds__({MOST_THREADS}) normalized_rows_back(
    const T* __restrict__ g, const T* __restrict__ x, const S* __restrict__ scale,
    T* __restrict__ by_x, A* __restrict__ parts, long long rows, int width, int lanes,
    int centred, A epsilon) {{
  __shared__ A room[64];
  __shared__ A fold[{MOST_THREADS}];
  const int slots = blockDim.x / lanes, slot = threadIdx.x / lanes, lane = threadIdx.x % lanes;
  A by_scale[EACH], by_offset[EACH];
#pragma unroll
  for (int k = 0; k < EACH; ++k) by_scale[k] = by_offset[k] = 0;
  for (long long first = (long long)blockIdx.x * slots; first < rows;
       first += (long long)gridDim.x * slots) {{
    const bool is_row = first + slot < rows;
    const long long start = (first + slot) * width + lane;
    A v[EACH], h[EACH], sum = 0, level = 0, spread = 0, grad = 0;
#pragma unroll
    for (int k = 0; k < EACH; ++k) {{
      const int i = lane + k * lanes;
      const bool is_here = is_row && i < width;
      const A near = is_here ? wide(x[start + k * lanes]) : (A)0;
      const A slope = is_here ? wide(g[start + k * lanes]) : (A)0;
      if (KEEPS) v[k] = near, h[k] = slope;
      sum += near;
      level += is_here && scale ? slope * given(scale[i]) : slope;
    }}
    row_sums(room, lanes, sum, level);
    const A mean = centred ? sum / width : (A)0;
    level = centred ? level / width : (A)0;
#pragma unroll
    for (int k = 0; k < EACH; ++k) {{
      const int i = lane + k * lanes;
      const bool is_here = is_row && i < width;
      const A near = is_here ? (KEEPS ? v[k] : wide(x[start + k * lanes])) - mean : (A)0;
      if (KEEPS) v[k] = near;
      spread += near * near;
      const A slope = KEEPS ? h[k] : is_here ? wide(g[start + k * lanes]) : (A)0;
      grad += is_here && scale ? slope * given(scale[i]) * near : slope * near;
    }}
    row_sums(room, lanes, spread, grad);
    const A factor = 1 / SQRT(spread / width + epsilon);
    grad *= factor / width;
#pragma unroll
    for (int k = 0; k < EACH; ++k) {{
      const int i = lane + k * lanes;
      if (is_row && i < width) {{
        const A near = KEEPS ? v[k] : wide(x[start + k * lanes]) - mean, n = near * factor;
        const A slope = KEEPS ? h[k] : wide(g[start + k * lanes]);
        by_scale[k] += slope * n;
        by_offset[k] += slope;
        const A along = scale ? slope * given(scale[i]) : slope;
        by_x[start + k * lanes] = narrow((along - level - n * grad) * factor);
      }}
    }}
  }}
#pragma unroll
  for (int k = 0; k < 2 * EACH; ++k) {{
    fold[threadIdx.x] = k < EACH ? by_scale[k % EACH] : by_offset[k % EACH];
    __syncthreads();
    const int i = lane + k % EACH * lanes;
    if (slot == 0 && i < width) {{
      A all = 0;
      for (int s = 0; s < slots; ++s) all += fold[s * lanes + lane];
      parts[((long long)(k / EACH) * gridDim.x + blockIdx.x) * width + i] = all;
    }}
    __syncthreads();
  }}
}}
""",
)

MOMENTS = TypedKernel(
    "row_moments",
    f"""{ROW_SUMS}
extern "C" __global__ void __launch_bounds__({MOST_THREADS}) row_moments(
    const T* __restrict__ x, A* __restrict__ means, A* __restrict__ factors, long long rows,
    int width, int lanes, int centred, A epsilon) {{
  __shared__ A room[64];
  const int slots = blockDim.x / lanes, slot = threadIdx.x / lanes, lane = threadIdx.x % lanes;
  for (long long first = (long long)blockIdx.x * slots; first < rows;
       first += (long long)gridDim.x * slots) {{
    const bool is_row = first + slot < rows;
    const T* row = x + (first + slot) * width;
    A sum = 0, spread = 0, rest = 0;
    if (is_row && centred)
      for (int i = lane; i < width; i += lanes) sum += wide(row[i]);
    row_sums(room, lanes, sum, rest);
    const A mean = sum / width;
    rest = 0;
    if (is_row)
      for (int i = lane; i < width; i += lanes) {{
        const A near = wide(row[i]) - mean;
        spread += near * near;
        rest += near;
      }}
    row_sums(room, lanes, spread, rest);
    if (is_row && !lane) {{
      means[first + slot] = centred ? mean + rest / width : (A)0;
      factors[first + slot] = 1 / SQRT(spread / width + epsilon);
    }}
  }}
}}
""",
)

SUMMED, SUMMED_WIDE = _of_parameters(
    "summed_parts",
    f"""
// (2, parts, width) summed over its parts; a block has {WARP} columns.
extern "C" __global__ void summed_parts(
    const A* __restrict__ found, S* __restrict__ one, S* __restrict__ two, int parts, int width) {{
  __shared__ A room[{THREADS}];
  const int tiles = (width + {WARP - 1}) / {WARP}, lane = threadIdx.x % {WARP};
  const int slots = blockDim.x / {WARP}, slot = threadIdx.x / {WARP};
  const int which = blockIdx.x / tiles, column = blockIdx.x % tiles * {WARP} + lane;
  A sum = 0;
  if (column < width)
    for (int p = slot; p < parts; p += slots)
      sum += found[((long long)which * parts + p) * width + column];
  room[threadIdx.x] = sum;
  __syncthreads();
  for (int half = slots / 2; half; half /= 2) {{
    if (slot < half) room[threadIdx.x] += room[threadIdx.x + half * {WARP}];
    __syncthreads();
  }}
  if (slot == 0 && column < width) (which ? two : one)[column] = stored(room[lane]);
}}
""",
)


@functools.lru_cache(maxsize=256)
def _plan(
    rows: int, width: int, each: int, dtype: Any, centred: bool, epsilon: float
) -> tuple[int, int, tuple[Any, ...]]:
    """Threads of a block, blocks, and the numbers that the kernels take."""
    lanes = 8
    while lanes * each < width:
        lanes *= 2
    threads = max(THREADS, lanes)
    blocks = -(-rows // (threads // lanes))
    numbers = (
        np.int64(rows),
        np.int32(width),
        np.int32(lanes),
        np.int32(centred),
        computed_in(dtype)(epsilon),
    )
    return threads, blocks, numbers


def normalized(
    xp: Any,
    x: Array,
    scale: Array | None,
    offset: Array | None,
    width: int,
    epsilon: float,
    centred: bool = True,
) -> Array | None:
    """Each `width` elements by their own moments, or `None` where the reference is to do it.

    Args:
        xp: CuPy.
        x: array of a GPU.
        scale: of `width` elements, of the dtype of `x` or of that computed in, or `None` for 1.
        offset: likewise, of the dtype of the scale, or `None` for 0.
        width: of a row; rows lie one behind the other.
        epsilon: added to the variance.
        centred: whether the mean is taken away; else rows are divided by their root mean square.
    """
    dtype = parameters_of(x, scale, offset)
    if not x.size or width > WIDEST or dtype is None:
        return None
    kernels = ready(xp, x.dtype, FORWARD if dtype == x.dtype else FORWARD_WIDE)
    if kernels is None:
        return None
    threads, blocks, numbers = _plan(x.size // width, width, EACH, x.dtype, centred, epsilon)
    y = xp.empty(x.shape, x.dtype)
    x, scale, offset = (_pack(xp, a) for a in (x, scale, offset))
    kernels[0](min(blocks, 1 << 16), (x, scale, offset, y, *numbers), threads)
    return y


def normalized_gradient(
    xp: Any,
    g: Array,
    x: Array,
    scale: Array | None,
    width: int,
    epsilon: float,
    centred: bool = True,
    parameters: bool = True,
) -> tuple[Array, Array | None, Array | None] | None:
    """Gradients by x, and if `parameters` scale and offset, or `None`; see `normalized`."""
    dtype = parameters_of(x, scale)
    if not x.size or width > WIDEST_BACK or g.dtype != x.dtype or dtype is None:
        return None
    short = dtype == x.dtype
    pair = (BACK, SUMMED) if short else (BACK_WIDE, SUMMED_WIDE)
    kernels = ready(xp, x.dtype, *pair)
    if kernels is None:
        return None
    threads, blocks, numbers = _plan(x.size // width, width, EACH_BACK, x.dtype, centred, epsilon)
    blocks = min(blocks, _MOST_BLOCKS)
    by_x = xp.empty(x.shape, x.dtype)
    parts = xp.empty((2, blocks, width), computed_in(x.dtype))
    g, x, scale = (_pack(xp, a) for a in (g, x, scale))
    kernels[0](blocks, (g, x, scale, by_x, parts, *numbers), threads)
    if not parameters:
        return by_x, None, None
    by_scale, by_offset = xp.empty(width, dtype), xp.empty(width, dtype)
    arguments = (parts, by_scale, by_offset, np.int32(blocks), np.int32(width))
    kernels[1](2 * -(-width // WARP), arguments, THREADS)
    return by_x, by_scale, by_offset


def moments(
    xp: Any, x: Array, width: int, epsilon: float, centred: bool = True
) -> tuple[Array, Array] | None:
    """Mean and 1 / sqrt(variance + epsilon) of each `width` elements, or `None`; see `normalized`.

    Both are of the dtype that is computed in. Rows may be of any width.
    """
    kernels = ready(xp, x.dtype, MOMENTS) if x.size else None
    if kernels is None:
        return None
    rows, sum_dtype = x.size // width, computed_in(x.dtype)
    threads, blocks, numbers = _plan(rows, min(width, WIDEST), EACH, x.dtype, centred, epsilon)
    mean, factor = (xp.empty(rows, sum_dtype) for _ in range(2))
    count, _, *settings = numbers
    arguments = (xp.ascontiguousarray(x), mean, factor, count, np.int32(width), *settings)
    kernels[0](min(blocks, 1 << 16), arguments, threads)
    return mean, factor


def parameters_of(x: Array, *parameters: Array | None) -> Any:
    """The dtype of scale and offset: that of `x`, or the one computed in; `None` for others."""
    dtypes = {a.dtype for a in parameters if a is not None} or {x.dtype}
    if len(dtypes) > 1 or not dtypes <= {x.dtype, np.dtype(computed_in(x.dtype))}:
        return None
    return dtypes.pop()


def _pack(xp: Any, a: Array | None) -> Array | None:
    return None if a is None else xp.ascontiguousarray(a)
