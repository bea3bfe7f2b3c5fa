"""Kernels of CUDA C++ whose text serves several types of elements.

A text has `T` for the elements in memory and `A` for what is computed with: float32 for elements of
16 bits, else the same. `wide(x)` and `narrow(a)` go from one to the other, and `EXP(a)`, `LOG(a)`,
`ERF(a)`, `ERFC(a)`, `TANH(a)` and `SQRT(a)` are functions of `A`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.core.dtypes import bfloat16
from trainkit.kernels.cuda.raw_kernel import RawKernel

BY_DTYPE = {
    np.dtype(np.float32): ("float", "float", "", "x", "a"),
    np.dtype(np.float64): ("double", "double", "", "x", "a"),
    np.dtype(np.float16): ("__half", "float", "fp16", "__half2float(x)", "__float2half(a)"),
    bfloat16.dtype: (
        "__nv_bfloat16", "float", "bf16", "__bfloat162float(x)", "__float2bfloat16(a)",
    ),
}  # fmt: skip
"""For each dtype: `T`, `A`, the header that has `T`, and how to come from one to the other."""
_HEAD = """\
{include}typedef {stored} T;
typedef {computed} A;
__device__ inline A wide(T x) {{ return {widened}; }}
__device__ inline T narrow(A a) {{ return {narrowed}; }}
#define EXP exp{end}
#define ERF erf{end}
#define ERFC erfc{end}
#define LOG log{end}
#define TANH tanh{end}
#define SQRT sqrt{end}
"""


def computed_in(dtype: Any) -> Any:
    """The dtype of `A`, in which a kernel computes with elements of `dtype`."""
    return np.float64 if dtype == np.float64 else np.float32


class TypedKernel:
    """A kernel for elements of float16, bfloat16, float32 and float64.

    Args:
        name: of the function in the text.
        text: CUDA C++ with the types and functions above, or what gives it for the dtype of `A`.
        options: for NVRTC.
    """

    def __init__(
        self, name: str, text: str | Callable[[Any], str], options: tuple[str, ...] = ()
    ) -> None:
        self.name = name
        self._text = text
        self._options = options
        self._kernels: dict[Any, RawKernel] = {}

    def of(self, dtype: Any) -> RawKernel | None:
        """The kernel for elements of `dtype`, `None` where there is none."""
        kernel = self._kernels.get(dtype)
        if kernel is None and dtype in BY_DTYPE:
            text = self.source(dtype)
            kernel = self._kernels[dtype] = RawKernel(self.name, text, self._options)
        return kernel

    def source(self, dtype: Any) -> str:
        """The text for elements of `dtype`."""
        dtype = np.dtype(dtype)
        stored, computed, header, widened, narrowed = BY_DTYPE[dtype]
        head = _HEAD.format(
            include=f"#include <cuda_{header}.h>\n" if header else "",
            stored=stored,
            computed=computed,
            widened=widened,
            narrowed=narrowed,
            end="f" if computed == "float" else "",
        )
        text = self._text
        return head + (text if isinstance(text, str) else text(np.dtype(computed_in(dtype))))


def ready(xp: Any, dtype: Any, *kernels: TypedKernel) -> list[RawKernel] | None:
    """These kernels for elements of `dtype`, `None` where one can't be launched."""
    raw_kernels = [kernel.of(dtype) for kernel in kernels]
    if any(kernel is None or not kernel.is_there(xp) for kernel in raw_kernels):
        return None
    return raw_kernels  # type: ignore[return-value]
