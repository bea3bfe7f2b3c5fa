"""A stable merge sort of rows in CUDA C++.

Elements become unsigned keys with the same order, and carry their positions. A block sorts a tile
in its own memory by a bitonic network, where positions break ties; then pairs of runs are merged:
each element finds its place by a binary search in the other run. Nothing is waited for.
Source: Batcher 1968, "Sorting networks and their applications".
"""

from __future__ import annotations

from functools import cache

from trainkit.kernels.cuda.raw_kernel import RawKernel
from trainkit.kernels.cuda.short_floats import SHORT_FLOATS

LARGEST_TILE, SMALLEST_TILE = 2048, 64
"""Elements that a block sorts, by half as many threads."""

_KEYS = """
typedef unsigned long long word;
__device__ inline unsigned int ordered(float x) {
  if (x != x) return 0xFFFFFFFFu;
  const unsigned int bits = x == 0 ? 0u : __float_as_uint(x);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ inline word ordered(double x) {
  if (x != x) return ~0ULL;
  const word bits = x == 0 ? 0ULL : (word)__double_as_longlong(x);
  return bits >> 63 ? ~bits : bits | 1ULL << 63;
}
__device__ inline unsigned int ordered(f16 x) { return ordered(from_f16(x)); }
__device__ inline unsigned int ordered(bf16 x) { return ordered(from_bf16(x)); }
__device__ inline unsigned int ordered(int x) { return (unsigned int)x ^ 0x80000000u; }
__device__ inline unsigned int ordered(unsigned int x) { return x; }
__device__ inline word ordered(long long x) { return (word)x ^ 1ULL << 63; }
__device__ inline word ordered(word x) { return x; }
"""
_TILE = """
extern "C" __global__ void sorted_tiles(const {type}* __restrict__ x, {key}* __restrict__ keys,
                                        int* __restrict__ places, int n, int tiles, int falling) {{
  __shared__ {key} key[{tile}];
  __shared__ int place[{tile}];
  const long long row = (long long)(blockIdx.x / tiles) * n;
  const int start = blockIdx.x % tiles * {tile};
  for (int k = threadIdx.x; k < {tile}; k += blockDim.x) {{
    {key} mine = ~({key})0;
    if (start + k < n) {{
      mine = ordered(({as})x[row + start + k]);
      if (falling) mine = ~mine;
    }}
    key[k] = mine;
    place[k] = start + k;
  }}
  for (int size = 2; size <= {tile}; size *= 2) {{
    for (int step = size / 2; step; step /= 2) {{
      __syncthreads();
      const int a = 2 * threadIdx.x - (threadIdx.x & (step - 1)), b = a + step;
      const bool less = key[b] < key[a] || (key[b] == key[a] && place[b] < place[a]);
      if (less == !(a & size)) {{
        const {key} k = key[a];
        key[a] = key[b];
        key[b] = k;
        const int p = place[a];
        place[a] = place[b];
        place[b] = p;
      }}
    }}
  }}
  __syncthreads();
  for (int k = threadIdx.x; k < {tile}; k += blockDim.x) {{
    if (start + k < n) {{
      keys[row + start + k] = key[k];
      places[row + start + k] = place[k];
    }}
  }}
}}
"""
_MERGE = """
extern "C" __global__ void merged_runs(const {key}* __restrict__ keys,
                                       const int* __restrict__ places, {key}* __restrict__ to_keys,
                                       int* __restrict__ to_places, int n, long long count,
                                       int width) {{
  const long long step = (long long)gridDim.x * blockDim.x;
  for (long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += step) {{
    const long long row = at / n * n;
    const long long i = at - row, start = i / (2LL * width) * (2LL * width);
    const long long middle = start + width < n ? start + width : n;
    const long long end = start + 2LL * width < n ? start + 2LL * width : n;
    const {key} mine = keys[at];
    const bool left = i < middle;
    long long low = left ? middle : start;
    const long long first = low;
    long long high = left ? end : middle;
    while (low < high) {{
      const long long half = (low + high) / 2;
      const {key} other = keys[row + half];
      if (other < mine || (!left && other == mine)) low = half + 1; else high = half;
    }}
    const long long to = row + start + (i - (left ? start : middle)) + (low - first);
    to_keys[to] = mine;
    to_places[to] = places[at];
  }}
}}
"""
_PICK = """
extern "C" __global__ void picked_in_rows(const {type}* __restrict__ x,
                                          const int* __restrict__ places, {type}* __restrict__ out,
                                          int n, int most, long long count) {{
  const long long step = (long long)gridDim.x * blockDim.x;
  for (long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += step) {{
    const long long row = at / most;
    out[at] = x[row * n + places[row * n + at % most]];
  }}
}}
"""
_TYPES = {
    "bool": ("unsigned char", "unsigned int"),
    "int8": ("signed char", "int"),
    "uint8": ("unsigned char", "unsigned int"),
    "int16": ("short", "int"),
    "uint16": ("unsigned short", "unsigned int"),
    "int32": ("int", "int"),
    "uint32": ("unsigned int", "unsigned int"),
    "int64": ("long long", "long long"),
    "uint64": ("unsigned long long", "unsigned long long"),
    "float16": ("f16", "f16"),
    "bfloat16": ("bf16", "bf16"),
    "float32": ("float", "float"),
    "float64": ("double", "double"),
}
"""The type of an element, and that whose order it has, by dtype."""
DTYPES = frozenset(_TYPES)
WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}


def key_bytes(dtype: str) -> int:
    """Bytes of a key."""
    return 8 if dtype in ("int64", "uint64", "float64") else 4


@cache
def sorted_tiles(dtype: str, tile: int) -> RawKernel:
    """Sorts tiles: `(x, keys, places, n, tiles, falling)`, a block of `tile / 2` threads each."""
    kind, as_ = _TYPES[dtype]
    substitutions = {"type": kind, "as": as_, "key": WORDS[key_bytes(dtype)], "tile": tile}
    return RawKernel("sorted_tiles", SHORT_FLOATS + _KEYS + _TILE.format(**substitutions))


@cache
def merged_runs(width: int) -> RawKernel:
    """Merges pairs of runs, by the bytes of a key.

    It takes `(keys, places, to_keys, to_places, n, count, width)`.
    """
    return RawKernel("merged_runs", _MERGE.format(key=WORDS[width]))


@cache
def picked_in_rows(width: int) -> RawKernel:
    """The first elements of each row in its new order, by their bytes.

    It takes `(x, places, out, n, most, count)`.
    """
    return RawKernel("picked_in_rows", _PICK.format(type=WORDS[width]))
