"""Draws by rejection on a GPU, in a fixed number of launches and without waiting.

Each function gives `None` where the kernels can't run, or where nothing is to be drawn.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.kernels.cuda.raw_kernel import MANY_THREADS, MOST_THREADS, RawKernel, blocks_for
from trainkit.kernels.random import rejection_cuda, truncated_cuda
from trainkit.kernels.random.random_gpu import serves

Array = Any
Drawn = tuple[Array, Array]

_WIDE_ROUNDS = 2
"""Rounds over the whole grid; what is rejected so often is few enough for one block."""


class _Draws:
    """The launches of one call.

    Args:
        xp: CuPy.
        state: of the generator.
        parameters: one or two that broadcast to `dims`.
        dims: sizes of the result.
        distribution: one of `rejection_cuda.DISTRIBUTIONS`.
        rounds: over the whole grid.

    Attributes:
        state: of the generator, after the last launch.
        values: float64, flat.
    """

    def __init__(
        self,
        xp: Any,
        state: Array,
        parameters: tuple[Array, ...],
        dims: tuple[int, ...],
        distribution: str,
        rounds: int,
    ) -> None:
        out = xp.empty(dims, np.float64)
        self.xp, self.values, self.size = xp, out.reshape(-1), np.int64(out.size)
        self.distribution, self._rounds = distribution, rounds
        self.chunks = -(-out.size // truncated_cuda.CHUNK)
        self.state = xp.ascontiguousarray(state)
        operands = [
            *map(self._parameter, parameters, [dims] * len(parameters)),
            (None, np.int64(0)),
        ]
        (one, one_step), (two, two_step) = operands[:2]
        self._parameters = (one, two, one_step, two_step)
        self._open: tuple[Any, Any] = (None, None)

    def _parameter(self, p: Array, dims: tuple[int, ...]) -> tuple[Array, Any]:
        doubles = p.astype(np.float64, copy=False)
        if doubles.size == 1:
            return doubles, np.int64(0)
        return self.xp.ascontiguousarray(self.xp.broadcast_to(doubles, dims)), np.int64(1)

    @property
    def parameter(self) -> tuple[Array, Any]:
        """The first parameter, and its step from element to element."""
        return self._parameters[0], self._parameters[2]

    def states(self) -> tuple[Array, Array]:
        """Where a launch begins, and where it notes down its end, at which the next one begins."""
        before, self.state = self.state, self.xp.empty(3, np.uint64)
        return before, self.state

    def _lists(self) -> tuple[Array, Array]:
        positions = self.xp.empty(self.chunks * truncated_cuda.CHUNK, np.int64)
        return positions, self.xp.empty(self.chunks + 1, np.int64)

    def _sum_parts(self, positions: Array, counts: Array) -> None:
        sole = MOST_THREADS
        truncated_cuda.summed_counts()(1, (counts, np.int32(self.chunks)), threads=sole)
        self._open = (positions, counts)

    def invert(self) -> None:
        """Draw what inversion serves for."""
        kernel, lists = rejection_cuda.inverted(self.distribution), self._lists()
        args = (*self._parameters, *self.states(), *lists, self.values, self.size)
        kernel(self.chunks, args)
        self._sum_parts(*lists)

    def reject(self) -> None:
        """Draw the others, or all."""
        number = np.int32(self.chunks)
        for _ in range(self._rounds):
            lists = self._lists()
            arguments = (*self._parameters, *self.states(), *self._open, number)
            kernel = rejection_cuda.tried(self.distribution)
            kernel(self.chunks, (*arguments, *lists, self.values, self.size))
            self._sum_parts(*lists)
        arguments = (*self._parameters, *self.states(), *self._open, number)
        last_kernel = rejection_cuda.tried_until_taken(self.distribution)
        left = self.xp.empty(int(self.size), np.int64)
        last_kernel(1, (*arguments, left, self.values), threads=MANY_THREADS)


def _kernels(distribution: str) -> list[RawKernel]:
    own = (
        rejection_cuda.boosted_gamma()
        if distribution == "gamma"
        else rejection_cuda.inverted(distribution)
    )
    return [
        truncated_cuda.summed_counts(),
        rejection_cuda.tried(distribution),
        rejection_cuda.tried_until_taken(distribution),
        own,
    ]


def drawn(
    xp: Any,
    distribution: str,
    state: Array,
    parameters: tuple[Array, ...],
    dims: tuple[int, ...],
    dtype: np.dtype[Any],
) -> Drawn | None:
    """Draws of `dims` and `dtype`, and the next state.

    Args:
        xp: CuPy.
        distribution: "gamma", "poisson" or "binomial".
        state: three words.
        parameters: alpha; the mean; or counts and probabilities. They broadcast to `dims`.
        dims: sizes of the result.
        dtype: of the result.
    """
    if 0 in dims or not all(serves(xp, k, state) for k in _kernels(distribution)):
        return None
    is_gamma = distribution == "gamma"
    draws = _Draws(xp, state, parameters, dims, distribution, 1 if is_gamma else _WIDE_ROUNDS)
    if not is_gamma:
        draws.invert()
    draws.reject()
    if is_gamma:
        args = (*draws.parameter, *draws.states(), draws.values, draws.size)
        rejection_cuda.boosted_gamma()(blocks_for(int(draws.size)), args)
    values = draws.values.reshape(dims).astype(dtype, copy=False)
    return values, draws.state
