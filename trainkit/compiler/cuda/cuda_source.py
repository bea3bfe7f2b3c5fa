"""The source of one kernel: what one loop of element-wise steps does, in CUDA C++.

Sizes, strides and numbers stand in the text, so a kernel is for one shape. Each thread takes every
so many-th element, four at a time in large arrays whose elements follow one another; what is
computed on the way stays in registers. Where several loops do the same, one kernel does them all:
it is given a table of where the arrays of each lie.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainkit.compiler.cuda.cuda_table import FIND, declaration, filled, layout, most_members
from trainkit.compiler.cuda.cuda_vectors import EACH, declarations, is_aligned, name_of
from trainkit.compiler.ir import Buffer, Elementwise, Loop, Number, Operand, View, sources_of
from trainkit.compiler.schedule.loops import coalesced, spread_strides
from trainkit.kernels.cuda.cuda_functions import (
    expression,
    headers_for,
    literal,
    loaded,
    stored,
    type_of,
    value_type_of,
)
from trainkit.kernels.cuda.raw_kernel import ALIGNMENT, blocks_for

_FEWEST_LONG = 2**31
"""Positions from which on 32 bits are too few to count them."""
FEWEST_BY_FOUR = 2**16
"""Elements from which on a thread takes four: fewer are better spread over more threads."""
_MOST_BY_FOUR = 8
"""Arrays of which four elements at a time still fit into the registers of a thread."""


@dataclass(frozen=True)
class KernelSource:
    """A kernel and what it takes.

    Attributes:
        name: of the function.
        text: its source.
        views: whose buffers are its parameters, results last.
        size: how many elements there are.
        each: how many of them a thread takes at a time.
    """

    name: str
    text: str
    views: tuple[View, ...]
    size: int
    each: int = 1

    def launch(self, arrays: Sequence[Any]) -> tuple[int, tuple[Any, ...]]:
        """Blocks and arguments, given the arrays in which `views` are."""
        return blocks_for(-(-self.size // self.each)), tuple(arrays)


@dataclass(frozen=True)
class TableSource:
    """A kernel that does the same with the arrays of several loops.

    Attributes:
        name: of the function.
        text: its source, which holds for any number of loops.
        members: the views of each loop, results last.
        sizes: how many elements each has.
        each: how many of them a thread takes at a time.
    """

    name: str
    text: str
    members: tuple[tuple[View, ...], ...]
    sizes: tuple[int, ...]
    each: int

    @property
    def views(self) -> tuple[View, ...]:
        """The views of all loops, one after the other."""
        return tuple(v for views in self.members for v in views)

    @property
    def size(self) -> int:
        """How many elements there are in all."""
        return sum(self.sizes)

    def launch(self, arrays: Sequence[Any]) -> tuple[int, tuple[Any, ...]]:
        """Blocks and arguments, given the arrays in which `views` are."""
        # Offsets are in the addresses here, so that loops over other parts of arrays have one text.
        starts = [x.data.ptr + v.offset for x, v in zip(arrays, self.views, strict=True)]
        width = len(self.members[0])
        addresses = [starts[i : i + width] for i in range(0, len(starts), width)]
        blocks = [blocks_for(-(-size // self.each)) for size in self.sizes]
        record = layout(width, most_members(width))
        return sum(blocks), (filled(record, addresses, self.sizes, blocks),)


def source_of(loop: Loop, materialized: set[Buffer], shared: set[Buffer]) -> KernelSource:
    """The kernel of a loop.

    Args:
        loop: its steps.
        materialized: the buffers that need memory.
        shared: those of them that may lie in one place with another.
    """
    return _CudaWriter(loop, materialized, shared).written()


def likeness(loop: Loop, materialized: set[Buffer]) -> str:
    """A text that is equal for loops that do the same, each with arrays of its own."""
    return _CudaWriter(loop, materialized, materialized, in_table=True).likeness()


def most_loops(loop: Loop, materialized: set[Buffer]) -> int:
    """How many loops like this one a table has room for."""
    return most_members(len(_CudaWriter(loop, materialized, materialized, in_table=True).views))


def table_source_of(loops: Sequence[Loop], materialized: set[Buffer]) -> TableSource:
    """The kernel of loops of one likeness, no more of them than `most_loops`."""
    writers = [_CudaWriter(loop, materialized, materialized, in_table=True) for loop in loops]
    # One text serves all members, so a long one decides for the short ones.
    by_four = any(writer.goes_by_four() for writer in writers)
    name, text = writers[0].written_for_table(by_four)
    members = tuple(writer.views for writer in writers)
    sizes = tuple(writer.size for writer in writers)
    return TableSource(name, text, members, sizes, EACH if by_four else 1)


def _name_kernel(head: str, text: str) -> tuple[str, str]:
    """The name of a kernel, which says what it does, and all of its text."""
    # The name is made of the text, so equal kernels of different graphs are compiled once.
    name = "fused_" + hashlib.sha256((head + text).encode()).hexdigest()[:16]
    return name, f'{head}extern "C" __global__ void {name}{text}'


class _CudaWriter:
    def __init__(
        self, loop: Loop, materialized: set[Buffer], shared: set[Buffer], in_table: bool = False
    ) -> None:
        self.loop = loop
        self.shared = shared
        self.in_table = in_table
        outputs = dict.fromkeys(m.out for m in loop.members)
        self.sources = [v for v in dict.fromkeys(sources_of(loop)) if v.buffer.kind != "constant"]
        self.results = [v for v in outputs if v.buffer in materialized]
        self.views = (*self.sources, *self.results)
        shape = loop.out.shape
        strides = [spread_strides(v, shape) for v in self.views]
        self.dims = coalesced(shape, strides, by=spread_strides(loop.out, shape))
        self.size = math.prod(shape)
        ways = range(len(self.views))
        # Arithmetic on 64 bits takes a GPU several instructions. `far` is in bytes and so more than
        # the position that is computed: it errs on the safe side.
        span = max(abs(sum((n - 1) * s[k] for n, s in self.dims)) for k in ways)
        self.index = "long long" if max(self.size, span) >= _FEWEST_LONG else "int"
        self.steps = [
            [s[k] // v.dtype.itemsize for _, s in self.dims] for k, v in enumerate(self.views)
        ]
        self.names: dict[View, str] = {}
        self.lines: list[str] = []

    def written(self) -> KernelSource:
        by_four = self.goes_by_four()
        parameters = [
            # A result that may be put over an input must not be promised to lie apart from it.
            f"{self._pointer(k)} {'' if v.buffer in self.shared else '__restrict__ '}p{k}"
            for k, v in enumerate(self.views)
        ]
        text = f"({', '.join(parameters)}) {{\n{self.body(by_four)}}}\n"
        name, source_text = _name_kernel(self.head(by_four), text)
        return KernelSource(name, source_text, self.views, self.size, EACH if by_four else 1)

    def written_for_table(self, by_four: bool) -> tuple[str, str]:
        """The name and the text of a kernel that takes a table."""
        index, ways = self.index, range(len(self.views))
        pointers = [
            f"  {self._pointer(k)} p{k} = ({self._pointer(k)})t.place[{k}][k];\n" for k in ways
        ]
        head = self.head(by_four) + declaration(len(ways), most_members(len(ways)))
        return _name_kernel(
            head,
            f"(const Table t) {{\n{FIND}"
            "  const int block = (int)blockIdx.x - t.first[k];\n"
            "  const int blocks = t.first[k + 1] - t.first[k];\n"
            f"  const {index} size = ({index})t.size[k];\n"
            f"{''.join(pointers)}{self.body(by_four)}}}\n",
        )

    def likeness(self) -> str:
        """What loops have in common that one text can do."""
        # Parameters are called by their numbers and sizes are read from the table, so the text is
        # the same for arrays of any length.
        dtypes = " ".join(v.dtype.name for v in self.views)
        return f"{len(self.sources)} {dtypes}\n{self.body(by_four=False)}"

    def head(self, by_four: bool) -> str:
        """What stands before a kernel."""
        head = headers_for([v.dtype for v in self.views])
        if by_four:
            head += declarations(v.dtype for k, v in enumerate(self.views) if self.steps[k][0])
        return head

    def body(self, by_four: bool) -> str:
        """The lines of a kernel."""
        return self._by_four() if by_four else self._one_by_one("0")

    def _pointer(self, k: int) -> str:
        return f"{'const ' if k < len(self.sources) else ''}{type_of(self.views[k].dtype)}*"

    # ------------------------------------------------------------------ loops

    def goes_by_four(self) -> bool:
        """Whether there are many elements, and all that is read or written is in their order."""
        moved = [k for k in range(len(self.views)) if self.steps[k] != [0]]
        return (
            len(self.dims) == 1
            and self.size >= FEWEST_BY_FOUR
            and len(moved) <= _MOST_BY_FOUR
            and all(self.steps[k] == [1] and is_aligned(self.views[k]) for k in moved)
        )

    def _thread(self) -> tuple[str, str]:
        """The number of a thread among those of its loop, and how many there are."""
        block, blocks = ("block", "blocks") if self.in_table else ("blockIdx.x", "gridDim.x")
        return (
            f"({self.index}){block} * blockDim.x + threadIdx.x",
            f"({self.index}){blocks} * blockDim.x",
        )

    def _one_by_one(self, start: str) -> str:
        """A loop over the elements from `start` on."""
        index = self.index
        self.names, self.lines = {}, []
        self._positions([n for n, _ in self.dims])
        self._do(lambda k: f"p{k}[{self._index_text(k)}]")
        body = "".join(f"    {line}\n" for line in self.lines)
        first, threads = self._thread()
        if start != "0":
            first = f"{start} + {first}"
        # Rolled out it would take the registers of other threads, and there are many arrays.
        rolled = "#pragma unroll 1\n" if self.in_table else ""
        return (
            f"  const {index} step = {threads};\n"
            f"{rolled}  for ({index} i = {first}; i < {self._count()}; "
            f"i += step) {{\n{body}  }}\n"
        )

    def _count(self) -> str:
        return "size" if self.in_table else str(self.size)

    def _by_four(self) -> str:
        """Four elements at a time where all arrays begin at wide words; the rest one by one."""
        index, moved = self.index, [k for k in range(len(self.views)) if self.steps[k] == [1]]
        inputs = [k for k in moved if k < len(self.sources)]
        outputs = [k for k in moved if k >= len(self.sources)]
        self.names, self.lines, self.axes = {}, [], ["i"]
        self._do(lambda k: f"q{k}.v[k]" if k in moved else f"p{k}[{self._index_text(k)}]")
        kinds = {k: name_of(self.views[k].dtype) for k in moved}
        vectors = {
            k: f"(({'const ' * (k in inputs)}{kinds[k]}*)({self._start(k)}))[j]" for k in moved
        }
        loads = "".join(f"      const {kinds[k]} q{k} = {vectors[k]};\n" for k in inputs)
        rooms = "".join(f"      {kinds[k]} q{k};\n" for k in outputs)
        body = "".join(f"        {line}\n" for line in self.lines)
        saves = "".join(f"      {vectors[k]} = q{k};\n" for k in outputs)
        # Where arrays begin is known only at the launch: views may begin anywhere. Without
        # alignment `done` stays 0, and the loop behind does all.
        address = " | ".join(f"(unsigned long long)p{k}" for k in moved)
        first, threads = self._thread()
        vector_count = f"size / {EACH}" if self.in_table else str(self.size // EACH)
        end = f"size / {EACH} * {EACH}" if self.in_table else str(self.size // EACH * EACH)
        return (
            f"  {index} done = 0;\n"
            f"  if ((({address}) & {ALIGNMENT - 1}) == 0) {{\n"
            f"    done = {end};\n"
            f"    for ({index} j = {first}; j < {vector_count}; j += {threads}) {{\n{loads}{rooms}"
            f"#pragma unroll\n      for (int k = 0; k < {EACH}; ++k) {{\n{body}      }}\n{saves}"
            f"    }}\n  }}\n{self._one_by_one('done')}"
        )

    def _do(self, element: Callable[[int], str]) -> None:
        """The lines for one element, given how the memory of a view is spelled there."""
        for k, v in enumerate(self.sources):
            self._hold(v, loaded(element(k), v.dtype))
        for member in self.loop.members:
            self._compute(member)
        for k, v in enumerate(self.results, len(self.sources)):
            self.lines.append(f"{element(k)} = {stored(self.names[v], v.dtype)};")

    # ------------------------------------------------------------------ places

    def _positions(self, sizes: list[int]) -> None:
        """The place along each axis, the last one moving fastest."""
        index = self.index
        self.axes = [f"i{k}" for k in range(len(sizes))] if len(sizes) > 1 else ["i"]
        quotient = "i"
        # Sizes are literals, which makes multiplications and shifts of these divisions.
        for k in range(len(sizes) - 1, 0, -1):
            self.lines.append(f"const {index} i{k} = {quotient} % {sizes[k]};")
            self.lines.append(f"const {index} r{k} = {quotient} / {sizes[k]};")
            quotient = f"r{k}"
        if len(sizes) > 1:
            self.lines.append(f"const {index} i0 = {quotient};")

    def _index_text(self, k: int) -> str:
        """Where the element of a view lies, in elements from the start of its buffer."""
        view = self.views[k]
        # A single element has no axes, but there is a loop variable: hence not strict.
        steps = [(axis, s) for axis, s in zip(self.axes, self.steps[k], strict=False) if s]
        parts = [axis if s == 1 else f"{axis} * {s}" for axis, s in steps]
        if view.offset and not self.in_table:  # there it is in the address
            parts.append(str(view.offset // view.dtype.itemsize))
        return " + ".join(parts) or "0"

    def _start(self, k: int) -> str:
        """The first element of a view."""
        offset = self.views[k].offset // self.views[k].dtype.itemsize
        return f"p{k} + {offset}" if offset and not self.in_table else f"p{k}"

    # ------------------------------------------------------------------ values

    def _hold(self, view: View, text: str) -> None:
        self.names[view] = name = f"v{len(self.names)}"
        self.lines.append(f"const {value_type_of(view.dtype)} {name} = {text};")

    def _compute(self, member: Elementwise) -> None:
        operands = [self._operand(x) for x in member.inputs]
        out: View = member.out
        dtype = member.inputs[-1].dtype
        self._hold(out, expression(member.name, dtype, operands, out.dtype))

    def _operand(self, x: Operand) -> str:
        if isinstance(x, Number):
            return literal(x.value, x.dtype)
        if x.buffer.kind == "constant":
            return literal(np.asarray(x.buffer.value[0]).reshape(-1)[0], x.dtype)
        return self.names[x]
