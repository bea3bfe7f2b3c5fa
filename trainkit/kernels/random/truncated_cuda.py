"""Draws again for what lies outside of [-2, 2], in CUDA C++ and in the order of the CPU.

What is outside is listed in order: counted in chunks, the counts summed up, the places noted. One
block then draws for the list, keeps what is outside still, and goes on until nothing is. So the
k-th place of a round gets the k-th draw of that round, as on the CPU, and no number is waited for.
"""

from __future__ import annotations

from functools import cache

from trainkit.kernels.cuda.raw_kernel import RawKernel
from trainkit.kernels.random.philox_cuda import PAIR, PHILOX, REAL

CHUNK = 4096
"""Elements that a block counts."""

RANK = """
// How many threads of the block before this one have the flag, and how many have it in all.
__device__ inline int rank_in_block(bool flag, int* total) {
  __shared__ int sums[32];
  const unsigned int votes = __ballot_sync(0xFFFFFFFFu, flag);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (!lane) sums[warp] = __popc(votes);
  __syncthreads();
  int before = 0, all = 0;
  for (int w = 0; w < (int)blockDim.x / 32; ++w) {
    before += w < warp ? sums[w] : 0;
    all += sums[w];
  }
  __syncthreads();
  *total = all;
  return before + __popc(votes & ((1u << lane) - 1u));
}
"""
_OUTSIDE = """
__device__ inline bool is_outside(const {real}* x, long long i, long long n) {
  return i < n && fabs(x[i]) > 2;
}
"""
_COUNT = """
extern "C" __global__ void outside_count(const {real}* __restrict__ x, long long* counts,
                                         long long n) {
  const long long start = (long long)blockIdx.x * CHUNK;
  long long found = 0;
  for (int k = 0; k < CHUNK; k += blockDim.x)
    found += __syncthreads_count(is_outside(x, start + k + threadIdx.x, n));
  if (!threadIdx.x) counts[blockIdx.x] = found;
}
"""
_SUM = """
// Each count becomes the sum of those before it; the sum of all stands behind the last.
extern "C" __global__ void summed_counts(long long* counts, int chunks) {
  __shared__ long long part[1024];
  long long before = 0;
  for (int start = 0; start < chunks; start += blockDim.x) {
    const int i = start + threadIdx.x;
    const long long mine = i < chunks ? counts[i] : 0;
    part[threadIdx.x] = mine;
    __syncthreads();
    for (int by = 1; by < (int)blockDim.x; by *= 2) {
      const long long other = (int)threadIdx.x >= by ? part[threadIdx.x - by] : 0;
      __syncthreads();
      part[threadIdx.x] += other;
      __syncthreads();
    }
    if (i < chunks) counts[i] = before + part[threadIdx.x] - mine;
    before += part[blockDim.x - 1];
    __syncthreads();
  }
  if (!threadIdx.x) counts[chunks] = before;
}
"""
_LIST = """
extern "C" __global__ void outside_list(const {real}* __restrict__ x,
                                        const long long* __restrict__ counts, long long* list,
                                        long long n) {
  const long long start = (long long)blockIdx.x * CHUNK;
  long long* mine = list + counts[blockIdx.x];
  for (int k = 0; k < CHUNK; k += blockDim.x) {
    const long long i = start + k + threadIdx.x;
    const bool flag = is_outside(x, i, n);
    int total;
    const int rank = rank_in_block(flag, &total);
    if (flag) mine[rank] = i;
    mine += total;
  }
}
"""
_REDRAW = """
__device__ inline {real} unit_at(word low, word high, word key, long long i) {
  const Words four = philox(low, high, key, (word)(i / {each}));
  const int j = (int)(i % {each});
  {part} found = 0;
#pragma unroll
  for (int k = 0; k < {each}; ++k) if (j == k) found = {at_k};
  return unit(found);
}
extern "C" __global__ void redrawn({real}* x, long long* list, const long long* counts, int chunks,
                                   word* state) {
  word low = state[0], high = state[1];
  const word key = state[2];
  long long count = counts[chunks];
  __syncthreads();
  while (count) {
    const long long half = (count + 1) / 2;
    long long kept = 0;
    for (long long start = 0; start < count; start += blockDim.x) {
      const long long k = start + threadIdx.x;
      long long place = 0;
      bool flag = false;
      if (k < count) {
        const long long i = k < half ? k : k - half;
        {real} by_cos, by_sin;
        pair(unit_at(low, high, key, i), unit_at(low, high, key, half + i), &by_cos, &by_sin);
        const {real} value = k < half ? by_cos : by_sin;
        place = list[k];
        x[place] = value;
        flag = fabs(value) > 2;
      }
      int total;
      const int rank = rank_in_block(flag, &total);
      if (flag) list[kept + rank] = place;
      kept += total;
    }
    const word used = (word)((2 * half + {each} - 1) / {each});
    low += used;
    high += low < used ? 1ULL : 0ULL;
    count = kept;
    __syncthreads();
  }
  if (!threadIdx.x) {
    state[0] = low;
    state[1] = high;
  }
}
"""


def _kernel(name: str, text: str, dtype: str) -> RawKernel:
    substitutions = REAL[dtype]
    at_k = "four.w[k]" if dtype == "float64" else "half_word(four, k)"
    for key, value in {**substitutions, "at_k": at_k}.items():
        text = text.replace("{" + key + "}", str(value))
    return RawKernel(name, f"#define CHUNK {CHUNK}\n{text}")


@cache
def outside_count(dtype: str) -> RawKernel:
    """How many elements of each chunk lie outside: `(x, counts, n)`, a block for each chunk."""
    return _kernel("outside_count", _OUTSIDE + _COUNT, dtype)


@cache
def summed_counts() -> RawKernel:
    """Counts become sums of those before them: `(counts, chunks)`, one block."""
    return RawKernel("summed_counts", _SUM)


@cache
def outside_list(dtype: str) -> RawKernel:
    """Where they lie, in order: `(x, counts, list, n)`, a block for each chunk."""
    return _kernel("outside_list", RANK + _OUTSIDE + _LIST, dtype)


@cache
def redrawn(dtype: str) -> RawKernel:
    """Draws again for the places of the list: `(x, list, counts, chunks, state)`, one block."""
    store = {**REAL[dtype], "store": REAL[dtype]["real"]}
    return _kernel("redrawn", PHILOX + PAIR.format(**store) + RANK + _REDRAW, dtype)
