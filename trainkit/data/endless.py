"""Sources without an end: counting, and random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core import rng
from trainkit.core.dtypes import int64
from trainkit.core.tensor_spec import TensorSpec
from trainkit.data.node import INFINITE, DatasetOp, Leaves, Stage

_WORD = (1 << 63) - 1


class EndlessNode(DatasetOp):
    """Scalars by their position, without end."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype

    def spec(self) -> Any:
        return TensorSpec((), self.dtype)

    def count(self) -> int:
        return INFINITE

    def values(self, start: int, stop: int) -> Any:
        """The values at positions from `start` up to `stop`."""
        raise NotImplementedError

    def stage(self) -> Stage:
        return EndlessStage(self.values)


class EndlessStage(Stage):
    """Values by their position."""

    in_blocks = True
    progress = ("position",)

    def __init__(self, values: Any) -> None:
        self.values = values
        self.position = 0

    def next(self) -> Leaves:
        self.position += 1
        return [self.values(self.position - 1, self.position)[0]]

    def block(self, size: int) -> Leaves | None:
        self.position += size
        return [self.values(self.position - size, self.position)]

    def skip(self, count: int) -> int:
        self.position += count
        return count


class CounterNode(EndlessNode):
    """Numbers at equal distances: start, start + step, start + 2 step and so on."""

    title = "Counter"

    def __init__(self, start: Any, step: Any, dtype: Any) -> None:
        super().__init__(dtype)
        self.start, self.step = start, step

    def values(self, start: int, stop: int) -> Any:
        return (self.start + np.arange(start, stop) * self.step).astype(self.dtype.dtype)


class RandomNode(EndlessNode):
    """Numbers in [0, 2**32), each as likely as the others.

    Args:
        seed: of the numbers; `None` for one from the global seed.
        again: whether each pass draws other numbers.
    """

    title = "Random"

    def __init__(self, seed: int | None, again: bool) -> None:
        super().__init__(int64)
        self.seed = (rng.next_seed() if seed is None else seed) & _WORD
        self.again, self.passes = again, 0

    def stage(self) -> Stage:
        seed = self.seed ^ (self.passes << 64) if self.again else self.seed
        self.passes += 1
        return RandomStage(seed)


class RandomStage(EndlessStage):
    """One pass over random numbers; its seed is part of its state."""

    def __init__(self, seed: int) -> None:
        super().__init__(self._drawn)
        self.seed = seed

    def _drawn(self, start: int, stop: int) -> Any:
        words = rng.bits(self.seed, start, (stop - start) * rng.WORDS_PER_BLOCK)
        return (words[:: rng.WORDS_PER_BLOCK] >> np.uint64(32)).astype(np.int64)

    def state(self) -> dict[str, Any]:
        return {**super().state(), "seed": self.seed & _WORD, "pass": self.seed >> 64}

    def load(self, state: dict[str, Any]) -> None:
        super().load(state)
        self.seed = int(state["pass"]) << 64 | int(state["seed"]) & _WORD
