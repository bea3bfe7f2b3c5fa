"""Compiled element-wise kernels, and what they and the plain formulas cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.core.cpu.cost_model import BYTE_NANOSECONDS, CACHED_FLOATS, CALL_FLOATS
from trainkit.core.dispatch import native
from trainkit.core.dtypes import bfloat16
from trainkit.kernels.jit.array_kernel import ArrayKernel
from trainkit.kernels.jit.kernel_family import BYTE_SECONDS, Family, owned
from trainkit.kernels.threads.thread_pool import shared

Array = Any

_F32 = np.dtype(np.float32)
PARALLEL = CACHED_FLOATS
"""About so many elements are worth a second thread.

Fewer are left to the plain versions where these are fused in graphs, which have the bits of eager
calls: a loop of several operations is faster than a kernel for one. Kernels for operations that
are not fused serve all sizes: one thread is 8 to 12 times faster than their long formulas.
"""


def _kernel(name: str, takes: str, fewest: int = 1, exact: bool = False) -> ArrayKernel:
    file = "elementwise.elementwise_compiled"
    return ArrayKernel(name, file, name, takes, fewest=fewest, exact=exact)


def _exact(name: str, takes: str, fewest: int = CALL_FLOATS) -> ArrayKernel:
    """One that does what NumPy does in a single pass."""
    return _kernel(name, takes, fewest, exact=True)


relu = _exact("relu", "flat")
relu6 = _exact("relu6", "flat")
relu_gradient = _exact("relu_gradient", "flat flat")
leaky_relu = _exact("leaky_relu", "flat number")
hard_sigmoid = _exact("hard_sigmoid", "flat")
hard_silu = _exact("hard_silu", "flat")
hard_silu_gradient = _exact("hard_silu_gradient", "flat flat")
rsqrt = _exact("rsqrt", "flat")
soft_shrink = _exact("soft_shrink", "flat number")
hard_shrink = _exact("hard_shrink", "flat number")
sparse_plus = _exact("sparse_plus", "flat")
huber_penalty = _exact("huber_penalty", "flat number")
nan_to_num = _exact("nan_to_num", "flat number number number")
clip = _exact("clip", "flat number number", 1 << 8)
where = _exact("where", "mask flat flat")
keep_where = _exact("keep_where", "mask flat", 1 << 10)
sigmoid = _kernel("sigmoid", "flat", 1 << 14)
softplus = _kernel("softplus", "flat", PARALLEL)
silu = _kernel("silu", "flat", PARALLEL)
erf = _kernel("erf", "flat")
gelu_erf = _kernel("gelu_erf", "flat")
gelu_tanh = _kernel("gelu_tanh", "flat", PARALLEL)
elu_gradient = _kernel("elu_gradient", "flat flat number", PARALLEL)
selu_gradient = _kernel("selu_gradient", "flat flat", PARALLEL)
silu_gradient = _kernel("silu_gradient", "flat flat", PARALLEL)
gelu_erf_gradient = _kernel("gelu_erf_gradient", "flat flat")
gelu_tanh_gradient = _kernel("gelu_tanh_gradient", "flat flat", PARALLEL)

NUMBERS_CHOSEN = (
    _exact("number_where", "mask number flat"),
    _exact("where_or_number", "mask flat number"),
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
    return native.elements_chosen(mask, a, b) if result is None else result


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
    moved = x.nbytes + sum(a.nbytes for a in arrays)
    run = half.find((), BYTE_SECONDS * moved)
    if run is None:
        return None
    y = np.empty(x.shape, _BF16)
    flat = [owned(a).reshape(-1) for a in (*arrays, y)]
    bits = [a.view(np.uint16) if a.dtype is _BF16 else a for a in flat]
    run(*shared(BYTE_NANOSECONDS * moved), *bits)
    return y
