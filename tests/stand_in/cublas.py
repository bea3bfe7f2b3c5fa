"""cuBLAS of the stand-in: what a call says in addresses, steps and sizes is what is computed."""

import ctypes
import itertools

import ml_dtypes
import numpy as np

from tests.stand_in import memory, streams

_TYPES = {0: "f4", 1: "f8", 2: "f2", 14: ml_dtypes.bfloat16}
_COMPUTE = {0: {68, 77}, 1: {70}, 2: {68}, 14: {68}}
_SUCCESS, _INVALID = 0, 7


class Library:
    """What `ctypes` makes of the file; each function gives a status."""

    def __init__(self):
        self._count = itertools.count(1)
        self.open = {}
        self.computed_in = set()

    def cublasCreate_v2(self, handle):
        if streams.capturing() is not None:
            return _INVALID  # it takes memory
        handle._obj.value = next(self._count)
        self.open[handle._obj.value] = {"stream": None, "workspace": None}
        return _SUCCESS

    def cublasDestroy_v2(self, handle):
        return _SUCCESS if self.open.pop(handle.value, None) else _INVALID

    def cublasSetStream_v2(self, handle, stream):
        self.open[handle.value] = {"stream": stream.value or 0, "workspace": None}
        return _SUCCESS

    def cublasSetWorkspace_v2(self, handle, place, size):
        self.open[handle.value]["workspace"] = (place.value, size.value)
        return _SUCCESS

    def cublasGemmStridedBatchedEx(self, handle, *arguments):
        kept = self.open[handle.value]
        if kept["stream"] != streams.current_stream().ptr or kept["workspace"] is None:
            return _INVALID
        # numbers behind a pointer are read when the call is made, addresses when it runs
        values = [x._obj.value if hasattr(x, "_obj") else x.value for x in arguments]
        self.computed_in.add(values[-2])
        matrices, kept = _matrices(*values)
        tape = streams.capturing()
        if tape is None:
            return _multiply(*matrices) or _SUCCESS
        for owner in kept:
            tape.note_memory(owner)
        hosts = [host for owner in kept for host in owner.hosts]
        tape.steps.append((_multiply, (*matrices, hosts), {}, []))
        return _SUCCESS


def _matrix(place, kind, rows, columns, step, far, count):
    """Matrices by columns, as cuBLAS sees them: (count, rows, columns), and their memory."""
    if step < max(rows, 1):
        raise AssertionError(f"the step {step} is less than {rows} rows")
    dtype = np.dtype(_TYPES[kind])
    size = (count - 1) * far + (columns - 1) * step + rows
    owner = memory.around(place)
    if owner is None or place + size * dtype.itemsize > owner.ptr + owner.size:
        raise AssertionError("a matrix goes beyond its memory")
    flat = np.ndarray(size, dtype, (ctypes.c_char * (size * dtype.itemsize)).from_address(place))
    steps = tuple(dtype.itemsize * n for n in (far, 1, step))
    return np.lib.stride_tricks.as_strided(flat, (count, rows, columns), steps), owner


def _matrices(turn_a, turn_b, m, n, k, alpha, *rest):
    """The three matrices of a call, as rows that NumPy multiplies in the same order."""
    a, kind_a, step_a, far_a, b, kind_b, step_b, far_b, beta, c, kind_c, step_c, far_c = rest[:13]
    count, compute, _ = rest[13:]
    if compute not in _COMPUTE[kind_c] or not kind_a == kind_b == kind_c:
        raise AssertionError(f"types {kind_a}, {kind_b}, {kind_c} are not computed in {compute}")
    assert (alpha, beta) == (1, 0)
    one, at = _matrix(a, kind_a, *((k, m) if turn_a else (m, k)), step_a, far_a, count)
    two, bt = _matrix(b, kind_b, *((n, k) if turn_b else (k, n)), step_b, far_b, count)
    out, ct = _matrix(c, kind_c, m, n, step_c, far_c, count)
    first = one if turn_a else one.transpose(0, 2, 1)
    second = two if turn_b else two.transpose(0, 2, 1)
    return (second, first, out.transpose(0, 2, 1)), (at, bt, ct)


def _multiply(a, b, out, kept=None):
    wide = np.float64 if a.dtype == np.float64 else np.float32
    out[...] = np.matmul(a.astype(wide, copy=False), b.astype(wide, copy=False))
