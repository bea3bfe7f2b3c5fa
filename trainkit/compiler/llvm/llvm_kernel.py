"""A run of nodes as one kernel of machine code."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from trainkit.compiler.generalized import SizeRange
from trainkit.compiler.ir import (
    Buffer,
    Elementwise,
    LabelCheck,
    Operand,
    Product,
    Reduction,
    Step,
    Unsupported,
    View,
    is_bfloat16,
    is_half,
    layout_of,
    sources_of,
)
from trainkit.compiler.llvm.entry import EMBEDDED_BYTES, EntryWriter, Given
from trainkit.compiler.llvm.jit import machine
from trainkit.compiler.llvm.llvm_functions import is_exact
from trainkit.compiler.schedule.loops import held_in_memory, joined, needed
from trainkit.compiler.schedule.memory import places, reusable_inputs
from trainkit.compiler.schedule.parallel import ParallelLoops, in_parallel
from trainkit.compiler.schedule.rows import with_rows_reduced
from trainkit.compiler.sizes import UnknownSize, value_at
from trainkit.compiler.tracer import KernelTracer, TracedArray
from trainkit.kernels.jit.target import converts_float16


class LlvmTracer(KernelTracer):
    """Takes what is compiled to the same bits on every processor; the rest calls NumPy's loops."""

    calls_kernels = True

    def note(self, step: Step) -> None:
        # The loops of 16-bit floats add up in these; operations do so in float32.
        if isinstance(step, Reduction | Product) and is_half(step.out.dtype):
            raise Unsupported("sums of 16-bit floats")
        # NumPy rounds a float64 once, and an instruction for that is rare.
        if isinstance(step, Elementwise) and step.name == "cast" and step.out.dtype == np.float16:
            if step.inputs[0].dtype == np.float64:
                raise Unsupported("a cast from float64 to float16")
        super().note(step)

    def is_known(self, dtype: np.dtype[Any]) -> bool:
        """16-bit floats are worked on, too: as float32, with each result rounded."""
        if super().is_known(dtype) or is_bfloat16(dtype):
            return True
        return bool(dtype == np.float16) and converts_float16()

    def is_expression(self, name: str, operands: tuple[Operand, ...]) -> bool:
        return is_exact(name, operands)


class LlvmCode:
    """The text of a segment's function, and what a call of it needs.

    Attributes:
        steps: what it does, in order.
        arguments: the buffer, shape and dtype of each array that a call gives.
        views: the results in their buffers.
        unknown: the sizes that a call's arrays tell, `None` where all are known.
        scratch: bytes of memory for results that stay inside.
        constants: arrays that are given after the inputs, the ends of unknown sizes as the last.
        outputs: a (shape, dtype) of each array that is given after them, to be written.
        may_fail: whether what is in the arrays decides if there is a result.
    """

    def __init__(
        self,
        steps: list[Step],
        arguments: Sequence[Given],
        views: Sequence[View],
        unknown: SizeRange | None = None,
    ) -> None:
        self.steps = steps
        self.arguments = arguments
        self.views = views
        self.unknown = unknown
        outputs = {view.buffer: view for view in views}
        self._held = held_in_memory(steps, set(outputs))
        self._offsets, self.scratch = places(steps, self._held)
        self._large = [b for b in _constants(steps) if b.size > EMBEDDED_BYTES]
        self._ends = _ends_buffer(unknown) if unknown else None
        if self._ends is not None:
            self._large.append(self._ends)
        self.constants = [b.value[0] for b in self._large]
        self._pairs = reusable_inputs(steps, outputs)
        self.outputs = [(v.shape, v.dtype) for v in views]
        self.may_fail = any(isinstance(step, LabelCheck) for step in steps)

    @classmethod
    def of(cls, trace: KernelTracer, results: Sequence[TracedArray]) -> LlvmCode:
        """The code of what a trace has noted, as far as these results need it."""
        outputs: dict[Buffer, View] = {}
        for i, result in enumerate(results):
            result.buffer.kind, result.buffer.index = "output", i
            outputs[result.buffer] = result.view
        steps = with_rows_reduced(needed(joined(trace.steps), set(outputs)))
        arguments = [(b, *spec) for b, spec in zip(trace.inputs, trace.specs, strict=True)]
        return cls(steps, arguments, list(outputs.values()))

    @property
    def is_shared_out(self) -> bool:
        """Whether some of its loops are done by several threads, where there are several."""
        groups = in_parallel(self.steps, self._held, self._offsets, self._pairs)
        return any(isinstance(group, ParallelLoops) for group in groups)

    @functools.cached_property
    def _written(self) -> tuple[str, dict[str, int]]:
        arguments = [
            *self.arguments,
            *((b, b.value[0].shape, b.value[0].dtype) for b in self._large),
        ]
        buffers = [view.buffer for view in self.views]
        names = self.unknown.names if self.unknown else ()
        writer = EntryWriter(
            self.steps, arguments, buffers, self._offsets, self._pairs, names, self._ends
        )
        return writer.written(), writer.symbols

    @property
    def text(self) -> str:
        """In LLVM's language."""
        return self._written[0]

    @property
    def symbols(self) -> dict[str, int]:
        """Addresses of the functions and objects that the text refers to, by name."""
        return self._written[1]

    @property
    def reusable(self) -> set[tuple[int, int]]:
        """Pairs (output, input): the output may be written into the input's memory."""
        return {(output.index, source.index) for output, source in self._pairs}

    @functools.cached_property  # a program asks once for each output
    def makers(self) -> list[Callable[[], Any]]:
        """Functions that make the outputs' arrays, in the layout that the code writes."""
        return [_maker(view) for view in self.views]

    def makers_at(self, sizes: Mapping[str, int]) -> list[Callable[[], Any]]:
        """As `makers`, for a choice of the unknown sizes."""
        return [_maker(known_view(view, sizes)) for view in self.views]

    def scratch_at(self, sizes: Mapping[str, int]) -> int:
        """As `scratch`, for a choice of the unknown sizes."""
        return value_at(self.scratch, sizes)

    def unknown_sizes(self, arrays: Sequence[Any]) -> dict[str, int]:
        """The unknown sizes by name, as the arrays of a call tell them."""
        sizes: dict[str, int] = {}
        for (_, shape, _), array in zip(self.arguments, arrays, strict=True):
            for size, n in zip(shape, np.shape(array), strict=True):
                if (
                    isinstance(size, UnknownSize)
                    and len(names := [x for x in size.terms if x]) == 1
                ):
                    (name,) = names
                    if len(name) == 1:
                        constant_term, factor = size.terms.get((), 0), size.terms[name]
                        sizes.setdefault(name[0], (n - constant_term) // factor)
        return sizes

    def compiled(self) -> Callable[..., bool]:
        """The function of inputs, constants, outputs and scratch memory.

        It gives False, and has written nothing, when an array does not fit its place.
        """
        function: Callable[..., bool] = machine().function(self.text, self.symbols)
        return function


def _ends_buffer(unknown: SizeRange) -> Buffer:
    """The least and the largest number of each unknown size, as a constant for each call."""
    ends = np.array(unknown.ends, np.int64)
    return Buffer("constant", ends.nbytes, ends.shape, (ends,))


def _constants(steps: Sequence[Step]) -> list[Buffer]:
    buffers = {v.buffer: None for step in steps for v in sources_of(step)}
    return [b for b in buffers if b.kind == "constant"]


def _maker(view: View) -> Callable[[], Any]:
    """A function that makes an array with the dtype, shape and layout of `view`."""
    inside, back = layout_of(view)
    if back is None:
        return functools.partial(np.empty, inside, view.dtype)
    return lambda: np.empty(inside, view.dtype).transpose(back)


def known_view(view: View, sizes: Mapping[str, int]) -> View:
    """A view at a choice of the unknown sizes."""
    shape, strides = (
        tuple(value_at(x, sizes) for x in numbers) for numbers in (view.shape, view.strides)
    )
    return View(view.buffer, value_at(view.offset, sizes), shape, strides, view.dtype)
