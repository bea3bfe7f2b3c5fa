"""float32 as bfloat16 and back, element by element."""

from __future__ import annotations

from numba import types

from trainkit.kernels.jit.builders import VECTOR, by_parts
from trainkit.kernels.jit.elements import as_element, as_float
from trainkit.kernels.threads.parallel_for import chunk_range

_BITS, _LINE = types.uint16[::1], 64
_READ_BITS = types.Array(types.uint16, 1, "C", readonly=True)
_READ_FLOATS = types.Array(types.float32, 1, "C", readonly=True)


@by_parts(_READ_BITS, VECTOR, exact=True, apart=True)
def widen(part, parts, x, y):
    """Bits of bfloat16 as the float32 that equals it."""
    first, last = chunk_range(part, parts, x.size, _LINE)
    for i in range(first, last):
        y[i] = as_float(x[i])


@by_parts(_READ_FLOATS, _BITS, exact=True, apart=True)
def narrow(part, parts, x, y):
    """Bits of the nearest bfloat16."""
    first, last = chunk_range(part, parts, x.size, _LINE)
    for i in range(first, last):
        y[i] = as_element(x[i], y)
