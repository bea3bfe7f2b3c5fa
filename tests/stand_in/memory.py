"""Memory of the stand-in's device: who allocated what, and whether it is still there."""

import ctypes
import functools
import threading
import weakref
from contextlib import contextmanager

import numpy as np

_OF_HOST = weakref.WeakValueDictionary()


class Memory:
    """One allocation. Arrays, and pointers to it, keep it; a graph's launches do not.

    Attributes:
        hosts: the arrays of NumPy that hold it.
        pool: the pool that it came from, a weak reference; `None` for the default one.
        owner: the array that it was allocated for, a weak reference.
    """

    def __init__(self, host, owner):
        self.hosts = [host]
        self.size = host.nbytes
        self.owner = weakref.ref(owner)
        allocator = _STATE.allocator
        self.pool = None if allocator is None else weakref.ref(allocator.__self__)
        _OF_HOST[id(host)] = self

    @functools.cached_property
    def ptr(self):
        """The address, which NumPy takes longer to name than to make a small array."""
        return self.hosts[0].ctypes.data

    def take(self, host):
        """Count `host` as an array on this memory."""
        self.hosts.append(host)
        _OF_HOST[id(host)] = self


class MemoryPointer:
    """`cupy.cuda.MemoryPointer`: a place of memory, which it keeps."""

    def __init__(self, mem, offset):
        self.mem, self.ptr, self.device_id = mem, mem.ptr + offset, 0

    @property
    def device(self):
        from tests.stand_in.cuda import Device

        return Device()

    def array(self, shape, dtype):
        """The elements from here on."""
        dtype = np.dtype(dtype)
        size = int(np.prod(shape)) * dtype.itemsize
        if self.ptr + size > self.mem.ptr + self.mem.size:
            raise ValueError("the array would be larger than its memory")
        host = np.ndarray(shape, dtype, (ctypes.c_char * max(size, 1)).from_address(self.ptr))
        self.mem.take(host)
        return host


class MemoryPool:
    """`cupy.cuda.MemoryPool`; it is only known here who allocates from it."""

    def __init__(self, allocator=None):
        self.count = 0

    def malloc(self, size):
        raise NotImplementedError("arrays of the stand-in take their memory themselves")

    def free_all_blocks(self, stream=None):
        pass


class _State(threading.local):
    allocator = None


_STATE = _State()


@contextmanager
def using_allocator(allocator=None):
    """`cupy.cuda.using_allocator`: arrays that this thread makes come from there."""
    before, _STATE.allocator = _STATE.allocator, allocator
    try:
        yield
    finally:
        _STATE.allocator = before


def current_pool():
    """The pool that this thread allocates from, `None` for the default one."""
    return None if _STATE.allocator is None else _STATE.allocator.__self__


def _whole(host):
    """The array of NumPy that `host` is a view of.

    A view with strides of its own names another object in between, and spans more bytes than are
    there.
    """
    while True:
        base = host.base
        if not isinstance(base, np.ndarray):
            base = getattr(base, "base", None)
        if not isinstance(base, np.ndarray):
            return host
        host = base


def found(host):
    """The memory in which `host` lies, if it belongs to an array of the device."""
    return _OF_HOST.get(id(_whole(host)))


def allocated(host, owner):
    """New memory for `owner`, in which `host` lies."""
    host = _whole(host)
    pool = current_pool()
    if pool is not None:
        pool.count += 1
    return Memory(host, owner)


def around(place):
    """The memory in which an address lies, `None` where it was given back."""
    for reference in _OF_HOST.valuerefs():  # a list made at once: other threads go on meanwhile
        memory = reference()
        if memory is None:
            continue
        if memory.ptr <= place < memory.ptr + max(memory.size, 1):
            return memory
    return None


def count():
    """How many pieces of memory there are."""
    return sum(reference() is not None for reference in _OF_HOST.valuerefs())
