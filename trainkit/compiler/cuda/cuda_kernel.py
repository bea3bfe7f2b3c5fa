"""The code of a run of nodes for a GPU: which steps it is made of, and how it is compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trainkit.compiler.cuda import cuda_functions
from trainkit.compiler.cuda.cuda_source import KernelSource, source_of
from trainkit.compiler.ir import (
    Elementwise,
    Loop,
    Operand,
    Step,
    Unsupported,
)
from trainkit.compiler.schedule.loops import held_in_memory, joined, needed, split
from trainkit.compiler.schedule.memory import reusable_inputs
from trainkit.compiler.tracer import KernelTracer, TracedArray
from trainkit.kernels.cuda import raw_kernel

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

    def is_expression(self, name: str, given: tuple[Operand, ...]) -> bool:
        if not cuda_functions.is_known(name, given):
            raise Unsupported(f"{name} on a GPU")
        return True

    def constant(self, array: Any) -> TracedArray:
        """A single number, which stands in the code."""
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
        made = {v.buffer for v in self.outputs}
        order = needed(joined(trace.steps), made)
        held = held_in_memory(order, made)
        loops = [split(s, MOST_STREAMS, held) for s in order if isinstance(s, Loop)]
        self.loops = [part for parts in loops for part in parts]
        pairs = reusable_inputs(list(self.loops), {v.buffer: v for v in self.outputs})
        self.reusable = {(made.index, source.index) for made, source in pairs}
        shared = {buffer for pair in pairs for buffer in pair}
        filled = [loop for loop in self.loops if 0 not in loop.out.shape]
        self.kernels = [source_of(loop, held, shared) for loop in filled]
        self.inputs = list(trace.specs)
        used = dict.fromkeys(v.buffer for k in self.kernels for v in k.views)
        self.inside = [b for b in used if b.kind == "temporary"]
        for i, buffer in enumerate(self.inside):
            buffer.index = i

    @property
    def text(self) -> str:
        """The source of all kernels."""
        return "\n".join(kernel.text for kernel in self.kernels)


def code_of(trace: KernelTracer, results: list[TracedArray]) -> CudaCode | None:
    """The code of a trace, where it has fewer kernels than steps."""
    code = CudaCode(trace, results)
    return code if len(code.loops) < sum(len(loop.members) for loop in code.loops) else None


def compiled(xp: Any, kernel: KernelSource) -> Any:
    """The kernel, ready to be launched with (blocks, threads, arrays)."""
    return raw_kernel.compiled(xp, kernel.name, kernel.text)
