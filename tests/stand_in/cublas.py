"""cuBLAS of the stand-in: what a call says in addresses, steps and sizes is what is computed."""

import ctypes
import functools
import itertools

import ml_dtypes
import numpy as np

from tests.stand_in import memory, streams

_TYPES = {0: "f4", 1: "f8", 2: "f2", 14: ml_dtypes.bfloat16}
_FACTORS = {0: ctypes.c_float, 1: ctypes.c_double, 2: ctypes.c_float, 14: ctypes.c_float}
_COMPUTE = {0: {68, 77}, 1: {70}, 2: {68}, 14: {68}}
_SUCCESS, _INVALID = 0, 7
_NAMES = "Create_v2 Destroy_v2 SetStream_v2 SetWorkspace_v2 GemmStridedBatchedEx"


class Library:
    """What `ctypes` makes of the file; each function gives a status, and takes plain numbers."""

    def __init__(self):
        for name in _NAMES.split():  # functions that one can give `argtypes` to
            setattr(self, f"cublas{name}", functools.partial(getattr(self, f"_{name}")))
        self._count = itertools.count(1)
        self.open = {}
        self.computed_in = set()

    def _Create_v2(self, handle):
        if streams.capturing() is not None:
            return _INVALID  # it takes memory
        handle._obj.value = next(self._count)
        self.open[handle._obj.value] = {"stream": None, "workspace": None}
        return _SUCCESS

    def _Destroy_v2(self, handle):
        return _SUCCESS if self.open.pop(handle, None) else _INVALID

    def _SetStream_v2(self, handle, stream):
        self.open[handle] = {"stream": stream, "workspace": None}
        return _SUCCESS

    def _SetWorkspace_v2(self, handle, place, size):
        self.open[handle]["workspace"] = (place, size)
        return _SUCCESS

    def _GemmStridedBatchedEx(self, handle, *arguments):
        kept, tape = self.open[handle], streams.capturing()
        if kept["stream"] != streams.current_stream().ptr:
            return _INVALID
        if tape is not None and kept["workspace"] is None:
            return _INVALID  # its own memory may be another's by the time of a launch
        # numbers behind a pointer are read when the call is made, addresses when it runs
        values = list(arguments)
        for i in (5, 14):
            values[i] = _number(values[i], _FACTORS[values[7]])
        self.computed_in.add(values[-2])
        matrices, kept = _matrices(*values)
        if tape is None:
            return _multiply(*matrices) or _SUCCESS
        workspace = memory.around(self.open[handle]["workspace"][0])
        kept = [*kept, workspace]
        for owner in kept:
            tape.note_memory(owner)
        hosts = [host for owner in kept for host in owner.hosts]
        tape.steps.append((_multiply, (*matrices, hosts), {}, []))
        return _SUCCESS


def _number(place, kind):
    return kind.from_address(place).value


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
    with np.errstate(all="ignore"):
        out[...] = np.matmul(a.astype(wide, copy=False), b.astype(wide, copy=False))
