"""`cache`: the elements of the first whole pass, kept in memory for the later ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.data.node import (
    DatasetOp,
    Leaves,
    Rows,
    Stage,
    block_size,
    join_blocks,
    stack_elements,
)
from trainkit.data.sources import ArrayRows
from trainkit.data.transformations.choosing import SameElements

_ROWS_AT_ONCE = 1024


class CacheNode(SameElements):
    """Keeps the elements of the first whole pass in memory for the later ones."""

    title = "Cache"
    _untracked = frozenset({"kept", "began", "fails"})

    def __init__(self, source: DatasetOp) -> None:
        super().__init__(source)
        self.kept: list[Leaves] | None = None
        self.fails = False  # an element can't be made, so a pass has fewer than there are rows
        self.stacked: Rows | None = None
        self.began: dict[str, Any] = {}  # the source's state before the pass that was kept

    def count(self) -> int:
        return self.source.count()

    def keep(self, elements: list[Leaves], began: dict[str, Any]) -> None:
        """Take the elements of a whole pass."""
        if self.kept is None:
            self.began = began
            self.kept = elements
            shapes = {tuple(map(_kind, leaves)) for leaves in elements}
            if len(shapes) == 1:
                arrays = stack_elements(elements, "cache")
                self.stacked = ArrayRows(arrays, len(elements))
                self.kept = [[]] * len(elements)

    def keep_blocks(self, blocks: list[Leaves], began: dict[str, Any]) -> None:
        """Take the blocks of a whole pass."""
        if self.kept is None:
            self.began = began
            arrays = join_blocks(blocks)
            self.stacked = ArrayRows(arrays, block_size(arrays))
            self.kept = [[]] * self.stacked.count

    def rows(self) -> Rows | None:
        if self.kept is not None:
            return self.stacked
        rows = None if self.fails else self.source.rows()
        return CachedRows(self, rows) if rows and rows.even else None

    def stage(self) -> Stage:
        return CacheStage(self)


class CachedRows(Rows):
    """Rows that are computed all together when the first is asked for."""

    def __init__(self, node: CacheNode, rows: Rows) -> None:
        self.node, self.source, self.count = node, rows, rows.count

    def fill(self) -> bool:
        try:
            self._load_rows()
        except Exception:  # whatever it is, walking the elements shows it in its place
            self.node.fails = True
            return False
        return True

    def _load_rows(self) -> Rows:
        if self.node.stacked is None:
            starts = range(0, self.count, _ROWS_AT_ONCE)
            stops = (min(start + _ROWS_AT_ONCE, self.count) for start in starts)
            blocks = [self.source.slice(*ends) for ends in zip(starts, stops, strict=True)]
            self.node.keep_blocks(blocks, self.node.source.stage().state())
        assert self.node.stacked is not None
        return self.node.stacked

    def gather(self, indices: Any) -> Leaves:
        return self._load_rows().gather(indices)

    def slice(self, start: int, stop: int) -> Leaves:
        return self._load_rows().slice(start, stop)


class CacheStage(Stage):
    """Reads from the cache when it is filled, and fills it otherwise.

    A pass over what is not cached yet is taken up again by walking its source from the start.
    """

    def __init__(self, node: CacheNode) -> None:
        self.node = node
        self.position = 0
        self.source = node.source.stage() if node.kept is None else None
        self.began = node.began if self.source is None else self.source.state()
        self.total = -1 if self.source is None else node.source.count()
        self.elements: list[Leaves] = []
        self.blocks: list[Leaves] = []  # in place of the elements, once a block was taken
        self.in_blocks = self.source.in_blocks if self.source else node.stacked is not None

    def next(self) -> Leaves:
        if self.source is None:
            return self._kept()
        try:
            leaves = self.source.next()
        except StopIteration:
            self._keep()
            raise
        self.position += 1
        if self.blocks:
            self.blocks.append(_block_of(leaves))
        else:
            self.elements.append(leaves)
        if self.position == self.total:
            self._keep()  # whoever reads no further, as take does, has had the whole pass
        return leaves

    def _keep(self) -> None:
        """Give the node what has passed, which is all."""
        if self.blocks:
            self.node.keep_blocks(self.blocks, self.began)
        else:
            self.node.keep(self.elements, self.began)

    def _kept(self) -> Leaves:
        elements = self.node.kept or []
        if self.position >= len(elements):
            raise StopIteration
        self.position += 1
        rows = self.node.stacked
        return rows.row(self.position - 1) if rows else elements[self.position - 1]

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
            self._keep()
            return None
        self.position += block_size(block)
        self.blocks += [*map(_block_of, self.elements), block]
        self.elements = []
        if self.position == self.total:
            self._keep()
        return block

    def state(self) -> dict[str, Any]:
        return {"position": self.position, "began": self.began}

    def load(self, state: dict[str, Any]) -> None:
        position = int(state["position"])
        if self.node.kept is not None:
            self.source, self.position = None, position
            return
        self.source = self.node.source.stage()
        self.began, self.position = state["began"], 0
        self.elements, self.blocks = [], []
        self.source.load(self.began)
        while self.position < position:
            try:
                self.next()
            except StopIteration:
                break
            except Exception:  # it failed before too, and raised then
                continue

    def skip(self, count: int) -> int:
        if not self.in_blocks:
            return super().skip(count)
        leaves = self.block(count)
        return 0 if leaves is None else block_size(leaves)

    def close(self) -> None:
        if self.source is not None:
            self.source.close()


def _block_of(leaves: Leaves) -> Leaves:
    """One element as a block."""
    return [None if leaf is None else np.asarray(leaf)[None] for leaf in leaves]


def _kind(leaf: Any) -> Any:
    """What components share that can be stacked; a data set shares it with no other."""
    if isinstance(leaf, np.ndarray | np.generic):
        return leaf.shape, leaf.dtype
    return leaf if leaf is None else id(leaf), None
