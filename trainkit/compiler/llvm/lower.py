"""Each kind of step as the body of a function of the addresses of what it reads and writes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from trainkit.compiler.ir import (
    KernelCall,
    LabelCheck,
    Loop,
    Number,
    NumpyLoop,
    Operand,
    Product,
    Reduction,
    Step,
    View,
    is_half,
    kind_of,
    sources_of,
)
from trainkit.compiler.llvm import llvm_functions
from trainkit.compiler.llvm.builder import FunctionBuilder, memory_type
from trainkit.compiler.llvm.llvm_functions import literal, type_of
from trainkit.compiler.llvm.module import ModuleText
from trainkit.compiler.schedule.loops import Dims, coalesced, spread_strides
from trainkit.compiler.schedule.rows import first_inside
from trainkit.compiler.sizes import UnknownSize
from trainkit.core.cpu.cost_model import LINE_FLOATS
from trainkit.kernels.threads.part_functions import array_words

_WIDEST_ROW = 4 * LINE_FLOATS
"""Elements of a row of integers that a product keeps in registers."""


def write_step(
    module: ModuleText, step: Step, has_memory: Any
) -> tuple[FunctionBuilder, list[View]]:
    """The body of the function of a step, and the views whose addresses it takes.

    Args:
        module: gives constants, and names for NumPy's loops.
        step: the step.
        has_memory: function of a view to whether it has memory.
    """
    writer_type = _RowsWriter if isinstance(step, Loop) and step.ends else _WRITERS[type(step)]
    writer = writer_type(module, step, has_memory)
    writer.write()
    return writer.text, writer.views


def write_part(
    module: ModuleText, step: Loop, has_memory: Any
) -> tuple[FunctionBuilder, list[View], int]:
    """The body of a function that does the turns from `%first` to `%after` of the outermost loop.

    Args:
        module: gives constants.
        step: the loop.
        has_memory: function of a view to whether it has memory.

    Returns:
        The body, the views whose addresses it takes, and how many turns there are.
    """
    writer = (_RowsWriter if step.ends else _LoopWriter)(module, step, has_memory)
    turns = writer.write_part()
    return writer.text, writer.views, turns


class _StepWriter:
    def __init__(self, module: ModuleText, step: Any, has_memory: Any) -> None:
        self.module = module
        self.step = step
        self.held = has_memory
        self.text = FunctionBuilder()
        self.views: list[View] = []
        self._parameters: dict[View, str] = {}

    def write(self) -> None:
        raise NotImplementedError

    def pointer(self, view: View) -> str:
        """The parameter that is the address of a view."""
        name = self._parameters.get(view)
        if name is None:
            name = self._parameters[view] = f"%p{len(self.views)}"
            self.views.append(view)
        return name

    def in_memory(self, x: Operand) -> str:
        """The address of an operand."""
        if isinstance(x, View):
            return self.pointer(x)
        if not isinstance(x.value, UnknownSize):
            return self.module.constant(np.array(x.value, x.dtype).tobytes())
        # A number that depends on the sizes of a call can't be a constant of the module; NumPy's
        # loops want an address, so it is put on the stack.
        word_index, self.text.words = self.text.words, self.text.words + 1
        address = self.text.at("%words", 8 * word_index)
        self.text.put(x.dtype, self.literal(x), address)
        return address

    def literal(self, x: Number) -> str:
        """A number as an operand."""
        if not isinstance(x.value, UnknownSize):
            return literal(x.value, x.dtype)
        kind, size = type_of(x.dtype), self.text.number(x.value)
        if kind_of(x.dtype) == "f":
            number = self.text.line(f"sitofp i64 {size} to {kind}")
            return (
                llvm_functions.round_to_half(self.text.line, x.dtype, number)
                if is_half(x.dtype)
                else number
            )
        return size if kind == "i64" else self.text.line(f"trunc i64 {size} to {kind}")

    def call(
        self,
        ufunc: np.ufunc,
        types: Sequence[np.dtype[Any]],
        pointers: Sequence[str],
        dims: Sequence[int],
        steps: Sequence[int],
    ) -> None:
        """Call the loop of a ufunc as NumPy does."""
        text = self.text
        # Calls come one after the other, so one array of addresses serves all of a function, and is
        # as long as the longest.
        text.cells = max(text.cells, len(pointers))
        for i, pointer in enumerate(pointers):
            text.do(f"store ptr {pointer}, ptr {text.at('%cells', 8 * i)}")
        function, data = self.module.numpy_loop(ufunc, types)
        words = [self._words(x) for x in (dims, steps)]
        text.do(f"call void {function}(ptr %cells, ptr {words[0]}, ptr {words[1]}, ptr {data})")

    def _words(self, numbers: Sequence[int]) -> str:
        """The address of numbers: of a constant, or of the stack where they depend on sizes."""
        if not any(isinstance(x, UnknownSize) for x in numbers):
            return self.module.constant(np.array(numbers, np.int64).tobytes())
        text, first = self.text, self.text.words
        text.words += len(numbers)
        for i, x in enumerate(numbers, first):
            text.do(f"store i64 {text.number(x)}, ptr {text.at('%words', 8 * i)}")
        return text.at("%words", 8 * first)

    def reduce(self, step: Reduction, count: int, stride: int, source: str, out: str) -> None:
        """Reduce a run of elements into one place, which holds a zero already for sums."""
        text, dtype = self.text, step.source.dtype
        # A maximum has no number to start from that every dtype knows.
        if step.ufunc is not np.add:  # the first element is where it starts
            kind = memory_type(dtype)
            text.store(kind, text.load(kind, source), out)
            count, source = count - 1, text.at(source, stride)
        # With the result as first operand, and steps of 0, a loop of two operands is a reduction.
        # NumPy calls it like this too, and its sums are then pairwise, with the same bits.
        self.call(step.ufunc, [dtype] * 3, [out, source, out], [count], [0, stride, 0])


class _LoopWriter(_StepWriter):
    """Element-wise steps, all of them for one element after the other."""

    step: Loop

    def write(self) -> None:
        if 0 not in self.step.out.shape:
            dims = self._dims()
            self._nest(dims, {v: self.pointer(v) for v in self._touched}, {})

    def write_part(self) -> int:
        """Write the turns from `%first` to `%after` of the outermost loop; how many there are."""
        # A single element has no axes, but parts are ranges of one.
        dims = self._dims() or [(1, (0,) * len(self._touched))]
        self._nest(dims, {v: self.pointer(v) for v in self._touched}, {}, part=True)
        return dims[0][0]

    def _dims(self) -> Dims:
        loop, shape = self.step, self.step.out.shape
        self._outs = {m.out for m in loop.members}
        views = dict.fromkeys([*sources_of(loop), *(m.out for m in loop.members)])
        # What stays in a register has no address, and no say in which axes can become one.
        self._touched = [v for v in views if v not in self._outs or self.held(v)]
        strides = [spread_strides(v, shape) for v in self._touched]
        return coalesced(shape, strides, by=spread_strides(loop.out, shape))

    def _nest(
        self, dims: Dims, pointers: dict[View, str], loaded: dict[View, str], part: bool = False
    ) -> None:
        """The loops over `dims`; an operand that does not move in them is loaded before them."""
        text, loaded = self.text, dict(loaded)
        # Done here, as LLVM may not: for all that it knows, a store to a result changes the
        # operand.
        for k, v in enumerate(self._touched):
            if v not in self._outs and v not in loaded and all(s[k] == 0 for _, s in dims):
                loaded[v] = text.element(v.dtype, pointers[v])
        if not dims:
            self._body(pointers, loaded)
            return
        (count, steps), inner_dims = dims[0], dims[1:]

        def body(i: str) -> None:
            moved = {
                v: text.moved(pointers[v], i, steps[k], v.dtype)
                for k, v in enumerate(self._touched)
            }
            self._nest(inner_dims, moved, loaded)

        if part:
            text.loop("%after", body, inner=not inner_dims, first="%first")
        else:
            text.loop(count, body, inner=not inner_dims)

    def _body(self, pointers: dict[View, str], loaded: dict[View, str]) -> None:
        """One element: all loads first, so that a result may lie where an operand lay."""
        text, values = self.text, dict(loaded)
        for v in sources_of(self.step):
            if v not in values:
                values[v] = text.element(v.dtype, pointers[v])
        for member in self.step.members:
            operands = [
                self.literal(x) if isinstance(x, Number) else values[x] for x in member.inputs
            ]
            values[member.out] = llvm_functions.emitted(
                text.line, member.name, member.inputs[-1].dtype, operands, member.out.dtype
            )
        for v in dict.fromkeys(m.out for m in self.step.members):
            if v in pointers:
                text.put(v.dtype, values[v], pointers[v])


class _RowsWriter(_LoopWriter):
    """Element-wise steps over one row after the other, and reductions of each row."""

    def write(self) -> None:
        self._rows(part=False)

    def write_part(self) -> int:
        """Write the rows from `%first` to `%after` of the outermost loop; how many there are."""
        return self._rows(part=True)

    def _rows(self, part: bool) -> int:
        # Called for `_outs` and `_touched` alone: axes are cut into rows and their insides below.
        self._dims()
        shape, first = self.step.out.shape, first_inside(self.step.ends[0])
        ends = [end.out for end in self.step.ends]
        self._touched += ends
        self._outs.update(ends)
        self._brief = [
            v for v in dict.fromkeys(e.source for e in self.step.ends) if not self.held(v)
        ]
        self._touched += self._brief
        strides = [spread_strides(v, shape) for v in self._touched]
        by = spread_strides(self.step.out, shape)
        outer = [
            # A row that only the reductions read needs no more memory than its own length: every
            # row lies where the last one lay.
            (0,) * first if v in self._brief else s[:first]
            for v, s in zip(self._touched, strides, strict=True)
        ]
        dims = coalesced(shape[:first], outer, by=by[:first])
        self._inside = coalesced(shape[first:], [s[first:] for s in strides], by=by[first:])
        pointers = {v: self.pointer(v) for v in self._touched if v not in self._brief}
        for v in self._brief:
            pointers[v] = f"%row{len(self.text.rows)}"
            self.text.rows.append(math.prod(shape[first:]) * v.dtype.itemsize)
            # Where a row's length depends on sizes, this has it worked out at the head, before the
            # stack is asked for so much.
            self.text.number(self.text.rows[-1])
        self._each_row(dims, pointers, part)
        # There is an outermost axis, as there are at least two rows.
        return dims[0][0]

    def _each_row(self, dims: Dims, pointers: dict[View, str], part: bool = False) -> None:
        if not dims:
            self._row(pointers)
            return
        text, (count, steps) = self.text, dims[0]

        def body(i: str) -> None:
            moved = {
                v: text.moved(pointers[v], i, steps[k], v.dtype)
                for k, v in enumerate(self._touched)
            }
            self._each_row(dims[1:], moved)

        if part:
            text.loop("%after", body, first="%first")
        else:
            text.loop(count, body)

    def _row(self, pointers: dict[View, str]) -> None:
        """Compute one row, and reduce it."""
        if self.step.members:
            self._nest(self._inside, pointers, {})
        for end in self.step.ends:
            source, out = end.source, pointers[end.out]
            count = math.prod(source.shape[first_inside(end) :])
            # Unlike an extreme, a sum adds to what its place holds.
            if end.ufunc is np.add:
                self.text.store(memory_type(source.dtype), literal(0, source.dtype), out)
            self.reduce(end, count, source.dtype.itemsize, pointers[source], out)


class _NumpyWriter(_StepWriter):
    """NumPy's loop, over everything at once."""

    step: NumpyLoop

    def write(self) -> None:
        step = self.step
        operands = [*step.inputs, step.out]
        moves = [x.dtype.itemsize if isinstance(x, View) and x.shape != () else 0 for x in operands]
        pointers = [self.in_memory(x) for x in operands]
        if step.out.size:
            types = [x.dtype for x in operands]
            self.call(step.ufunc, types, pointers, [step.out.size], moves)


class _ReductionWriter(_StepWriter):
    """Runs of elements by NumPy's inner loop; sums of rows element by element, as NumPy goes."""

    step: Reduction

    def write(self) -> None:
        source, out = self.step.source, self.step.out
        over = tuple(0 if i in self.step.axes else s for i, s in enumerate(out.strides))
        dims = coalesced(source.shape, [source.strides, over], by=source.strides)
        source_pointer, out_pointer = self.pointer(source), self.pointer(out)
        if self.step.ufunc is np.add:
            self._fill(out_pointer)
        self._reduce(dims, source_pointer, out_pointer)

    def _fill(self, out_pointer: str) -> None:
        out, text = self.step.out, self.text
        kind, zero = memory_type(out.dtype), literal(0, out.dtype)

        def body(i: str) -> None:
            text.store(kind, zero, text.moved(out_pointer, i, out.dtype.itemsize, out.dtype))

        text.loop(out.size, body, inner=True)

    def _reduce(self, dims: Dims, source: str, out: str) -> None:
        text, dtype = self.text, self.step.source.dtype
        if len(dims) <= 1:
            count, (stride, over) = dims[0] if dims else (1, (0, 0))
            # The innermost axis decides. Where it is reduced, a run goes to NumPy's loop at once;
            # where it stays, whole rows are added to a row of sums, as NumPy does, and in its
            # order.
            if over == 0 and count > 1:
                self._run(count, stride, source, out)
            else:
                self._accumulate(count, source, out)
            return
        count, (stride, over) = dims[0]

        def body(i: str) -> None:
            source_row = text.moved(source, i, stride, dtype)
            out_row = text.moved(out, i, over, dtype)
            self._reduce(dims[1:], source_row, out_row)

        text.loop(count, body)

    def _run(self, count: int, stride: int, source: str, out: str) -> None:
        self.reduce(self.step, count, stride, source, out)

    def _accumulate(self, count: int, source: str, out: str) -> None:
        """Add a row of elements to a row of places."""
        text, dtype = self.text, self.step.source.dtype
        kind, size = memory_type(dtype), dtype.itemsize

        def body(i: str) -> None:
            element = text.moved(out, i, size, dtype)
            addends = [
                text.load(kind, element),
                text.load(kind, text.moved(source, i, size, dtype)),
            ]
            total = llvm_functions.emitted(text.line, "add", dtype, addends, dtype)
            text.store(kind, total, element)

        text.loop(count, body, inner=True)


class _ProductWriter(_StepWriter):
    """A matrix product: of floats by NumPy's loop, which calls BLAS; of integers by rows."""

    step: Product

    def write(self) -> None:
        views = (self.step.a, self.step.b, self.step.out)
        batch = self.step.out.shape[:-2]
        dims = coalesced(batch, [v.strides[:-2] for v in views], by=self.step.out.strides[:-2])
        self._batches(dims, [self.pointer(v) for v in views])

    def _batches(self, dims: Dims, pointers: list[str]) -> None:
        if not dims:
            of_floats = self.step.out.dtype.kind == "f"
            (self._floats if of_floats else self._integers)(*pointers)
            return
        text, (count, steps) = self.text, dims[0]

        def body(i: str) -> None:
            dtype = self.step.out.dtype
            moved = [text.moved(p, i, s, dtype) for p, s in zip(pointers, steps, strict=True)]
            self._batches(dims[1:], moved)

        text.loop(count, body)

    def _floats(self, *pointers: str) -> None:
        step = self.step
        (m, k), p = step.a.shape[-2:], step.b.shape[-1]
        inner = (*step.a.strides[-2:], *step.b.strides[-2:], *step.out.strides[-2:])
        self.call(np.matmul, [step.out.dtype] * 3, pointers, [1, m, k, p], [0, 0, 0, *inner])

    def _integers(self, a: str, b: str, out: str) -> None:
        """Rows of the result one by one; integers wrap around in any order alike."""
        text, step = self.text, self.step
        (m, k), p = step.a.shape[-2:], step.b.shape[-1]
        dtype, size = step.out.dtype, step.out.dtype.itemsize
        has_known_width = not isinstance(p, UnknownSize)
        # All sums of a row are in registers while k goes by, so each number of `a` is loaded once
        # for the row. That takes neighbours in `b`, and a width known now; else it is one at a
        # time.
        lanes = p if has_known_width and p <= _WIDEST_ROW and step.b.strides[-1] == size else 1
        kind = type_of(dtype)
        row = f"<{lanes} x {kind}>"
        (am, ak), (bk, bp) = step.a.strides[-2:], step.b.strides[-2:]

        def entry(i: str, j: str) -> None:
            left, right = text.moved(a, i, am, dtype), text.moved(b, j, bp * lanes, dtype)
            total = text.total(k, row, "zeroinitializer", lambda q, t: term(left, right, q, t))
            row_pointer = text.moved(out, i, step.out.strides[-2], dtype)
            row_pointer = text.moved(row_pointer, j, size * lanes, dtype)
            text.do(f"store {row} {total}, ptr {row_pointer}, align {size}")

        def term(left: str, right: str, q: str, total: str) -> str:
            x = text.load(kind, text.moved(left, q, ak, dtype))
            right_pointer = text.moved(right, q, bk, dtype)
            # One number in all lanes, as LLVM's vectors spell it.
            first = text.line(f"insertelement {row} poison, {kind} {x}, i32 0")
            mask = f"<{lanes} x i32> zeroinitializer"
            spread = text.line(f"shufflevector {row} {first}, {row} poison, {mask}")
            other = text.line(f"load {row}, ptr {right_pointer}, align {size}")
            product = text.line(f"mul {row} {spread}, {other}")
            return text.line(f"add {row} {total}, {product}")

        text.loop(m, lambda i: text.loop(p // lanes, lambda j: entry(i, j)))


class _KernelWriter(_StepWriter):
    """A call of a compiled kernel: its arguments are written side by side, as words."""

    step: KernelCall

    def write(self) -> None:
        text, step = self.text, self.step
        words: list[int | str] = []
        for x in step.operands:
            if isinstance(x, View):
                start = text.line(f"ptrtoint ptr {self.pointer(x)} to i64")
                words += array_words(start, x.shape, x.strides, x.dtype.itemsize, x.size)
            else:
                words.append(x)
        text.words = max(text.words, len(words))
        for i, word in enumerate(words):
            text.do(f"store i64 {text.number(word)}, ptr {text.at('%words', 8 * i)}")
        name, address = step.function
        declaration = f'declare void @"{name}"(ptr, i64, i64)'
        self.module.outside(name, address, declaration)
        text.do(f'call void @"{name}"(ptr %words, i64 0, i64 1)')


_WRITERS: dict[type, type[_StepWriter]] = {
    Loop: _LoopWriter,
    NumpyLoop: _NumpyWriter,
    Reduction: _ReductionWriter,
    Product: _ProductWriter,
    KernelCall: _KernelWriter,
}


def write_check(text: FunctionBuilder, check: LabelCheck, start: str) -> None:
    """Go to the block `fail` when a label is not in [0, limit)."""
    view = check.labels
    kind = type_of(view.dtype)

    def body(i: str) -> None:
        value = text.load(kind, text.moved(start, i, view.dtype.itemsize, view.dtype))
        if view.dtype.itemsize < 8:
            word = "sext" if view.dtype.kind == "i" else "zext"
            value = text.line(f"{word} {kind} {value} to i64")
        # Without sign a negative label is a huge one, so one comparison tests both ends.
        inside = text.line(f"icmp ult i64 {value}, {text.number(check.limit)}")
        further = text.name()[1:]
        text.do(f"br i1 {inside}, label %{further}, label %fail")
        text.start(further)

    if view.size:
        text.loop(view.size, body)
