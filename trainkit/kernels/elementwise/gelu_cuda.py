"""The error function and Gaussian error linear units on a GPU, one launch each.

As array arithmetic each of them is twenty launches, that is as many passes over memory. Short
floats are computed in float32 and rounded once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.kernels.cuda.element_types import TypedKernel, ready
from trainkit.kernels.cuda.formula_lines import formula_lines
from trainkit.kernels.cuda.raw_kernel import ROUNDED, blocks_for
from trainkit.kernels.elementwise import elementwise_reference

Array = Any

_TEXT = """\
extern "C" __global__ void {name}({given}, T* __restrict__ y, const long long count) {{
  const long long step = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {{
    {lines}
    y[i] = narrow({result});
  }}
}}
"""
# A tail by the device's own erfc, whose digits are those of any dtype.
_TAIL = elementwise_reference.tail_by_erfc(lambda t: t.call("erfc"))


def _kernel(name: str, body: Callable[..., Any]) -> TypedKernel:
    inputs = list(inspect.signature(body).parameters)[1:]

    def text_for(dtype: Any) -> str:
        lines, result = formula_lines(body, dtype)
        loads = [f"const A {x} = wide({x}s[i]);" for x in inputs]
        arrays = ", ".join(f"const T* __restrict__ {x}s" for x in inputs)
        text = "\n    ".join([*loads, *lines])
        return _TEXT.format(name=name, given=arrays, lines=text, result=result)

    return TypedKernel(name, text_for, ROUNDED)


ERF = _kernel("error_function", lambda xp, x: x.call("erf"))
BY_ERF = _kernel("gelu_erf", lambda xp, x: elementwise_reference.gelu_erf(xp, x, _TAIL))
BY_ERF_BACK = _kernel(
    "gelu_erf_back", lambda xp, g, x: elementwise_reference.gelu_erf_gradient(xp, g, x, _TAIL)
)
BY_TANH = _kernel("gelu_tanh", elementwise_reference.gelu_tanh)
BY_TANH_BACK = _kernel("gelu_tanh_back", elementwise_reference.gelu_tanh_gradient)


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
