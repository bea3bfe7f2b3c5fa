"""Functions of the stand-in: those that CuPy has, with its parameters, computed by NumPy."""

import functools
import inspect

import numpy as np

from tests.stand_in import limits, streams, transfers
from tests.stand_in.arrays import BFLOAT16, checked_dtype, host_of, ndarray, new_array, wrapped
from tests.stand_in.streams import work

# Results that stay on the host, as CuPy's do.
_ON_HOST = {"shape", "ndim", "size", "result_type", "can_cast", "promote_types", "isscalar"}
_ON_HOST |= {"broadcast_shapes", "iscomplexobj", "isrealobj", "dtype", "may_share_memory"}
_ON_HOST |= {"shares_memory", "min_scalar_type", "common_type", "isfortran"}
# Functions whose result's size depends on values, which the host waits for.
_WAITING = {"nonzero", "flatnonzero", "argwhere", "unique", "extract", "compress", "bincount"}
_WAITING |= {"union1d", "intersect1d", "setdiff1d", "setxor1d", "delete", "trim_zeros"}
# Views into the memory of an input stay views.
_MAKING = {"array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray"}
_ORDER = {"ascontiguousarray": "C", "asfortranarray": "F"}


def function(name, parameters):
    """The function `cupy.<name>`, `name` with its submodule; `None` where NumPy lacks it."""
    try:
        theirs = functools.reduce(getattr, name.split("."), np)
    except AttributeError:
        return None
    short = name.split(".")[-1]
    signature = _signature(parameters)

    @work
    def call(*args, **kwargs):
        if signature is not None:
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"cupy.{name}: {error}") from None
        if short in _WAITING:
            transfers.note_wait(short)
            streams.refuse_wait(short)
        if streams.capturing() is not None:
            streams.refuse_function(name, list(streams.arrays_in((args, kwargs))))
        if short in limits.CHECKED:
            limits.check(short, args, kwargs)
        given = [_inside(x, name) for x in args]
        named = {k: _inside(x, name) for k, x in kwargs.items()}
        out = kwargs.get("out")
        with np.errstate(all="ignore"):
            result = theirs(*given, **named)
        if out is not None:
            return out
        return result if short in _ON_HOST else _outside(result)

    call.__name__ = call.__qualname__ = short
    call.__module__ = f"cupy.{name}".rpartition(".")[0]
    return call


def _signature(parameters):
    if parameters is None:
        return None
    scope = {}
    exec(f"def f{parameters}: pass", scope)
    return inspect.signature(scope["f"])


def _inside(x, name):
    if type(x) in (list, tuple):
        return type(x)(_inside(y, name) for y in x)
    if isinstance(x, type | np.dtype):
        return checked_dtype(x)
    return host_of(x, name)


def _outside(result):
    if isinstance(result, tuple):
        inner = tuple(map(_outside, result))
        return inner if type(result) is tuple else type(result)(*inner)
    if isinstance(result, list):
        return list(map(_outside, result))
    if isinstance(result, np.ndarray | np.generic | bool | float | complex):
        return wrapped(result)
    return result


# ---------------------------------------------------------------------- with rules of their own


def array(obj, dtype=None, copy=True, order="K", subok=False, ndmin=0, *, blocking=False):
    return new_array(obj, dtype, copy, order, ndmin)


def asarray(a, dtype=None, order=None, *, copy=None, blocking=False):
    return new_array(a, dtype, bool(copy), order or "K")


def asanyarray(a, dtype=None, order=None, *, copy=None, blocking=False):
    return new_array(a, dtype, bool(copy), order or "K")


def ascontiguousarray(a, dtype=None):
    return _in_order(a, dtype, "C")


def asfortranarray(a, dtype=None):
    return _in_order(a, dtype, "F")


@work
def _in_order(a, dtype, order):
    a = new_array(a, dtype, False)
    host = np.asarray(a._host, order=order)
    return a if host is a._host else wrapped(host)


def asnumpy(a, stream=None, order="C", out=None, *, blocking=True):
    return a.get(stream, order, out) if isinstance(a, ndarray) else np.asarray(a, order=order)


@work(writes=True)
def take(a, indices, axis=None, out=None):
    """Positions outside wrap around."""
    if not np.isscalar(indices) and not isinstance(indices, ndarray):
        indices = new_array(indices, int)
    result = wrapped(np.take(a._host, host_of(indices), axis, mode="wrap"))
    if out is None:
        return result
    out[...] = result
    return out


@work
def take_along_axis(a, indices, axis):
    """Positions outside wrap around."""
    host, where = host_of(a), host_of(indices)
    if where.dtype.kind not in "iu":
        raise IndexError("`indices` must be an integer array")
    if axis is None:
        host, axis = host.ravel(), 0
    return wrapped(np.take_along_axis(host, where % max(host.shape[axis], 1), axis))


@work(writes=True)
def put_along_axis(arr, indices, values, axis):
    """Positions outside wrap around."""
    host, where = host_of(arr), host_of(indices)
    if where.dtype.kind not in "iu":
        raise IndexError("`indices` must be an integer array")
    if axis is None:
        host, axis = host.reshape(-1), 0
    np.put_along_axis(host, where % max(host.shape[axis], 1), host_of(values), axis)


@work
def argsort(a, axis=-1, kind=None):
    """Stable, as CuPy's is."""
    limits.note_sort("argsort", [a])
    return wrapped(np.argsort(host_of(a), axis, kind="stable"))


@work
def where(condition, x=None, y=None):
    """Where `condition` holds; with two values the choice of them, which CuPy makes by a ufunc."""
    if (x is None) != (y is None):
        raise ValueError("Must provide both 'x' and 'y' or neither.")
    if x is None:
        return condition.nonzero()
    condition = host_of(condition, "where")
    if np.ndim(condition) == 0 and not isinstance(condition, np.ndarray):
        condition = np.asarray(condition)
    return wrapped(np.where(condition, host_of(x, "where"), host_of(y, "where")))


@work(writes=True)
def copyto(dst, src, casting="same_kind", where=None):
    if not isinstance(dst, ndarray):
        raise TypeError("dst must be an array of the device")
    if isinstance(src, np.ndarray) and src.size != 1:
        raise ValueError("non-scalar numpy.ndarray cannot be used for copyto")
    chosen = True if where is None else host_of(where)
    source = src._host if isinstance(src, ndarray) else src
    np.copyto(dst._host, source, casting=casting, where=chosen)


@work
def matmul(x1, x2, out=None, **options):
    """Short floats are multiplied and summed as float32, then rounded."""
    streams.refuse_function("matmul", [x1, x2])
    a, b = host_of(x1, "matmul"), host_of(x2, "matmul")
    dtype = np.result_type(a.dtype, b.dtype)
    if dtype == BFLOAT16 and max(a.ndim, b.ndim) > 2:
        limits.refuse_product()
    if dtype.itemsize < 4 and dtype.kind not in "iub":
        a, b = a.astype(np.float32), b.astype(np.float32)
    result = np.matmul(a, b).astype(dtype, copy=False)
    if out is None:
        return wrapped(result)
    out._host[...] = result
    return out


@work
def solve(a, b):
    """The leading axes must be the same; singular matrices raise where `cupyx.errstate` asks."""
    streams.refuse_function("linalg.solve", [a, b])
    one, two = host_of(a, "solve"), host_of(b, "solve")
    if two.ndim > 1 and one.shape[:-1] != two.shape[:-1]:
        raise ValueError("a must have (..., M, M) shape and b must have (..., M, K)")
    return wrapped(np.linalg.solve(one, two))


def from_dlpack(array, device=None, copy=None):
    raise BufferError("no memory of others can be had by the stand-in")


@work
def repeat(a, repeats, axis=None):
    """The numbers of copies are on the host, and no array."""
    if isinstance(repeats, np.ndarray | ndarray):
        raise ValueError("'repeats' takes an int or a list, not an array")
    if np.size(repeats) > 1:
        transfers.note_sent(np.asarray(repeats))
        transfers.note_wait("repeat")
        streams.refuse_wait("repeat")
    return wrapped(np.repeat(host_of(a), repeats, axis))


OWN = {
    {"solve": "linalg.solve"}.get(f.__name__, f.__name__): f
    for f in (
        array,
        asarray,
        asanyarray,
        ascontiguousarray,
        asfortranarray,
        asnumpy,
        take,
        take_along_axis,
        put_along_axis,
        where,
        argsort,
        copyto,
        matmul,
        from_dlpack,
        solve,
        repeat,
    )
}
