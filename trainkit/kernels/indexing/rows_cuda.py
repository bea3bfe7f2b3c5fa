"""Rows picked by position, and rows added up by position, in CUDA C++.

A position outside picks zeros and adds nothing, as a GPU is not waited for to complain. Sums in a
fixed order have one thread for each column of each position that occurs: it adds the rows of that
position one after the other, as the CPU does. Sums without an order add atomically.
"""

from __future__ import annotations

from functools import cache

from trainkit.kernels.cuda.raw_kernel import RawKernel
from trainkit.kernels.cuda.short_floats import SHORT_FLOATS

MOST_AXES = 8
"""Axes that a row of positions may name."""

INTEGERS = {
    "int8": "signed char",
    "uint8": "unsigned char",
    "int16": "short",
    "uint16": "unsigned short",
    "int32": "int",
    "uint32": "unsigned int",
    "int64": "long long",
    "uint64": "unsigned long long",
}
"""What CUDA calls the types of positions."""
_FLOATS = {"float32": "float", "float64": "double"}
_SHORT = {"float16": "f16", "bfloat16": "bf16"}
POSITIONS = frozenset(INTEGERS)
SUMMED = frozenset(INTEGERS) | frozenset(_FLOATS) | frozenset(_SHORT)
ATOMIC = frozenset({"int32", "uint32", "uint64", "float32", "float64"})
STEPS = {"add": "sum += ", "multiply": "sum *= ", "last": "sum = "}
"""What is done with each row that comes to a place, by name."""
WORDS = {
    1: "unsigned char",
    2: "unsigned short",
    4: "unsigned int",
    8: "unsigned long long",
    16: "ulonglong2",
}

_PLACE = """
// The position `i` as one in [0, n), -1 where it is outside.
__device__ inline long long placed({index} given, long long n, int wrap) {{
  const long long i = (long long)given;
  if (i < 0) return wrap && i >= -n ? i + n : -1;
  return i < n ? i : -1;
}}
"""
_PICK = """
extern "C" __global__ void picked_rows(const {type}* __restrict__ x,
                                       const {index}* __restrict__ positions,
                                       {type}* __restrict__ out, long long n, long long count,
                                       long long inner, long long size, int wrap) {{
  const long long step = (long long)gridDim.x * blockDim.x;
  for (long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x; at < size; at += step) {{
    const long long c = at % inner, k = at / inner % count, outer = at / inner / count;
    const long long i = placed(positions[k], n, wrap);
    {type} value{zero};
    if (i >= 0) value = x[(outer * n + i) * inner + c];
    out[at] = value;
  }}
}}
"""
_FLAT = """
struct Sizes {{ long long n[{most}]; }};
// Rows of positions, one for each of the first axes, as positions among all their elements.
extern "C" __global__ void flat_positions(const {index}* __restrict__ rows,
                                          long long* __restrict__ flat, long long count, int axes,
                                          int wrap, const Sizes sizes) {{
  const long long step = (long long)gridDim.x * blockDim.x;
  for (long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += step) {{
    long long found = 0;
#pragma unroll
    for (int axis = 0; axis < {most}; ++axis) {{
      if (axis < axes) {{
        const long long i = placed(rows[at * axes + axis], sizes.n[axis], wrap);
        found = i < 0 || found < 0 ? -1 : found * sizes.n[axis] + i;
      }}
    }}
    flat[at] = found;
  }}
}}
"""
_SUM_TYPES = """
typedef {type} element;
typedef {sum} sum_t;
__device__ inline sum_t read(element x) {{ return {read}; }}
__device__ inline element rounded(sum_t x) {{ return {write}; }}
"""
_FEW = """
// A block for each row: it works where no earlier row has this position.
extern "C" __global__ void {op}_few(const {index}* __restrict__ positions,
                                       const element* __restrict__ rows, element* __restrict__ out,
                                       long long n, int count, long long inner, int wrap) {{
  const int mine = blockIdx.x;
  const long long i = placed(positions[mine], n, wrap);
  if (i < 0) return;
  for (int k = 0; k < mine; ++k) if (placed(positions[k], n, wrap) == i) return;
  for (long long c = threadIdx.x; c < inner; c += blockDim.x) {{
    sum_t sum = read(out[i * inner + c]);
    for (int k = mine; k < count; ++k)
      if (placed(positions[k], n, wrap) == i) {step}read(rows[k * inner + c]);
    out[i * inner + c] = rounded(sum);
  }}
}}
"""
_RUNS = """
// `order` sorts the positions, which are in [0, n), or -1 for what is left out.
extern "C" __global__ void {op}_runs(const long long* __restrict__ positions,
                                        const int* __restrict__ order,
                                        const element* __restrict__ rows,
                                        element* __restrict__ out, long long count,
                                        long long inner) {{
  const long long step = (long long)gridDim.x * blockDim.x, size = count * inner;
  for (long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x; at < size; at += step) {{
    const long long first = at / inner, c = at % inner, i = positions[order[first]];
    if (i < 0 || (first && positions[order[first - 1]] == i)) continue;
    sum_t sum = read(out[i * inner + c]);
    for (long long k = first; k < count && positions[order[k]] == i; ++k)
      {step}read(rows[order[k] * inner + c]);
    out[i * inner + c] = rounded(sum);
  }}
}}
"""
_ATOMIC = """
extern "C" __global__ void sums_in_any_order(const {index}* __restrict__ positions,
                                             const {type}* __restrict__ rows, {type}* out,
                                             long long n, long long count, long long inner,
                                             int wrap) {{
  const long long step = (long long)gridDim.x * blockDim.x, size = count * inner;
  for (long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x; at < size; at += step) {{
    const long long i = placed(positions[at / inner], n, wrap);
    if (i >= 0) atomicAdd(&out[i * inner + at % inner], rows[at]);
  }}
}}
"""


def _sum_types(dtype: str) -> str:
    if dtype in _SHORT:
        kind = _SHORT[dtype]
        substitutions = {
            "type": kind,
            "sum": "float",
            "read": f"from_{kind}(x)",
            "write": f"to_{kind}(x)",
        }
        return SHORT_FLOATS + _SUM_TYPES.format(**substitutions)
    kind = {**INTEGERS, **_FLOATS}[dtype]
    total = kind if dtype in _FLOATS else "unsigned long long"
    substitutions = {"type": kind, "sum": total, "read": f"({total})x", "write": f"({kind})x"}
    return _SUM_TYPES.format(**substitutions)


@cache
def picked_rows(width: int, index: str) -> RawKernel:
    """Rows picked along the middle one of three axes, by the bytes of an element.

    It takes `(x, positions, out, n, count, inner, size, wrap)`.
    """
    substitutions = {"type": WORDS[width], "index": INTEGERS[index]}
    substitutions["zero"] = " = {0, 0}" if width == 16 else " = 0"
    return RawKernel("picked_rows", (_PLACE + _PICK).format(**substitutions))


@cache
def flat_positions(index: str) -> RawKernel:
    """Rows of positions as flat ones: `(rows, flat, count, axes, wrap, sizes)`."""
    substitutions = {"index": INTEGERS[index], "most": MOST_AXES}
    return RawKernel("flat_positions", (_PLACE + _FLAT).format(**substitutions))


@cache
def of_few(op: str, dtype: str, index: str) -> RawKernel:
    """Takes rows in, in order: `(positions, rows, out, n, count, inner, wrap)`.

    A block for each row; `op` is of `STEPS`.
    """
    substitutions = {"index": INTEGERS[index], "op": op, "step": STEPS[op]}
    return RawKernel(f"{op}_few", _sum_types(dtype) + (_PLACE + _FEW).format(**substitutions))


@cache
def of_runs(op: str, dtype: str) -> RawKernel:
    """Takes rows in, in order: `(positions, order, rows, out, count, inner)`."""
    text = _sum_types(dtype) + _RUNS.format(op=op, step=STEPS[op])
    return RawKernel(f"{op}_runs", text)


@cache
def sums_in_any_order(dtype: str, index: str) -> RawKernel:
    """Adds rows atomically: `(positions, rows, out, n, count, inner, wrap)`."""
    substitutions = {"type": {**INTEGERS, **_FLOATS}[dtype], "index": INTEGERS[index]}
    return RawKernel("sums_in_any_order", (_PLACE + _ATOMIC).format(**substitutions))
