"""What a module of LLVM's language holds around its functions: constants, symbols, metadata."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trainkit.compiler.llvm import llvm_functions
from trainkit.compiler.llvm.builder import FunctionBuilder
from trainkit.compiler.sizes import UnknownSize
from trainkit.kernels.jit import numpy_inner_loops
from trainkit.kernels.jit.python_entry import python_declarations
from trainkit.kernels.threads.thread_pool import thread_pool

_LONGEST_ENTRY = 2000
"""Instructions of the function that Python calls, up to which LLVM works on it."""


class ModuleText:
    """The text of a module that is being written.

    Args:
        *declarations: of what is outside of every process under the same name, besides functions of
            Python.

    Attributes:
        symbols: addresses of the functions and objects of this process that it refers to, by name.
    """

    def __init__(self, *declarations: str) -> None:
        self.symbols: dict[str, int] = {}
        self._globals = list(declarations)
        self._constants: dict[bytes, str] = {}
        self._functions: dict[str, str] = {}
        self._bodies: list[str] = []
        self._metadata: list[str] = []

    def constant(self, data: bytes) -> str:
        """The name of bytes that stand in the code."""
        name = self._constants.get(data)
        if name is None:
            name = self._constants[data] = f"@c{len(self._constants)}"
            text = "".join(f"\\{b:02X}" for b in data)
            kind = f"[{len(data)} x i8]"
            self._globals.append(f'{name} = private constant {kind} c"{text}", align 64')
        return name

    def object(self, value: Any, name: str) -> str:
        """The name of a Python object that lives as long as the process."""
        if name not in self.symbols:
            # The text has only the name. Code is kept on disk, and in the next process the object
            # lies elsewhere.
            self.symbols[name] = id(value)
            self._globals.append(f'@"{name}" = external global i8')
        return f'@"{name}"'

    def numpy_loop(self, ufunc: np.ufunc, types: Sequence[np.dtype[Any]]) -> tuple[str, str]:
        """The names of the loop of a ufunc, and of the data with which it is called."""
        name = f"numpy.{ufunc.__name__}.{''.join(t.char for t in types)}"
        function, data = numpy_inner_loops.loop_of(ufunc, types)
        if name not in self.symbols:
            self.symbols[name] = function
            self._globals.append(f'declare void @"{name}"(ptr, ptr, ptr, ptr)')
            if data:
                self.symbols[f"{name}.data"] = data
                self._globals.append(f'@"{name}.data" = external global i8')
        return f'@"{name}"', f'@"{name}.data"' if data else "null"

    def function(self, body: FunctionBuilder, count: int, more: tuple[str, ...] = ()) -> str:
        """The name of a function of `count` addresses; one with the same text serves all.

        Args:
            body: what it does.
            count: the addresses, which come first; unknown sizes come last, by their names.
            more: further parameters, each with its type.
        """
        # Layers of one shape have equal bodies, as names are counted from the start of each, so the
        # text tells whether there is such a function already.
        more += tuple(f"i64 %{name}" for name in body.unknown)
        rows = [str(n) for n in body.rows]
        key = "\n".join([str(count), *rows, *more, *body.head(), *body.lines, *body.metadata])
        function_name = self._functions.get(key)
        if function_name is None:
            function_name = self._functions[key] = f"@step{len(self._functions)}"
            parameters = ", ".join([*(f"ptr %p{i}" for i in range(count)), *more])
            head = f"define internal void {function_name}({parameters}) noinline nounwind {{"
            self._add(head, body, "  ret void")
        return function_name

    def outside(self, name: str, address: int, declaration: str) -> None:
        """Let the code refer to the function or the memory `name` of this process."""
        if name not in self.symbols:
            self.symbols[name] = address
            self._globals.append(declaration)

    def shared_out(self) -> str:
        """The name of the pool's function of a function, an address and a number of parts."""
        helpers = thread_pool()
        assert helpers is not None
        text = "declare void @pool_run(ptr, ptr, i64)"
        self.outside("pool_run", helpers.run_address, text)
        return "@pool_run"

    def entry(self, body: FunctionBuilder) -> None:
        """The function that Python calls.

        A long one is left as it is written: it checks arrays and calls what does the work, and the
        time that LLVM takes to make such code a little better grows faster than its length.
        """
        long = len(body.lines) > _LONGEST_ENTRY
        head = "define ptr @run(ptr %self, ptr %args, i64 %count)"
        self._add(f"{head} noinline optnone {{" if long else f"{head} {{", body)

    def _add(self, head: str, body: FunctionBuilder, *end: str) -> None:
        # A body counts its nodes from 0, and the module holds those of all: numbers are filled in
        # here.
        first = len(self._metadata)
        names = [str(first + i) for i in range(len(body.metadata))]
        for name, text in zip(names, body.metadata, strict=True):
            self._metadata.append(f"!{name} = {text.format(*names)}")
        # Stack memory is taken once, at the entry: inside of a loop each turn would take more of
        # it.
        cells = [f"  %cells = alloca [{body.cells} x ptr], align 8"] if body.cells else []
        cells += [f"  %words = alloca [{body.words} x i64], align 8"] if body.words else []
        rows = [
            f"  %row{i} = alloca i8, i64 {body.number(n)}, align 64"
            if isinstance(n, UnknownSize)
            else f"  %row{i} = alloca [{n} x i8], align 64"
            for i, n in enumerate(body.rows)
        ]
        # Only what refers to a node goes through `format`: other lines may hold braces of their
        # own.
        lines = [line.format(*names) if "!{" in line else line for line in body.lines]
        # Rows come behind the head's arithmetic, which says how long they are.
        self._bodies += [head, "entry:", *cells, *body.head(), *rows, *lines, *end, "}"]

    def text(self) -> str:
        """All of it."""
        outside = [*python_declarations(), llvm_functions.declarations()]
        outside += llvm_functions.definitions(self._bodies)
        return "\n".join([*outside, *self._globals, *self._bodies, *self._metadata, ""])
