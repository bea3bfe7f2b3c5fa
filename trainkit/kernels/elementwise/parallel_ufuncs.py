"""Single operations on large arrays, on all cores: NumPy's own loops, part by part.

A part starts at a multiple of `_UNIT` elements, so NumPy's loop meets the same groups of elements
in the same registers as in one run over everything, and the results are the same bits. What no loop
of NumPy's serves as it is (other layouts, broadcasting, mixed dtypes) is left to NumPy. Warnings
of a division by zero and the like, which NumPy gives after its loop, are not given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.core.cpu.cost_model import BYTE_NANOSECONDS, PAGE
from trainkit.core.dispatch import native
from trainkit.core.dispatch.eager import WIDE
from trainkit.core.process import side_work
from trainkit.core.shapes import CALLS
from trainkit.kernels.jit import kernel_family
from trainkit.kernels.jit.digests import digest_of
from trainkit.kernels.jit.kernel_library import address_of
from trainkit.kernels.jit.numpy_inner_loops import DATA, available, built_in, loop_of
from trainkit.kernels.jit.object_loader import linker
from trainkit.kernels.threads.pool_code import library_prefix, pool_text
from trainkit.kernels.threads.thread_pool import shared, thread_pool

Array = Any

_UNIT = PAGE // 4
_DTYPES = (np.dtype(np.float32), np.dtype(np.float64))
_BOOL = np.dtype(np.bool_)
_BYTES_HEAD = bytes.__basicsize__ - 1
"""Where the content of a `bytes` object begins."""

_UNARY = (
    np.negative,
    np.absolute,
    np.square,
    np.sqrt,
    np.exp,
    np.log,
    np.tanh,
    np.sin,
    np.cos,
    np.sign,
    np.floor,
    np.ceil,
)
_BINARY = (np.add, np.subtract, np.multiply, np.divide, np.maximum, np.minimum)
_COMPARING = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)
_KNOWN = frozenset((*_UNARY, *_BINARY, *_COMPARING))

_TEXT = """
declare void @pool_run(ptr, ptr, i64)
declare ptr @PyBool_FromLong(i64)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)

; plan: loop, data, elements, parts, operands, then the step of each operand
define internal void @part(ptr %d, i64 %part, i64 %parts) {{
entry:
  %cells = alloca [4 x ptr], align 8
  %length = alloca i64, align 8
  %plan = load ptr, ptr %d
  %loop = load ptr, ptr %plan
  %p1 = getelementptr i64, ptr %plan, i64 1
  %data = load ptr, ptr %p1
  %p2 = getelementptr i64, ptr %plan, i64 2
  %n = load i64, ptr %p2
  %p4 = getelementptr i64, ptr %plan, i64 4
  %operands = load i64, ptr %p4
  %steps = getelementptr i64, ptr %plan, i64 5
  %n1 = add i64 %n, {last}
  %units = udiv i64 %n1, {unit}
  %a0 = mul i64 %units, %part
  %a1 = udiv i64 %a0, %parts
  %first = mul i64 %a1, {unit}
  %next = add i64 %part, 1
  %b0 = mul i64 %units, %next
  %b1 = udiv i64 %b0, %parts
  %b2 = mul i64 %b1, {unit}
  %over = icmp ugt i64 %b2, %n
  %after = select i1 %over, i64 %n, i64 %b2
  %count = sub i64 %after, %first
  store i64 %count, ptr %length
  br label %operand
operand:
  %i = phi i64 [0, %entry], [%following, %operand]
  %from = add i64 %i, 1
  %bp = getelementptr ptr, ptr %d, i64 %from
  %base = load ptr, ptr %bp
  %sp = getelementptr i64, ptr %steps, i64 %i
  %step = load i64, ptr %sp
  %far = mul i64 %step, %first
  %here = getelementptr i8, ptr %base, i64 %far
  %cp = getelementptr ptr, ptr %cells, i64 %i
  store ptr %here, ptr %cp
  %following = add i64 %i, 1
  %more = icmp ult i64 %following, %operands
  br i1 %more, label %operand, label %call
call:
  call void %loop(ptr %cells, ptr %length, ptr %steps, ptr %data)
  ret void
}}

define ptr @wide(ptr %self, ptr %args, i64 %given) {{
entry:
  %d = alloca [5 x ptr], align 8
  %object = load ptr, ptr %args
  %plan = getelementptr i8, ptr %object, i64 {head}
  store ptr %plan, ptr %d
  %p3 = getelementptr i64, ptr %plan, i64 3
  %parts = load i64, ptr %p3
  br label %array
array:
  %i = phi i64 [1, %entry], [%following, %array]
  %ap = getelementptr ptr, ptr %args, i64 %i
  %a = load ptr, ptr %ap
  %fp = getelementptr i8, ptr %a, i64 {field}
  %numbers = load ptr, ptr %fp
  %dp = getelementptr ptr, ptr %d, i64 %i
  store ptr %numbers, ptr %dp
  %following = add i64 %i, 1
  %more = icmp ult i64 %following, %given
  br i1 %more, label %array, label %run
run:
  %thread = call ptr @PyEval_SaveThread()
  call void @pool_run(ptr @part, ptr %d, i64 %parts)
  call void @PyEval_RestoreThread(ptr %thread)
  %done = call ptr @PyBool_FromLong(i64 1)
  ret ptr %done
}}
"""


class _Wide:
    """Calls of ufuncs that are split where they are large."""

    def __init__(self, code: Callable[..., Any]) -> None:
        self._code = code
        self._plans: dict[Any, Any] = {}

    def __call__(self, ufunc: Any, *operands: Any) -> Any:
        """What `ufunc(*operands)` gives."""
        x = operands[0] if hasattr(operands[0], "dtype") else operands[-1]
        shape, dtype = x.shape, x.dtype
        if ufunc not in _KNOWN or dtype not in _DTYPES:
            return ufunc(*operands)
        arrays = []
        numbers = 0
        for i, y in enumerate(operands):
            if type(y) is float or type(y) is int:
                y = np.array(y, dtype)
                numbers |= 1 << i
            elif not _is_plain(y, shape, dtype):
                return ufunc(*operands)
            arrays.append(y)
        out = native.new_array(shape, _BOOL if ufunc in _COMPARING else dtype)
        plan = self._plans.get((ufunc, dtype, x.size, numbers))
        if plan is None:
            plan = self._planned(ufunc, dtype, x.size, numbers, len(arrays), out.dtype)
        self._code(plan, *arrays, out)
        return out

    def _planned(
        self, ufunc: Any, dtype: Any, size: int, numbers: int, count: int, result: Any
    ) -> bytes:
        """What the machine code is given for such a call."""
        loop, data = loop_of(ufunc, (dtype,) * count + (result,))
        moved = size * (count * dtype.itemsize + result.itemsize)
        parts = max(2, shared(BYTE_NANOSECONDS * moved)[1])
        steps = [0 if numbers >> i & 1 else dtype.itemsize for i in range(count)]
        words = [loop, data or 0, size, parts, count + 1, *steps, result.itemsize]
        if len(self._plans) >= CALLS:
            self._plans.clear()
        plan = np.array(words, np.int64).tobytes()
        self._plans[ufunc, dtype, size, numbers] = plan
        return plan


def _is_plain(x: Any, shape: tuple[int, ...], dtype: Any) -> bool:
    """Whether `x` is an array whose elements follow one another."""
    if type(x) is not np.ndarray or x.shape != shape or x.dtype is not dtype:
        return False
    return bool(x.flags.c_contiguous and x.flags.aligned)


def begin() -> None:
    """Prepare for large arrays, in the background: a program has made its first one."""
    if kernel_family.mode() == "eager":
        prepare()
    elif kernel_family.mode() != "off":
        side_work.start(prepare, "trainkit-compile")


def _text() -> str:
    """The module of the function `wide`."""
    return _TEXT.format(unit=_UNIT, last=_UNIT - 1, head=_BYTES_HEAD, field=DATA)


def _library_name(text: str) -> str:
    return f"wide_{digest_of(text)[:24]}"


def library_ufuncs(machine: str = "") -> str:
    """The module as a part of a library, by names that belong to one text."""
    text = _text()
    pool = f"@{library_prefix(pool_text(machine))}run"
    return text.replace("@pool_run", pool).replace("@wide", f"@{_library_name(text)}")


def prepare() -> bool:
    """Split large operations from now on; False where that can't be done here."""
    if WIDE:
        return True
    helpers = thread_pool()
    if helpers is None or not available():
        return False
    address = address_of(_library_name(_text()))
    if address is None:
        linker().symbols({"pool_run": helpers.run_address})
        address = linker().module(_text())("wide")
    WIDE.append(_Wide(built_in(address)))
    return True
