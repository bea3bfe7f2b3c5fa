"""Normalization of columns on a GPU: two launches forward, two back.

Arrays are (outer, rows, columns), and moments are those of `group` neighbouring columns over all
rows: of each column for batches, of each image's groups of channels for groups. The first launch
gives moments of stretches of rows, the second one puts those of its columns together and goes over
the elements. A thread takes some elements at a time, about their own mean, and moments are put
together as pairs are, so nothing cancels; sums go in an order that depends on the sizes alone.
Source: Chan, Golub and LeVeque 1983, "Algorithms for computing the sample variance".
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from trainkit.kernels.cuda.element_types import TypedKernel, computed_in, ready
from trainkit.kernels.cuda.raw_kernel import EACH, MANY_THREADS, WARP

Array = Any

LARGEST_GROUP = 64
"""Groups of more columns are left to the reference."""
_BLOCKS = 264
"""Blocks to be reached at least, if there are rows for them: two for each multiprocessor."""
_MOST_PARTS = 128

_COMMON = f"""
#define EACH (sizeof(A) == 8 ? {EACH // 2} : {EACH})
#define THREADS {MANY_THREADS}
struct Sizes {{
  long long rows, rows_each;   // of an outer part; of a stretch, or of a block
  int outer, columns, group, parts, lanes, tiles;
}};
// Where a thread is: its column, its outer part, and the stretch of rows that its block has.
struct Place {{
  int lane, slot, slots, column, outer;
  long long piece;
  __device__ inline Place(const Sizes& s) {{
    lane = threadIdx.x % s.lanes, slot = threadIdx.x / s.lanes, slots = blockDim.x / s.lanes;
    column = (int)(blockIdx.x % s.tiles) * s.lanes + lane;
    outer = (int)(blockIdx.x / s.tiles % s.outer);
    piece = blockIdx.x / s.tiles / s.outer;
  }}
}};
"""

_MOMENTS = """
// The moments of n numbers: their mean, and the sum of squares about it.
struct Moments {
  A n, mean, spread;
  __device__ inline void add(const Moments& b) {
    const A all = n + b.n, share = all > 0 ? b.n / all : (A)0, apart = b.mean - mean;
    mean += apart * share;
    spread += b.spread + apart * apart * n * share;
    n = all;
  }
};
"""
_PAIRS = """
// The same of pairs (x, h), with the sum of products of both about their means.
struct Moments {
  A n, mean, spread, level, both;
  __device__ inline void add(const Moments& b) {
    const A all = n + b.n, share = all > 0 ? b.n / all : (A)0;
    const A apart = b.mean - mean, rise = b.level - level;
    mean += apart * share;
    spread += b.spread + apart * apart * n * share;
    level += rise * share;
    both += b.both + apart * rise * n * share;
    n = all;
  }
};
"""
_TREE = """
// The moments of all threads of a column, known to each of them.
__device__ inline Moments joined(Moments mine, const Place& at, int lanes) {
  __shared__ Moments room[THREADS];
  room[threadIdx.x] = mine;
  __syncthreads();
  for (int half = at.slots / 2; half; half /= 2) {
    if (at.slot < half) room[threadIdx.x].add(room[threadIdx.x + half * lanes]);
    __syncthreads();
  }
  mine = room[at.lane];
  __syncthreads();
  return mine;
}
// How many rows the stretch `part` has.
__device__ inline long long rows_of(const Sizes& s, long long each, int part) {
  const long long left = s.rows - part * each;
  return left < each ? left : each;
}
"""

MOMENTS = TypedKernel(
    "column_moments",
    _COMMON + _MOMENTS + _TREE + """
extern "C" __global__ void __launch_bounds__(THREADS) column_moments(
    const T* __restrict__ x, A* __restrict__ means, A* __restrict__ spreads, const Sizes s) {
  const Place at(s);
  const long long end = at.piece * s.rows_each + rows_of(s, s.rows_each, (int)at.piece);
  Moments mine = {0, 0, 0};
  if (at.column < s.columns)
    for (long long row = at.piece * s.rows_each + at.slot; row < end; row += EACH * at.slots) {
      A v[EACH];
      Moments some = {0, 0, 0};
#pragma unroll
      for (int k = 0; k < EACH; ++k) {
        const long long r = row + k * at.slots;
        const bool is_row = r < end;
        v[k] = is_row ? wide(x[(at.outer * s.rows + r) * s.columns + at.column]) : (A)0;
        some.mean += v[k];
        some.n += is_row;
      }
      some.mean /= some.n;
#pragma unroll
      for (int k = 0; k < EACH; ++k) {
        const A d = row + k * at.slots < end ? v[k] - some.mean : (A)0;
        some.spread += d * d;
      }
      mine.add(some);
    }
  mine = joined(mine, at, s.lanes);
  if (at.slot == 0 && at.column < s.columns) {
    const long long i = (at.outer * (long long)s.parts + at.piece) * s.columns + at.column;
    means[i] = mine.mean;
    spreads[i] = mine.spread;
  }
}
""",
)  # fmt: skip

APPLIED = TypedKernel(
    "scaled_columns",
    _COMMON + _MOMENTS + _TREE + """
extern "C" __global__ void __launch_bounds__(THREADS) scaled_columns(
    const T* __restrict__ x, const A* __restrict__ scale, const A* __restrict__ offset,
    T* __restrict__ y, A* __restrict__ mean, A* __restrict__ variance, const A* __restrict__ means,
    const A* __restrict__ spreads, const Sizes s, long long part_rows, A epsilon) {
  const Place at(s);
  const bool is_column = at.column < s.columns;
  Moments mine = {0, 0, 0};
  if (is_column)
    for (int k = at.slot; k < s.group * s.parts; k += at.slots) {
      const int part = k / s.group, c = at.column / s.group * s.group + k % s.group;
      const long long i = (at.outer * (long long)s.parts + part) * s.columns + c;
      const Moments some = {(A)rows_of(s, part_rows, part), means[i], spreads[i]};
      mine.add(some);
    }
  mine = joined(mine, at, s.lanes);
  if (!is_column) return;
  const A spread = mine.spread / mine.n;
  A factor = 1 / SQRT(spread + epsilon);
  if (scale) factor *= scale[at.column];
  const A shift = offset ? offset[at.column] : (A)0;
  if (mean && at.piece == 0 && at.slot == 0) {
    mean[at.column] = mine.mean;
    variance[at.column] = spread;
  }
  const long long first = at.piece * s.rows_each;
  const long long end = first + rows_of(s, s.rows_each, (int)at.piece);
  for (long long row = first + at.slot; row < end; row += at.slots) {
    const long long i = (at.outer * s.rows + row) * s.columns + at.column;
    y[i] = narrow((wide(x[i]) - mine.mean) * factor + shift);
  }
}
""",
)  # fmt: skip

PRODUCTS = TypedKernel(
    "column_products",
    _COMMON + _PAIRS + _TREE + """
extern "C" __global__ void __launch_bounds__(THREADS) column_products(
    const T* __restrict__ g, const T* __restrict__ x, A* __restrict__ found, const Sizes s) {
  const Place at(s);
  const long long end = at.piece * s.rows_each + rows_of(s, s.rows_each, (int)at.piece);
  Moments mine = {0, 0, 0, 0, 0};
  if (at.column < s.columns)
    for (long long row = at.piece * s.rows_each + at.slot; row < end; row += EACH * at.slots) {
      A v[EACH], h[EACH];
      Moments some = {0, 0, 0, 0, 0};
#pragma unroll
      for (int k = 0; k < EACH; ++k) {
        const long long r = row + k * at.slots, i = (at.outer * s.rows + r) * s.columns + at.column;
        const bool is_row = r < end;
        v[k] = is_row ? wide(x[i]) : (A)0;
        h[k] = is_row ? wide(g[i]) : (A)0;
        some.mean += v[k];
        some.level += h[k];
        some.n += is_row;
      }
      const A each = 1 / some.n;
      some.mean *= each;
      some.level *= each;
#pragma unroll
      for (int k = 0; k < EACH; ++k) {
        const A d = row + k * at.slots < end ? v[k] - some.mean : (A)0;
        some.spread += d * d;
        some.both += d * (h[k] - some.level);
      }
      mine.add(some);
    }
  mine = joined(mine, at, s.lanes);
  if (at.slot == 0 && at.column < s.columns) {
    const long long step = (long long)s.outer * s.parts * s.columns;
    const long long i = (at.outer * (long long)s.parts + at.piece) * s.columns + at.column;
    found[i] = mine.mean;
    found[i + step] = mine.spread;
    found[i + 2 * step] = mine.level;
    found[i + 3 * step] = mine.both;
  }
}
""",
)  # fmt: skip

_LOADED = """
// The moments that the first launch has found of a column and a stretch.
__device__ inline Moments loaded(
    const A* found, const Sizes& s, long long part_rows, int outer, int part, int column) {
  const long long step = (long long)s.outer * s.parts * s.columns;
  const A* at = found + (outer * (long long)s.parts + part) * s.columns + column;
  const Moments some = {
      (A)rows_of(s, part_rows, part), at[0], at[step], at[2 * step], at[3 * step]};
  return some;
}
"""

BACK = TypedKernel(
    "scaled_columns_back",
    _COMMON + _PAIRS + _TREE + _LOADED + """
extern "C" __global__ void __launch_bounds__(THREADS) scaled_columns_back(
    const T* __restrict__ g, const T* __restrict__ x, const A* __restrict__ scale,
    const A* __restrict__ by_mean, const A* __restrict__ by_variance, T* __restrict__ by_x,
    A* __restrict__ by_scale, A* __restrict__ by_offset, const A* __restrict__ found,
    const Sizes s, long long part_rows, A epsilon) {
  const Place at(s);
  const bool is_column = at.column < s.columns;
  Moments mine = {0, 0, 0, 0, 0};
  if (is_column)
    for (int k = at.slot; k < s.group * s.parts; k += at.slots) {
      const int c = at.column / s.group * s.group + k % s.group;
      mine.add(loaded(found, s, part_rows, at.outer, k / s.group, c));
    }
  mine = joined(mine, at, s.lanes);
  if (!is_column) return;
  const A factor = 1 / SQRT(mine.spread / mine.n + epsilon);
  const A weight = scale ? scale[at.column] : (A)1;
  A level = weight * mine.level, grad = weight * mine.both * factor / mine.n;
  if (by_mean) level -= by_mean[at.column] / (factor * mine.n);
  if (by_variance) grad -= 2 * by_variance[at.column] / (factor * factor * mine.n);
  if (by_scale && at.piece == 0 && at.slot == 0) {
    by_scale[at.column] = mine.both * factor;
    by_offset[at.column] = mine.level * mine.n;
  }
  const long long first = at.piece * s.rows_each;
  const long long end = first + rows_of(s, s.rows_each, (int)at.piece);
  for (long long row = first + at.slot; row < end; row += at.slots) {
    const long long i = (at.outer * s.rows + row) * s.columns + at.column;
    const A n = (wide(x[i]) - mine.mean) * factor;
    by_x[i] = narrow((wide(g[i]) * weight - level - n * grad) * factor);
  }
}
""",
)  # fmt: skip

JOINED = TypedKernel(
    "joined_moments",
    _COMMON + _MOMENTS + _TREE + """
extern "C" __global__ void __launch_bounds__(THREADS) joined_moments(
    const A* __restrict__ means, const A* __restrict__ spreads, A* __restrict__ mean,
    A* __restrict__ factor, const Sizes s, long long part_rows, A epsilon) {
  const Place at(s);
  Moments mine = {0, 0, 0};
  if (at.column < s.columns)
    for (int k = at.slot; k < s.parts; k += at.slots) {
      const long long i = (long long)k * s.columns + at.column;
      const Moments some = {(A)rows_of(s, part_rows, k), means[i], spreads[i]};
      mine.add(some);
    }
  mine = joined(mine, at, s.lanes);
  if (at.slot || at.column >= s.columns) return;
  mean[at.column] = mine.mean;
  factor[at.column] = 1 / SQRT(mine.spread / mine.n + epsilon);
}
""",
)  # fmt: skip

_SIZES = np.dtype(
    [(name, np.int64) for name in ("rows", "rows_each")]
    + [(name, np.int32) for name in ("outer", "columns", "group", "parts", "lanes", "tiles")],
    align=True,
)


class _Plan(NamedTuple):
    """How the two launches share the work out.

    Attributes:
        parts: stretches of rows that have moments of their own.
        part_rows: rows of each.
        first, second: blocks and `Sizes` of the launches.
    """

    parts: int
    part_rows: Any
    first: tuple[int, Any]
    second: tuple[int, Any]


@functools.lru_cache(maxsize=256)
def _plan(outer: int, rows: int, columns: int, group: int) -> _Plan:
    lanes = 1
    while lanes < min(columns, WARP):
        lanes *= 2
    slots, tiles = MANY_THREADS // lanes, -(-columns // lanes)

    def shared_out(minimum: int, maximum: int) -> tuple[int, int]:
        """Pieces of the rows, and rows of a piece: at least `minimum` rows for each thread."""
        pieces = min(-(-_BLOCKS * 2 // (tiles * outer)), -(-rows // (slots * minimum)), maximum)
        each = -(-rows // max(pieces, 1))
        return -(-rows // each), each

    parts, part_rows = shared_out(EACH, _MOST_PARTS)
    pieces, piece_rows = shared_out(4, 1 << 20)

    def sizes(each: int) -> Any:
        return np.array((rows, each, outer, columns, group, parts, lanes, tiles), _SIZES)

    blocks = tiles * outer
    return _Plan(
        parts,
        np.int64(part_rows),
        (blocks * parts, sizes(part_rows)),
        (blocks * pieces, sizes(piece_rows)),
    )


def normalized(
    xp: Any,
    x: Array,
    scale: Array | None,
    offset: Array | None,
    dims: tuple[int, int, int],
    epsilon: float,
    group: int = 1,
) -> tuple[Array, Array | None, Array | None] | None:
    """(y, mean, variance), or `None` where the reference is to do it.

    Args:
        xp: CuPy.
        x: array of a GPU.
        scale: (columns,), or `None` for 1.
        offset: likewise, or `None` for 0.
        dims: (outer, rows, columns), into which `x` is reshaped.
        epsilon: added to the variance.
        group: neighbouring columns that have moments in common. Mean and variance are given where
            each column has its own and there is one outer part, else `None`. They are of the dtype
            of the scale, if there is one, as `x` may be of a shorter one.
    """
    kernels = ready(xp, x.dtype, MOMENTS, APPLIED) if _has_small_groups(x, group) else None
    if kernels is None:
        return None
    outer, _, columns = dims
    plan = _plan(*dims, group)
    vector_dtype, sum_dtype = _vector_dtype(x, scale), computed_in(x.dtype)
    x = xp.ascontiguousarray(x)
    scale, offset = (_vector(xp, a, sum_dtype) for a in (scale, offset))
    means, spreads = xp.empty((2, outer, plan.parts, columns), sum_dtype)
    y = xp.empty(x.shape, x.dtype)
    alone = outer == group == 1
    mean, variance = (xp.empty(columns, sum_dtype) if alone else None for _ in range(2))
    blocks, sizes = plan.first
    kernels[0](blocks, (x, means, spreads, sizes), MANY_THREADS)
    blocks, sizes = plan.second
    tail = (means, spreads, sizes, plan.part_rows, sum_dtype(epsilon))
    kernels[1](blocks, (x, scale, offset, y, mean, variance, *tail), MANY_THREADS)
    return y, _vector(xp, mean, vector_dtype), _vector(xp, variance, vector_dtype)


def normalized_gradient(
    xp: Any,
    g: Array,
    x: Array,
    scale: Array | None,
    by_mean: Array | None,
    by_variance: Array | None,
    dims: tuple[int, int, int],
    epsilon: float,
    group: int = 1,
) -> tuple[Array, Array | None, Array | None] | None:
    """Gradients by x, scale and offset, or `None`; see `normalized`.

    Those by scale and offset are given where each column has moments of its own and there is one
    outer part; elsewhere there is no scale. `by_mean` and `by_variance` are those by the moments,
    where they are given.
    """
    outer, _, columns = dims
    alone = outer == group == 1
    fits = _has_small_groups(x, group) and g.dtype == x.dtype
    kernels = ready(xp, x.dtype, PRODUCTS, BACK) if fits else None
    if kernels is None:
        return None
    plan = _plan(*dims, group)
    vector_dtype, sum_dtype = _vector_dtype(x, scale), computed_in(x.dtype)
    g, x = map(xp.ascontiguousarray, (g, x))
    scale, by_mean, by_variance = (_vector(xp, a, sum_dtype) for a in (scale, by_mean, by_variance))
    partial_sums = xp.empty((4, outer, plan.parts, columns), sum_dtype)
    by_x = xp.empty(x.shape, x.dtype)
    by_scale, by_offset = (xp.empty(columns, sum_dtype) if alone else None for _ in range(2))
    blocks, sizes = plan.first
    kernels[0](blocks, (g, x, partial_sums, sizes), MANY_THREADS)
    blocks, sizes = plan.second
    arrays = (g, x, scale, by_mean, by_variance, by_x, by_scale, by_offset, partial_sums)
    kernels[1](blocks, (*arrays, sizes, plan.part_rows, sum_dtype(epsilon)), MANY_THREADS)
    return by_x, _vector(xp, by_scale, vector_dtype), _vector(xp, by_offset, vector_dtype)


def moments(
    xp: Any, x: Array, dims: tuple[int, int, int], epsilon: float
) -> tuple[Array, Array] | None:
    """Mean and 1 / sqrt(variance + epsilon) of each column, or `None`; see `normalized`.

    There is one outer part; both are of the dtype that is computed in.
    """
    kernels = ready(xp, x.dtype, MOMENTS, JOINED) if x.size else None
    if kernels is None:
        return None
    outer, _, columns = dims
    plan, sum_dtype = _plan(*dims, 1), computed_in(x.dtype)
    means, spreads = xp.empty((2, outer, plan.parts, columns), sum_dtype)
    mean, factor = (xp.empty(columns, sum_dtype) for _ in range(2))
    blocks, sizes = plan.first
    kernels[0](blocks, (xp.ascontiguousarray(x), means, spreads, sizes), MANY_THREADS)
    tail = (sizes, plan.part_rows, sum_dtype(epsilon))
    kernels[1](
        -(-columns // int(sizes["lanes"])), (means, spreads, mean, factor, *tail), MANY_THREADS
    )
    return mean, factor


def _has_small_groups(x: Array, group: int) -> bool:
    """Whether the kernels serve: there are elements, in groups of few enough columns."""
    return bool(x.size) and group <= LARGEST_GROUP


def _vector_dtype(x: Array, scale: Array | None) -> Any:
    return (x if scale is None else scale).dtype


def _vector(xp: Any, a: Array | None, dtype: Any) -> Array | None:
    return None if a is None else xp.ascontiguousarray(a.astype(dtype, copy=False))
