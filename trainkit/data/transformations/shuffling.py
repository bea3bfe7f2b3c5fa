"""Shuffling: of positions where the source has rows, of the elements themselves otherwise.

The order follows from (seed, iteration, what comes in) alone, by the counter-based bits of
`core.rng`, so that a pass is taken up again from a few numbers.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from trainkit.core import rng
from trainkit.core.errors import InvalidArgumentError
from trainkit.data.node import UNKNOWN, DatasetOp, Leaves, Piped, Rows, Stage, usable_rows

_DRAWS_AT_ONCE = 4096


class ShuffleNode(DatasetOp):
    """A buffer from which elements leave in random order.

    Attributes:
        seed: names the stream of random bits.
        iteration: how many passes have begun; each has an order of its own.
    """

    title = "Shuffle"

    def __init__(
        self, source: DatasetOp, buffer_size: int, seed: int | None, reshuffle: bool
    ) -> None:
        if buffer_size < 1 and buffer_size != UNKNOWN:
            raise InvalidArgumentError(
                f"shuffle: buffer_size must be at least 1, or {UNKNOWN}, UNKNOWN_CARDINALITY, for "
                f"as many elements as there are; got {buffer_size}"
            )
        buffer_size = sys.maxsize if buffer_size == UNKNOWN else buffer_size
        self.source, self.buffer_size, self.reshuffle = source, buffer_size, reshuffle
        self.seed = rng.next_seed() if seed is None else int(seed)
        self.iteration = 0

    def spec(self) -> Any:
        return self.source.spec()

    def template(self) -> Any:
        return self.source.template()

    def count(self) -> int:
        return self.source.count()

    def begin(self) -> int:
        """The number of the pass that begins now."""
        if not self.reshuffle:
            return 0
        self.iteration += 1
        return self.iteration - 1

    def stage(self) -> Stage:
        rows = usable_rows(self.source)
        if rows is None:
            return BufferShuffleStage(self)
        if self.buffer_size >= rows.count:
            return PermutedStage(self, rows)
        return RowShuffleStage(self, rows)

    def state_arrays(self) -> dict[str, Any]:
        return {"seed": np.int64(self.seed), "iteration": np.int64(self.iteration)}

    def load_state_arrays(self, arrays: dict[str, Any]) -> None:
        if set(arrays) != {"seed", "iteration"}:
            raise ValueError(
                f"shuffle stores 'seed' and 'iteration', the file has {sorted(arrays)}"
            )
        self.seed, self.iteration = int(arrays["seed"]), int(arrays["iteration"])


class SameShuffleNode(ShuffleNode):
    """Another pipeline's shuffle, whose passes it counts, over a source of as many elements."""

    _untracked = frozenset({"node"})
    node: ShuffleNode

    def __init__(self, node: ShuffleNode, source: DatasetOp) -> None:
        self.node = node
        self.source, self.buffer_size, self.reshuffle = source, node.buffer_size, node.reshuffle

    @property
    def seed(self) -> int:
        return self.node.seed

    @seed.setter
    def seed(self, value: int) -> None:
        self.node.seed = value

    @property
    def iteration(self) -> int:
        return self.node.iteration

    @iteration.setter
    def iteration(self, value: int) -> None:
        self.node.iteration = value


class _ShuffleStage(Stage):
    """What all passes over a shuffle share: which order, and the node's own count of passes."""

    def __init__(self, node: ShuffleNode) -> None:
        self.node = node
        self.seed = node.seed
        self.iteration = node.begin()

    def state(self) -> dict[str, Any]:
        return {"seed": self.seed, "iteration": self.iteration, "begun": self.node.iteration}

    def load(self, state: dict[str, Any]) -> None:
        self.seed, self.iteration = int(state["seed"]), int(state["iteration"])
        self.node.seed, self.node.iteration = self.seed, int(state["begun"])

    def bits(self, start: int, count: int) -> Any:
        """Random words number `start` and following; `start` is a multiple of 4."""
        key = (self.seed & ((1 << 64) - 1)) | (0x5348 << 64)
        return rng.bits(key, (self.iteration << 64) + start // rng.WORDS_PER_BLOCK, count)

    def slots(self, start: int, sizes: Any) -> list[int]:
        """For each buffer size a random slot below it."""
        words = self.bits(start, len(sizes)) >> np.uint64(32)
        return ((words * sizes.astype(np.uint64)) >> np.uint64(32)).tolist()


class _RowsStage(_ShuffleStage):
    """Shuffles the numbers of rows; `_indices(size)` gives the next of them."""

    _indices: Any

    def __init__(self, node: ShuffleNode, rows: Rows) -> None:
        super().__init__(node)
        self.rows = rows
        self.in_blocks, self.may_fail = rows.even, rows.may_fail

    def next(self) -> Leaves:
        indices = self._indices(1)
        if not len(indices):
            raise StopIteration
        return self.rows.row(int(indices[0]))

    def block(self, size: int) -> Leaves | None:
        indices = self._indices(size)
        return self.rows.gather(indices) if len(indices) else None


class PermutedStage(_RowsStage):
    """All rows in random order: the buffer holds the whole source."""

    def __init__(self, node: ShuffleNode, rows: Rows) -> None:
        super().__init__(node, rows)
        self.position = 0
        self.order: Any = None

    @property
    def elements_passed(self) -> int | None:
        return self.position

    def _indices(self, size: int) -> Any:
        if self.order is None:
            self.order = np.argsort(self.bits(0, self.rows.count))
        indices = self.order[self.position : self.position + size]
        self.position += len(indices)
        return indices

    def skip(self, count: int) -> int:
        skipped = min(count, self.rows.count - self.position)
        self.position += skipped
        return skipped

    def state(self) -> dict[str, Any]:
        return {**super().state(), "position": self.position}

    def load(self, state: dict[str, Any]) -> None:
        super().load(state)
        self.position, self.order = int(state["position"]), None


class RowShuffleStage(_RowsStage):
    """Rows through a buffer smaller than the source; the buffer holds positions only.

    The order is worked out a few thousand positions ahead. `window` begins at element `drawn`, and
    the state is the buffer as it was there.
    """

    def __init__(self, node: ShuffleNode, rows: Rows) -> None:
        super().__init__(node, rows)
        self._restart(list(range(min(node.buffer_size, rows.count))), 0, 0)

    def _restart(self, buffer: list[int], drawn: int, used: int) -> None:
        self.buffer, self.kept = buffer, list(buffer)
        self.drawn, self.used = drawn, used
        self.window = np.empty(0, np.int64)

    @property
    def elements_passed(self) -> int | None:
        return self.drawn + self.used

    def _advance(self) -> None:
        """Work out the next window."""
        self.drawn += len(self.window)
        self.used, self.kept = 0, list(self.buffer)
        buffer, total = self.buffer, self.rows.count
        count = min(_DRAWS_AT_ONCE, total - self.drawn)
        fresh = len(buffer) + self.drawn  # the position that enters the buffer next
        sizes = np.minimum(len(buffer), total - self.drawn - np.arange(count))
        slots = self.slots(self.drawn, sizes)
        entering = range(fresh, min(fresh + count, total))
        out = []
        for slot, new in zip(slots, entering, strict=False):
            out.append(buffer[slot])
            buffer[slot] = new
        for slot in slots[len(entering) :]:
            out.append(buffer[slot])
            last = buffer.pop()
            if slot < len(buffer):
                buffer[slot] = last
        self.window = np.array(out, np.int64)

    def _indices(self, size: int) -> Any:
        if self.used + size <= len(self.window):
            self.used += size
            return self.window[self.used - size : self.used]
        parts, missing = [], size
        while missing:
            if self.used == len(self.window):
                if self.drawn + self.used >= self.rows.count:
                    break
                self._advance()
            part = self.window[self.used : self.used + missing]
            self.used += len(part)
            missing -= len(part)
            parts.append(part)
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def skip(self, count: int) -> int:
        return len(self._indices(count))

    def state(self) -> dict[str, Any]:
        own_state = {"buffer": self.kept, "drawn": self.drawn, "used": self.used}
        return {**super().state(), **own_state}

    def load(self, state: dict[str, Any]) -> None:
        super().load(state)
        self._restart([int(i) for i in state["buffer"]], int(state["drawn"]), 0)
        self.window = np.empty(0, np.int64)
        self._indices(int(state["used"]))


class BufferShuffleStage(_ShuffleStage, Piped):
    """Elements through a buffer, for sources without rows; the buffer is part of the state."""

    def __init__(self, node: ShuffleNode) -> None:
        _ShuffleStage.__init__(self, node)
        Piped.__init__(self, node.source.stage())
        self.buffer: list[Leaves] = []
        self.drawn = 0
        self.ended = False
        self.words: Any = []

    def _fill(self) -> None:
        while not self.ended and len(self.buffer) < self.node.buffer_size:
            try:
                self.buffer.append(self.source.next())
            except StopIteration:
                self.ended = True

    def _slot(self) -> int:
        at = self.drawn % _DRAWS_AT_ONCE
        if at == 0 or not len(self.words):
            self.words = self.bits(self.drawn - at, _DRAWS_AT_ONCE)
        self.drawn += 1
        return (int(self.words[at]) >> 32) * len(self.buffer) >> 32

    def next(self) -> Leaves:
        self._fill()
        if not self.buffer:
            raise StopIteration
        slot = self._slot()
        last = self.buffer.pop()
        if slot == len(self.buffer):
            return last
        leaves, self.buffer[slot] = self.buffer[slot], last
        return leaves

    def state(self) -> dict[str, Any]:
        return {
            **_ShuffleStage.state(self),
            **Piped.state(self),
            "buffer": [list(leaves) for leaves in self.buffer],
            "drawn": self.drawn,
            "ended": self.ended,
        }

    def load(self, state: dict[str, Any]) -> None:
        _ShuffleStage.load(self, state)
        Piped.load(self, state)
        self.buffer = [list(leaves) for leaves in state["buffer"]]
        self.drawn, self.ended, self.words = int(state["drawn"]), bool(state["ended"]), []
