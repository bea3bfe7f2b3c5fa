"""What a fused node calls: a run of nodes as compiled code, or node by node where that can't be."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from trainkit.core.dispatch.facets import Absent, Facets, Semantics
from trainkit.graph.ir.graph import Graph

if TYPE_CHECKING:
    from trainkit.compiler.llvm.llvm_kernel import LlvmCode

_FUSED = Semantics(
    "fused kernel",
    memory="fresh",
    batch=Absent("graphs that are batched are not fused yet"),
    stackable=Absent("functions of datasets are not fused"),
    lowering=Absent("it is compiled already"),
    export=Absent("graphs are saved before they are fused"),
)


class FusedRun:
    """A run of nodes as compiled code: what a `fused` node calls.

    Args:
        code: its text and what a call needs.
        part: the same nodes as a graph of their own, for arrays that the code does not take.
        program: makes a program of a graph, which runs it node by node.

    Attributes:
        code: as given.
        part: as given.
        outputs: how many results it gives.
        facets: its record, as operations have one.
    """

    name = "fused"
    is_ufunc = False
    # graphs are fused last: gradients, batches and saved files were made of the nodes before
    rules = None
    joint = None
    on_gpu = False

    def __init__(self, code: Any, part: Graph, program: Callable[..., Any]) -> None:
        self.code = code
        self.part = part
        self.outputs = len(code.outputs)
        self.facets = Facets(self, _FUSED)
        self._program = program

    @property
    def source(self) -> str:
        """The text that is compiled."""
        text: str = self.code.text
        return text

    def interpreted(self, *arrays: Any) -> tuple[Any, ...]:
        """The results by the nodes' own kernels, one by one; raises what they raise."""
        # few runs ever meet arrays that do not fit, so its program waits for the first that does
        if self.part._program is None:
            self.part._program = self._program(self.part, on_gpu=self.on_gpu)
        return tuple(self.part._program(list(arrays)))

    def explained(self, error: Exception, inputs: Any, settings: Any) -> Exception:
        """The error itself: it tells already which of the nodes it comes from."""
        return error


class FusedKernel(FusedRun):
    """A run of nodes as one function in machine code.

    Attributes:
        scratch: pieces of memory that no call uses at present.
    """

    code: LlvmCode

    def __init__(self, code: LlvmCode, part: Graph, program: Callable[..., Any]) -> None:
        super().__init__(code, part, program)
        self._function: Callable[..., bool] | None = None
        self.scratch: list[Any] = []

    def compile(self) -> Callable[..., bool]:
        """The compiled function; from the cache on disk where an earlier process left it."""
        if self._function is None:
            self._function = self.code.compiled()
        return self._function

    def kernel(self, xp: Any, *arrays: Any) -> tuple[Any, ...]:
        """Run on arrays; results are new ones."""
        function = self._function or self.compile()
        sizes = self.code.unknown_sizes(arrays)
        outs = [make() for make in self.code.makers_at(sizes)]
        scratch = self.taken_scratch(self.code.scratch_at(sizes))
        fits = function(*arrays, *self.code.constants, *outs, scratch)
        # given back where the arrays did not fit, too: nothing in it outlives a call
        self.scratch.append(scratch)
        return tuple(outs) if fits else self.interpreted(*arrays)

    def taken_scratch(self, size: int) -> Any:
        """Memory for the results that stay inside; one piece for each call at a time."""
        memory = self.scratch.pop() if self.scratch else None
        return memory if memory is not None and memory.size >= size else np.empty(size, np.uint8)

    def run(self, arrays: Any, settings: Any) -> Any:
        """The results on arrays."""
        return self.kernel(np, *arrays)
