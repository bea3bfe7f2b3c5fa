"""A built-in function of Python around the machine code of a kernel, in LLVM's language.

It takes arrays and numbers out of Python's objects, lets other threads of Python run meanwhile, and
refers to nothing but Python's C interface: so what is compiled can be kept, and used by processes
that never import a compiler. What does not fit the types that the kernel was compiled for raises
`TypeError`, before anything is touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trainkit.kernels.jit.numpy_inner_loops import (
    DATA,
    DESCR,
    FLAGS,
    ITEM_SIZE,
    KIND,
    ORDER,
    RANK,
    SIZES,
    STRIDES,
    TYPE,
)

CALLED = {
    "PyBool_FromLong": "ptr (i64)",
    "PyErr_Occurred": "ptr ()",
    "PyErr_SetString": "void (ptr, ptr)",
    "PyEval_RestoreThread": "void (ptr)",
    "PyEval_SaveThread": "ptr ()",
    "PyFloat_AsDouble": "double (ptr)",
    "PyLong_AsLongLong": "i64 (ptr)",
    "PyLong_AsUnsignedLongLongMask": "i64 (ptr)",
    "PyObject_IsTrue": "i32 (ptr)",
    "PyTuple_GetItem": "ptr (ptr, i64)",
    "PyTuple_Size": "i64 (ptr)",
}
"""The functions of Python that entries call."""

OBJECTS: dict[str, type] = {"trainkit_array_type": np.ndarray, "trainkit_type_error": TypeError}
"""Cells of memory that hold the addresses of objects, by the names by which entries know them.

The names are our own: what `PyExc_TypeError` stands for in LLVM's table of this process is up to
Numba, for which it is the object itself.
"""
ARRAY_TYPE, _TYPE_ERROR = OBJECTS

ALIGNED, WRITEABLE, IN_ROWS = 0x100, 0x400, 0x1
"""Flags of NumPy's arrays."""
SWAPPED = ord(">")
"""The byte order, in a dtype, of numbers whose high byte comes first."""
_TEXT_UNFIT = b"the arguments do not fit the types that this kernel is compiled for\0"

_OUTSIDE = f"""
@{ARRAY_TYPE} = external global ptr
@{_TYPE_ERROR} = external global ptr
@unfit = private constant [{len(_TEXT_UNFIT)} x i8] c"{_TEXT_UNFIT[:-1].decode()}\\00"
declare noalias ptr @malloc(i64)
declare void @free(ptr)
"""

# What Numba's code asks its run-time library for: memory that is counted. Its head is a count, what
# frees it and what that is given, and the address and size of the content.
MEMORY = ("NRT_MemInfo_alloc_aligned", "NRT_MemInfo_call_dtor")
_MEMORY = """
define ptr @NRT_MemInfo_alloc_aligned(i64 %size, i32 %align) {
  %wide = zext i32 %align to i64
  %head = add i64 %wide, 48
  %whole = add i64 %head, %size
  %m = call ptr @malloc(i64 %whole)
  %none = icmp eq ptr %m, null
  br i1 %none, label %out, label %fill
fill:
  %start = ptrtoint ptr %m to i64
  %behind = add i64 %start, %head
  %over = urem i64 %behind, %wide
  %data = sub i64 %behind, %over
  store i64 1, ptr %m
  %place = getelementptr i8, ptr %m, i64 24
  store i64 %data, ptr %place
  %extent = getelementptr i8, ptr %m, i64 32
  store i64 %size, ptr %extent
  br label %out
out:
  ret ptr %m
}

define void @NRT_MemInfo_call_dtor(ptr %m) {
  call void @free(ptr %m)
  ret void
}
"""


def python_declarations() -> list[str]:
    """Lines that declare the functions of `CALLED`."""
    kinds = ((name, *kind.partition(" ")) for name, kind in CALLED.items())
    return [f"declare {result} @{name}{parameters}" for name, result, _, parameters in kinds]


class EntryText:
    """Writes the function.

    Args:
        name: of the function.
        kernel: the name of Numba's function, which is called.
        parameters: LLVM's types of what that takes after its result and its exception.
        kinds: Numba's types of the arguments.
    """

    def __init__(
        self, name: str, kernel: str, parameters: Sequence[str], kinds: Sequence[Any]
    ) -> None:
        self._lines: list[str] = []
        self._count = 0
        self._parameters = list(parameters)
        self._given: list[str] = []
        for i, kind in enumerate(kinds):
            self._argument(self._load("ptr", "%args", 8 * i), kind)
        # Numba may flatten a type otherwise in another release; then no code is better than wrong
        # code.
        if len(self._given) != len(self._parameters):
            raise NotImplementedError(f"{name} takes {len(self._parameters)} values")
        declared = ", ".join(["ptr", "ptr", *self._parameters])
        called = ", ".join(["ptr %result", "ptr %raised", *self._given])
        self.text = "\n".join(
            [
                _OUTSIDE,
                *python_declarations(),
                _MEMORY,
                f'declare i32 @"{kernel}"({declared})',
                f"define ptr @{name}(ptr %self, ptr %args, i64 %count) {{",
                "entry:",
                "  %result = alloca ptr",
                "  %raised = alloca ptr",
                "  store ptr null, ptr %result",
                f"  %fits = icmp eq i64 %count, {len(kinds)}",
                "  br i1 %fits, label %ok, label %unfit",
                "ok:",
                *self._lines,
                "  %thread = call ptr @PyEval_SaveThread()",
                f'  %status = call i32 @"{kernel}"({called})',
                "  call void @PyEval_RestoreThread(ptr %thread)",
                "  %fine = icmp eq i32 %status, 0",
                "  br i1 %fine, label %done, label %unfit",
                "done:",
                "  %true = call ptr @PyBool_FromLong(i64 1)",
                "  ret ptr %true",
                "unfit:",
                "  %said = call ptr @PyErr_Occurred()",
                "  %silent = icmp eq ptr %said, null",
                "  br i1 %silent, label %say, label %out",
                "say:",
                f"  %kind = load ptr, ptr @{_TYPE_ERROR}",
                "  call void @PyErr_SetString(ptr %kind, ptr @unfit)",
                "  br label %out",
                "out:",
                "  ret ptr null",
                "}",
            ]
        )

    # ------------------------------------------------------------------ lines

    def _line(self, text: str) -> str:
        self._count += 1
        self._lines.append(f"  %v{self._count} = {text}")
        return f"%v{self._count}"

    def _load(self, kind: str, base: str, offset: int) -> str:
        at = self._line(f"getelementptr i8, ptr {base}, i64 {offset}")
        return self._line(f"load {kind}, ptr {at}")

    def _require(self, condition: str) -> None:
        self._count += 1
        self._lines.append(f"  br i1 {condition}, label %b{self._count}, label %unfit")
        self._lines.append(f"b{self._count}:")

    def _same(self, kind: str, x: str, expected: Any) -> None:
        self._require(self._line(f"icmp eq {kind} {x}, {expected}"))

    def _give(self, value: str) -> None:
        # Numba flattens arrays and tuples into one list of values, whose types LLVM's text of the
        # kernel tells: each value takes the next of them.
        self._given.append(f"{self._wanted()} {value}")

    def _wanted(self) -> str:
        if len(self._given) >= len(self._parameters):
            raise NotImplementedError(f"the kernel takes {len(self._parameters)} values")
        return self._parameters[len(self._given)]

    # ------------------------------------------------------------------ arguments

    def _argument(self, thing: str, kind: Any) -> None:
        from numba.core import types as numba_types

        types: Any = numba_types  # whose stubs leave out most attributes
        if isinstance(kind, types.Array):
            self._array(thing, kind)
        elif isinstance(kind, types.UniTuple):
            # Of what is no tuple the size is -1, and an exception is set.
            self._same("i64", self._line(f"call i64 @PyTuple_Size(ptr {thing})"), kind.count)
            for i in range(kind.count):
                item = self._line(f"call ptr @PyTuple_GetItem(ptr {thing}, i64 {i})")
                self._argument(item, kind.dtype)
        elif isinstance(kind, types.Boolean):
            truth = self._line(f"call i32 @PyObject_IsTrue(ptr {thing})")
            # -1 says that an object's own `__bool__` has failed.
            self._require(self._line(f"icmp sge i32 {truth}, 0"))
            self._give(self._line(f"trunc i32 {truth} to {self._wanted()}"))
        elif isinstance(kind, types.Integer):
            # Unsigned numbers are words of bits here, such as keys of random streams, and are cut
            # off to 64; signed ones that don't fit are errors.
            function = "PyLong_AsLongLong" if kind.signed else "PyLong_AsUnsignedLongLongMask"
            integer = self._line(f"call i64 @{function}(ptr {thing})")
            self._no_error(self._line(f"icmp eq i64 {integer}, -1"))
            # Python hands over 64 bits, of which a narrower parameter takes the low ones.
            narrow = kind.bitwidth < 64
            parameter_type = self._wanted()
            self._give(
                self._line(f"trunc i64 {integer} to {parameter_type}") if narrow else integer
            )
        elif isinstance(kind, types.Float):
            real = self._line(f"call double @PyFloat_AsDouble(ptr {thing})")
            self._no_error(self._line(f"fcmp oeq double {real}, -1.0"))
            narrow = kind.bitwidth < 64
            self._give(self._line(f"fptrunc double {real} to float") if narrow else real)
        else:
            raise NotImplementedError(f"kernels take no {kind}")

    def _no_error(self, doubtful: str) -> None:
        """Leave where a number could not be read: then it is -1, and an exception is set."""
        # -1 is also a number that a caller may give, so it takes both to be an error.
        raised = self._line("call ptr @PyErr_Occurred()")
        has_error = self._line(f"icmp ne ptr {raised}, null")
        both = self._line(f"and i1 {doubtful}, {has_error}")
        self._require(self._line(f"xor i1 {both}, true"))

    def _array(self, thing: str, kind: Any) -> None:
        """Check an array, and give its parts as Numba takes them."""
        if kind.layout not in ("C", "A"):
            raise NotImplementedError(f"kernels take arrays in any order or by rows, not {kind}")
        from numba.np.numpy_support import as_dtype

        dtype = as_dtype(kind.dtype)
        array_type = self._line(f"load ptr, ptr @{ARRAY_TYPE}")
        # The very type, no subclass: a masked array or a matrix means something else by its
        # numbers.
        self._same("ptr", self._load("ptr", thing, TYPE), array_type)
        self._same("i32", self._load("i32", thing, RANK), kind.ndim)
        # Layout "A" has its strides looked at, so it needs no flag for the order.
        flags = ALIGNED | (WRITEABLE if kind.mutable else 0)
        flags |= IN_ROWS if kind.layout == "C" else 0
        masked = self._line(f"and i32 {self._load('i32', thing, FLAGS)}, {flags}")
        self._same("i32", masked, flags)
        descr = self._load("ptr", thing, DESCR)
        self._same("i8", self._load("i8", descr, KIND), ord(dtype.kind))
        self._same("i64", self._load("i64", descr, ITEM_SIZE), dtype.itemsize)
        # Kind, size and byte order rather than the address of the dtype: equal dtypes, such as
        # those of a file, can be different objects.
        order = self._load("i8", descr, ORDER)
        self._require(self._line(f"icmp ne i8 {order}, {SWAPPED}"))
        sizes, strides = self._load("ptr", thing, SIZES), self._load("ptr", thing, STRIDES)
        shape = [self._load("i64", sizes, 8 * i) for i in range(kind.ndim)]
        steps = [self._load("i64", strides, 8 * i) for i in range(kind.ndim)]
        count = "1"
        for size in shape:
            count = self._line(f"mul i64 {count}, {size}")
        # Numba's structure of an array begins with its owner and its Python object. Both are null:
        # the caller holds the array while the kernel runs, so nothing needs to be counted.
        parts = ["null", "null", count, str(dtype.itemsize), self._load("ptr", thing, DATA)]
        for part in [*parts, *shape, *steps]:
            self._give(part)
