"""An optimizer's rule as one call that updates all weights: each element is read and written once.

The call is machine code that does the same float operations in the same order as the rule, so both
give the same bits. It comes compiled for the usual optimizers; that of another rule is compiled
once the rule has done enough work for that to pay. Until then NumPy does the rule's steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trainkit.compiler.flat import FlatProgram, array_function
from trainkit.compiler.llvm.flat_kernel import flat_kernel, has_expressions
from trainkit.core.cpu.cost_model import BYTE_NANOSECONDS, CACHED_FLOATS
from trainkit.kernels.embedding.row_gradient import RowGradient, dense
from trainkit.kernels.jit import kernel_family
from trainkit.kernels.threads.thread_pool import FEWEST_COPIED, shared

UPDATES = kernel_family.Family("update", "jit.llvm_text", "text_kernel", exact=True, alone=True)

PIECE = CACHED_FLOATS // 4
"""Elements that NumPy's steps work on at a time: a weight, its gradient and two slots are
cached then."""


class FlatUpdate:
    """A rule for arrays in place, by NumPy's steps or, once there is one, by one call.

    Args:
        program: what is done with each element, in float32 or float64.
    """

    def __init__(self, program: FlatProgram) -> None:
        self.program = program
        self.n_buffers = len(program.arrays)
        self.n_scalars = len(program.scalars)
        self._element_bytes = self.n_buffers * program.dtype.itemsize
        self._key = (flat_kernel(program),) if has_expressions(program) else None
        self._numbers = [float(x.value) for x in program.numbers]

    @property
    def kernel_key(self) -> kernel_family.Key | None:
        """What `UPDATES` knows the compiled form by, `None` for a rule that has none."""
        return self._key

    def run(self, buffers: Sequence[Any], count: int, total: int, scalars: Sequence[Any]) -> bool:
        """Update weights in one call, if there is a call yet and all arrays are as it takes them.

        Args:
            buffers: weight, gradient and slots of the first weight, then those of the next. No two
                weights share an array that is written.
            count: how many weights they are.
            total: how many elements these have.
            scalars: what the rule takes as its scalars.

        Returns:
            Whether that is done; nothing has changed where it is not.
        """
        if self._key is None:
            return False
        moved = self._element_bytes * total
        seconds = kernel_family.STEP_SECONDS * count + kernel_family.BYTE_SECONDS * moved
        call = UPDATES.find(self._key, seconds)
        if call is None:
            return False
        pool = (0, 1) if total < FEWEST_COPIED else shared(BYTE_NANOSECONDS * moved)
        is_updated: bool = call(*pool, *scalars, *self._numbers, *buffers)
        return is_updated

    def run_all(self, members: Sequence[Sequence[Any]], scalars: Sequence[Any]) -> None:
        """Update weights in one call or, as long as there is none, each by NumPy's steps.

        Args:
            members: weight, gradient and slots of each weight: row-major arrays of one shape, of
                the program's dtype; a gradient may be a `RowGradient`.
            scalars: what the rule takes as its scalars.
        """
        buffers = [x for member in members for x in member]
        sums = []  # what the addresses in pieces are of
        for i in range(1, len(buffers), self.n_buffers):
            if type(buffers[i]) is RowGradient:
                buffers[i], rows = buffers[i].pieces()
                sums.append(rows)
        total = sum(member[0].size for member in members)
        if not self.run(buffers, len(members), total, scalars):
            numbers = [np.asarray(x, self.program.dtype) for x in scalars]
            steps = array_function(self.program, np)
            targets = [self.program.target(i) for i in range(len(self.program.results))]
            for weight, grad, *slots in members:
                self._run_in_pieces(steps, [weight, dense(grad), *slots], numbers, targets)

    @staticmethod
    def _run_in_pieces(
        steps: Callable[..., tuple[Any, ...]],
        buffers: Sequence[Any],
        scalars: Sequence[Any],
        targets: Sequence[int],
    ) -> None:
        # they are in order, so these are views to write to
        flat = [x.reshape(-1) for x in buffers]
        for start in range(0, flat[0].size, PIECE):
            piece = [x[start : start + PIECE] for x in flat] if flat[0].size > PIECE else flat
            for i, result in zip(targets, steps(*piece, *scalars), strict=True):
                if result is not piece[i]:
                    piece[i][...] = result
