"""Compiled element-wise kernels, and what they and the plain formulas cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.core.dtypes import bfloat16
from trainkit.kernels.jit.array_kernel import ArrayKernel
from trainkit.kernels.jit.kernel_family import BFLOAT16_SECONDS, Family, owned
from trainkit.kernels.threads.thread_pool import BYTE_NANOSECONDS, shared

Array = Any

_F32 = np.dtype(np.float32)
PARALLEL = 1 << 16
"""About so many elements are worth a second thread.

Fewer are left to the plain versions where these are fused in graphs, which have the bits of eager
calls: a loop of several operations is faster than a kernel for one. Kernels for operations that
are not fused serve all sizes: one thread is 8 to 12 times faster than their long formulas.
"""


def _kernel(name: str, takes: str, plain: float, fewest: int = 1, **facts: Any) -> ArrayKernel:
    facts = {"plain": plain, "fewest": fewest, **facts}
    return ArrayKernel(name, "elementwise.elementwise_compiled", name, takes, **facts)


def _exact(name: str, takes: str, plain: float, fewest: int) -> ArrayKernel:
    """One that does what NumPy does in a single pass, and is called more slowly."""
    return _kernel(name, takes, plain, fewest, exact=True)


relu = _exact("relu", "flat", 0.3, 1 << 12)
relu6 = _exact("relu6", "flat", 0.6, 1 << 12)
relu_gradient = _exact("relu_gradient", "flat flat", 0.25, 1 << 12)
leaky_relu = _exact("leaky_relu", "flat number", 0.6, 1 << 12)
hard_sigmoid = _exact("hard_sigmoid", "flat", 1.0, 1 << 12)
hard_silu = _exact("hard_silu", "flat", 1.3, 1 << 12)
hard_silu_gradient = _exact("hard_silu_gradient", "flat flat", 4.0, 1 << 12)
rsqrt = _exact("rsqrt", "flat", 0.6, 1 << 12)
clip = _exact("clip", "flat number number", 0.6, 1 << 8)
where = _exact("where", "mask flat flat", 3.7, 1 << 12)
keep_where = _exact("keep_where", "mask flat", 3.0, 1 << 10)
sigmoid = _kernel("sigmoid", "flat", 0.55, 1 << 14)
softplus = _kernel("softplus", "flat", 1.5, PARALLEL)
silu = _kernel("silu", "flat", 0.6, PARALLEL)
erf = _kernel("erf", "flat", 1.5)
gelu_erf = _kernel("gelu_erf", "flat", 1.8)
gelu_tanh = _kernel("gelu_tanh", "flat", 1.0, PARALLEL)
elu_gradient = _kernel("elu_gradient", "flat flat number", 2.5, PARALLEL)
selu_gradient = _kernel("selu_gradient", "flat flat", 2.5, PARALLEL)
silu_gradient = _kernel("silu_gradient", "flat flat", 1.2, PARALLEL)
gelu_erf_gradient = _kernel("gelu_erf_gradient", "flat flat", 3.0)
gelu_tanh_gradient = _kernel("gelu_tanh_gradient", "flat flat", 2.5, PARALLEL)

NUMBERS_CHOSEN = (
    _exact("number_where", "mask number flat", 3.7, 1 << 12),
    _exact("where_or_number", "mask flat number", 3.7, 1 << 12),
)
"""`where` with a number in place of its first array, and of its second one."""


def choose(mask: Array, a: Array, b: Array) -> Array | None:
    """`a` where the mask is true, else `b`, either of which may be a number; or `None`."""
    result: Array | None
    if b.dtype is _F32 and not b.ndim:
        result = NUMBERS_CHOSEN[1](mask, a, float(b))
    elif a.dtype is _F32 and not a.ndim:
        result = NUMBERS_CHOSEN[0](mask, float(a), b)
    else:
        result = where(mask, a, b)
    return result


# ------------------------------------------------------------------ bfloat16

_BF16 = bfloat16.dtype


def by_dtype(kernel: ArrayKernel) -> Callable[..., Array | None]:
    """`kernel` for float32, and the one of its name that reads bits for bfloat16."""
    file = "elementwise.half_elementwise_compiled"
    half = Family(f"half_{kernel.name}", file, kernel.name, exact=True)

    def run(*arrays: Array) -> Array | None:
        if getattr(arrays[-1], "dtype", None) is not _BF16:
            result: Array | None = kernel(*arrays)
            return result
        return _of_bits(half, arrays)

    return run


def _of_bits(half: Family, arrays: tuple[Array, ...]) -> Array | None:
    x = arrays[-1]
    if any(type(a) is not np.ndarray or a.shape != x.shape for a in arrays):
        return None
    if any(a.dtype not in (_BF16, np.bool_) for a in arrays) or not x.size:
        return None
    run = half.find((), BFLOAT16_SECONDS * x.size)
    if run is None:
        return None
    y = np.empty(x.shape, _BF16)
    flat = [owned(a).reshape(-1) for a in (*arrays, y)]
    bits = [a.view(np.uint16) if a.dtype is _BF16 else a for a in flat]
    run(*shared(BYTE_NANOSECONDS * sum(a.nbytes for a in flat)), *bits)
    return y
