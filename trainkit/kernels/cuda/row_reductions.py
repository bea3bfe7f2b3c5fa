"""CUDA C++ for threads that share a row: what they have, put together and known to each of them.

Those of a row are `lanes` neighbours, a power of two; all threads of a block call these functions.
`room` is shared memory for 64 numbers. Sums go by a tree, in the same order for the same `lanes`.
"""

from __future__ import annotations

ROW_SUMS = """
// The sums of a and b over the threads that share a row, which are `lanes`, a power of two.
__device__ inline void row_sums(A* room, int lanes, A& a, A& b) {
  for (int by = (lanes < 32 ? lanes : 32) / 2; by; by /= 2) {
    a += __shfl_xor_sync(0xffffffffu, a, by);
    b += __shfl_xor_sync(0xffffffffu, b, by);
  }
  if (lanes > 32) {
    const int warps = lanes / 32, warp = threadIdx.x / 32, first = warp / warps * warps;
    if (threadIdx.x % 32 == 0) {
      room[2 * warp] = a;
      room[2 * warp + 1] = b;
    }
    __syncthreads();
    a = b = 0;
    for (int i = first; i < first + warps; ++i) {
      a += room[2 * i];
      b += room[2 * i + 1];
    }
    __syncthreads();
  }
}
"""
"""`row_sums(room, lanes, a, b)`: both numbers become their sums."""

ROW_TOP = """
// The greatest a of the threads that share a row; NaN counts for nothing.
__device__ inline A row_top(A* room, int lanes, A a) {
  for (int by = (lanes < 32 ? lanes : 32) / 2; by; by /= 2) {
    const A b = __shfl_xor_sync(0xffffffffu, a, by);
    a = b > a ? b : a;
  }
  if (lanes > 32) {
    const int warps = lanes / 32, warp = threadIdx.x / 32, first = warp / warps * warps;
    if (threadIdx.x % 32 == 0) room[warp] = a;
    __syncthreads();
    for (int i = first; i < first + warps; ++i) a = room[i] > a ? room[i] : a;
    __syncthreads();
  }
  return a;
}
"""
"""`row_top(room, lanes, a)`: the greatest."""
