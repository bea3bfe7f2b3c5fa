"""What a fused node calls on a GPU, and which nodes are fused there."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trainkit.core import devices
from trainkit.graph.cuda import expressions
from trainkit.graph.cuda.source import KernelSource, source_of
from trainkit.graph.fusion import FusedRun, Target
from trainkit.graph.graph import Graph
from trainkit.graph.segments.buffers import reusable_inputs
from trainkit.graph.segments.loops import held_in_memory, joined
from trainkit.graph.segments.segment import needed
from trainkit.graph.segments.steps import (
    Elementwise,
    Loop,
    Operand,
    Step,
    Unsupported,
    View,
)
from trainkit.graph.segments.tracing import Trace, Traced

THREADS = 256
"""Threads of a block."""
MOST_BLOCKS = 4096
"""Blocks of a launch; their threads go on to further elements."""
_OPTIONS = ("--fmad=false",)  # a product and a sum are rounded each for itself, as one by one


class CudaTrace(Trace):
    """Takes element-wise steps and views; everything else stays with CuPy."""

    embeds = False  # arrays of a GPU can't be looked at without a copy
    tuned = False

    def note(self, step: Step) -> None:
        if not isinstance(step, Elementwise):
            raise Unsupported(f"{type(step).__name__} on a GPU")
        super().note(step)

    def is_expression(self, name: str, given: tuple[Operand, ...]) -> bool:
        if not expressions.is_known(name, given):
            raise Unsupported(f"{name} on a GPU")
        return True

    def constant(self, array: Any) -> Traced:
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

    def __init__(self, trace: Trace, results: Sequence[Traced]) -> None:
        for i, result in enumerate(results):
            result.buffer.kind, result.buffer.index = "output", i
        self.outputs = [result.view for result in results]
        made = {v.buffer for v in self.outputs}
        self.loops = [s for s in needed(joined(trace.steps), made) if isinstance(s, Loop)]
        held = held_in_memory(list(self.loops), made)
        pairs = reusable_inputs(list(self.loops), {v.buffer: v for v in self.outputs})
        self.reusable = {(made.index, source.index) for made, source in pairs}
        shared = {buffer for pair in pairs for buffer in pair}
        loops = [loop for loop in self.loops if 0 not in loop.out.shape]
        self.kernels = [source_of(loop, held, shared) for loop in loops]
        self.inputs = list(trace.specs)
        used = dict.fromkeys(v.buffer for k in self.kernels for v in k.views)
        self.inside = [b for b in used if b.kind == "temporary"]
        for i, buffer in enumerate(self.inside):
            buffer.index = i

    @property
    def text(self) -> str:
        """The source of all kernels."""
        return "\n".join(kernel.text for kernel in self.kernels)


def _code(trace: Trace, results: list[Traced]) -> CudaCode | None:
    """The code, where it has fewer kernels than steps."""
    code = CudaCode(trace, results)
    return code if len(code.loops) < sum(len(loop.members) for loop in code.loops) else None


class CudaKernel(FusedRun):
    """A run of nodes as kernels of a GPU."""

    code: CudaCode
    on_gpu = True

    def __init__(self, code: CudaCode, part: Graph) -> None:
        super().__init__(code, part)
        self._launches: list[Callable[..., Any]] | None = None
        self._failed = False

    def run(self, arrays: Sequence[Any], settings: Any, over: Any = None) -> Any:
        """The results on arrays of a GPU, each in row-major order; on others node by node.

        `over` may say, by their places, over which inputs which outputs are written.
        """
        if self._failed or not arrays or not self._fits(arrays):
            return self.interpreted(*arrays)
        xp = devices.XP_OF[type(arrays[0])]
        if self._launches is None and not self._compile(xp):
            return self.interpreted(*arrays)
        return self._launched(xp, arrays, over or {})

    def _fits(self, arrays: Sequence[Any]) -> bool:
        return all(
            type(a) is not np.ndarray
            and not isinstance(a, np.generic)
            and a.dtype == dtype
            and a.shape == shape
            and a.flags.c_contiguous
            for a, (shape, dtype) in zip(arrays, self.code.inputs, strict=True)
        )

    def _compile(self, xp: Any) -> bool:
        try:
            self._launches = [compiled(xp, kernel) for kernel in self.code.kernels]
        except Exception as error:  # of the compiler, which may be missing or of another version
            self._failed = True
            warnings.warn(
                f"fused kernels can't be compiled here ({type(error).__name__}: {error}); graphs "
                "run without them on the GPU. TRAINKIT_JIT=0 turns them off.",
                RuntimeWarning,
                stacklevel=2,
            )
            return False
        return True

    def _launched(self, xp: Any, arrays: Sequence[Any], over: dict[int, int]) -> tuple[Any, ...]:
        results = [
            arrays[over[i]] if i in over else _made(xp, view)
            for i, view in enumerate(self.code.outputs)
        ]
        inside = [xp.empty(max(b.size, 1), np.uint8) for b in self.code.inside]
        places = {"input": arrays, "output": results, "temporary": inside}
        assert self._launches is not None
        for kernel, launch in zip(self.code.kernels, self._launches, strict=True):
            blocks = min(-(-kernel.size // THREADS), MOST_BLOCKS)
            given = tuple(places[v.buffer.kind][v.buffer.index] for v in kernel.views)
            launch((blocks,), (THREADS,), given)
        return tuple(results)


def _made(xp: Any, view: View) -> Any:
    """A new array with the dtype, shape and layout of `view`."""
    if view.contiguous:
        return xp.empty(view.shape, view.dtype)
    order = sorted(range(len(view.shape)), key=lambda i: -view.strides[i])
    back = [order.index(i) for i in range(len(view.shape))]
    return xp.empty(tuple(view.shape[i] for i in order), view.dtype).transpose(back)


_COMPILED: dict[str, Any] = {}
_LOCK = threading.Lock()


def compiled(xp: Any, kernel: KernelSource) -> Any:
    """The kernel, ready to be launched with (blocks, threads, arrays).

    Equal sources are compiled once; CuPy keeps what it compiled on disk, too.
    """
    with _LOCK:
        found = _COMPILED.get(kernel.text)
        if found is None:
            found = xp.RawKernel(kernel.text, kernel.name, options=_OPTIONS)
            found.compile()
            _COMPILED[kernel.text] = found
    return found


CUDA = Target(CudaTrace, _code, CudaKernel)
