"""Whether all numbers of many arrays are finite, in one launch for up to 128 of them.

A number is not where all bits of its exponent are 1. Words of 16 bytes are read where an array
begins at a multiple of that.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from trainkit.core.dtypes import bfloat16
from trainkit.kernels.cuda import pointer_table
from trainkit.kernels.cuda.raw_kernel import RawKernel

Array = Any

# By dtype: the unsigned type of as many bytes, the exponent, and what of four words shows it.
_IN_EACH = "({e} & ~{{w}}) == 0"
_IN_HALVES = "({e}u & ~{{w}}) == 0 || ({e}0000u & ~{{w}}) == 0"
_FORMS = {
    np.dtype(np.float16): ("unsigned short", "0x7c00", _IN_HALVES, "xyzw"),
    bfloat16.dtype: ("unsigned short", "0x7f80", _IN_HALVES, "xyzw"),
    np.dtype(np.float32): ("unsigned int", "0x7f800000u", _IN_EACH, "xyzw"),
    np.dtype(np.float64): ("unsigned long long", "0x7ff0000000000000ull", "", "yw"),
}
_HIGH_OF_DOUBLE = "(0x7ff00000u & ~{w}) == 0"

_TEXT = """\
extern "C" __global__ void {name}(const Table t, bool* all) {{
  const int k = array_of(t);
  const {unit}* x = (const {unit}*)t.place[k];
  const long long start = (long long)((int)blockIdx.x - t.first[k]) * {piece};
  const long long rest = t.size[k] - start;
  const int count = rest < {piece} ? (int)rest : {piece};
  x += start;
  bool bad = false;
  const int wide = ((unsigned long long)x & 15) == 0 ? count / {each} : 0;
  for (int i = threadIdx.x; i < wide; i += blockDim.x) {{
    const uint4 w = ((const uint4*)x)[i];
    bad = bad || {some};
  }}
  for (int i = wide * {each} + threadIdx.x; i < count; i += blockDim.x) {{
    const {unit} w = x[i];
    bad = bad || ({exponent} & ~w) == 0;
  }}
  if (bad) *all = false;
}}
"""


@functools.cache
def _kernel(dtype: np.dtype[Any]) -> RawKernel:
    unit, exponent, test, words = _FORMS[dtype]
    test = test.format(e=exponent) or _HIGH_OF_DOUBLE
    name = f"all_finite_{dtype.name}"
    text = _TEXT.format(
        name=name,
        unit=unit,
        exponent=exponent,
        each=16 // dtype.itemsize,
        some=" || ".join(test.format(w=f"w.{word}") for word in words),
        piece=pointer_table.PIECE,
    )
    return RawKernel(name, pointer_table.TEXT + text)


def all_finite(xp: Any, arrays: Sequence[Array]) -> Array | None:
    """A bool on the GPU; `None` where there is no kernel for one of the arrays."""
    groups: dict[np.dtype[Any], list[Array]] = {}
    for x in arrays:
        in_any_order = x.flags.c_contiguous or x.flags.f_contiguous
        groups.setdefault(x.dtype, []).append(x if in_any_order else xp.ascontiguousarray(x))
    if not all(d in _FORMS and _kernel(d).is_there(xp) for d in groups):
        return None
    is_finite = xp.ones((), np.bool_)
    for dtype, some in groups.items():
        for table, blocks in pointer_table.tables(some, [x.size for x in some]):
            _kernel(dtype)(blocks, (table, is_finite))
    return is_finite
