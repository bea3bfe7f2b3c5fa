"""What a fused node calls on a GPU, and which nodes are fused there."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trainkit.compiler.cuda.cuda_kernel import CudaCode, CudaTracer, code_of, compiled
from trainkit.compiler.ir import View
from trainkit.core import devices
from trainkit.graph.ir.graph import Graph
from trainkit.graph.runtime.fused import FusedRun
from trainkit.graph.runtime.fusion import Target
from trainkit.kernels.cuda.raw_kernel import THREADS


class CudaKernel(FusedRun):
    """A run of nodes as kernels of a GPU."""

    code: CudaCode
    on_gpu = True

    def __init__(self, code: CudaCode, part: Graph, program: Callable[..., Any]) -> None:
        super().__init__(code, part, program)
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
        return self._launch_kernels(xp, arrays, over or {})

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

    def _launch_kernels(
        self, xp: Any, arrays: Sequence[Any], over: dict[int, int]
    ) -> tuple[Any, ...]:
        results = [
            arrays[over[i]] if i in over else _make(xp, view)
            for i, view in enumerate(self.code.outputs)
        ]
        inside = [xp.empty(max(b.size, 1), np.uint8) for b in self.code.inside]
        buffers = {"input": arrays, "output": results, "temporary": inside}
        assert self._launches is not None
        for kernel, launch in zip(self.code.kernels, self._launches, strict=True):
            operands = [buffers[v.buffer.kind][v.buffer.index] for v in kernel.views]
            blocks, arguments = kernel.launch(operands)
            launch((blocks,), (THREADS,), arguments)
        return tuple(results)


def _make(xp: Any, view: View) -> Any:
    """A new array with the dtype, shape and layout of `view`."""
    if view.contiguous:
        return xp.empty(view.shape, view.dtype)
    order = sorted(range(len(view.shape)), key=lambda i: -view.strides[i])
    back = [order.index(i) for i in range(len(view.shape))]
    return xp.empty(tuple(view.shape[i] for i in order), view.dtype).transpose(back)


CUDA = Target(CudaTracer, code_of, CudaKernel, results_last=True)
