"""FunctionBuilder of LLVM's language: names, loads and stores, loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.compiler.ir import is_half
from trainkit.compiler.llvm.llvm_functions import narrow, type_of, widen
from trainkit.compiler.sizes import UnknownSize


def memory_type(dtype: np.dtype[Any]) -> str:
    """LLVM's type of an element in memory."""
    if is_half(dtype):
        return "i16"
    return "i8" if dtype.kind == "b" else type_of(dtype)


class FunctionBuilder:
    """The body of one function.

    Attributes:
        lines: the instructions so far.
        metadata: nodes that they refer to as `!{0}`, `!{1}`, ..., each as its text.
        cells: how many pointers have room on the stack, from `%cells` on.
        words: how many numbers have room on the stack, from `%words` on.
        rows: bytes of the pieces of memory on the stack that are called `%row0`, `%row1`, ...
        sizes: the numbers that depend on unknown sizes, with the names that they have.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.metadata: list[str] = []
        self.cells = 0
        self.words = 0
        self.rows: list[int] = []
        self.sizes: dict[UnknownSize, str] = {}
        self._count = 0
        self._block = "entry"
        self._inner: str | None = None  # what marks the accesses in the loop that is written

    def do(self, text: str) -> None:
        """Add an instruction without a result."""
        self.lines.append(f"  {text}")

    def line(self, text: str) -> str:
        """Add an instruction; the name of its result."""
        name = self.name()
        self.do(f"{name} = {text}")
        return name

    def name(self) -> str:
        """A name that is not taken yet."""
        self._count += 1
        return f"%v{self._count}"

    def start(self, label: str) -> None:
        """Begin a block."""
        self.lines.append(f"{label}:")
        self._block = label

    @property
    def block(self) -> str:
        """The label of the block that is being written."""
        return self._block

    # ------------------------------------------------------------------ numbers

    def number(self, x: int | str) -> str:
        """`x` as an operand; what depends on unknown sizes is worked out at the function's head."""
        if not isinstance(x, UnknownSize):
            return str(x)
        return self.sizes.setdefault(x, f"%size{len(self.sizes)}")

    @property
    def unknown(self) -> list[str]:
        """The names of the unknown sizes that the function has to be given."""
        return sorted({name for size in self.sizes for names in size.terms for name in names})

    def head(self) -> list[str]:
        """The lines that work out the numbers that depend on unknown sizes."""
        lines: list[str] = []
        for size, name in self.sizes.items():
            total, last = "0", len(size.terms) - 1
            for i, (factors, number) in enumerate(size.terms.items()):
                product = str(number)
                for k, factor in enumerate(factors):
                    lines.append(f"  {name}.{i}.{k} = mul nsw i64 {product}, %{factor}")
                    product = f"{name}.{i}.{k}"
                # A register is written once, so partial sums have names of their own; the last one
                # has the name that the body refers to.
                sum_name = name if i == last else f"{name}.{i}"
                lines.append(f"  {sum_name} = add nsw i64 {total}, {product}")
                total = sum_name
        return lines

    # ------------------------------------------------------------------ memory

    def at(self, pointer: str, offset: int) -> str:
        """The address `offset` bytes after `pointer`."""
        if offset == 0:
            return pointer
        return self.line(f"getelementptr i8, ptr {pointer}, i64 {self.number(offset)}")

    def moved(self, pointer: str, i: str, stride: int, dtype: np.dtype[Any]) -> str:
        """The address `i` times `stride` bytes after `pointer`."""
        # What is broadcast stays where it is: no instruction, and the load can be hoisted.
        if stride == 0:
            return pointer
        if stride == dtype.itemsize:
            return self.line(f"getelementptr {memory_type(dtype)}, ptr {pointer}, i64 {i}")
        offset = self.line(f"mul nsw i64 {i}, {self.number(stride)}")
        return self.line(f"getelementptr i8, ptr {pointer}, i64 {offset}")

    def load(self, kind: str, pointer: str) -> str:
        """The value of type `kind` at `pointer`."""
        return self.line(f"load {kind}, ptr {pointer}{self._group()}")

    def store(self, kind: str, value: str, pointer: str) -> None:
        """Write a value of type `kind` to `pointer`."""
        self.do(f"store {kind} {value}, ptr {pointer}{self._group()}")

    def _group(self) -> str:
        return f", !llvm.access.group {self._inner}" if self._inner else ""

    def element(self, dtype: np.dtype[Any], pointer: str) -> str:
        """The array element at `pointer`."""
        value = self.load(memory_type(dtype), pointer)
        if is_half(dtype):
            return widen(self.line, dtype, value)
        return self.line(f"icmp ne i8 {value}, 0") if dtype.kind == "b" else value

    def put(self, dtype: np.dtype[Any], value: str, pointer: str) -> None:
        """Write an array element to `pointer`."""
        if dtype.kind == "b":
            value = self.line(f"zext i1 {value} to i8")
        elif is_half(dtype):
            value = narrow(self.line, dtype, value)
        self.store(memory_type(dtype), value, pointer)

    # ------------------------------------------------------------------ loops

    def _node(self, *parts: str) -> str:
        """A distinct node of metadata; the part "self" stands for the node."""
        name = f"!{{{len(self.metadata)}}}"
        inside = ", ".join(name if part == "self" else part for part in parts)
        self.metadata.append(f"distinct !{{{{{inside}}}}}")
        return name

    def loop(
        self,
        count: int | str,
        body: Callable[[str], Any],
        inner: bool = False,
        first: str | None = None,
    ) -> None:
        """`for i in range(count): body(i)`; the turns of an inner loop don't touch one another.

        With `first`, a value as `count` may be one then, it is `range(first, count)`, which may be
        empty.
        """
        label, count = self.name()[1:], self.number(count)
        before = self._block
        # A loop tests at its end, and its count is at least 1: steps over nothing are not written.
        # Only the range that a thread is handed may be empty, and is tested before.
        if first is None:
            self.do(f"br label %{label}")
        else:
            some = self.line(f"icmp ult i64 {first}, {count}")
            self.do(f"br i1 {some}, label %{label}, label %{label}.end")
        self.start(label)
        index = f"%{label}.i"
        # The phi has to open the block, but where the second of its values comes from is known only
        # when the body is written: its line is kept free until then.
        phi_line = len(self.lines)
        self.lines.append("")
        after = ""
        if inner:
            # Accesses of the body are marked as one group, and the loop says that in this group no
            # turn depends on another. Without that, LLVM would test at run time that no two of the
            # addresses overlap, and would make no vectors where there are many.
            self._inner = self._node()
            allowed = self._node('!"llvm.loop.parallel_accesses"', self._inner)
            after = f", !llvm.loop {self._node('self', allowed)}"
        body(index)
        # What follows is outside of the loop, and must not carry its promise.
        self._inner = None if inner else self._inner
        following = self.line(f"add nuw nsw i64 {index}, 1")
        more = self.line(f"icmp ult i64 {following}, {count}")
        self.lines[phi_line] = (
            f"  {index} = phi i64 [{first or 0}, %{before}], [{following}, %{self._block}]"
        )
        self.do(f"br i1 {more}, label %{label}, label %{label}.end{after}")
        self.start(f"{label}.end")

    def total(self, count: int, kind: str, first: str, body: Callable[[str, str], str]) -> str:
        """`total = first; for i in range(count): total = body(i, total)`."""
        totals: list[str] = []
        phi_line = len(self.lines) + 2  # after the branch and the label of the loop
        before, total = self._block, self.name()
        self.loop(count, lambda i: totals.append(body(i, total)))
        label = self.lines[phi_line - 1][:-1]
        # Both phis have to stand before all else in the block. Neither names a block of the body:
        # `body` opens none, so the last turn ends in the block of the loop itself.
        self.lines[phi_line] += (
            f"\n  {total} = phi {kind} [{first}, %{before}], [{totals[0]}, %{label}]"
        )
        return totals[0]
