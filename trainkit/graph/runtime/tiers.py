"""The executor: which program of a graph runs, and when it is replaced by a faster one."""

from __future__ import annotations

import math
import os
import sys
import threading
import time
import warnings
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import numpy as np

from trainkit.core import devices
from trainkit.core.dispatch.slow_work import slow_work
from trainkit.core.dtypes import string
from trainkit.core.process import side_work
from trainkit.core.process.garbage import no_collections
from trainkit.graph.ir.graph import ABOVE, Graph
from trainkit.graph.ir.passes import optimised, without_copies
from trainkit.graph.ir.written_out_updates import with_updates_written_out
from trainkit.graph.runtime.joined_convolutions import with_joined_convolutions
from trainkit.graph.runtime.joined_normalization import with_joined_normalization
from trainkit.graph.runtime.joined_pads import without_pads
from trainkit.graph.runtime.lasting_values import with_lasting_values
from trainkit.graph.runtime.program import Program
from trainkit.graph.runtime.programs_by_size import ProgramsBySize
from trainkit.graph.runtime.sized_graphs import unknown_axes
from trainkit.kernels.jit import kernel_family
from trainkit.ops.math.update_weights import update_weights

if TYPE_CHECKING:
    from trainkit.graph.gpu.gpu_program import GpuProgram

_MODULES = sys.modules
_XP_OF = devices.XP_OF

START_SECONDS = kernel_family.SWITCH_SECONDS / 2
"""Time spent in a program after which its loops are compiled, in the background."""
_NODE_SECONDS: dict[tuple[str, bool], float] = {}
"""By the names of functions, and whether sizes are unknown: how long compiling took for each node
of the last graph of one.

A function with a graph for each of many shapes may call none of them so often that compiling pays.
So one more graph is compiled once it has taken as long as that will take: at most twice the time
that knowing the future would (Karlin et al. 1988, "Competitive snoopy caching"). A graph of unknown
sizes is fused at ten sizes and more, so it says nothing of what one with known sizes takes.
"""
_IN_PROGRESS: set[tuple[str, bool]] = set()
"""Of which of these a graph is being compiled; others like it wait, and learn what it takes."""


CHANGED_BYTES = 3 << 19
"""Bytes of changed variables for each node of a graph from which on its loops are compiled first.

A node takes about 3 ms to compile, and so long it takes to clear as much memory of the system.
"""

_COMPILER_MODULES = (
    "trainkit.compiler.tracer",
    "trainkit.compiler.generalized",
    "trainkit.compiler.schedule.loops",
    "trainkit.compiler.schedule.rows",
    "trainkit.compiler.schedule.memory",
    "trainkit.compiler.llvm.builder",
    "trainkit.compiler.llvm.module",
    "trainkit.compiler.llvm.lower",
    "trainkit.compiler.llvm.entry",
    "trainkit.kernels.jit.code_store",
    "trainkit.kernels.jit.without_llvm.compiler_process",
    "trainkit.compiler.llvm.jit",
    "trainkit.compiler.llvm.llvm_kernel",
    "trainkit.graph.runtime.half_products",
    "trainkit.graph.runtime.fusible",
    "trainkit.graph.runtime.fusion",
)
"""What `fusion` imports, each after those that it imports itself."""

LONG_GRAPH = 1000
"""From so many nodes on a graph's program is made in parts where the caller can wait: tracing and
compiling in one step of training would make it many times as long."""


class TieredProgram:
    """A program that is interpreted at first, then replaced by one with fused loops when used much.

    Both give the same bits, so it does not matter when the change comes.

    Args:
        graph: stays as it is.
        jit_compile: see `compile_graph`.
        reduced: the graph after all passes, and that for arrays of a CPU alone.

    Attributes:
        steady: what runs from now on; `None` while something may still be compiled, or where it
            depends on the sizes of the arrays.
    """

    def __init__(
        self, graph: Graph, jit_compile: bool | None, reduced: tuple[Graph, Graph] | None = None
    ) -> None:
        self.graph, self._on_cpu = reduced or _reduced(graph)
        self._variables = [n.value for n in self.graph.nodes if n.kind == "variable"]
        # a program is many objects and none of them garbage: a collection would look at all in vain
        with no_collections():
            self.plain = Program(self._on_cpu)
        self.fused: Program | None = None
        self.steady: Program | None = None
        self.general = ProgramsBySize(self._on_cpu) if unknown_axes(self._on_cpu) else None
        self._family = graph.name, self.general is not None
        self.gpu: GpuProgram | None = None
        self._spent = 0.0
        self._start = START_SECONDS
        self._fuses_on_gpu = bool(
            jit_compile or (jit_compile is None and kernel_family.mode() != "off")
        )
        self._captures_on_gpu = jit_compile is not False
        self._goes_to_gpu = _goes_to_gpu(self.graph)
        self._reads_text = any(x.dtype is string for n in self.graph.nodes for x in n.outputs)
        self._waiting = jit_compile is not False and kernel_family.mode() != "off"
        # of unknown sizes nothing can be compiled before a call brings some
        self._compiles_first = self._waiting and self.general is None and _changes_much(self.graph)
        self._looks_first = self._compiles_first or self.general is not None
        at_once = jit_compile or (jit_compile is None and kernel_family.mode() == "eager")
        self._compiles_at_once = bool(at_once and self.general is not None)
        if at_once and self.general is None:
            self._fuse()
        else:
            self.steady = self._last_program()

    def _last_program(self) -> Program | None:
        """What `steady` has to be."""
        return self.fused or (None if self._waiting or self._looks_first else self.plain)

    @property
    def source(self) -> str:
        """The generated Python text that runs at present."""
        general = self.general.source if self.general is not None else None
        return general or (self.fused or self.plain).source

    def __call__(self, arrays: list[Any]) -> list[Any]:
        """Run on arrays; assigned variables are stored."""
        # arrays of a GPU can't be there before CuPy is imported, which is one look-up
        if "cupy" in _MODULES and self._is_on_gpu(arrays):
            if self.gpu is None:
                self.gpu = self._for_gpu()
            return self.gpu(arrays)
        if self.steady is not None:
            return self.steady(arrays)
        if self.general is not None and self.general.latest is not None:
            results: list[Any] | None = self.general.latest(*arrays)
            if results is not None:
                return results
        if self._looks_first:
            results = self._run_compiled(arrays)
            if results is not None:
                return results
        if not self._waiting:  # another thread compiles
            return self.plain(arrays)
        start = time.perf_counter()
        results = self.plain(arrays)
        self._spent += time.perf_counter() - start
        if self._spent > self._start:
            self._fuse_behind(arrays)
        return results

    def _run_compiled(self, arrays: list[Any]) -> list[Any] | None:
        """Run code for these sizes, or made before the first call; `None` without any."""
        if self._compiles_first:
            self._fuse_first()
            # from the start again: there is a steady program now, or the plain one has to serve
            return self(arrays)
        assert self.general is not None
        results = self.general(arrays)
        if results is None and self._compiles_at_once:
            return self._compile_at_once(arrays)
        return results

    def _fuse_first(self) -> None:
        """Compile before the first call; where that fails the plain program serves."""
        # before it begins, so that calls of other threads meanwhile run the plain program
        self._compiles_first = self._looks_first = False
        try:
            self._fuse()
        except Exception as error:
            warnings.warn(
                f"the loops of {self.graph.name!r} can't be compiled ({type(error).__name__}: "
                f"{error}); it runs without them",
                RuntimeWarning,
                stacklevel=3,
            )

    def compile_behind(self) -> threading.Thread | None:
        """Begin in the background what the first call would wait for; `None` if that is nothing."""
        if not self._compiles_first:
            return None
        self._compiles_first = self._looks_first = self._waiting = False
        return side_work.start(self._fuse_first, "trainkit-compile")

    def _compile_at_once(self, arrays: list[Any]) -> list[Any]:
        """Run on arrays of sizes that were not seen yet, for which code is made first."""
        assert self.general is not None
        self._fuse(self.general.sizes_of(arrays))
        results = self.general(arrays)
        return self.plain(arrays) if results is None else results

    def _fuse_behind(self, arrays: list[Any]) -> None:
        """Compile in the background, once that will take no longer than what was spent here."""
        if self._family in _IN_PROGRESS:
            self._start = self._spent + START_SECONDS  # looks again then
            return
        seconds = _NODE_SECONDS.get(self._family, 0.0)
        self._start = max(START_SECONDS, seconds * len(self.graph.nodes))
        if self._spent > self._start:
            # before the thread starts: a call that comes meanwhile would start another
            self._waiting = False
            _IN_PROGRESS.add(self._family)
            sizes = () if self.general is None else self.general.sizes_of(arrays)
            side_work.start(lambda: self._fuse(sizes), "trainkit-compile")

    def _is_on_gpu(self, arrays: list[Any]) -> bool:
        if self._goes_to_gpu:
            return True
        if self._reads_text and devices.current() is not devices.CPU:
            return True  # numbers that are made of text go to the current device
        for array in arrays:  # loops: `any` of a generator calls it once for each array
            if _XP_OF[type(array)] is not np:
                return True
        for variable in self._variables:
            if _XP_OF[type(variable._value._array)] is not np:
                return True
        return False

    def _for_gpu(self) -> GpuProgram:
        """The program for a GPU."""
        from trainkit.graph.gpu.gpu_program import GpuProgram

        return GpuProgram(
            with_updates_written_out(self.graph), self._fuses_on_gpu, self._captures_on_gpu
        )

    def _fuse(self, sizes: tuple[int, ...] = ()) -> None:
        """Make the program with fused loops, compiled; where sizes are unknown, for such."""
        side_work.import_modules(_COMPILER_MODULES)
        from trainkit.graph.runtime.fusion import fuse, warm

        self._waiting, begun = False, time.thread_time()
        try:
            with slow_work(
                f"compiling the loops of {self.graph.name!r}", "compiling the loops of {} functions"
            ):
                if self.general is None:
                    graph = fuse(self._on_cpu)
                    # a graph without a run worth a call comes back as it is
                    if graph is not self._on_cpu and warm(graph):
                        self.fused = Program(graph)
                elif self.general.compile(sizes):
                    # the next range of sizes has to earn its own compiling
                    self._spent, self._waiting = 0.0, self.general.rest is None
                else:
                    self._compiles_at_once = False
        finally:
            # after an error, too: graphs of the family would wait for ever
            _IN_PROGRESS.discard(self._family)
            self.steady = self._last_program()
            seconds = time.thread_time() - begun
            _NODE_SECONDS[self._family] = seconds / max(1, len(self.graph.nodes))


def _reduced(graph: Graph) -> tuple[Graph, Graph]:
    """`graph` after all passes, and that for arrays of a CPU alone."""
    with no_collections():
        shorter = optimised(graph)
        return shorter, _join(without_copies(shorter))


def _join(graph: Graph) -> Graph:
    """`graph` with operations that one kernel of the CPU does together, with the same bits."""
    joined = with_joined_convolutions(with_joined_normalization(without_pads(graph)))
    return with_lasting_values(joined)


def _changes_much(graph: Graph) -> bool:
    """Whether variables are so large that new memory for their values costs more than compiling.

    The plain program makes all new values before it drops the old ones; fused loops write a value
    over the old one, and so do steps of optimizers in both.
    """
    if graph.outer is not None:
        return False
    changed: int = sum(
        math.prod(value.shape) * value.dtype.size
        for value in (slot.now for slot in graph.assigned)
        if value.dtype is not string
        and value.shape.is_fully_defined()
        and value.node.primitive is not update_weights.primitive
    )
    return changed > CHANGED_BYTES * len(graph.nodes)


def _goes_to_gpu(graph: Graph) -> bool:
    """Whether a graph brings arrays of a GPU in itself, whatever it is called with."""
    for node in graph.nodes:
        if node.kind == "constant" and devices.XP_OF[type(node.value._array)] is not np:
            return True
        for name, part in node.settings.items():
            if name == "device" and devices.parse(part) is not devices.CPU:
                return True
            if isinstance(part, Graph) and _goes_to_gpu(part):
                return True
    return False


def compile_graph(graph: Graph, jit_compile: bool | None = None) -> TieredProgram:
    """Optimise `graph` and write its program.

    Args:
        graph: stays as it is.
        jit_compile: `True` compiles fused loops at once, `False` never, `None` when the program is
            used much.
    """
    return TieredProgram(graph, jit_compile)


def compile_in_parts(
    graph: Graph, jit_compile: bool | None = None
) -> Generator[bool, None, TieredProgram]:
    """`compile_graph` for callers who can do without the program for a while.

    It pauses where going on would keep them waiting: before and between two parts that take about
    the same time where the graph is long, and for as long as loops that have to be compiled before
    the first call are being compiled, in the background. Then it gives True, and before False.
    """
    if len(graph.nodes) < LONG_GRAPH:
        program = TieredProgram(graph, jit_compile)
    else:
        yield False
        reduced = _reduced(graph)
        yield False
        program = TieredProgram(graph, jit_compile, reduced)
    compiling = program.compile_behind()
    while compiling is not None and compiling.is_alive():
        yield True
    return program


ABOVE.program = compile_graph
ABOVE.program_in_parts = compile_in_parts
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_IN_PROGRESS.clear)  # nobody compiles in a child
