"""Philox4x64-10 in CUDA C++: a thread makes a block of four words, and what is made of them.

The bits are those of the CPU. Words, uniform floats, integers and masks agree in every bit; normal
draws come from the same uniform floats, and differ by how the two round log, cos and sin.
Source: Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3".
"""

from __future__ import annotations

from functools import cache

from trainkit.kernels.cuda.raw_kernel import RawKernel
from trainkit.kernels.cuda.short_floats import SHORT_FLOATS

PHILOX = """\
typedef unsigned long long word;
struct Words { word w[4]; };
template <class T, int N>
struct __align__(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Group { T v[N]; };

__device__ inline Words philox(word low, word high, word key, word block) {
  word c0 = low + block, c1 = high + (c0 < block ? 1ULL : 0ULL), c2 = 0, c3 = 0;
  word k0 = key, k1 = 0;
#pragma unroll
  for (int i = 0; i < 10; ++i) {
    const word high0 = __umul64hi(c0, 0xD2E7470EE14C6C93ULL), low0 = c0 * 0xD2E7470EE14C6C93ULL;
    const word high1 = __umul64hi(c2, 0xCA5A826395121157ULL), low1 = c2 * 0xCA5A826395121157ULL;
    c0 = high1 ^ c1 ^ k0;
    c1 = low1;
    c2 = high0 ^ c3 ^ k1;
    c3 = low0;
    k0 += 0x9E3779B97F4A7C15ULL;
    k1 += 0xBB67AE8584CAA73BULL;
  }
  return Words{{c0, c1, c2, c3}};
}
__device__ inline void advance(const word* state, word* next, word blocks) {
  const word low = state[0] + blocks;
  next[1] = state[1] + (low < blocks ? 1ULL : 0ULL);
  next[2] = state[2];
  next[0] = low;
}
// The elements from `first` on, as far as there are some; `out + first` lies at 16 bytes.
template <class T, int N>
__device__ inline void put(T* out, long long first, long long count, const Group<T, N>& made) {
  if (first + N <= count) {
    *(Group<T, N>*)(out + first) = made;
  } else {
#pragma unroll
    for (int j = 0; j < N; ++j) if (first + j < count) out[first + j] = made.v[j];
  }
}
__device__ inline unsigned int half_word(const Words& four, int j) {
  return (unsigned int)(four.w[j / 2] >> 32 * (j % 2));
}
__device__ inline float unit(unsigned int x) { return (float)(x >> 8) * 5.9604644775390625e-08f; }
__device__ inline double unit(word x) { return (double)(x >> 11) * 1.1102230246251565e-16; }
"""

_DRAWN = """
extern "C" __global__ void {name}(const word* __restrict__ state, word* __restrict__ next,
                                  {type}* __restrict__ out, word used, long long count{more}) {{
  const word low = state[0], high = state[1], key = state[2];
  const long long step = (long long)gridDim.x * blockDim.x;
  long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (!at) advance(state, next, used);
  for (; at * {each} < count; at += step) {{
    const Words four = philox(low, high, key, (word)at);
    Group<{type}, {each}> made;
#pragma unroll
    for (int j = 0; j < {each}; ++j) {{
{body}
    }}
    put<{type}, {each}>(out, at * {each}, count, made);
  }}
}}
"""

_UNIFORM = {
    "float64": ("double", 4, "made.v[j] = unit(four.w[j]);"),
    "float32": ("float", 8, "made.v[j] = unit(half_word(four, j));"),
    "float16": (
        "f16",
        8,
        "const float x = fminf(unit(half_word(four, j)), 0.999755859375f);\n"
        "made.v[j] = to_f16(floorf(x * 2048.0f) / 2048.0f);",
    ),
    "bfloat16": (
        "bf16",
        8,
        "const float x = fminf(unit(half_word(four, j)), 0.998046875f);\n"
        "made.v[j] = to_bf16(floorf(x * 256.0f) / 256.0f);",
    ),
}
_UNSIGNED = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "word"}


def _drawing(name: str, kind: str, each: int, body: str, more: str = "") -> RawKernel:
    lines = "\n".join("      " + line for line in body.splitlines())
    text = _DRAWN.format(name=name, type=kind, each=each, body=lines, more=more)
    return RawKernel(name, SHORT_FLOATS + PHILOX + text)


@cache
def words() -> RawKernel:
    """Words themselves: `(state, next, out, used, count)`."""
    return _drawing("philox_words", "word", 4, "made.v[j] = four.w[j];")


@cache
def uniform(dtype: str) -> RawKernel:
    """Floats in [0, 1): `(state, next, out, used, count)`."""
    return _drawing(f"philox_uniform_{dtype}", *_UNIFORM[dtype])


@cache
def mask(width: int) -> RawKernel:
    """One of two values of so many bytes by 16 bits of chance.

    It takes `(state, next, out, used, count, limit, off, on)`.
    """
    kind = _UNSIGNED[width]
    body = "made.v[j] = (int)(four.w[j / 4] >> 16 * (j % 4) & 0xFFFFULL) >= limit ? on : off;"
    return _drawing(f"philox_mask_{width}", kind, 16, body, f", int limit, {kind} off, {kind} on")


@cache
def integers(width: int) -> RawKernel:
    """Integers of so many bytes: `(state, next, out, used, count, range, lowest)`.

    A `range` of 0 stands for 2**64.
    """
    kind = _UNSIGNED[width]
    body = (
        "const word x = range ? __umul64hi(four.w[j], range) : four.w[j];\n"
        f"made.v[j] = ({kind})(x + lowest);"
    )
    return _drawing(f"philox_integers_{width}", kind, 4, body, ", word range, word lowest")


@cache
def integers_between(width: int) -> RawKernel:
    """The same between bounds on the GPU.

    It takes `(state, next, out, used, count, least, beyond, is_unsigned)`. The last one says
    whether the bounds are compared without a sign; where `beyond` is not above
    `least`, all draws are `least`.
    """
    kind = _UNSIGNED[width]
    body = (
        "const word lowest = (word)*least, end = (word)*beyond;\n"
        "const bool some = is_unsigned ? lowest < end : *least < *beyond;\n"
        f"made.v[j] = ({kind})((some ? __umul64hi(four.w[j], end - lowest) : 0) + lowest);"
    )
    more = (
        ",\n    const long long* __restrict__ least, const long long* __restrict__ beyond, "
        "int is_unsigned"
    )
    return _drawing(f"philox_integers_between_{width}", kind, 4, body, more)


_SEED = """
extern "C" __global__ void philox_seed(const long long* __restrict__ seed, word* state) {
  state[0] = state[1] = 0;
  state[2] = philox((word)seed[1], 0, (word)seed[0], 0).w[0];
}
"""


@cache
def seeded() -> RawKernel:
    """The state of the stream that two integers name: `(seed, state)`, with one thread."""
    return RawKernel("philox_seed", PHILOX + _SEED)


PAIR = """
typedef {real} real;
typedef {store} store;
// Both normal draws of two uniform ones.
__device__ inline void pair(real first, real second, real* by_cos, real* by_sin) {{
  const real radius = sqrt{f}((real)-2 * log{f}((real)1 - first));
  const real angle = ({turn}) * second;
  *by_cos = radius * cos{f}(angle);
  *by_sin = radius * sin{f}(angle);
}}
"""
_NORMAL = """
// Pairs of the elements i and half + i of the uniform draws give i and half + i of the normal ones.
extern "C" __global__ void {name}(const word* __restrict__ state, word* __restrict__ next,
                                  store* __restrict__ out, word used, long long count) {{
  const word low = state[0], high = state[1], key = state[2];
  const long long step = (long long)gridDim.x * blockDim.x, half = (count + 1) / 2;
  const int shift = (int)(half % {each});
  long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (!at) advance(state, next, used);
  for (; at * {each} < half; at += step) {{
    const long long first = at * {each};
    const Words one = philox(low, high, key, (word)at);
    const word there = (word)((half + first) / {each});
    const Words two = philox(low, high, key, there);
    const Words three = shift ? philox(low, high, key, there + 1) : two;
    {part} seconds[2 * {each}];
#pragma unroll
    for (int j = 0; j < {each}; ++j) {{
      seconds[j] = {of_two};
      seconds[j + {each}] = {of_three};
    }}
{shifts}
    Group<store, {each}> made;
#pragma unroll
    for (int j = 0; j < {each}; ++j) {{
      real by_cos, by_sin;
      pair(unit({of_one}), unit(seconds[j]), &by_cos, &by_sin);
      made.v[j] = {round}(by_cos);
      if (first + j < half && half + first + j < count) out[half + first + j] = {round}(by_sin);
    }}
    put<store, {each}>(out, first, half, made);
  }}
}}
"""
_SHIFT = """\
#pragma unroll
    for (int j = 0; j + {by} < 2 * {each}; ++j) if (shift & {by}) seconds[j] = seconds[j + {by}];"""
REAL = {
    "float64": {
        "real": "double", "f": "", "turn": "6.283185307179586", "each": 4, "part": "word",
        "of_one": "one.w[j]", "of_two": "two.w[j]", "of_three": "three.w[j]",
    },
    "float32": {
        "real": "float", "f": "f", "turn": "6.2831854820251465f", "each": 8,
        "part": "unsigned int", "of_one": "half_word(one, j)", "of_two": "half_word(two, j)",
        "of_three": "half_word(three, j)",
    },
}  # fmt: skip
_STORES = {
    "float64": ("double", ""),
    "float32": ("float", ""),
    "float16": ("f16", "to_f16"),
    "bfloat16": ("bf16", "to_bf16"),
}


def working(dtype: str) -> str:
    """The type in which floats for `dtype` are drawn."""
    return "float64" if dtype == "float64" else "float32"


@cache
def normal(dtype: str) -> RawKernel:
    """Draws of the standard normal distribution: `(state, next, out, used, count)`."""
    store, rounding = _STORES[dtype]
    name = f"philox_normal_{dtype}"
    substitutions = {**REAL[working(dtype)], "store": store, "round": rounding, "name": name}
    substitutions["shifts"] = "\n".join(_SHIFT.format(by=by, **substitutions) for by in (4, 2, 1))
    return RawKernel(
        name, SHORT_FLOATS + PHILOX + PAIR.format(**substitutions) + _NORMAL.format(**substitutions)
    )
