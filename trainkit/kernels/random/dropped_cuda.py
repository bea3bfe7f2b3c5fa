"""The product of dropout in CUDA C++, in one pass over the elements and their mask."""

from __future__ import annotations

from functools import cache

from trainkit.kernels.cuda.raw_kernel import RawKernel
from trainkit.kernels.cuda.short_floats import SHORT_FLOATS

_TEXT = """
extern "C" __global__ void dropped(const {type}* __restrict__ x, const bool* __restrict__ kept,
                                   {type}* __restrict__ out, {real} scale, long long count) {{
  const long long step = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
    out[i] = {write}({read}(x[i]) * (kept[i] ? scale : ({real})0));
}}
"""
_TYPES = {
    "float32": ("float", "float", "", ""),
    "float64": ("double", "double", "", ""),
    "float16": ("f16", "float", "from_f16", "to_f16"),
    "bfloat16": ("bf16", "float", "from_bf16", "to_bf16"),
}
DTYPES = frozenset(_TYPES)


@cache
def dropped(dtype: str) -> RawKernel:
    """`x` times `scale` where it is kept, else times 0: `(x, kept, out, scale, count)`."""
    kind, real, read, write = _TYPES[dtype]
    text = _TEXT.format(type=kind, real=real, read=read, write=write)
    return RawKernel("dropped", SHORT_FLOATS + text)
