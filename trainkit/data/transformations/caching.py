"""`cache`: the elements of the first whole pass, kept in memory for the later ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.data.node import DatasetOp, Leaves, Rows, Stage, join_blocks
from trainkit.data.sources import ArrayRows
from trainkit.data.transformations.choosing import SameElements

_ROWS_AT_ONCE = 1024


class CacheNode(SameElements):
    """Keeps the elements of the first whole pass in memory for the later ones."""

    title = "Cache"
    _untracked = frozenset({"kept", "began"})

    def __init__(self, source: DatasetOp) -> None:
        super().__init__(source)
        self.kept: list[Leaves] | None = None
        self.stacked: Rows | None = None
        self.began: dict[str, Any] = {}  # the source's state before the pass that was kept

    def count(self) -> int:
        return self.source.count()

    def keep(self, elements: list[Leaves], began: dict[str, Any]) -> None:
        """Take the elements of a whole pass."""
        if self.kept is None:
            self.began = began
            self.kept = elements
            shapes = {
                tuple((np.shape(a), np.asarray(a).dtype) for a in leaves) for leaves in elements
            }
            if len(shapes) == 1:
                arrays = [np.stack(column) for column in zip(*elements, strict=True)]
                self.stacked = ArrayRows(arrays, len(elements))
                self.kept = [[]] * len(elements)

    def keep_blocks(self, blocks: list[Leaves], began: dict[str, Any]) -> None:
        """Take the blocks of a whole pass."""
        if self.kept is None:
            self.began = began
            arrays = join_blocks(blocks)
            self.stacked = ArrayRows(arrays, len(arrays[0]))
            self.kept = [[]] * len(arrays[0])

    def rows(self) -> Rows | None:
        if self.kept is not None:
            return self.stacked
        rows = self.source.rows()
        return rows and CachedRows(self, rows)

    def stage(self) -> Stage:
        return CacheStage(self)


class CachedRows(Rows):
    """Rows that are computed all together when the first is asked for."""

    def __init__(self, node: CacheNode, rows: Rows) -> None:
        self.node, self.source, self.count = node, rows, rows.count

    def _filled(self) -> Rows:
        if self.node.stacked is None:
            starts = range(0, self.count, _ROWS_AT_ONCE)
            stops = (min(start + _ROWS_AT_ONCE, self.count) for start in starts)
            blocks = [self.source.slice(*ends) for ends in zip(starts, stops, strict=True)]
            self.node.keep_blocks(blocks, self.node.source.stage().state())
        assert self.node.stacked is not None
        return self.node.stacked

    def gather(self, indices: Any) -> Leaves:
        return self._filled().gather(indices)

    def slice(self, start: int, stop: int) -> Leaves:
        return self._filled().slice(start, stop)


class CacheStage(Stage):
    """Reads from the cache when it is filled, and fills it otherwise.

    A pass over what is not cached yet is taken up again by walking its source from the start.
    """

    def __init__(self, node: CacheNode) -> None:
        self.node = node
        self.position = 0
        self.source = node.source.stage() if node.kept is None else None
        self.began = node.began if self.source is None else self.source.state()
        self.elements: list[Leaves] = []
        self.blocks: list[Leaves] = []
        self.in_blocks = self.source.in_blocks if self.source else node.stacked is not None

    def next(self) -> Leaves:
        if self.source is None:
            return self._kept()
        try:
            leaves = self.source.next()
        except StopIteration:
            # Where next and block were mixed, this pass is not kept.
            if len(self.elements) == self.position:
                self.node.keep(self.elements, self.began)
            raise
        self.position += 1
        self.elements.append(leaves)
        return leaves

    def _kept(self) -> Leaves:
        kept = self.node.kept or []
        if self.position >= len(kept):
            raise StopIteration
        self.position += 1
        rows = self.node.stacked
        return rows.row(self.position - 1) if rows else kept[self.position - 1]

    def block(self, size: int) -> Leaves | None:
        if self.source is None:
            rows = self.node.stacked
            stop = min(self.position + size, rows.count) if rows else 0
            if rows is None or self.position >= stop:
                return None
            leaves = rows.slice(self.position, stop)
            self.position = stop
            return leaves
        block = self.source.block(size)
        if block is None:
            if self.blocks and sum(len(b[0]) for b in self.blocks) == self.position:
                self.node.keep_blocks(self.blocks, self.began)
            return None
        self.position += len(block[0])
        self.blocks.append(block)
        return block

    def state(self) -> dict[str, Any]:
        return {"position": self.position, "began": self.began}

    def load(self, state: dict[str, Any]) -> None:
        if self.node.kept is not None:
            self.source, self.position = None, int(state["position"])
            return
        self.source = self.node.source.stage()
        self.began, self.position = state["began"], 0
        self.elements, self.blocks = [], []
        self.source.load(self.began)
        self.skip(int(state["position"]))

    def skip(self, count: int) -> int:
        if not self.in_blocks:
            return super().skip(count)
        leaves = self.block(count)
        return 0 if leaves is None else len(leaves[0])

    def close(self) -> None:
        if self.source is not None:
            self.source.close()
