"""Several sources to one: zip, concatenate, flat_map, interleave, and choosing among sources."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.core import nest, rng
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor_spec import TensorSpec
from trainkit.data import structure
from trainkit.data.calling import Caller, InnerStage
from trainkit.data.node import (
    INFINITE,
    UNKNOWN,
    DatasetOp,
    Leaves,
    Piped,
    Rows,
    Stage,
    block_size,
    join_blocks,
)


class ZipNode(DatasetOp):
    """Elements of several sources side by side, up to the end of the shortest."""

    title = "Zip"
    _untracked = frozenset({"structure"})

    def __init__(self, sources: Any) -> None:
        self.structure = sources
        self.sources = nest.flatten(sources)

    def _side_by_side(self, of: Callable[[DatasetOp], Any]) -> Any:
        return nest.map_structure(of, self.structure)

    def spec(self) -> Any:
        return self._side_by_side(lambda node: node.spec())

    def template(self) -> Any:
        return self._side_by_side(lambda node: node.template())

    def count(self) -> int:
        counts = [node.count() for node in self.sources]
        finite = [n for n in counts if n >= 0]
        if UNKNOWN in counts:
            return UNKNOWN
        return min(finite) if finite else INFINITE

    def rows(self) -> Rows | None:
        rows = [node.rows() for node in self.sources]
        return ZippedRows([r for r in rows if r]) if all(r is not None for r in rows) else None

    def stage(self) -> Stage:
        return ZipStage([node.stage() for node in self.sources])


class ZippedRows(Rows):
    """Rows of several sources side by side."""

    def __init__(self, parts: list[Rows]) -> None:
        self.parts = parts
        self.count = min(part.count for part in parts)
        self.even = all(part.even for part in parts)

    def fill(self) -> bool:
        return all([part.fill() for part in self.parts])

    def gather(self, indices: Any) -> Leaves:
        return [leaf for part in self.parts for leaf in part.gather(indices)]

    def slice(self, start: int, stop: int) -> Leaves:
        return [leaf for part in self.parts for leaf in part.slice(start, stop)]

    def row(self, index: int) -> Leaves:
        return [leaf for part in self.parts for leaf in part.row(index)]


class ManyStage(Stage):
    """A pass made of several others."""

    def __init__(self, parts: list[Stage]) -> None:
        self.parts = parts

    def state(self) -> dict[str, Any]:
        return {"parts": [part.state() for part in self.parts], **super().state()}

    def load(self, state: dict[str, Any]) -> None:
        for part, inner in zip(self.parts, state["parts"], strict=True):
            part.load(inner)
        super().load(state)

    def close(self) -> None:
        for part in self.parts:
            part.close()


class ZipStage(ManyStage):
    """One element of each part at a time."""

    def __init__(self, parts: list[Stage]) -> None:
        super().__init__(parts)
        self.in_blocks = all(part.in_blocks for part in parts)

    def next(self) -> Leaves:
        leaves: Leaves = []
        failure: Exception | None = None
        for i, part in enumerate(self.parts):
            try:
                leaves.extend(part.next())
            except StopIteration:
                self._end_others(i)
                raise
            except Exception as error:  # the other parts go on, so that pairs stay pairs
                failure = failure or error
        if failure is not None:
            raise failure
        return leaves

    def _end_others(self, first: int) -> None:
        """Read once more from the parts behind the one that has ended.

        One of the same length comes to its own end by that, and only then does a cache in it count
        as complete. What it gives otherwise, an error too, belongs to no element.
        """
        for part in self.parts[first + 1 :]:
            with contextlib.suppress(Exception):
                part.next()

    def block(self, size: int) -> Leaves | None:
        blocks: list[Leaves] = []
        for i, part in enumerate(self.parts):
            block = part.block(size)
            if block is None:
                self._end_others(i)
                return None
            size = min(size, block_size(block))
            blocks.append(block)
        return [leaf if leaf is None else leaf[:size] for block in blocks for leaf in block]


class ConcatenateNode(DatasetOp):
    """One source after the other."""

    title = "Concatenate"

    def __init__(self, first: DatasetOp, second: DatasetOp) -> None:
        self.sources = [first, second]
        one, two = first.spec(), second.spec()
        if not _alike(one, two):
            raise TypeError(f"concatenate: the elements differ, {one} and {two}")

    def spec(self) -> Any:
        one, two = (node.spec() for node in self.sources)
        return nest.map_structure(_wider, one, two)

    def template(self) -> Any:
        return self.sources[0].template()

    def count(self) -> int:
        counts = [node.count() for node in self.sources]
        if INFINITE in counts:
            return INFINITE
        return UNKNOWN if UNKNOWN in counts else sum(counts)

    def stage(self) -> Stage:
        one, two = (nest.flatten(node.spec()) for node in self.sources)
        same = all(isinstance(s, TensorSpec) and s.shape.is_fully_defined() for s in one)
        return ConcatenateStage([node.stage() for node in self.sources], same and one == two)


def _alike(one: Any, two: Any) -> bool:
    """Whether two specs have one structure, equal dtypes and equal ranks."""
    try:
        pairs = nest.map_structure(lambda a, b: (a, b), one, two)
    except (ValueError, AttributeError):
        return False
    flat = nest.flatten(pairs)
    return all(
        isinstance(b, TensorSpec) and a.dtype == b.dtype
        for a, b in zip(flat[::2], flat[1::2], strict=True)
        if isinstance(a, TensorSpec)
    )


def _wider(a: Any, b: Any) -> Any:
    if not isinstance(a, TensorSpec) or a.rank != b.rank:
        return a
    return a.most_specific_compatible_type(b)


class ConcatenateStage(ManyStage):
    """Goes on with the next part where one ends."""

    progress = ("at",)

    def __init__(self, parts: list[Stage], same_shapes: bool) -> None:
        super().__init__(parts)
        self.at = 0
        self.in_blocks = same_shapes and all(part.in_blocks for part in parts)

    def next(self) -> Leaves:
        while self.at < len(self.parts):
            try:
                return self.parts[self.at].next()
            except StopIteration:
                self.at += 1
        raise StopIteration

    def block(self, size: int) -> Leaves | None:
        blocks: list[Leaves] = []
        while size and self.at < len(self.parts):
            block = self.parts[self.at].block(size)
            if block is None:
                self.at += 1
                continue
            size -= block_size(block)
            blocks.append(block)
        return join_blocks(blocks) if blocks else None


class InterleaveNode(DatasetOp):
    """Data sets that a function makes of elements, several open at a time.

    Args:
        source: gives the elements.
        function: makes a data set of one.
        cycle: how many are open; 1 reads one after the other.
        block: how many elements each gives in its turn.
    """

    title = "Interleave"

    def __init__(
        self, source: DatasetOp, function: Callable[..., Any], cycle: int, block: int
    ) -> None:
        if min(cycle, block) < 1:
            raise InvalidArgumentError(
                f"interleave: cycle_length and block_length must be at least 1, got {cycle} and "
                f"{block}"
            )
        self.source, self.cycle, self.block = source, cycle, block
        self.caller = Caller(function, source)
        self.inner: Any = None
        if cycle == 1:
            self.title = "FlatMap"

    def open(self, leaves: Leaves) -> DatasetOp:
        """The data set for one element."""
        dataset = self.caller(leaves)
        if not hasattr(dataset, "node"):
            raise TypeError(f"{self.title}: the function must give a Dataset, it gave {dataset!r}")
        if self.inner is None:
            self.inner = structure.template_of(dataset.node.template())
        return dataset.node

    def _spec(self) -> Any:
        spec = self.caller.spec()
        if not isinstance(spec, structure.DatasetSpec):
            raise TypeError(f"{self.title}: the function must give a Dataset, it gives {spec!r}")
        return spec.element_spec

    def spec(self) -> Any:
        return self._spec()

    def template(self) -> Any:
        return self._spec() if self.inner is None else self.inner

    def stage(self) -> Stage:
        return InterleaveStage(self)


class InterleaveStage(Piped):
    """Goes round the open data sets; where one ends, the next element opens another."""

    def __init__(self, node: InterleaveNode) -> None:
        super().__init__(node.source.stage())
        self.node = node
        # Per place: the element that made the data set, and the pass over it; None where it is
        # empty.
        self.open: list[Any] = [None] * node.cycle
        self.place, self.given, self.opened = 0, 0, 0
        self.ended = False

    def _turn(self) -> None:
        self.place, self.given = (self.place + 1) % self.node.cycle, 0

    def next(self) -> Leaves:
        while True:
            if self.open[self.place] is None and not self.ended:
                try:
                    made_of = self.source.next()
                    inner = InnerStage(self.node.open(made_of).stage(), self.opened)
                    self.open[self.place], self.opened = (made_of, inner), self.opened + 1
                except StopIteration:
                    self.ended = True
            if self.open[self.place] is None:
                if self.ended and not any(self.open):
                    raise StopIteration
                self._turn()
                continue
            try:
                leaves = self.open[self.place][1].next()
            except StopIteration:
                self.open[self.place] = None
                self._turn()
                continue
            self.given += 1
            if self.given == self.node.block:
                self._turn()
            return leaves

    def state(self) -> dict[str, Any]:
        open_states = [
            {}
            if opened is None
            else {
                "element": list(opened[0]),
                "stage": opened[1].source.state(),
                "number": opened[1].number,
            }
            for opened in self.open
        ]
        own_state = {"place": self.place, "given": self.given, "ended": self.ended}
        own_state |= {"opened": self.opened}
        return {**super().state(), "open": open_states, **own_state}

    def load(self, state: dict[str, Any]) -> None:
        super().load(state)
        self.open = []
        for opened in state["open"]:
            if not opened:
                self.open.append(None)
                continue
            stage = self.node.open(opened["element"]).stage()
            stage.load(opened["stage"])
            inner = InnerStage(stage, int(opened.get("number", 0)))
            self.open.append((opened["element"], inner))
        self.opened = int(state.get("opened", 0))  # absent in older files
        self.place, self.given = int(state["place"]), int(state["given"])
        self.ended = bool(state["ended"])


class ChooseNode(DatasetOp):
    """At each step an element of the source that another data set, or a draw by weight, names.

    Args:
        sources: to choose from.
        choice: a data set of int scalars, or `None` to draw.
        weights: chances of the sources, when drawn.
        seed: of the draws.
        stop_on_empty: end with the first source that ends; else go on with the others.
        again: whether each pass draws anew.
    """

    title = "DirectedInterleave"

    def __init__(
        self,
        sources: list[DatasetOp],
        choice: DatasetOp | None,
        weights: Any,
        seed: int | None,
        stop_on_empty: bool,
        again: bool = False,
    ) -> None:
        self.sources, self.choice, self.stop = sources, choice, stop_on_empty
        self.weights = None if weights is None else np.asarray(weights, np.float64)
        self.seed = rng.next_seed() if seed is None else int(seed)
        self.again, self.passes = again, 0

    def spec(self) -> Any:
        return self.sources[0].spec()

    def template(self) -> Any:
        return self.sources[0].template()

    def stage(self) -> Stage:
        self.passes += self.again
        return ChooseStage(self, self.passes)


class ChooseStage(ManyStage):
    """Draws, or reads, which part comes next."""

    def __init__(self, node: ChooseNode, number: int) -> None:
        super().__init__([source.stage() for source in node.sources])
        self.node, self.number = node, number
        if node.choice is not None:
            self.parts.append(node.choice.stage())
        self.live = [True] * len(node.sources)
        self.drawn = 0

    def _draw_index(self) -> int:
        if self.node.choice is not None:
            index = int(np.asarray(self.parts[-1].next()[0]))
            if not 0 <= index < len(self.live):
                raise InvalidArgumentError(
                    f"choose_from_datasets: the choice {index} is not in [0, {len(self.live)})"
                )
            return index
        chances = np.ones(len(self.live)) if self.node.weights is None else self.node.weights
        chances = np.where(self.live, chances, 0.0)
        if not chances.any():
            raise StopIteration
        self.drawn += 1
        key = self.node.seed & ((1 << 64) - 1) | self.number << 64
        draw = rng.uniform_floats(key, self.drawn, 1, np.float64)[0]
        source_index = np.searchsorted(np.cumsum(chances), draw * chances.sum(), side="right")
        return int(min(source_index, np.flatnonzero(chances)[-1]))

    def next(self) -> Leaves:
        while any(self.live):
            index = self._draw_index()
            if not self.live[index]:
                continue
            try:
                return self.parts[index].next()
            except StopIteration:
                self.live[index] = False
                if self.node.stop:
                    self.live = [False] * len(self.live)
        raise StopIteration

    def state(self) -> dict[str, Any]:
        own_state = {"drawn": self.drawn, "number": self.number}
        return {**super().state(), "live": [int(x) for x in self.live], **own_state}

    def load(self, state: dict[str, Any]) -> None:
        super().load(state)
        self.live, self.drawn = [bool(x) for x in state["live"]], int(state["drawn"])
        self.number = int(state.get("number", 0))
