"""Ufuncs of the stand-in: the loops that CuPy has, chosen as CuPy chooses them.

CuPy takes the first loop to which all inputs can be cast safely; a Python number fits where it
does not change the kind. Source: `_Ops.guess_routine` in `cupy/_core/_kernel.pyx`.
"""

import numpy as np

from tests.stand_in.arrays import BFLOAT16, checked_dtype, host_of, ndarray, wrapped
from tests.stand_in.streams import work

_WEAK = {int: np.dtype("int64"), float: np.dtype("float64"), complex: np.dtype("complex128")}
_TAKEN = (np.ndarray, np.generic, int, float, complex)
_KINDS = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}


_NUMBERS = {"int32", "int64", "uint32", "uint64", "float32", "float64"}
# What atomic operations take: `_scatter_op_single` in `_routines_indexing.pyx`.
_ATOMIC = {
    "add": _NUMBERS | {"float16"},
    "subtract": {"int32", "uint32"},
    "maximum": _NUMBERS,
    "minimum": _NUMBERS,
    "bitwise": {"int32", "int64", "uint32", "uint64"},
}


def _dtype(char):
    return BFLOAT16 if char == "E" else np.dtype(char)


def _kind(dtype):
    return 2 if dtype == BFLOAT16 else _KINDS[dtype.kind]


class Ufunc:
    """`cupy.add` and its like."""

    def __init__(self, name, facts, function=None):
        self.name, self.__name__ = f"cupy_{name}", name
        self._function = function or getattr(np, name)
        self._methods = facts["methods"]
        self.types = facts["types"]
        self._loops = [tuple(map(_dtypes, text.split("->"))) for text in self.types]
        self._chosen = {}  # loops by the kinds of inputs and the dtype that was asked for
        self.nin, self.nout = map(len, self._loops[0])
        self.nargs = self.nin + self.nout

    def __repr__(self):
        return f"<stand-in for cupy.{self.__name__}>"

    @work
    def __call__(self, *args, out=None, dtype=None, casting="same_kind", **unknown):
        if unknown:
            raise TypeError(f"Wrong arguments {unknown}")
        if not self.nin <= len(args) <= self.nargs:
            raise TypeError(f"Wrong number of arguments for {self.name!r}: {len(args)}")
        outs = args[self.nin :] or (out if isinstance(out, tuple) else (out,) * (out is not None))
        if any(x is not None and not isinstance(x, ndarray) for x in outs):
            raise TypeError(f"return arrays must be arrays of the device, not {outs}")
        ins = [_operand(x, self.name) for x in args[: self.nin]]
        given, made = self._loop(ins, dtype)
        with np.errstate(all="ignore"):
            results = self._run(ins, given, made)
        stored = [_stored(y, outs[i : i + 1], casting) for i, y in enumerate(results)]
        return stored[0] if self.nout == 1 else tuple(stored)

    def _run(self, ins, given, made):
        hosts = [
            np.array(x, t) if type(x) in _WEAK else np.asarray(x).astype(t, copy=False)
            for x, t in zip(ins, given, strict=True)
        ]
        try:
            results = self._function(*hosts)
        except TypeError:  # a loop that CuPy has and NumPy has not
            wide = [x.astype(np.float32) if x.dtype == BFLOAT16 else x for x in hosts]
            results = self._function(*wide)
        results = results if isinstance(results, tuple) else (results,)
        return [np.asarray(y).astype(t, copy=False) for y, t in zip(results, made, strict=True)]

    def _loop(self, ins, dtype):
        """Dtypes in which to compute."""
        key = (*(type(x) if type(x) in _WEAK else x.dtype for x in ins), dtype)
        if key not in self._chosen:
            self._chosen[key] = self._first_loop(key[:-1], dtype)
        return self._chosen[key]

    def _first_loop(self, kinds, dtype):
        """The same for inputs of these kinds: dtypes, and types of Python's numbers."""
        if dtype is not None:
            found = [loop for loop in self._loops if set(loop[1]) == {checked_dtype(dtype)}]
        else:
            weak = self._weak(kinds)
            found = [
                loop
                for loop in self._loops
                if all(_fits(kind, t, weak) for kind, t in zip(kinds, loop[0], strict=True))
            ]
        if not found:
            raise TypeError(f"Wrong type ({dtype or list(kinds)}) of arguments for {self.name}")
        return found[0]

    @staticmethod
    def _weak(kinds):
        """Whether Python numbers leave dtypes as they are."""
        numbers = [_kind(_WEAK[kind]) for kind in kinds if kind in _WEAK]
        arrays = [_kind(kind) for kind in kinds if kind not in _WEAK]
        return bool(numbers) and (not arrays or max(arrays) >= max(numbers))

    # ------------------------------------------------------------------ methods

    def _has(self, method):
        if method not in self._methods:
            raise NotImplementedError(f"`{self.name}.{method}` is not supported yet")

    @work(writes=True)
    def at(self, a, indices, b=None):
        self._has("at")
        if a.dtype.name not in _ATOMIC.get(self.__name__, _ATOMIC["bitwise"]):
            raise TypeError(f"cupy.{self.__name__}.at does not support {a.dtype}")
        key = a._key(indices)
        with np.errstate(all="ignore"):
            self._function.at(a._host, key, host_of(b, self.name))

    def reduce(self, array, axis=0, dtype=None, out=None, keepdims=False):
        self._has("reduce")
        name = "sum" if self.__name__ == "add" else "prod"
        return getattr(array, name)(axis, dtype, out, keepdims)

    def accumulate(self, array, axis=0, dtype=None, out=None):
        self._has("accumulate")
        name = "cumsum" if self.__name__ == "add" else "cumprod"
        return getattr(array, name)(axis, dtype, out)

    def outer(self, a, b, **kwargs):
        return self(a.reshape(a.shape + (1,) * b.ndim), b, **kwargs)


def _dtypes(chars):
    return tuple(map(_dtype, chars))


def _operand(x, what):
    """An input: the memory behind an array, or a scalar."""
    x = host_of(x, what)
    if type(x) is bool:
        return np.bool_(x)
    if not isinstance(x, _TAKEN):
        raise TypeError(f"Unsupported type {type(x)}")
    return x


def _fits(kind, dtype, weak):
    if kind not in _WEAK:
        return np.can_cast(kind, dtype)
    if np.can_cast(_WEAK[kind], dtype):
        return True
    return weak and np.result_type(kind(0), dtype) == dtype


def _stored(y, out, casting):
    if not out or out[0] is None:
        return wrapped(y)
    if not np.can_cast(y.dtype, out[0].dtype, casting):
        raise TypeError(f"output (typecode {y.dtype}) can't be cast to {out[0].dtype} by {casting}")
    if out[0].shape != y.shape:
        raise ValueError(f"out has shape {out[0].shape}, the result {y.shape}")
    out[0]._host[...] = y
    return out[0]
