"""One CUDA graph: the launches of a program, captured on a stream once and replayed.

A replay does to the same memory what the capture noted down. So arrays of a call are copied into
buffers of the graph, results are copied out of theirs, and a variable that the program assigns
keeps the memory that it had at the capture, which the graph writes in place. Before each replay it
is asked whether every variable still has that memory, and whether anybody else holds what would be
written; a tensor never changes after it is made.
Source: NVIDIA, "CUDA C++ Programming Guide", section 3.2.8.7 (CUDA graphs, stream capture).
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from trainkit.core.devices import XP_OF
from trainkit.core.dispatch import ownership
from trainkit.core.tensor import wrap
from trainkit.graph.gpu.donation import writing_in_place
from trainkit.graph.gpu.host_numbers import HostNumbers
from trainkit.graph.gpu.placement import node_text
from trainkit.graph.runtime.program import Program
from trainkit.kernels.concat.copies_cuda import Copies
from trainkit.kernels.cudnn import deferred
from trainkit.kernels.matmul import matmul_gpu


class NotCaptured(Exception):
    """The launches can't be captured; the text says why."""


class CannotReplay(Exception):
    """The stream is another, or a variable is not where the graph has it."""


class _CapturedMemory:
    """The memory that a variable had at the capture.

    The memory is kept, the array on it is not: as long as the variable alone refers to that, it is
    known that nobody else can see what is written.

    Attributes:
        variable: whose memory it is.
        written: whether the graph writes to it.
    """

    def __init__(self, variable: Any, written: bool) -> None:
        if written and not _may_be_written(variable):
            _give_array(variable, variable._value._array.copy())
        array = variable._value._array
        self.variable = variable
        self.written = written
        self._shape, self._dtype, self._memory = array.shape, array.dtype, array.data
        self._array = weakref.ref(array)

    def check(self) -> None:
        """See that the variable has this memory, and alone if the graph writes.

        Raises:
            CannotReplay: it has not, and can't be brought back.
        """
        if self._array() is not self.variable._value._array:
            self._bring_back()
        elif self.written and ownership.sole_array(self.variable) is None:
            raise CannotReplay(f"the value of {self.variable.name!r} is held by another tensor")

    def _bring_back(self) -> None:
        array = self.variable._value._array
        if not self.written or self._array() is not None:
            raise CannotReplay(f"{self.variable.name!r} has got other memory")
        xp = XP_OF[type(array)]
        if xp is np or (array.shape, array.dtype) != (self._shape, self._dtype):
            raise CannotReplay(f"{self.variable.name!r} has got another shape or device")
        memory = xp.ndarray(self._shape, self._dtype, self._memory)
        memory[...] = array
        del array
        self._array = weakref.ref(memory)
        _give_array(self.variable, memory)

    def array(self) -> Any:
        """The array there."""
        return self._array()

    def has(self, array: Any) -> bool:
        """Whether `array` lies in this memory."""
        return array.data.mem is self._memory.mem


def _may_be_written(variable: Any) -> bool:
    array = ownership.sole_array(variable)
    return array is not None and array.flags.c_contiguous


def _give_array(variable: Any, array: Any) -> None:
    """Let `variable` hold `array` itself, a scalar's too."""
    variable._value = wrap(array)


class Capture:
    """The launches of a program on arrays of these shapes.

    Args:
        xp: CuPy.
        program: what is captured; a function of arrays, which stores nothing.
        variables: for each of the program's first inputs the variable whose value it is, `None`
            where a call gives it.
        arrays: those that a call gives, on the GPU.
        numbers: the program's last inputs, which the CPU works out.
        assigned: for each result of the program the variables that take it.
        results: the places among the program's results of those that a call hands out.

    Raises:
        NotCaptured: the program waits for the GPU, or does what CUDA can't capture.
    """

    def __init__(
        self,
        xp: Any,
        program: Program,
        variables: Sequence[Any],
        arrays: Sequence[Any],
        numbers: Sequence[Any],
        assigned: Sequence[Sequence[Any]],
        results: Sequence[int],
    ) -> None:
        self._xp = xp
        self._stream = xp.cuda.get_current_stream()
        written = {id(v): v for some in assigned for v in some}
        variables_by_id = {id(v): v for v in variables if v is not None} | written
        self._check_device([*arrays, *(v._value._array for v in variables_by_id.values())])
        self._memories = {i: _CapturedMemory(v, i in written) for i, v in variables_by_id.items()}
        self._pool = xp.cuda.MemoryPool()
        self._products = matmul_gpu.here(xp)
        self._workspace = self._products.workspace(self._stream.ptr)
        deferred.prepare(xp)
        with xp.cuda.using_allocator(self._pool.malloc):
            self._inputs = [xp.empty(array.shape, array.dtype) for array in arrays]
            self._numbers = HostNumbers(xp, numbers)
            inputs = iter(self._inputs)
            read = [next(inputs) if v is None else self._memories[id(v)].array() for v in variables]
            self._graph, self._results = self._capture_graph(
                program, variables, [*read, *self._numbers.arrays], assigned, results
            )
        self._copy_in, self._copy_out = Copies(xp, self._inputs), Copies(xp, self._results)

    def _check_device(self, arrays: list[Any]) -> None:
        gpu = int(self._xp.cuda.Device().id)
        if any(XP_OF[type(a)] is np or int(a.device.id) != gpu for a in arrays):
            raise NotCaptured(f"not all arrays are on the current GPU, {gpu}")

    def _capture_graph(
        self,
        program: Program,
        variables: Sequence[Any],
        inputs: list[Any],
        assigned: Any,
        results: Sequence[int],
    ) -> Any:
        in_place = writing_in_place(program, variables, assigned)
        stream = self._xp.cuda.Stream(non_blocking=True)
        stream.begin_capture()
        try:
            with stream, self._products.working_in(self._workspace):
                values = in_place.run(*inputs)
                handed = [self._copy_apart(values[i], inputs) for i in results]
                self._write(values, assigned)
            graph = stream.end_capture()
        except BaseException as error:
            # What was noted down never runs, so its memory may go back at once. A stream that was
            # broken off, or that has failed to end, gives an error here that is known already.
            with contextlib.suppress(Exception):
                stream.end_capture()
            if not isinstance(error, Exception):
                raise
            raise NotCaptured(_reason(in_place, error)) from error
        return graph, handed

    def _copy_apart(self, y: Any, inputs: list[Any]) -> Any:
        """`y` in memory that only this result has."""
        if XP_OF[type(y)] is np:
            raise NotCaptured("a result is an array of the CPU")
        input_buffers = [x.data.mem for x in inputs]
        return y.copy() if any(y.data.mem is mem for mem in input_buffers) else y

    def _write(self, values: Sequence[Any], assigned: Sequence[Sequence[Any]]) -> None:
        """Note down the copies of new values into the variables' memory."""
        memories = self._memories.values()
        pairs = []
        for y, variables in zip(values, assigned, strict=True):
            if len(variables) == 1 and self._memories[id(variables[0])].array() is y:
                continue  # written already
            if variables and any(memory.has(y) for memory in memories):
                y = y.copy()  # a value from before the writing
            pairs += [(variable, y) for variable in variables]
        for variable, y in pairs:
            self._memories[id(variable)].array()[...] = y

    def replay(self, arrays: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
        """Run once more.

        Args:
            arrays: of a call, of the same shapes.
            numbers: that the CPU worked out for it.

        Returns:
            The results that are handed out, in memory of their own.

        Raises:
            CannotReplay: a variable has other memory, or is held by others; nothing has run.
        """
        if self._xp.cuda.get_current_stream() != self._stream:
            raise CannotReplay("another stream is the current one")
        for memory in self._memories.values():
            memory.check()
        self._copy_in(arrays, self._inputs)
        self._numbers.send(numbers)
        self._graph.launch()
        handed = [self._xp.empty(y.shape, y.dtype) for y in self._results]
        self._copy_out(self._results, handed)
        return handed


def _reason(program: Program, error: Exception) -> str:
    node = program.node_of(error)
    text = str(error).partition("\n")[0]
    return f"{node_text(node)}: {text}" if node is not None else text
