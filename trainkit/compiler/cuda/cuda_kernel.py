"""The code of a run of nodes for a GPU: which steps it is made of, and how it is compiled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from trainkit.compiler.cuda.cuda_source import (
    KernelSource,
    TableSource,
    likeness,
    most_loops,
    source_of,
    table_source_of,
)
from trainkit.compiler.ir import Buffer, Elementwise, Loop, Operand, Step, Unsupported, sources_of
from trainkit.compiler.schedule.loops import held_in_memory, joined, needed, split, unrelated
from trainkit.compiler.schedule.memory import reusable_inputs
from trainkit.compiler.tracer import KernelTracer, TracedArray
from trainkit.kernels.cuda import cuda_functions, raw_kernel

MOST_STREAMS = 16
"""Arrays of a kernel: with more their elements take the registers of other threads."""


class CudaTracer(KernelTracer):
    """Takes element-wise steps and views; everything else stays with CuPy."""

    embeds = False  # arrays of a GPU can't be looked at without a copy
    tuned = False

    def note(self, step: Step) -> None:
        if not isinstance(step, Elementwise):
            raise Unsupported(f"{type(step).__name__} on a GPU")
        super().note(step)

    def is_known(self, dtype: np.dtype[Any]) -> bool:
        """Short floats are worked on, too: as float32, with each result rounded."""
        return super().is_known(dtype) or cuda_functions.is_short(dtype)

    def is_expression(self, name: str, operands: tuple[Operand, ...]) -> bool:
        if not cuda_functions.is_known(name, operands[0].dtype):
            raise Unsupported(f"{name} on a GPU")
        return True

    def constant(self, array: Any) -> TracedArray:
        """A single number, which stands in the code."""
        # Its value stands in the text, so it has to be read, and one number is read from the host.
        if np.size(array) != 1:
            raise Unsupported("an array made by a kernel")
        return super().constant(array)


class CudaCode:
    """The kernels of a run of nodes, in order.

    Attributes:
        kernels: their sources.
        inputs: a (shape, dtype) of each array that a call gives.
        outputs: the views that are its results.
        inside: buffers that one kernel writes and another reads.
        reusable: pairs (output, input): the output may be written over the input.
    """

    def __init__(self, trace: KernelTracer, results: Sequence[TracedArray]) -> None:
        for i, result in enumerate(results):
            result.buffer.kind, result.buffer.index = "output", i
        self.outputs = [result.view for result in results]
        output_buffers = {v.buffer for v in self.outputs}
        order = needed(joined(trace.steps), output_buffers)
        materialized = held_in_memory(order, output_buffers)
        launches = _launches(
            _loops([s for s in order if isinstance(s, Loop)], materialized), materialized
        )
        self.loops = [loop for at_once in launches for loop in at_once]
        pairs = reusable_inputs(list(self.loops), {v.buffer: v for v in self.outputs})
        # The loops of a launch run in no order, so none may write over what another one reads.
        pairs = [pair for pair in pairs if not _is_read_beside(*pair, launches)]
        self.reusable = {(output.index, source.index) for output, source in pairs}
        shared = {buffer for pair in pairs for buffer in pair}
        self.kernels = [
            source_of(at_once[0], materialized, shared)
            if len(at_once) == 1
            else table_source_of(at_once, materialized)
            for at_once in launches
            if 0 not in at_once[0].out.shape
        ]
        self.inputs = list(trace.specs)
        used = dict.fromkeys(v.buffer for k in self.kernels for v in k.views)
        self.inside = [b for b in used if b.kind == "temporary"]
        for i, buffer in enumerate(self.inside):
            buffer.index = i

    @property
    def text(self) -> str:
        """The source of all kernels."""
        return "\n".join(kernel.text for kernel in self.kernels)


def _loops(loops: Sequence[Loop], materialized: set[Buffer]) -> list[tuple[Loop, str]]:
    """The same loops with their likeness; parts that are done alike are on their own."""
    parts = [unrelated(loop) for loop in loops]
    # Only what occurs twice is worth a table. The rest of a loop goes back into kernels that are
    # as long as registers allow, as each launch costs some microseconds.
    alike = {id(part): likeness(part, materialized) for some in parts for part in some}
    often = Counter(alike.values())
    labelled_loops: list[tuple[Loop, str]] = []
    for some in parts:
        labelled_loops += [(part, alike[id(part)]) for part in some if often[alike[id(part)]] > 1]
        unique_members = [m for part in some if often[alike[id(part)]] == 1 for m in part.members]
        others = split(Loop(unique_members), MOST_STREAMS, materialized) if unique_members else []
        labelled_loops += [(loop, likeness(loop, materialized)) for loop in others]
    return labelled_loops


def _launches(loops: Sequence[tuple[Loop, str]], materialized: set[Buffer]) -> list[list[Loop]]:
    """The loops in an order in which what one reads is there, those alike at once."""
    launches: list[list[Loop]] = []
    texts: list[str] = []
    launch_of: dict[Buffer, int] = {}
    for loop, text in loops:
        # Behind the last launch that it reads from; any later one of the same text takes it in.
        ready = max((launch_of.get(v.buffer, -1) for v in sources_of(loop)), default=-1)
        # Loops over nothing keep to themselves, for their launches are left out.
        limit = most_loops(loop, materialized) if 0 not in loop.out.shape else 0
        later = range(len(launches) - 1, ready, -1)
        launch_index = next((i for i in later if texts[i] == text and len(launches[i]) < limit), -1)
        if launch_index < 0:
            launch_index = len(launches)
            launches.append([])
            texts.append(text)
        launches[launch_index].append(loop)
        launch_of.update({m.out.buffer: launch_index for m in loop.members})
    return launches


def _is_read_beside(output: Buffer, source: Buffer, launches: list[list[Loop]]) -> bool:
    """Whether a loop reads `source` while another one, which makes `output`, may write over it."""
    # Launches follow one another on the stream, so only this one matters.
    at_once = next(some for some in launches if any(_makes(loop, output) for loop in some))
    return any(
        v.buffer is source for loop in at_once if not _makes(loop, output) for v in sources_of(loop)
    )


def _makes(loop: Loop, buffer: Buffer) -> bool:
    return any(m.out.buffer is buffer for m in loop.members)


def code_of(trace: KernelTracer, results: list[TracedArray]) -> CudaCode | None:
    """The code of a trace, where it has fewer kernels than steps."""
    code = CudaCode(trace, results)
    return code if len(code.kernels) < sum(len(loop.members) for loop in code.loops) else None


def compiled(xp: Any, kernel: KernelSource | TableSource) -> Any:
    """The kernel, ready to be launched with (blocks, threads, arrays)."""
    return raw_kernel.compiled(xp, kernel.name, kernel.text)
