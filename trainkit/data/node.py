"""`DatasetOp`, one step of a pipeline, and `Stage`, one pass over it.

A node says what its elements look like and makes stages. A stage gives the elements of one pass,
flat: a list of leaves, each an array, in the order of the node's `template`. Two shortcuts avoid
walking arrays in memory element by element:

- A node with `rows()` has its elements at hand by position: `Rows.gather(indices)` gives many of
  them at once, stacked.
- A stage with `in_blocks` gives the next k elements at once, stacked, by `block(k)`.

Both give exactly what walking would give; a node that can't promise that has neither.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core import nest
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor_spec import TensorSpec
from trainkit.core.trackable import Trackable

INFINITE = -1
UNKNOWN = -2

Leaves = list[Any]


class DatasetOp(Trackable):
    """One step of a pipeline.

    Attributes:
        title: the name in texts, such as `"Batch"`.
    """

    title = ""

    def spec(self) -> Any:
        """A nest of `TensorSpec`s: the structure of one element."""
        raise NotImplementedError

    def count(self) -> int:
        """How many elements there are, or `INFINITE`, or `UNKNOWN`."""
        return UNKNOWN

    def rows(self) -> Rows | None:
        """The elements by position, where they can be had so."""
        return None

    def stage(self) -> Stage:
        """Begin a pass over the elements."""
        raise NotImplementedError

    def template(self) -> Any:
        """Any nest of the structure of an element; it is known without computing shapes."""
        return self.spec()


class Rows:
    """Elements that can be had by position, in any order.

    Attributes:
        count: how many there are.
        even: whether all have equal shapes, so that any of them can be stacked; a short last batch
            stands in no block with others.
        may_fail: whether asking for some may raise; not where arrays lie in memory.
    """

    count = 0
    even = True
    may_fail = True

    def fill(self) -> bool:
        """Compute what one row needs of all others; `False` if an element of theirs fails."""
        return True

    def gather(self, indices: Any) -> Leaves:
        """The elements at the positions `indices` (k,), stacked, as new arrays."""
        raise NotImplementedError

    def slice(self, start: int, stop: int) -> Leaves:
        """The elements from `start` up to `stop`, stacked, as new arrays."""
        return self.gather(np.arange(start, stop))

    def row(self, index: int) -> Leaves:
        """One element."""
        return [leaf[0] for leaf in self.slice(index, index + 1)]


class Stage:
    """One pass over the elements of a node.

    Attributes:
        in_blocks: whether `block` serves.
        may_fail: whether `block` may raise, as a user's function does.
        progress: the attributes that say where the pass stands: ints, bools and lists.
    """

    in_blocks = False
    may_fail = True
    progress: tuple[str, ...] = ()

    @property
    def elements_passed(self) -> int | None:
        """How many elements were given or passed over, where that is known without counting."""
        return None

    def next(self) -> Leaves:
        """The next element; raises `StopIteration` behind the last."""
        raise NotImplementedError

    def block(self, size: int) -> Leaves | None:
        """The next `size` elements stacked, fewer at the end, `None` behind it."""
        raise NotImplementedError

    def skip(self, count: int) -> int:
        """Pass over up to `count` elements; how many there were."""
        for skipped in range(count):
            try:
                self.next()
            except StopIteration:
                return skipped
        return count

    def state(self) -> dict[str, Any]:
        """Where this pass stands: a nest of dicts and lists of ints and arrays."""
        values = {name: getattr(self, name) for name in self.progress}
        return {name: list(x) if isinstance(x, list) else x for name, x in values.items()}

    def load(self, state: dict[str, Any]) -> None:
        """Go where `state` says."""
        for name in self.progress:
            setattr(self, name, type(getattr(self, name))(state[name]))

    def close(self) -> None:
        """End threads that work for this pass."""


class Piped(Stage):
    """A stage over one other stage, whose state is that stage's and its own progress."""

    def __init__(self, source: Stage) -> None:
        self.source = source

    def state(self) -> dict[str, Any]:
        return {"source": self.source.state(), **super().state()}

    def load(self, state: dict[str, Any]) -> None:
        self.source.load(state["source"])
        super().load(state)

    def close(self) -> None:
        self.source.close()


class RowStage(Stage):
    """A pass over rows in their order."""

    progress = ("position",)

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.in_blocks, self.may_fail = rows.even, rows.may_fail
        self.position = 0

    @property
    def elements_passed(self) -> int | None:
        return self.position

    def next(self) -> Leaves:
        if self.position >= self.rows.count:
            raise StopIteration
        self.position += 1
        return self.rows.row(self.position - 1)

    def block(self, size: int) -> Leaves | None:
        start = self.position
        stop = min(start + size, self.rows.count)
        if start >= stop:
            return None
        self.position = stop
        return self.rows.slice(start, stop)

    def skip(self, count: int) -> int:
        skipped = min(count, self.rows.count - self.position)
        self.position += skipped
        return skipped


def usable_rows(node: DatasetOp) -> Rows | None:
    """The rows of a step, all of which can be computed; `None` where they are taken one by one."""
    rows = node.rows()
    return rows if rows is not None and rows.fill() else None


def block_size(leaves: Leaves) -> int:
    """How many elements are stacked in a block; a component may be `None` in all of them."""
    return next(len(leaf) for leaf in leaves if leaf is not None)


def join_blocks(blocks: list[Leaves]) -> Leaves:
    """Blocks one after the other as one block."""
    if len(blocks) == 1:
        return blocks[0]
    return [
        None if leaves[0] is None else np.concatenate(leaves)
        for leaves in zip(*blocks, strict=True)
    ]


def stack_elements(elements: list[Leaves], what: str) -> Leaves:
    """Elements as one block.

    Raises:
        InvalidArgumentError: their shapes or dtypes differ.
    """
    columns: list[Any] = []
    for i, leaves in enumerate(zip(*elements, strict=True)):
        if not isinstance(leaves[0], np.ndarray | np.generic):
            _refuse_data_sets(leaves, what)
            columns.append(None)
            continue
        shapes = sorted({np.shape(leaf) for leaf in leaves})
        if len(shapes) > 1:
            raise InvalidArgumentError(
                f"{what}: component {i} of the elements has different shapes, {shapes[0]} and "
                f"{shapes[1]}, so "
                "they can't be stacked. Use padded_batch, or give them one shape by map first."
            )
        columns.append(np.stack(leaves))
    return columns


def _refuse_data_sets(leaves: Any, step: str) -> None:
    """Raise unless all of some leaves that are no arrays are `None`."""
    if any(leaf is not None for leaf in leaves):
        raise InvalidArgumentError(
            f"{step}: the elements hold data sets, which can't be stacked; turn them into tensors "
            "by flat_map first"
        )


def structure_text(structure: Any, text: Any) -> str:
    """A nest of specs written as TensorFlow writes it, each leaf by `text`."""
    if isinstance(structure, dict):
        inner = ", ".join(f"{k}: {structure_text(v, text)}" for k, v in structure.items())
        return "{" + inner + "}"
    if isinstance(structure, tuple | list):
        parts = [structure_text(item, text) for item in structure]
        return "(" + ", ".join(parts) + ("," if len(parts) == 1 else "") + ")"
    return str(text(structure))


def batched_spec(structure: Any, size: int | None) -> Any:
    """The spec of elements stacked by `size`."""

    def batch_spec(spec: Any) -> Any:
        if not isinstance(spec, TensorSpec):
            return spec
        shape: Any = None if spec.rank is None else (size, *spec.shape)
        return TensorSpec(shape, spec.dtype)

    return nest.map_structure(batch_spec, structure)
