"""When a compiled element-wise kernel pays."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.kernels.jit import kernel_family
from trainkit.kernels.threads.thread_pool import shared

Array = Any

_F32, _BOOL = np.dtype(np.float32), np.dtype(np.bool_)

FEWEST = 1 << 16
"""Smaller arrays are left to NumPy without a further look: waking a thread takes that long."""

_NANOSECONDS = {
    "relu": 0.3,
    "relu_gradient": 0.25,
    "clip": 0.6,
    "where": 3.7,
    "keep_where": 3.0,
    "sigmoid": 0.55,
    "softplus": 1.5,
    "silu": 0.6,
    "erf": 1.5,
    "gelu_erf": 1.8,
    "gelu_tanh": 1.0,
    "silu_gradient": 1.2,
    "gelu_erf_gradient": 3.0,
    "gelu_tanh_gradient": 2.5,
}
"""What the plain versions take for an element."""
_EXACT = ("relu", "relu_gradient", "clip", "where", "keep_where")
ROUNDED = tuple(name for name in _NANOSECONDS if name not in _EXACT)
"""Those whose last bits differ from the plain versions'."""
_COMPILED_NANOSECONDS = {
    name: 0.1 if name in _EXACT else plain / 8 for name, plain in _NANOSECONDS.items()
}
"""What the compiled ones take on one core."""
_FAMILIES = {
    name: kernel_family.Family(name, "elementwise.elementwise_compiled", name, exact=name in _EXACT)
    for name in _NANOSECONDS
}


def applied(name: str, *arrays: Array, numbers: tuple[float, ...] = ()) -> Array | None:
    """The function `name` of arrays of one shape, or `None` where the plain version is to do it.

    Args:
        name: one of those in `kernels.elementwise.elementwise_compiled`.
        *arrays: float32; masks, which come first, are bool.
        numbers: what the kernel takes after the first array.
    """
    last = arrays[-1]
    if type(last) is not np.ndarray or last.dtype is not _F32 or last.size < FEWEST:
        return None
    shape = last.shape
    for x in arrays:
        if not x.flags.c_contiguous or x.shape != shape or x.dtype not in (_F32, _BOOL):
            return None
    run = _FAMILIES[name].find((), _NANOSECONDS[name] * 1e-9 * last.size)
    if run is None:
        return None
    y = np.empty(shape, np.float32)
    first, *rest = [x.reshape(-1) for x in arrays]
    work = shared(_COMPILED_NANOSECONDS[name] * last.size)
    run(*work, first, *numbers, *rest, y.reshape(-1))
    return y
