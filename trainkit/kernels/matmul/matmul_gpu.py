"""Matrix products on a GPU that a CUDA graph can be captured of.

CuPy refuses its own calls of cuBLAS while a stream captures, although cuBLAS itself takes part. So
there a product goes to cuBLAS at once, with a handle and memory to work in that stay with the
graph; everywhere else it is CuPy's.
Source: NVIDIA, "cuBLAS", sections 2.1.11 (CUDA graphs) and 2.8.12 (cublasGemmStridedBatchedEx).
"""

from __future__ import annotations

import ctypes
import math
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np

from trainkit.core import devices
from trainkit.core.dtypes import bfloat16
from trainkit.core.errors import UnimplementedError

Array = Any

WORKSPACE_BYTES = 32 << 20
"""What cuBLAS may work in; the size that NVIDIA recommends for Hopper."""

# cudaDataType_t, cublasComputeType_t and the type of the factors, by the dtype of the matrices.
_REAL = {
    np.dtype(np.float32): (0, 68, ctypes.c_float),
    np.dtype(np.float64): (1, 70, ctypes.c_double),
    np.dtype(np.float16): (2, 68, ctypes.c_float),
    bfloat16.dtype: (14, 68, ctypes.c_float),
}
_COMPUTE_TF32 = 77
_CUPY_FULL, _CUPY_TF32 = 1, 7  # `COMPUTE_TYPE_DEFAULT` and `COMPUTE_TYPE_TF32` of CuPy
_PLAIN, _TURNED = 0, 1
_DEFAULT_ALGORITHM = -1


class _Thread(threading.local):
    products: Products | None = None


_THREAD = _Thread()
_CHOSEN = SimpleNamespace(tf32=False)  # what a process without a GPU has asked for


def takes_tf32(xp: Any) -> bool:
    """Whether CuPy multiplies float32 matrices as TensorFloat-32, with 10 bits of mantissa."""
    return bool(xp._core.get_compute_type(np.float32) == _CUPY_TF32)


def set_tf32(xp: Any, enabled: bool) -> None:
    """Let CuPy multiply float32 matrices as TensorFloat-32 or in full.

    CUDA graphs that were captured before stay as they are.
    """
    xp._core.set_compute_type(np.float32, _CUPY_TF32 if enabled else _CUPY_FULL)


def enable_tf32(enabled: bool) -> None:
    """Let GPUs multiply float32 matrices as TensorFloat-32, with 10 bits of mantissa.

    Products are then several times as fast from NVIDIA's Ampere on. It is off at first, unlike in
    TensorFlow; on the CPU it changes nothing. Functions that have run as CUDA graphs already stay
    as they are.

    Args:
        enabled: whether they may.

    Raises:
        TypeError: it is no bool.
    """
    if not isinstance(enabled, bool):
        raise TypeError(
            f"enable_tensor_float_32_execution: enabled must be a bool, got {enabled!r}"
        )
    _CHOSEN.tf32 = enabled
    if devices.gpu_count():
        set_tf32(devices.parse("/gpu:0").xp, enabled)


def tf32_is_enabled() -> bool:
    """Whether GPUs may multiply float32 matrices as TensorFloat-32."""
    if devices.gpu_count():
        return takes_tf32(devices.parse("/gpu:0").xp)
    return _CHOSEN.tf32


def matmul(xp: Any, a: Array, b: Array, out: Array | None = None) -> Array:
    """`xp.matmul`; while this thread captures a CUDA graph, a call of cuBLAS in that graph."""
    if xp is np or _THREAD.products is None:
        return xp.matmul(a, b) if out is None else xp.matmul(a, b, out=out)
    return _THREAD.products.matmul(a, b, out)


def library(xp: Any) -> Any:
    """cuBLAS, as the running CuPy has it.

    Raises:
        OSError: it is not found.
    """
    major = xp.cuda.runtime.runtimeGetVersion() // 1000
    try:
        return ctypes.CDLL(f"libcublas.so.{major}")
    except OSError:
        from cuda.pathfinder import (  # type: ignore[import-not-found, unused-ignore]
            load_nvidia_dynamic_lib,  # comes with CuPy, whose cuBLAS may be a package of Python
        )

        return ctypes.CDLL(load_nvidia_dynamic_lib("cublas").abs_path)


class Products:
    """The products of one CUDA graph: a context in which `matmul` calls cuBLAS.

    It has to live as long as the graph, which works in its memory.

    Args:
        xp: CuPy.
    """

    def __init__(self, xp: Any) -> None:
        self._xp = xp
        self._library = library(xp)
        self._workspace = xp.empty(WORKSPACE_BYTES, np.uint8)
        self._handle = ctypes.c_void_p()
        self._call("cublasCreate_v2", ctypes.byref(self._handle))

    def __enter__(self) -> Products:
        stream = self._xp.cuda.get_current_stream().ptr
        self._call("cublasSetStream_v2", self._handle, ctypes.c_void_p(stream))
        place = ctypes.c_void_p(self._workspace.data.ptr)
        size = ctypes.c_size_t(WORKSPACE_BYTES)
        self._call("cublasSetWorkspace_v2", self._handle, place, size)
        self._before, _THREAD.products = _THREAD.products, self
        return self

    def __exit__(self, *error: object) -> None:
        _THREAD.products = self._before

    def close(self) -> None:
        """Give the handle back; no graph with its products may be launched after this."""
        if self._handle:
            self._call("cublasDestroy_v2", self._handle)
            self._handle = ctypes.c_void_p()

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            raise RuntimeError(f"{name}: cuBLAS says status {status}")

    def matmul(self, a: Array, b: Array, out: Array | None = None) -> Array:
        """The product of two arrays as `numpy.matmul` gives it.

        Raises:
            UnimplementedError: complex matrices.
        """
        xp = self._xp
        if a.dtype.kind in "biu" or a.dtype != b.dtype:  # CuPy's own kernel, or a cast and one
            return xp.matmul(a, b) if out is None else xp.matmul(a, b, out=out)
        if a.dtype not in _REAL:
            raise UnimplementedError(f"a product of {a.dtype} in a CUDA graph")
        left = a[None, :] if a.ndim == 1 else a
        right = b[:, None] if b.ndim == 1 else b
        if left.shape[-1] != right.shape[-2]:
            raise ValueError(f"matmul: the inner sizes of {a.shape} and {b.shape} differ")
        batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
        shape = (*batch, left.shape[-2], right.shape[-1])
        fits = out is not None and out.flags.c_contiguous and out.shape == shape
        y: Array = out if fits else xp.empty(shape, a.dtype)
        self._multiply(left, right, y, batch)
        if fits:
            return out
        y = y if b.ndim > 1 else y[..., 0]
        y = y if a.ndim > 1 else y[..., 0] if b.ndim == 1 else y[..., 0, :]
        if out is None:
            return y
        out[...] = y
        return out

    def _multiply(self, a: Array, b: Array, y: Array, batch: tuple[int, ...]) -> None:
        """Write the product into `y`, which is in row-major order."""
        (rows, inner), columns = a.shape[-2:], b.shape[-1]
        if not y.size:
            return
        if not inner:
            y.fill(0)
            return
        kind, compute, number = _REAL[a.dtype]
        if kind == 0 and takes_tf32(self._xp):
            compute = _COMPUTE_TF32
        one, zero = number(1), number(0)
        first, second = _Operand(self._xp, a, batch), _Operand(self._xp, b, batch)
        # cuBLAS counts by columns: to it these are the transposed matrices, and so is the product.
        given = [*second.given(kind), *first.given(kind)]
        sizes = [ctypes.c_int(n) for n in (columns, rows, inner)]
        turns = [ctypes.c_int(second.turned), ctypes.c_int(first.turned)]
        place = ctypes.c_void_p(y.data.ptr)
        step = ctypes.c_longlong(rows * columns)
        result = [place, ctypes.c_int(kind), ctypes.c_int(columns), step]
        tail = [ctypes.c_int(n) for n in (math.prod(batch), compute, _DEFAULT_ALGORITHM)]
        factors = [ctypes.byref(one)], [ctypes.byref(zero)]
        call = [self._handle, *turns, *sizes, *factors[0], *given, *factors[1], *result, *tail]
        self._call("cublasGemmStridedBatchedEx", *call)


class _Operand:
    """Matrices one behind the other as cuBLAS takes them: which way they lie, and the steps.

    Attributes:
        turned: whether the rows lie as the columns of the transposed matrix.
    """

    def __init__(self, xp: Any, x: Array, batch: tuple[int, ...]) -> None:
        if x.ndim > 2 and x.shape[:-2] != batch:
            x = xp.broadcast_to(x, (*batch, *x.shape[-2:]))
        flat = x.reshape(-1, *x.shape[-2:]) if x.ndim > 3 else x
        lie = _lie(flat)
        if lie is None:
            flat = xp.ascontiguousarray(flat)
            lie = _PLAIN, flat.shape[-1]
        self.turned, self._step = lie
        self._array = flat
        self._far = flat.strides[0] // flat.itemsize if flat.ndim > 2 else 0

    def given(self, kind: int) -> list[Any]:
        """The arguments: where, of which type, the step from row to row, and to the next matrix."""
        place = ctypes.c_void_p(self._array.data.ptr)
        return [place, ctypes.c_int(kind), ctypes.c_int(self._step), ctypes.c_longlong(self._far)]


def _lie(x: Array) -> tuple[int, int] | None:
    """Whether the matrices of `x` lie by rows or by columns, with the step between them."""
    rows, columns = x.shape[-2:]
    down, across = (s // x.itemsize for s in x.strides[-2:])
    if (across == 1 or columns == 1) and (down >= columns or rows == 1):
        return _PLAIN, max(down, columns) if rows > 1 else columns
    if (down == 1 or rows == 1) and (across >= rows or columns == 1):
        return _TURNED, max(across, rows) if columns > 1 else rows
    return None
