"""In the place of CuPy's calls of Thrust and CUB, which bring a CUDA runtime of their own.

What they launch inside is not known: each call counts as one kernel. A sort by Thrust waits for the
stream at its end, so a capture refuses it.
"""

import ctypes
import math

import numpy as np


def replace(driver, cupy):
    """Replace what `cupy.cuda.thrust` and `cupy.cuda.cub` call."""

    def launched(name):
        stream = ctypes.c_ssize_t(cupy.cuda.get_current_stream().ptr)
        status = driver.null_kernel_call(name.encode(), stream)
        if status:
            raise cupy.cuda.runtime.CUDARuntimeError(status)

    _replace_thrust(cupy, launched)
    _replace_cub(cupy, launched)


def _replace_thrust(cupy, launched):
    def sorting(name):
        def call(dtype, *arguments):
            if np.dtype(dtype).char not in "?bBhHiIlLqQefdFD":
                raise NotImplementedError(f"Sorting arrays with dtype '{dtype}' is not supported")
            launched(f"thrust::{name}")
            cupy.cuda.get_current_stream().synchronize()

        return call

    for name in ("sort", "argsort", "lexsort"):
        setattr(cupy.cuda.thrust, name, sorting(name))


def _replace_cub(cupy, launched):
    cub = cupy.cuda.cub

    def result(y, out):
        if out is None:
            return y
        cupy._core.elementwise_copy(y, out)
        return out

    def device_reduce(x, op, reduce_axis, out_axis, out=None, keepdims=False):
        by_place = op in (cub.CUPY_CUB_ARGMIN, cub.CUPY_CUB_ARGMAX)
        shape = (1,) * x.ndim if keepdims else ()
        launched("cub::DeviceReduce")
        y = cupy.ndarray(shape, np.int64 if by_place else x.dtype)
        return result(y, out)

    def device_segmented_reduce(
        x, op, reduce_axis, out_axis, out=None, keepdims=False, contiguous_size=0
    ):
        kept = [1 if i in reduce_axis else n for i, n in enumerate(x.shape)]
        shape = kept if keepdims else [x.shape[i] for i in out_axis]
        if math.prod(x.shape):
            launched("cub::DeviceSegmentedReduce")
        return result(cupy.ndarray(tuple(shape), x.dtype), out)

    def device_scan(x, op):
        if x.size:
            launched("cub::DeviceScan")
        return cupy.ascontiguousarray(x)

    cub.device_reduce = device_reduce
    cub.device_segmented_reduce = device_segmented_reduce
    cub.device_scan = device_scan
