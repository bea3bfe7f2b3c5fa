"""A run of nodes as one kernel of machine code."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trainkit.compiler.ir import (
    Buffer,
    LabelCheck,
    Operand,
    Step,
    View,
    sources_of,
)
from trainkit.compiler.llvm.entry import EMBEDDED_BYTES, EntryWriter
from trainkit.compiler.llvm.jit import machine
from trainkit.compiler.llvm.llvm_functions import is_exact
from trainkit.compiler.schedule.loops import held_in_memory, joined, needed
from trainkit.compiler.schedule.memory import places, reusable_inputs
from trainkit.compiler.schedule.rows import with_rows_reduced
from trainkit.compiler.tracer import KernelTracer, TracedArray


class LlvmTracer(KernelTracer):
    """Takes what is compiled to the same bits on every processor; the rest calls NumPy's loops."""

    def is_expression(self, name: str, given: tuple[Operand, ...]) -> bool:
        return is_exact(name, given)


class LlvmCode:
    """The text of a segment's function, and what a call of it needs.

    Attributes:
        text: in LLVM's language.
        steps: what it does, in order.
        scratch: bytes of memory for results that stay inside.
        constants: arrays that are given after the inputs.
        outputs: a (shape, dtype) of each array that is given after them, to be written.
        makers: functions that make these arrays, in the layout that the code writes.
        reusable: pairs (output, input): the output may be written into the input's memory.
        may_fail: whether what is in the arrays decides if there is a result.
    """

    def __init__(self, trace: KernelTracer, results: Sequence[TracedArray]) -> None:
        outputs: dict[Buffer, View] = {}
        for i, result in enumerate(results):
            result.buffer.kind, result.buffer.index = "output", i
            outputs[result.buffer] = result.view
        self.steps = with_rows_reduced(needed(joined(trace.steps), set(outputs)))
        held = held_in_memory(self.steps, set(outputs))
        offsets, self.scratch = places(self.steps, held)
        constants = [b for b in _constants(self.steps) if b.size > EMBEDDED_BYTES]
        self.constants = [b.value[0] for b in constants]
        given = [(b, *spec) for b, spec in zip(trace.inputs, trace.specs, strict=True)]
        given += [(b, b.value[0].shape, b.value[0].dtype) for b in constants]
        pairs = reusable_inputs(self.steps, outputs)
        writer = EntryWriter(self.steps, given, list(outputs), offsets, pairs)
        self.text = writer.written()
        self.symbols = writer.symbols
        self.outputs = [(v.shape, v.dtype) for v in outputs.values()]
        self.makers = [_maker(v) for v in outputs.values()]
        self.may_fail = any(isinstance(step, LabelCheck) for step in self.steps)
        self.reusable = {(made.index, source.index) for made, source in pairs}

    def compiled(self) -> Callable[..., bool]:
        """The function of inputs, constants, outputs and scratch memory.

        It gives False, and has written nothing, when an array does not fit its place.
        """
        found: Callable[..., bool] = machine().function(self.text, self.symbols)
        return found


def _constants(steps: Sequence[Step]) -> list[Buffer]:
    found = {v.buffer: None for step in steps for v in sources_of(step)}
    return [b for b in found if b.kind == "constant"]


def _maker(view: View) -> Callable[[], Any]:
    """A function that makes an array with the dtype, shape and layout of `view`."""
    shape, dtype = view.shape, view.dtype
    if view.contiguous:
        return functools.partial(np.empty, shape, dtype)
    order = sorted(range(len(shape)), key=lambda i: -view.strides[i])
    inside = tuple(shape[i] for i in order)
    back = [order.index(i) for i in range(len(shape))]
    return lambda: np.empty(inside, dtype).transpose(back)
