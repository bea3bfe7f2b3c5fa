"""Rectifiers, their gradients and choices over the bits of bfloat16, to the bits of `ml_dtypes`."""

from __future__ import annotations

import numpy as np
from numba import boolean, types

from trainkit.kernels.jit.builders import by_parts
from trainkit.kernels.jit.elements import PART_STEP, as_element, as_float
from trainkit.kernels.threads.parallel_for import chunk_range

_BITS, _MASK = types.uint16[::1], boolean[::1]
_ZERO, _SIX = np.uint16(0), np.uint16(0x40C0)


@by_parts(_BITS, _BITS, exact=True, apart=True)
def relu(part, parts, x, y):
    """max(x, 0); NaN stays."""
    first, last = chunk_range(part, parts, x.size, PART_STEP)
    for i in range(first, last):
        value = as_float(x[i])
        y[i] = x[i] if value > np.float32(0) or value != value else _ZERO


@by_parts(_BITS, _BITS, exact=True, apart=True)
def relu6(part, parts, x, y):
    """min(max(x, 0), 6); NaN stays."""
    first, last = chunk_range(part, parts, x.size, PART_STEP)
    for i in range(first, last):
        value = as_float(x[i])
        bits = x[i] if value > np.float32(0) or value != value else _ZERO
        y[i] = _SIX if value > np.float32(6) else bits


@by_parts(_BITS, _BITS, _BITS, exact=True, apart=True)
def relu_gradient(part, parts, g, y, result):
    """The gradient g where y > 0, else g * 0."""
    first, last = chunk_range(part, parts, g.size, PART_STEP)
    for i in range(first, last):
        factor = np.float32(1) if as_float(y[i]) > np.float32(0) else np.float32(0)
        result[i] = as_element(as_float(g[i]) * factor, result)


@by_parts(_MASK, _BITS, _BITS, exact=True, apart=True)
def keep_where(part, parts, mask, x, y):
    """The number x where the mask is true, else 0."""
    first, last = chunk_range(part, parts, x.size, PART_STEP)
    for i in range(first, last):
        y[i] = x[i] if mask[i] else _ZERO
