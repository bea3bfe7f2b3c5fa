"""float32 as bfloat16 or float16 and back: with the bits of `astype`, in a part of its time."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.core.cpu.cost_model import BYTE_NANOSECONDS, CALL_FLOATS, FIRST_FLOATS
from trainkit.core.dtypes import bfloat16
from trainkit.kernels.jit import target
from trainkit.kernels.jit.kernel_family import BYTE_SECONDS, Family
from trainkit.kernels.threads.thread_pool import shared

Array = Any

_FILE = "elementwise.half_casts_compiled"
_BF16, _F16, _F32 = bfloat16.dtype, np.dtype(np.float16), np.dtype(np.float32)
FEWEST, _FEWEST_OF_BFLOAT16 = CALL_FLOATS // 2, 2 * FIRST_FLOATS
"""Elements from which on the kernel pays: of float16, which NumPy converts slowly, fewer."""
_KERNELS = {
    (_F32, _BF16): Family("bfloat16_narrow", _FILE, "narrow_to_bfloat16", exact=True),
    (_BF16, _F32): Family("bfloat16_widen", _FILE, "widen_bfloat16", exact=True),
    (_F32, _F16): Family("float16_narrow", _FILE, "narrow_to_float16", exact=True),
    (_F16, _F32): Family("float16_widen", _FILE, "widen_float16", exact=True),
}
"""By the dtype of the array and that of the result; NaN of float16 may have other bits."""
_DTYPES = {"bfloat16": _BF16, "float16": _F16, "float32": _F32}


def cast_array(x: Array, dtype: Any) -> Array:
    """`x.astype(dtype)`, or `x` itself where it has that dtype."""
    if x.dtype == dtype:
        return x
    y = _by_kernel(x, np.dtype(dtype)) if x.size >= FEWEST else None
    return x.astype(dtype) if y is None else y


def cast_between_floats(x: Array, *, dtype: str) -> Array | None:
    """`x` as the dtype of this name by the kernel, or `None` where that is for other dtypes."""
    return _by_kernel(x, _DTYPES.get(dtype))


def _by_kernel(x: Array, dtype: Any) -> Array | None:
    family = _KERNELS.get((x.dtype, dtype))
    if family is None or type(x) is not np.ndarray:
        return None
    short_dtype = x.dtype if dtype == _F32 else dtype
    if x.size < (_FEWEST_OF_BFLOAT16 if short_dtype == _BF16 else FEWEST):
        return None
    if short_dtype == _F16 and not target.converts_float16():
        return None
    run = family.find((), 6 * x.size * BYTE_SECONDS)
    if run is None:
        return None
    if not x.flags.forc:  # as repeated gradients of means: NumPy copies bits as fast as floats
        x = x.view(f"u{x.itemsize}").copy(order="K").view(x.dtype)
    y = np.empty_like(x, dtype)  # in the order of x, as `astype` has it
    run(*shared(BYTE_NANOSECONDS * (x.nbytes + y.nbytes)), x.ctypes.data, y.ctypes.data, x.size)
    return y


def run_in_float32(function: Callable[..., Any], *arrays: Any, **settings: Any) -> Any:
    """What a function gives of arrays, those of 16-bit floats being float32 to it.

    Its results, an array, several or `None`, have the dtype of the first array.
    """
    dtype = arrays[0].dtype
    if dtype.itemsize >= _F32.itemsize:
        return function(*arrays, **settings)
    result = function(*map(_widen, arrays), **settings)
    if isinstance(result, tuple):
        return tuple(cast_array(part, dtype) for part in result)
    return result if result is None else cast_array(result, dtype)


def with_float16(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` of arrays, for which those of float16 become float32, as by `run_in_float32`.

    It reads other dtypes, bfloat16 among them, as they are.
    """

    @functools.wraps(function)
    def run(*arrays: Any, **settings: Any) -> Any:
        if arrays[0].dtype is _F16:
            return run_in_float32(function, *arrays, **settings)
        return function(*arrays, **settings)

    return run


def _widen(x: Any) -> Any:
    is_short = isinstance(x, np.ndarray) and x.dtype.itemsize == 2 and x.dtype.kind not in "iu"
    return cast_array(x, _F32) if is_short else x
