"""Matrix products of floats on a GPU: one call of cuBLAS each, alone or in a CUDA graph.

CuPy refuses its own calls of cuBLAS while a stream captures, although cuBLAS itself takes part, and
has no product of bfloat16 with more than two axes. So products of floats go to cuBLAS at once, and
a captured step makes the same calls as one that is not. A thread has one handle for each GPU.
Source: NVIDIA, "cuBLAS", sections 2.1.11 (CUDA graphs) and 2.8.12 (cublasGemmStridedBatchedEx).
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import threading
import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

from trainkit.core import devices
from trainkit.core.dtypes import bfloat16

Array = Any

WORKSPACE_BYTES = 32 << 20
"""What cuBLAS may work in; the size that NVIDIA recommends for Hopper."""

_FLOAT_FACTORS = ctypes.c_float(1), ctypes.c_float(0)
_DOUBLE_FACTORS = ctypes.c_double(1), ctypes.c_double(0)
# cudaDataType_t, cublasComputeType_t, 1 and 0, by the dtype of the matrices.
_REAL = {
    np.dtype(np.float32): (0, 68, *_FLOAT_FACTORS),
    np.dtype(np.float64): (1, 70, *_DOUBLE_FACTORS),
    np.dtype(np.float16): (2, 68, *_FLOAT_FACTORS),
    bfloat16.dtype: (14, 68, *_FLOAT_FACTORS),
}
_COMPUTE_TF32 = 77
_CUPY_FULL, _CUPY_TF32 = 1, 7  # `COMPUTE_TYPE_DEFAULT` and `COMPUTE_TYPE_TF32` of CuPy
_PLAIN, _TURNED = range(2)
_DEFAULT_ALGORITHM = -1


_POINTER, _INT, _LONG = ctypes.c_void_p, ctypes.c_int, ctypes.c_longlong
_MATRIX = [_POINTER, _INT, _INT, _LONG]  # where, of which type, steps to the next row and matrix
_SIGNATURES = {
    "cublasCreate_v2": [_POINTER],
    "cublasDestroy_v2": [_POINTER],
    "cublasSetStream_v2": [_POINTER, _POINTER],
    "cublasSetWorkspace_v2": [_POINTER, _POINTER, ctypes.c_size_t],
    "cublasGemmStridedBatchedEx": [
        _POINTER,
        *(_INT, _INT),
        *(_INT, _INT, _INT),
        *(_POINTER, *_MATRIX, *_MATRIX),
        *(_POINTER, *_MATRIX),
        *(_INT, _INT, _INT),
    ],
}


class _Thread(threading.local):
    """The handles of a thread, by the number of the GPU."""

    def __init__(self) -> None:
        self.handles: dict[int, Cublas] = {}


_THREAD = _Thread()
_CHOSEN = SimpleNamespace(tf32=False)  # what a process without a GPU has asked for


def takes_tf32(xp: Any) -> bool:
    """Whether float32 matrices are multiplied as TensorFloat-32, with 10 bits of mantissa."""
    return bool(xp._core.get_compute_type(np.float32) == _CUPY_TF32)


def set_tf32(xp: Any, enabled: bool) -> None:
    """Let float32 matrices be multiplied as TensorFloat-32 or in full, by CuPy's products too.

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
    return bool(_CHOSEN.tf32)


def matmul(xp: Any, a: Array, b: Array, out: Array | None = None) -> Array:
    """The product as `numpy.matmul` gives it; floats of a GPU are multiplied by cuBLAS."""
    if xp is np:
        return np.matmul(a, b) if out is None else np.matmul(a, b, out=out)
    if isinstance(a, xp.ndarray) and isinstance(b, xp.ndarray):  # not traced, nor of the host
        if a.dtype != b.dtype:
            dtype = np.result_type(a.dtype, b.dtype)
            a, b = a.astype(dtype, copy=False), b.astype(dtype, copy=False)
        if a.dtype in _REAL:
            return here(xp).matmul(a, b, out)
    # a kernel of CuPy's own for integers, its own call of cuBLAS for complex numbers
    return xp.matmul(a, b) if out is None else xp.matmul(a, b, out=out)


def here(xp: Any) -> Cublas:
    """The handle of this thread on the current GPU, made where there is none yet."""
    device = int(xp.cuda.runtime.getDevice())
    handle = _THREAD.handles.get(device)
    if handle is None:
        handle = _THREAD.handles[device] = Cublas(xp)
    return handle


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


class Cublas:
    """A handle of cuBLAS, for one thread and the GPU that is current when it is made."""

    def __init__(self, xp: Any) -> None:
        self._xp = xp
        self._library = library(xp)
        for name, types in _SIGNATURES.items():
            getattr(self._library, name).argtypes = types
        handle = ctypes.c_void_p()
        self._call("cublasCreate_v2", ctypes.byref(handle))
        self._handle = handle.value
        self._stream: int | None = None
        self._workspaces: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        weakref.finalize(self, self._library.cublasDestroy_v2, self._handle)

    def workspace(self, stream: int) -> Array:
        """Memory to work in for the graphs that are launched on a stream, one after the other.

        They share it, and each has to keep it, and this handle, for as long as it lives.
        """
        memory = self._workspaces.get(stream)
        if memory is None:
            memory = self._workspaces[stream] = self._xp.empty(WORKSPACE_BYTES, np.uint8)
        return memory

    @contextlib.contextmanager
    def working_in(self, workspace: Array) -> Iterator[None]:
        """Products of the current stream use this memory, and take none themselves."""
        self._follow(self._xp.cuda.get_current_stream().ptr)
        address = workspace.data.ptr
        self._call("cublasSetWorkspace_v2", self._handle, address, workspace.nbytes)
        try:
            yield
        finally:
            self._stream = None  # going to any stream brings cuBLAS's own memory back

    def _follow(self, stream: int) -> None:
        """Work on this stream from now on."""
        if stream != self._stream:
            self._call("cublasSetStream_v2", self._handle, stream)
            self._stream = stream

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            raise RuntimeError(f"{name}: cuBLAS says status {status}")

    def matmul(self, a: Array, b: Array, out: Array | None = None) -> Array:
        """The product of two arrays of one type of float as `numpy.matmul` gives it.

        Raises:
            ValueError: their inner sizes differ.
        """
        left = a[None, :] if a.ndim == 1 else a
        right = b[:, None] if b.ndim == 1 else b
        if left.shape[-1] != right.shape[-2]:
            raise ValueError(f"matmul: the inner sizes of {a.shape} and {b.shape} differ")
        batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
        shape = (*batch, left.shape[-2], right.shape[-1])
        fits = out is not None and _is_whole(out, shape, a.dtype)
        y: Array = out if fits else self._xp.empty(shape, a.dtype)
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
        kind, compute, one, zero = _REAL[a.dtype]
        if kind == 0 and takes_tf32(self._xp):
            compute = _COMPUTE_TF32
        first, second = _Operand(self._xp, a, batch), _Operand(self._xp, b, batch)
        self._follow(self._xp.cuda.get_current_stream().ptr)
        # cuBLAS counts by columns: to it these are the transposed matrices, and so is the product.
        self._call(
            "cublasGemmStridedBatchedEx",
            self._handle,
            *(second.turned, first.turned),
            *(columns, rows, inner),
            *(_address(one), *second.given(kind), *first.given(kind)),
            *(_address(zero), y.data.ptr, kind, columns, rows * columns),
            *(math.prod(batch), compute, _DEFAULT_ALGORITHM),
        )


def _address(number: Any) -> int:
    return ctypes.addressof(number)


def _is_whole(out: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    fits: bool = out.flags.c_contiguous and out.shape == shape and out.dtype == dtype
    return fits


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
        return [self._array.data.ptr, kind, self._step, self._far]


def _lie(x: Array) -> tuple[int, int] | None:
    """Whether the matrices of `x` lie by rows or by columns, with the step between them."""
    rows, columns = x.shape[-2:]
    down, across = (s // x.itemsize for s in x.strides[-2:])
    if (across == 1 or columns == 1) and (down >= columns or rows == 1):
        return _PLAIN, max(down, columns) if rows > 1 else columns
    if (down == 1 or rows == 1) and (across >= rows or columns == 1):
        return _TURNED, max(across, rows) if columns > 1 else rows
    return None
