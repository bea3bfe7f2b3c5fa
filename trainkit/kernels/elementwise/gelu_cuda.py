"""The error function and Gaussian error linear units on a GPU, one launch each.

As array arithmetic each of them is twenty launches, that is as many passes over memory. Short
floats are computed in float32 and rounded once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainkit.kernels.cuda.element_types import TypedKernel, ready
from trainkit.kernels.cuda.raw_kernel import ROUNDED, blocks_for

Array = Any

_TANH_SCALE = math.sqrt(2 / math.pi)
_CUBIC = 0.044715
_CONSTANTS = f"""\
#define ROOT_HALF ((A){math.sqrt(0.5)!r})
#define DENSITY ((A){1 / math.sqrt(2 * math.pi)!r})
#define SCALE ((A){_TANH_SCALE!r})
#define CUBIC ((A){_CUBIC!r})
"""
_TEXT = """\
extern "C" __global__ void {name}({given}, T* __restrict__ y, const long long count) {{
  const long long step = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {{
    {body}
  }}
}}
"""


def _kernel(name: str, inputs: str, *steps: str) -> TypedKernel:
    lines = [f"const A {x} = wide({x}s[i]);" for x in inputs.split()]
    lines += [*steps[:-1], f"y[i] = narrow({steps[-1]});"]
    parameters = ", ".join(f"const T* __restrict__ {x}s" for x in inputs.split())
    text = _TEXT.format(name=name, given=parameters, body="\n    ".join(lines))
    return TypedKernel(name, _CONSTANTS + text, ROUNDED)


ERF = _kernel("error_function", "x", "ERF(x)")
# 1 + erf(z) is erfc(-z), which does not cancel where erf(z) is near -1. Beyond 40 it is 0 or 2, and
# the density is 0, whose product with inf is NaN.
_WITHIN = "const A t = x < -40 ? (A)-40 : x > 40 ? (A)40 : x;"
BY_ERF = _kernel("gelu_erf", "x", _WITHIN, "(x > 40 ? x : t) * ((A)0.5 * ERFC(-t * ROOT_HALF))")
BY_ERF_BACK = _kernel(
    "gelu_erf_back",
    "g x",
    _WITHIN,
    "const A share = ERFC(-t * ROOT_HALF) * (A)0.5;",
    "g * (share + t * (EXP(t * t * (A)-0.5) * DENSITY))",
)
# (1 + tanh(u)) / 2 is 1 / (1 + exp(-2 * u)), which does not cancel where tanh(u) is near -1.
_POWER = "const A power = EXP(x * (x * x * (-2 * SCALE * CUBIC) - 2 * SCALE));"
BY_TANH = _kernel("gelu_tanh", "x", _POWER, "x / (1 + power)")
BY_TANH_BACK = _kernel(
    "gelu_tanh_back",
    "g x",
    _POWER,
    "const A s = 1 / (1 + power);",
    "const A slope = x * x * (6 * SCALE * CUBIC) + 2 * SCALE;",
    "g * (s * (1 + x * slope * (1 - s)))",
)


def _result(xp: Any, kernel: TypedKernel, *arrays: Array) -> Array | None:
    """What a kernel makes of arrays of one dtype; `None` where it is not for them.

    Arrays of different shapes are broadcast: array arithmetic has other last bits, and an item of a
    batch would get others than by itself.
    """
    dtype = arrays[0].dtype
    if any(a.dtype != dtype for a in arrays[1:]):
        return None
    if any(a.shape != arrays[0].shape for a in arrays[1:]):
        arrays = tuple(xp.broadcast_arrays(*arrays))
    size = arrays[0].size
    kernels = ready(xp, dtype, kernel) if size else None
    if kernels is None:
        return None
    y = xp.empty(arrays[0].shape, dtype)
    kernels[0](blocks_for(size), (*map(xp.ascontiguousarray, arrays), y, np.int64(size)))
    return y


def erf(xp: Any, x: Array) -> Array | None:
    """The error function."""
    return _result(xp, ERF, x)


def gelu_erf(xp: Any, x: Array) -> Array | None:
    """x times the normal distribution function of x."""
    return _result(xp, BY_ERF, x)


def gelu_erf_gradient(xp: Any, g: Array, x: Array) -> Array | None:
    """`g` times the slope of that."""
    return _result(xp, BY_ERF_BACK, g, x)


def gelu_tanh(xp: Any, x: Array) -> Array | None:
    """The same with the tanh approximation."""
    return _result(xp, BY_TANH, x)


def gelu_tanh_gradient(xp: Any, g: Array, x: Array) -> Array | None:
    """`g` times the slope of that."""
    return _result(xp, BY_TANH_BACK, g, x)
