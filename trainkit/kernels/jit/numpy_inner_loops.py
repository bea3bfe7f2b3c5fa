"""The loops inside of NumPy's functions, to be called from machine code.

Each ufunc holds a table of C functions, one for each combination of dtypes; its layout is part of
NumPy's binary interface (`ufuncobject.h`). Calling the same function with the same pointers,
lengths and strides as NumPy does gives NumPy's bits.
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from functools import lru_cache
from typing import Any

import numpy as np


class _Ufunc(ctypes.Structure):
    """The first fields of `PyUFuncObject`, after the head of the object."""

    _fields_ = [
        ("nin", ctypes.c_int),
        ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
        ("reserved", ctypes.c_int),
        ("name", ctypes.c_char_p),
    ]


HEAD = object.__basicsize__
"""Bytes of the head of every Python object, and the place of the value in NumPy's scalars."""
TYPE = HEAD - 8
"""Place of the address of an object's type."""
DATA, RANK, SIZES, STRIDES = HEAD, HEAD + 8, HEAD + 16, HEAD + 24
DESCR, FLAGS = HEAD + 40, HEAD + 48
"""Places of the fields in `PyArrayObject`."""
KIND, ORDER, ITEM_SIZE = HEAD + 8, HEAD + 10, HEAD + 24
"""Places of the fields in `PyArray_Descr`."""


@lru_cache(maxsize=1)
def available() -> bool:
    """Whether objects lie in memory here as the machine code expects them."""
    # Cheap questions first: reading an object at a wrong place would end the process.
    usual = sys.implementation.name == "cpython" and HEAD == 16
    if not usual or sys.maxsize != 2**63 - 1 or sys.byteorder != "little":
        return False
    # Objects have a longer head there, and more than one thread changes them.
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False
    return _array_as_expected() and _ufunc_as_expected() and _scalar_as_expected()


def _array_as_expected() -> bool:
    # A part of an array, whose strides, flags and address are not those of a new one.
    array = np.zeros((3, 5), np.float32)[:, 1:3]
    at = id(array)
    read = ctypes.c_void_p.from_address
    sizes = (ctypes.c_int64 * 2).from_address(read(at + SIZES).value or 0)
    strides = (ctypes.c_int64 * 2).from_address(read(at + STRIDES).value or 0)
    flags = ctypes.c_int.from_address(at + FLAGS).value
    return (
        read(at + DATA).value == array.__array_interface__["data"][0]
        and ctypes.c_int.from_address(at + RANK).value == 2
        and tuple(sizes) == array.shape
        and tuple(strides) == array.strides
        and flags == array.flags.num
        and read(at + DESCR).value == id(array.dtype)
        and all(map(_dtype_as_expected, map(np.dtype, ("f4", "i8", "u1", "?", ">f4"))))
    )


def _dtype_as_expected(dtype: np.dtype[Any]) -> bool:
    at = id(dtype)
    return (
        ctypes.string_at(at + KIND, 1) == dtype.kind.encode()
        and ctypes.string_at(at + ORDER, 1) == dtype.byteorder.encode()
        and ctypes.c_int64.from_address(at + ITEM_SIZE).value == dtype.itemsize
    )


def _scalar_as_expected() -> bool:
    return all(
        ctypes.string_at(id(x) + HEAD, x.nbytes) == x.tobytes()
        for x in (np.float32(1.5), np.float64(2.5), np.int64(-3), np.uint8(7), np.bool_(True))
    )


def _ufunc_as_expected() -> bool:
    # With one input and with two, and one of NumPy's generalized functions.
    for ufunc in (np.add, np.exp, np.matmul):
        fields = _Ufunc.from_address(id(ufunc) + HEAD)
        counts = (fields.nin, fields.nout, fields.nargs, fields.ntypes)
        if counts != (ufunc.nin, ufunc.nout, ufunc.nargs, ufunc.ntypes):
            return False
        if fields.name != ufunc.__name__.encode():
            return False
    return _adds()


def _adds() -> bool:
    """Whether the loop of `np.add` adds."""
    # The table may be right and the functions in it not: NumPy may come to hold others there.
    function, data = loop_of(np.add, (np.dtype(np.float32),) * 3)
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(function)
    x, y = np.arange(5, dtype=np.float32), np.zeros(5, np.float32)
    pointers = (ctypes.c_void_p * 3)(*(a.__array_interface__["data"][0] for a in (x, x, y)))
    call(pointers, (ctypes.c_int64 * 1)(5), (ctypes.c_int64 * 3)(4, 4, 4), data)
    return bool((y == x + x).all())


def python_function(name: str) -> int:
    """Address of a function of Python's C interface."""
    address = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
    assert address is not None
    return address


class _Definition(ctypes.Structure):
    """`PyMethodDef`."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


_FAST_CALL = 0x80  # METH_FASTCALL: the arguments come as an array of pointers


def forever(thing: Any) -> Any:
    """`thing`, which lives as long as the process: functions refer to it that nobody counts."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
    return thing


def built_in(address: int) -> Any:
    """A built-in function of the machine code at `address`, which takes an array of pointers."""
    # CPython keeps the address of the definition and not a copy.
    definition = forever(_Definition(b"segment", address, _FAST_CALL, None))
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p] * 3
    return make(ctypes.addressof(definition), None, None)


def _index(ufunc: Any, types: Any) -> int:
    """The row of the table for these dtypes, -1 where there is none."""
    chars = [np.dtype(t).char for t in types]
    text = f"{''.join(chars[: ufunc.nin])}->{''.join(chars[ufunc.nin :])}"
    try:
        # Only the very dtypes: NumPy would cast to the next row that fits, which has other bits.
        index: int = ufunc.types.index(text)
    except ValueError:
        return -1
    return index


def has_loop(ufunc: Any, types: Any) -> bool:
    """Whether NumPy has a loop for exactly these dtypes, inputs first."""
    return _index(ufunc, types) >= 0


def loop_of(ufunc: Any, types: Any) -> tuple[int, int | None]:
    """Address of the loop for these dtypes, and of the data that it is called with."""
    row = _index(ufunc, types)
    fields = _Ufunc.from_address(id(ufunc) + HEAD)
    function = fields.functions[row]
    assert function is not None
    return function, fields.data[row] if fields.data else None
