"""The array of the stand-in: refuses what CuPy's refuses, and notes each copy to the host.

The rules are those of `cupy/_core/core.pyx` and `_routines_indexing.pyx` in CuPy 14.
"""

import functools
import threading

import numpy as np

from tests.stand_in import limits, memory, streams, transfers
from tests.stand_in.limits import BFLOAT16
from tests.stand_in.streams import work

CHARS = set("?bBhHiIlLqQefdFD")
_ASIDE = object()


def checked_dtype(dtype):
    """`dtype`, if CuPy has arrays of it."""
    dtype = np.dtype(dtype)
    if dtype.char not in CHARS and dtype != BFLOAT16:
        raise ValueError(f"Unsupported dtype {dtype}")
    return dtype


def wrapped(host, base=None):
    """An array of the device on the memory of `host`."""
    host = np.asarray(host)
    checked_dtype(host.dtype)
    array = object.__new__(ndarray)
    kept = memory.found(host) if base is None else base._memory
    if kept is None and base is None:
        streams.check_allocation()
        kept = memory.allocated(host, array)
    elif base is None:
        base = kept.owner()
    array._host, array._base, array._memory = host, base, kept
    array._number = CURRENT.number if base is None else base._number
    return array


def host_of(x, what="argument"):
    """What is behind an array of the device; scalars as they are, arrays of the host refused."""
    if isinstance(x, ndarray):
        if x._number != CURRENT.number:  # as between GPUs that can't read each other's memory
            raise ValueError(
                "Array device must be same as the current device: array device = "
                f"{x._number} while current = {CURRENT.number}"
            )
        return x._host
    if isinstance(x, np.ndarray):
        raise TypeError(f"Unsupported type {type(x)} ({what})")
    return x


@work
def new_array(x, dtype=None, copy=True, order="K", ndmin=0):
    """`cupy.array`: a copy of an array, a list (of arrays too), or a number on the device."""
    if dtype is not None:
        checked_dtype(dtype)
    if isinstance(x, ndarray):
        here = x._number == CURRENT.number
        same = dtype in (None, x.dtype) and ndmin <= x.ndim and order in ("K", "A", None)
        if here and not copy and same:
            return x
        if not here:
            transfers.note_moved(x)
            copy = True
        return wrapped(np.array(x._host, dtype, copy=copy or None, order=order, ndmin=ndmin))
    if isinstance(x, list | tuple) and any(isinstance(y, ndarray) for y in _leaves(x)):
        limits.note_join([y for y in _leaves(x) if isinstance(y, ndarray)])
        return wrapped(np.array(_inner(x), dtype, order=order, ndmin=ndmin))
    host = np.array(x, dtype, order=order, ndmin=ndmin)
    transfers.note_sent(host)
    return wrapped(host)


def _leaves(x):
    if isinstance(x, list | tuple):
        for y in x:
            yield from _leaves(y)
    else:
        yield x


def _inner(x):
    return [_inner(y) for y in x] if isinstance(x, list | tuple) else host_of(x, "in a list")


def _aside(x, y):
    """Whether an operator leaves the work to `y`."""
    theirs = getattr(y, "__array_ufunc__", _ASIDE)
    if theirs is not _ASIDE:
        return theirs is None
    return getattr(x, "__array_priority__", 0) < getattr(y, "__array_priority__", 0)


def _operator(name, ufunc, swapped=False):
    def method(self, other):
        if not isinstance(other, ndarray) and _aside(self, other):
            return NotImplemented
        return getattr(np, ufunc)(*((other, self) if swapped else (self, other)))

    method.__name__ = name
    return method


def _in_place(name, ufunc):
    def method(self, other):
        return getattr(np, ufunc)(self, other, out=self)

    method.__name__ = name
    return method


def _through_module(name):
    """A method that does what the function of the same name does."""

    def method(self, *args, **kwargs):
        import cupy

        return getattr(cupy, name)(self, *args, **kwargs)

    method.__name__ = name
    return method


class _Current(threading.local):
    number = 0


CURRENT = _Current()
"""On which device this thread's new arrays lie."""


class _Device:
    """Where an array lies."""

    def __init__(self, number=0):
        self.id = number

    def __eq__(self, other):
        return isinstance(other, _Device) and self.id == other.id

    def __hash__(self):
        return hash(self.id)

    def __repr__(self):
        return f"<stand-in for CUDA Device {self.id}>"


class ndarray:
    """`cupy.ndarray`; its values can be had by `get` and by nothing else."""

    __slots__ = ("__weakref__", "_base", "_host", "_memory", "_number")
    __array_priority__ = 100

    def __init__(self, shape, dtype=float, memptr=None, strides=None, order="C"):
        if strides is not None:
            raise NotImplementedError("the stand-in has no arrays with strides of their own")
        self._base, self._number = None, CURRENT.number
        if memptr is not None:
            self._memory, self._host = memptr.mem, memptr.array(shape, checked_dtype(dtype))
            return
        streams.check_allocation()
        self._host = np.empty(shape, checked_dtype(dtype), order or "C")
        self._memory = memory.allocated(self._host, self)

    # ------------------------------------------------------------------ what it is

    shape = property(
        lambda self: self._host.shape, lambda self, value: setattr(self._host, "shape", value)
    )
    dtype = property(lambda self: self._host.dtype)
    ndim = property(lambda self: self._host.ndim)
    size = property(lambda self: self._host.size)
    nbytes = property(lambda self: self._host.nbytes)
    itemsize = property(lambda self: self._host.itemsize)
    strides = property(lambda self: self._host.strides)
    flags = property(lambda self: self._host.flags)
    base = property(lambda self: self._base)
    device = property(lambda self: _Device(self._number))
    data = property(
        lambda self: memory.MemoryPointer(self._memory, self._host.ctypes.data - self._memory.ptr)
    )
    T = property(lambda self: self._view(self._host.T))
    mT = property(lambda self: self._view(self._host.mT))

    @property
    def real(self):
        return self._view(self._host.real)

    @real.setter
    @work(writes=True)
    def real(self, value):
        self._host.real = host_of(value, "real")

    @property
    def imag(self):
        if self.dtype.kind == "c":
            return self._view(self._host.imag)
        return wrapped(np.zeros_like(self._host))

    @imag.setter
    @work(writes=True)
    def imag(self, value):
        if self.dtype.kind != "c":
            raise TypeError("cupy.ndarray does not have imaginary part to set")
        self._host.imag = host_of(value, "imag")

    @property
    def __cuda_array_interface__(self):
        return {**self._host.__array_interface__, "version": 3}

    def _view(self, host):
        return wrapped(host, self if self._base is None else self._base)

    # ------------------------------------------------------------------ copies to the host

    def get(self, stream=None, order="C", out=None, blocking=True):
        transfers.note_read(self)
        if out is None:
            return np.array(self._host, order=order)
        if not isinstance(out, np.ndarray) or (out.shape, out.dtype) != (self.shape, self.dtype):
            raise TypeError("out must be an array of the host with this shape and dtype")
        out[...] = self._host
        return out

    @work(writes=True)
    def set(self, arr, stream=None):
        if not isinstance(arr, np.ndarray):
            raise TypeError("Only numpy.ndarray can be set to cupy.ndarray")
        if (arr.shape, arr.dtype) != (self.shape, self.dtype):
            raise ValueError(f"Shape or dtype mismatch: {arr.shape} {arr.dtype}")
        transfers.note_sent(arr)
        self._host[...] = arr

    def item(self):
        if self.size != 1:
            raise ValueError("can only convert an array of size 1 to a Python scalar")
        return self.get().item()

    def tolist(self):
        return self.get().tolist()

    def tobytes(self, order="C"):
        return self.get().tobytes(order)

    def __bool__(self):
        if self.size != 1:
            raise ValueError(
                "The truth value of an array with more than one element is ambiguous. "
                "Use a.any() or a.all()"
            )
        return bool(self.get())

    def __int__(self):
        return int(self.get())

    def __float__(self):
        return float(self.get())

    def __complex__(self):
        return complex(self.get())

    def __repr__(self):
        return repr(self.get())

    def __str__(self):
        return str(self.get())

    def __format__(self, spec):
        return format(self.get(), spec)

    def __reduce__(self):
        return new_array, (self.get(),)

    def __array__(self, dtype=None, copy=None):
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. "
            "Please use `.get()` to construct a NumPy array explicitly."
        )

    def __dlpack_device__(self):
        return (2, 0)

    def __dlpack__(self, **kwargs):
        raise BufferError("memory of the stand-in can't be handed to others")

    # ------------------------------------------------------------------ parts

    def __len__(self):
        if not self.ndim:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self):
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(self.shape[0]))

    @work
    def __getitem__(self, key):
        result = self._host[self._key(key)]
        if isinstance(result, np.ndarray) and np.may_share_memory(result, self._host):
            return self._view(result)
        if not isinstance(result, np.ndarray):  # a copy of NumPy's, a view of CuPy's
            simple = key if isinstance(key, tuple) else (key,)
            if not any(isinstance(k, ndarray | np.ndarray | list) for k in simple):
                return self._view(self._host[(*self._key(simple), ...)])
        return wrapped(result)

    @work(writes=True)
    def __setitem__(self, key, value):
        if isinstance(value, np.ndarray):
            whole = type(key) is slice and key == slice(None)
            if whole and (value.shape, value.dtype) == (self.shape, self.dtype):
                transfers.note_sent(value)
            elif value.ndim:
                raise ValueError("non-scalar numpy.ndarray cannot be used for fill")
        elif isinstance(value, list | tuple):
            raise ValueError("non-scalar numpy.ndarray cannot be used for fill")
        self._host[self._key(key)] = value._host if isinstance(value, ndarray) else value

    def _key(self, key):
        """`key` for the memory behind; positions outside wrap around, as on a GPU."""
        many = isinstance(key, tuple)
        parts = [_index(k) for k in (key if many else (key,))]
        taken = sum(
            0 if k is None or k is Ellipsis else k.ndim if _is_mask(k) else 1 for k in parts
        )
        axis, found = 0, []
        for k in parts:
            if k is Ellipsis:
                axis += self.ndim - taken
            elif _is_mask(k):
                axis += k.ndim
            elif k is not None:
                if isinstance(k, np.ndarray) and k.dtype.kind in "iu" and axis < self.ndim:
                    k = k % max(self.shape[axis], 1)
                axis += 1
            found.append(k)
        return tuple(found) if many else found[0]

    # ------------------------------------------------------------------ NumPy's functions

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        import cupy
        import cupyx.scipy.special

        out = kwargs.get("out")
        if out is not None:
            if len(out) != 1:
                raise ValueError("The 'out' parameter must have exactly one array value")
            kwargs["out"] = out[0]
        name = ufunc.__name__
        function = getattr(cupy, name, None) or getattr(cupyx.scipy.special, name, None)
        if function is not None and method != "__call__":
            function = getattr(function, method, None)
        if function is None:
            return NotImplemented
        for x in (*inputs, *(out or ())):
            if not isinstance(x, _TAKEN):
                return NotImplemented
        if name in _COMPARISONS.values():
            inputs = tuple(
                x.item() if isinstance(x, np.ndarray) and not x.ndim else x for x in inputs
            )
        return function(*inputs, **kwargs)

    def __array_function__(self, func, types, args, kwargs):
        import cupy

        try:
            module = functools.reduce(getattr, func.__module__.split(".")[1:], cupy)
            theirs = getattr(module, func.__name__)
        except AttributeError:
            return NotImplemented
        if theirs is func or not all(issubclass(t, ndarray | np.ndarray) for t in types):
            return NotImplemented
        return theirs(*args, **kwargs)

    # ------------------------------------------------------------------ methods

    @work
    def astype(self, dtype, order="K", casting=None, subok=None, copy=True):
        dtype = checked_dtype(dtype)
        if not copy and dtype == self.dtype:
            return self
        with np.errstate(all="ignore"):
            return wrapped(self._host.astype(dtype, order=order))

    @work
    def copy(self, order="C"):
        return wrapped(self._host.copy(order))

    def __copy__(self):
        return self.copy()

    def __deepcopy__(self, memo):
        return self.copy()

    def view(self, dtype=None, array_class=None):
        return self._view(self._host.view() if dtype is None else self._host.view(dtype))

    @work(writes=True)
    def fill(self, value):
        value = host_of(value)
        if np.ndim(value):
            raise ValueError("non-scalar numpy.ndarray cannot be used for fill")
        self._host.fill(value)

    @work
    def reshape(self, *shape, order="C", copy=None):
        host = self._host.reshape(*shape, order=order)
        return self._view(host) if np.may_share_memory(host, self._host) else wrapped(host)

    @work
    def ravel(self, order="C"):
        host = self._host.ravel(order)
        return self._view(host) if np.may_share_memory(host, self._host) else wrapped(host)

    @work
    def flatten(self, order="C"):
        return wrapped(self._host.flatten(order))

    def transpose(self, *axes):
        return self._view(self._host.transpose(*axes))

    def swapaxes(self, axis1, axis2):
        return self._view(self._host.swapaxes(axis1, axis2))

    def squeeze(self, axis=None):
        return self._view(self._host.squeeze(axis))

    def diagonal(self, offset=0, axis1=0, axis2=1):
        return self._view(self._host.diagonal(offset, axis1, axis2))

    def nonzero(self):
        transfers.note_wait("nonzero")
        streams.refuse_wait("nonzero")
        return tuple(map(wrapped, self._host.nonzero()))

    @work(writes=True)
    def sort(self, axis=-1, kind=None):
        limits.note_sort("sort", [self])
        self._host.sort(axis)

    def conj(self):
        return self.conjugate()

    __hash__ = None  # type: ignore[assignment]


def _is_mask(k):
    return isinstance(k, np.ndarray) and k.dtype.kind == "b"


def _index(k):
    """One part of a key as NumPy takes it; what lies on the host is sent to the device."""
    if isinstance(k, ndarray):
        if k.dtype.kind not in "biu":
            raise IndexError("arrays used as indices must be of integer or boolean type")
        if k.dtype.kind == "b":
            transfers.note_wait("a mask as an index")
            streams.refuse_wait("a mask as an index")
        return k._host
    if k is None or k is Ellipsis or isinstance(k, slice | int | np.integer):
        return k
    if isinstance(k, list | tuple | np.ndarray | bool | np.bool_):
        host = new_array(k)._host
        return host.astype(np.int32) if isinstance(k, list | tuple) and not host.size else host
    if np.isscalar(k):
        return int(k)
    raise IndexError(
        "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or "
        f"boolean arrays are valid indices, not {type(k)}"
    )


_BINARY = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "true_divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "power",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "left_shift",
    "rshift": "right_shift",
    "matmul": "matmul",
}
_COMPARISONS = {
    "lt": "less",
    "le": "less_equal",
    "eq": "equal",
    "ne": "not_equal",
    "gt": "greater",
    "ge": "greater_equal",
}
_METHODS = (
    "all any argmax argmin argpartition argsort clip conjugate cumprod cumsum dot max mean min "
    "prod ptp repeat round searchsorted std sum take trace var choose compress"
).split()

for _short, _ufunc in _BINARY.items():
    setattr(ndarray, f"__{_short}__", _operator(f"__{_short}__", _ufunc))
    setattr(ndarray, f"__r{_short}__", _operator(f"__r{_short}__", _ufunc, swapped=True))
    if _short != "matmul":
        setattr(ndarray, f"__i{_short}__", _in_place(f"__i{_short}__", _ufunc))
for _short, _ufunc in _COMPARISONS.items():
    setattr(ndarray, f"__{_short}__", _operator(f"__{_short}__", _ufunc))
for _name, _ufunc in {"neg": "negative", "pos": "positive", "abs": "absolute"}.items():
    setattr(ndarray, f"__{_name}__", lambda self, ufunc=_ufunc: getattr(np, ufunc)(self))
ndarray.__invert__ = lambda self: np.invert(self)
for _name in _METHODS:
    setattr(ndarray, _name, _through_module(_name))

_TAKEN = (ndarray, np.ndarray, np.generic, int, float, complex)
"""What an operation of the device is given."""
