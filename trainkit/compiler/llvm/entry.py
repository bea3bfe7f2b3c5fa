"""A segment's function: it takes arrays from Python, checks them, and does the steps."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from trainkit.compiler.ir import (
    Buffer,
    KernelCall,
    LabelCheck,
    Product,
    Step,
    Unsupported,
    View,
    sources_of,
)
from trainkit.compiler.llvm.builder import FunctionBuilder
from trainkit.compiler.llvm.lower import write_check, write_part, write_step
from trainkit.compiler.llvm.module import ModuleText
from trainkit.compiler.schedule.parallel import PART_BYTES, ParallelLoops, in_parallel
from trainkit.compiler.sizes import ALIGNMENT, ROUNDED, UnknownSize
from trainkit.core.cpu.cost_model import CACHE_LINE, THIRD_CACHE
from trainkit.core.process.side_work import give_way
from trainkit.kernels.jit import numpy_inner_loops
from trainkit.kernels.jit.python_entry import ALIGNED, IN_ROWS
from trainkit.kernels.threads.thread_pool import MOST_PARTS, thread_pool

EMBEDDED_BYTES = 4 * CACHE_LINE
"""Constants up to this size stand in the code; larger ones are given to each call."""
RELEASE_BYTES = THIRD_CACHE // 2
"""Code that moves or multiplies more than this lets other threads of Python run meanwhile."""
_UNIT = CACHE_LINE
"""Elements, as a multiple of which long loops are shared out: whole lines, whatever the dtype."""
_WEIGHT = PART_BYTES // 4
"""Bytes that a loop touches, in so many of which loops are weighed against one another."""
_FINE = (MOST_PARTS - 1).bit_length()
"""Bits after the point where parts of such weights end."""
_CONTIGUOUS_ALIGNED = IN_ROWS | ALIGNED

Given = tuple[Buffer, tuple[int, ...], np.dtype[Any]]


class EntryWriter:
    """Writes the module of a segment.

    Args:
        steps: in order.
        arguments: buffer, shape and dtype of the arrays that are given first.
        outputs: the buffers of the arrays that are given after them.
        offsets: those of temporaries in the memory that is given last.
        reusable: pairs of an output and an input in whose memory it may lie.
        unknown: names of the sizes that arrays have at a call.
        ends: an argument, the least and the largest number that each of these may be.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        arguments: Sequence[Given],
        outputs: Sequence[Buffer],
        offsets: dict[Buffer, int],
        reusable: Sequence[tuple[Buffer, Buffer]] = (),
        unknown: Sequence[str] = (),
        ends: Buffer | None = None,
    ) -> None:
        self._module = ModuleText()
        self._steps = steps
        self._given = arguments
        self._outputs = outputs
        self._places = offsets
        self._reusable = reusable
        self._unknown = unknown
        self._ends = ends
        self._text = FunctionBuilder()
        self._pointers: dict[Buffer, str] = {}
        # sizes of arrays that depend on unknown ones: where they are read, and what they have to be
        self._axes: list[tuple[str, UnknownSize]] = []
        self._after_sizes = 0

    @property
    def symbols(self) -> dict[str, int]:
        """Addresses of the functions and objects that the text refers to, by name."""
        return self._module.symbols

    def written(self) -> str:
        """The text of the module."""
        text = self._text
        self._pick_up()
        # Before anything is written, so that a call with a bad label leaves all arrays as they
        # were.
        for step in self._steps:
            if isinstance(step, LabelCheck):
                write_check(text, step, self._pointer(step.labels))
        release = _work(self._steps) > RELEASE_BYTES
        thread = text.line("call ptr @PyEval_SaveThread()") if release else ""
        for item in self._in_parallel():
            give_way()
            if isinstance(item, ParallelLoops):
                self._call_pool(item)
            elif not isinstance(item, LabelCheck):
                self._call(item)
        if release:
            text.do(f"call void @PyEval_RestoreThread(ptr {thread})")
        self._leave(True)
        text.start("fail")
        self._leave(False)
        # Sums and products of sizes are asked for all over the function, and needed right behind
        # the point where the sizes are read. They are taken off the list, as else the head, which
        # stands before that point, would have them again.
        text.lines[self._after_sizes : self._after_sizes] = text.head()
        text.sizes.clear()
        self._module.entry(text)
        return self._module.text()

    def _leave(self, completed: bool) -> None:
        result = self._text.line(f"call ptr @PyBool_FromLong(i64 {int(completed)})")
        self._text.do(f"ret ptr {result}")

    def _call(self, step: Step) -> None:
        body, views = write_step(self._module, step, self._is_held)
        name = self._module.function(body, len(views))
        arguments = [f"ptr {self._pointer(v)}" for v in views]
        arguments += [f"i64 %{unknown}" for unknown in body.unknown]
        self._text.do(f"call void {name}({', '.join(arguments)})")

    def _in_parallel(self) -> Sequence[Step | ParallelLoops]:
        if thread_pool() is None:
            return self._steps
        return in_parallel(self._steps, set(self._pointers), self._places, self._reusable)

    def _call_pool(self, together: ParallelLoops) -> None:
        """Share out the loops: each part of the work is a part of all of them."""
        body = FunctionBuilder()
        operands: list[str] = []
        # Loops without arrays in common lie one behind the other on a line, as long as they are
        # heavy, and a part is a range of this line. Others are all cut alike, so that a thread has
        # what it wrote in the first in its cache for the second.
        weights = [_weight(body, size) for size in together.sizes] if together.apart else [1]
        total = functools.reduce(functools.partial(_sum, body), weights)
        ends = self._part_ends(body, total)
        start: int | str = 0
        for number, loop in enumerate(together.loops):
            give_way()
            part, views, turns = write_part(self._module, loop, self._is_held)
            name = self._module.function(part, len(views), ("i64 %first", "i64 %after"))
            weight = weights[number if together.apart else 0]
            first, after = (self._share(body, end, start, weight, turns) for end in ends)
            start = _sum(body, start, weight) if together.apart else 0
            some, none = (body.name()[1:] for _ in range(2))
            # A part may end before a loop begins, or begin after its end.
            some_turns = body.line(f"icmp ult i64 {first}, {after}")
            body.do(f"br i1 {some_turns}, label %{some}, label %{none}")
            body.start(some)
            arguments = [
                # The pool hands one pointer to each part, so that is to an array of all addresses.
                f"ptr {body.load('ptr', body.at('%p0', 8 * (len(operands) + i)))}"
                for i in range(len(views))
            ]
            arguments += [f"i64 {first}", f"i64 {after}", *(f"i64 %{x}" for x in part.unknown)]
            body.do(f"call void {name}({', '.join(arguments)})")
            body.do(f"br label %{none}")
            body.start(none)
            operands += [self._pointer(v) for v in views]
        text = self._text
        work = self._work(body, len(operands))
        # Sizes travel behind the addresses, in cells of the same 8 bytes.
        text.cells = max(text.cells, len(operands) + len(self._unknown))
        values = [
            *(f"ptr {pointer}" for pointer in operands),
            *(f"i64 %{x}" for x in self._unknown),
        ]
        for i, value in enumerate(values):
            text.do(f"store {value}, ptr {text.at('%cells', 8 * i)}")
        parts = self._parts(together.bytes)
        text.do(f"call void {self._module.shared_out()}(ptr {work}, ptr %cells, i64 {parts})")

    def _work(self, body: FunctionBuilder, count: int) -> str:
        """The function that the pool calls, which finds unknown sizes after `count` addresses."""
        part = ("i64 %part", "i64 %parts")
        if not self._unknown:
            return self._module.function(body, 1, part)
        # Parameters have the names of the sizes, and those that a body uses come in alphabetical
        # order. So two functions: the pool's, of an address alone, loads sizes and passes them on.
        for name in self._unknown:  # all of them, in the order of their places
            body.number(UnknownSize({(name,): 1}, dict.fromkeys(self._unknown, 1)))
        outer, inner = FunctionBuilder(), self._module.function(body, 1, part)
        sizes = [
            outer.load("i64", outer.at("%p0", 8 * (count + i))) for i in range(len(self._unknown))
        ]
        order = dict(zip(self._unknown, sizes, strict=True))
        arguments = ", ".join(["ptr %p0", *part, *(f"i64 {order[name]}" for name in body.unknown)])
        outer.do(f"call void {inner}({arguments})")
        return self._module.function(outer, 1, part)

    def _parts(self, size: int) -> int | str:
        """In how many parts so many bytes are shared out."""
        if not isinstance(size, UnknownSize):
            return max(1, min(MOST_PARTS, size // PART_BYTES))
        text = self._text
        parts = text.line(f"udiv i64 {text.number(size)}, {PART_BYTES}")
        few = text.line(f"icmp ult i64 {parts}, {MOST_PARTS}")
        return text.line(f"select i1 {few}, i64 {parts}, i64 {MOST_PARTS}")

    @staticmethod
    def _part_ends(text: FunctionBuilder, total: int | str) -> tuple[str, str]:
        """Where a part begins and ends, when all parts together are `total` long."""
        ends, fine = [], _in_fine_units(text, total)
        for part in ("%part", text.line("add i64 %part, 1")):
            end = text.line(f"mul i64 {part}, {fine}")
            ends.append(text.line(f"udiv i64 {end}, %parts"))
        return ends[0], ends[1]

    @staticmethod
    def _share(
        text: FunctionBuilder, end: str, start: int | str, weight: int | str, turns: int
    ) -> str:
        """The turn of a loop at the end of a part; whole vectors lie before it.

        Args:
            text: what is written to.
            end: that of the part.
            start: where the loop begins.
            weight: how long it is.
            turns: how many there are.
        """
        # Rounding moves up to a unit from one part to the next, which is much of a short loop.
        unit = _UNIT if turns >= _UNIT * 16 else 1
        units, long = _units(text, turns, unit), _in_fine_units(text, weight)
        fine_start = _in_fine_units(text, start)
        # There is no sign: a part that ends before the loop begins would give a huge share.
        past = text.line(f"icmp ugt i64 {end}, {fine_start}")
        share = text.line(f"sub i64 {end}, {fine_start}")
        share = text.line(f"select i1 {past}, i64 {share}, i64 0")
        inside = text.line(f"icmp ult i64 {share}, {long}")
        share = text.line(f"select i1 {inside}, i64 {share}, i64 {long}")
        share = text.line(f"mul i64 {share}, {units}")
        share = text.line(f"udiv i64 {share}, {long}")
        share = text.line(f"mul i64 {share}, {unit}")
        # The last unit may hold fewer turns than the others.
        below = text.line(f"icmp ult i64 {share}, {text.number(turns)}")
        return text.line(f"select i1 {below}, i64 {share}, i64 {text.number(turns)}")

    def _is_held(self, view: View) -> bool:
        return view.buffer in self._pointers

    def _pointer(self, view: View) -> str:
        """Address of the first element of a view."""
        pointer = self._pointers.get(view.buffer)
        if pointer is None:  # a constant that stands in the code
            pointer = self._module.constant(view.buffer.value[0].tobytes())
            self._pointers[view.buffer] = pointer
        return self._text.at(pointer, view.offset)

    # ------------------------------------------------------------------ arguments

    def _pick_up(self) -> None:
        """Take the addresses of data out of the objects that are given; leave if one won't do."""
        for i, (buffer, shape, dtype) in enumerate(self._given):
            self._pointers[buffer] = self._array(self._argument(i), shape, dtype)
        self._settle_sizes()
        first = len(self._given)
        for i, buffer in enumerate(self._outputs):
            self._pointers[buffer] = self._data(self._argument(first + i))
        if self._places:
            memory = self._data(self._argument(first + len(self._outputs)))
            for buffer, offset in self._places.items():
                self._pointers[buffer] = self._text.at(memory, offset)

    def _argument(self, index: int) -> str:
        return self._text.load("ptr", self._text.at("%args", 8 * index))

    def _data(self, array: str) -> str:
        return self._field("ptr", array, numpy_inner_loops.DATA)

    def _field(self, kind: str, thing: str, offset: int) -> str:
        return self._text.load(kind, self._text.at(thing, offset))

    def _require(self, condition: str) -> None:
        label = self._text.name()[1:]
        self._text.do(f"br i1 {condition}, label %{label}, label %fail")
        self._text.start(label)

    def _array(self, thing: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> str:
        """Address of the data of an array, or of a NumPy scalar where that may be."""
        text = self._text
        kind = self._field("ptr", thing, numpy_inner_loops.TYPE)
        arrays = self._module.object(np.ndarray, "numpy.ndarray")
        is_array = text.line(f"icmp eq ptr {kind}, {arrays}")
        if shape:
            self._require(is_array)
            return self._validate(thing, shape, dtype)
        # Arithmetic on arrays without axes gives NumPy's scalars, which come back in the next call.
        # Their value lies right behind the head that all objects have.
        scalar = self._module.object(dtype.type, f"numpy.{dtype.type.__name__}")
        array, other, both = (text.name()[1:] for _ in range(3))
        text.do(f"br i1 {is_array}, label %{array}, label %{other}")
        text.start(array)
        of_array = self._validate(thing, shape, dtype)
        after_array = text.block
        text.do(f"br label %{both}")
        text.start(other)
        self._require(text.line(f"icmp eq ptr {kind}, {scalar}"))
        of_scalar = text.at(thing, numpy_inner_loops.HEAD)
        after_other = text.block
        text.do(f"br label %{both}")
        text.start(both)
        return text.line(f"phi ptr [{of_array}, %{after_array}], [{of_scalar}, %{after_other}]")

    def _validate(self, array: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> str:
        """Address of the data of an array that has the shape, the dtype and the layout."""
        # NumPy has one object for each dtype of its own, so their addresses are compared. One with
        # its bytes swapped is another object, and refused like any other.
        dtype_object = self._module.object(dtype, f"numpy.dtype.{dtype.char}")
        self._same("ptr", self._field("ptr", array, numpy_inner_loops.DESCR), dtype_object)
        self._same("i32", self._field("i32", array, numpy_inner_loops.RANK), len(shape))
        flags = self._field("i32", array, numpy_inner_loops.FLAGS)
        masked = self._text.line(f"and i32 {flags}, {_CONTIGUOUS_ALIGNED}")
        # Strides stand in the code as numbers, so all but one layout is refused.
        self._same("i32", masked, _CONTIGUOUS_ALIGNED)
        if shape:
            sizes = self._field("ptr", array, numpy_inner_loops.SIZES)
            for axis, n in enumerate(shape):
                size = self._field("i64", sizes, 8 * axis)
                if isinstance(n, UnknownSize):
                    self._axes.append((size, n))
                else:
                    self._same("i64", size, n)
        return self._data(array)

    def _settle_sizes(self) -> None:
        """Find the unknown sizes, and compare all that depends on them; leave if one won't do."""
        text = self._text
        for i, name in enumerate(self._unknown):
            assert self._ends is not None
            # read, not written out: ranges with the same loops have one text, compiled once
            ends = self._pointers[self._ends]
            low, high = (text.load("i64", text.at(ends, 16 * i + offset)) for offset in (0, 8))
            value, size = self._axis_of(name)
            constant_term, factor = size.terms.get((), 0), size.terms[(name,)]
            value = text.line(f"sub i64 {value}, {constant_term}")
            # A remainder need not be looked for: all axes, this one too, are compared below with
            # what they are at the size that is found here.
            text.do(f"%{name} = sdiv i64 {value}, {factor}")
            is_above = text.line(f"icmp sge i64 %{name}, {low}")
            is_below = text.line(f"icmp sle i64 %{name}, {high}")
            self._require(text.line(f"and i1 {is_above}, {is_below}"))
            more = text.line(f"add i64 %{name}, {ALIGNMENT - 1}")
            text.do(f"%{name}{ROUNDED} = and i64 {more}, -{ALIGNMENT}")
        self._after_sizes = len(text.lines)
        for value, size in self._axes:
            self._same("i64", value, text.number(size))

    def _axis_of(self, name: str) -> tuple[str, UnknownSize]:
        """The size of an axis of some array, of which an unknown size can be worked out."""
        # An axis that is the size itself takes no arithmetic, so such a one is looked for first.
        for value, size in self._axes:
            if size.terms == {(name,): 1}:
                return value, size
        for value, size in self._axes:
            if set(size.terms) <= {(), (name,)}:
                return value, size
        raise Unsupported("an unknown size that no array shows")

    def _same(self, kind: str, x: str, expected: Any) -> None:
        self._require(self._text.line(f"icmp eq {kind} {x}, {expected}"))


def _weight(text: FunctionBuilder, size: int) -> int | str:
    """How much a loop that touches so many bytes weighs beside others."""
    if not isinstance(size, UnknownSize):
        return size // _WEIGHT + 1
    return text.line(f"add i64 {text.line(f'udiv i64 {text.number(size)}, {_WEIGHT}')}, 1")


def _sum(text: FunctionBuilder, a: int | str, b: int | str) -> int | str:
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    return text.line(f"add i64 {a}, {b}")


def _in_fine_units(text: FunctionBuilder, x: int | str) -> int | str:
    return x << _FINE if isinstance(x, int) else text.line(f"shl i64 {x}, {_FINE}")


def _units(text: FunctionBuilder, turns: int, unit: int) -> int | str:
    """How many times `unit` turns there are, the last of them perhaps not complete."""
    if unit == 1 or not isinstance(turns, UnknownSize):
        return text.number(-(-turns // unit))
    return text.line(f"udiv i64 {text.line(f'add i64 {text.number(turns)}, {unit - 1}')}, {unit}")


def _work(steps: Sequence[Step]) -> int:
    """Bytes that are read, and multiplications in products."""
    total = 0
    for step in steps:
        total += sum(v.size * v.dtype.itemsize for v in sources_of(step))
        if isinstance(step, Product):
            total += step.out.size * step.a.shape[-1]
        elif isinstance(step, KernelCall):
            total += step.work
    return total
