"""Elements to batches and back: batch, padded_batch, unbatch, window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.core import nest
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor_spec import TensorSpec
from trainkit.data import structure
from trainkit.data.node import (
    INFINITE,
    UNKNOWN,
    DatasetOp,
    Leaves,
    Piped,
    Rows,
    Stage,
    batched_spec,
    block_size,
    stack_elements,
)
from trainkit.data.transformations.mapping import MapNode


class BatchNode(DatasetOp):
    """Elements stacked in groups."""

    title = "Batch"

    def __init__(self, source: DatasetOp, size: int, drop_remainder: bool) -> None:
        if size < 1:
            raise InvalidArgumentError(f"batch: batch_size must be at least 1, got {size}")
        self.source, self.size, self.drop = source, size, drop_remainder

    def spec(self) -> Any:
        return batched_spec(self.source.spec(), self.size if self.drop else None)

    def template(self) -> Any:
        return self.source.template()

    def count(self) -> int:
        source_count = self.source.count()
        if source_count in (INFINITE, UNKNOWN):
            return source_count
        return source_count // self.size if self.drop else -(-source_count // self.size)

    def rows(self) -> Rows | None:
        rows = self.source.rows()
        return rows and BatchRows(rows, self.size, self.count())

    def stage(self) -> Stage:
        stage = BatchStage(self.source.stage(), self.size, self.drop)
        stage.fails_whole = isinstance(self.source, MapNode)
        return stage


class BatchRows(Rows):
    """Groups of rows by their number; a short group at the end can't be stacked with others."""

    def __init__(self, rows: Rows, size: int, count: int) -> None:
        self.rows, self.size, self.count = rows, size, count
        self.even = rows.even and count * size <= rows.count

    def fill(self) -> bool:
        return self.rows.fill()

    def gather(self, indices: Any) -> Leaves:
        return stack_elements([self.row(int(i)) for i in indices], "batch")

    def row(self, index: int) -> Leaves:
        start = index * self.size
        return self.rows.slice(start, min(start + self.size, self.rows.count))


class BatchStage(Piped):
    """Takes the elements of a batch at once where its source can give them so.

    Attributes:
        fails_whole: whether an element that fails takes with it what comes after it in its batch,
            as in TensorFlow, where `map` and `batch` become one step; else the next batch begins
            there.
    """

    fails_whole = False

    def __init__(self, source: Stage, size: int, drop: bool) -> None:
        super().__init__(source)
        self.size, self.drop = size, drop
        self.give: Callable[[], Leaves] = self._stacked
        if source.in_blocks:
            self.give = self._fallible_block if source.may_fail else self._block

    def next(self) -> Leaves:
        leaves = self.give()
        if self.drop and block_size(leaves) < self.size:
            raise StopIteration
        return leaves

    def _block(self) -> Leaves:
        leaves = self.source.block(self.size)
        if leaves is None:
            raise StopIteration
        return leaves

    def _fallible_block(self) -> Leaves:
        before = self.source.state()
        try:
            return self._block()
        except StopIteration:
            raise
        except Exception:  # one by one it is known which element fails, and what comes after it
            self.source.load(before)
            self.give = self._stacked
            return self._stacked()

    def _elements(self) -> list[Leaves]:
        """The next elements, as many as a batch has, or as are left."""
        elements: list[Leaves] = []
        failure: Exception | None = None
        for _ in range(self.size):
            try:
                elements.append(self.source.next())
            except StopIteration:
                break
            except Exception as error:
                failure = failure or error
                if not self.fails_whole:
                    break
        if failure is not None:
            raise failure
        if not elements:
            raise StopIteration
        return elements

    def _stacked(self) -> Leaves:
        return stack_elements(self._elements(), "batch")

    def skip(self, count: int) -> int:
        passed = self.source.skip(count * self.size)
        return passed // self.size if self.drop else -(-passed // self.size)


class PaddedBatchNode(BatchNode):
    """Elements stacked in groups, each padded at the end to a common shape.

    Args:
        source: gives the elements.
        size: how many make a batch.
        shapes: nest of target shapes, `None` or -1 for the longest of the batch; `None` for all so.
        values: nest of values to fill up with; one number for all.
        drop_remainder: leave out a short batch at the end.
    """

    title = "PaddedBatch"

    def __init__(
        self, source: DatasetOp, size: int, shapes: Any, values: Any, drop_remainder: bool
    ) -> None:
        super().__init__(source, size, drop_remainder)
        self.shapes, self.values = shapes, values
        self.settings: list[tuple[Any, Any]] | None = None

    def spec(self) -> Any:
        size = self.size if self.drop else None
        specs = nest.flatten(self.source.spec())
        targets = self._targets(len(specs))
        padded_specs = []
        for spec, shape in zip(specs, targets, strict=True):
            dims: Any = (
                spec.shape if shape is None else [None if n in (None, -1) else n for n in shape]
            )
            has_rank = shape is not None or spec.rank is not None
            shape_of_batch: Any = (size, *dims) if has_rank else None
            padded_specs.append(TensorSpec(shape_of_batch, spec.dtype))
        return nest.pack(self.source.spec(), padded_specs)

    def rows(self) -> Rows | None:
        return None

    def _targets(self, count: int) -> list[Any]:
        if self.shapes is None:
            return [None] * count
        flat = nest.flatten(self.shapes, _above_shapes)
        if len(flat) != count:
            raise InvalidArgumentError(
                f"padded_batch: padded_shapes has {len(flat)} shapes, the elements have {count} "
                f"components"
            )
        return [(shape,) if isinstance(shape, int) else shape for shape in flat]

    def fills(self, count: int) -> list[Any]:
        """The value to fill up each component with."""
        values = nest.flatten(self.values)
        values = values * count if len(values) == 1 else values
        if len(values) != count:
            raise InvalidArgumentError(
                f"padded_batch: {len(values)} padding_values for elements of {count} components"
            )
        return values

    def stage(self) -> Stage:
        return PaddedBatchStage(self)


def _above_shapes(x: Any) -> nest.Container | None:
    """How a nest of shapes is taken apart: a sequence of sizes is one shape."""
    is_sequence = isinstance(x, list | tuple)
    if is_sequence and not any(isinstance(item, list | tuple | dict) for item in x):
        return None
    return nest.container(x)


class PaddedBatchStage(BatchStage):
    """Pads and stacks."""

    def __init__(self, node: PaddedBatchNode) -> None:
        super().__init__(node.source.stage(), node.size, node.drop)
        self.node = node
        self.give = self._pad

    def _pad(self) -> Leaves:
        columns = list(zip(*self._elements(), strict=True))
        targets = self.node._targets(len(columns))
        fills = self.node.fills(len(columns))
        return [
            _padded_stack(leaves, shape, fill)
            for leaves, shape, fill in zip(columns, targets, fills, strict=True)
        ]


def _padded_stack(leaves: tuple[Any, ...], shape: Any, fill: Any) -> Any:
    arrays = [np.asarray(leaf) for leaf in leaves]
    longest = [max(sizes) for sizes in zip(*(a.shape for a in arrays), strict=True)]
    if shape is not None:
        if len(shape) != len(longest):
            raise InvalidArgumentError(
                f"padded_batch: padded shape {tuple(shape)} for components of shape "
                f"{arrays[0].shape}"
            )
        for n, have in zip(shape, longest, strict=True):
            if n not in (None, -1) and n < have:
                raise InvalidArgumentError(
                    f"padded_batch: an element has size {have} where the padded shape says {n}"
                )
        longest = [m if n in (None, -1) else n for n, m in zip(shape, longest, strict=True)]
    out = np.full((len(arrays), *longest), _filler(fill, arrays[0].dtype), arrays[0].dtype)
    for i, array in enumerate(arrays):
        index: Any = (i, *(slice(n) for n in array.shape))
        out[index] = array if array.ndim else array[()]
    return out


def _filler(value: Any, dtype: Any) -> Any:
    """The value to fill up with: zeros, or empty texts, if none is given.

    Raises:
        TypeError: it is of another kind than the component.
    """
    text = dtype.kind == "O"
    if value is None:
        return b"" if text else 0
    value = structure.leaf_array(value)
    if (value.dtype == object) != text or (
        not text and not np.can_cast(value.dtype, dtype, "same_kind")
    ):
        raise TypeError(f"padded_batch: the padding value {value} for components of dtype {dtype}")
    return value[()]


class UnbatchNode(DatasetOp):
    """The rows of each element as elements."""

    title = "Unbatch"

    def __init__(self, source: DatasetOp) -> None:
        self.source = source

    def spec(self) -> Any:
        return structure.rows_spec(self.source.spec())

    def template(self) -> Any:
        return self.source.template()

    def stage(self) -> Stage:
        return UnbatchStage(self.source.stage())


class UnbatchStage(Piped):
    """Holds one element of its source and gives out its rows."""

    def __init__(self, source: Stage) -> None:
        super().__init__(source)
        self.before = source.state()
        self.held: Leaves | None = None
        self.used = 0

    def next(self) -> Leaves:
        while self.held is None or self.used >= len(self.held[0]):
            before = self.source.state()
            self.held, self.used = None, 0
            batch = self.source.next()
            structure.same_count(batch, "unbatch")
            self.before, self.held = before, batch
        self.used += 1
        return [structure.row_of(leaf, self.used - 1) for leaf in self.held]

    def state(self) -> dict[str, Any]:
        if self.held is None:
            return {**super().state(), "used": 0}
        return {"source": self.before, "used": self.used}

    def load(self, state: dict[str, Any]) -> None:
        super().load(state)
        self.held, self.used = None, 0
        self.skip(int(state["used"]))


class WindowNode(DatasetOp):
    """Groups of elements as data sets of their own.

    Args:
        source: gives the elements.
        size, shift, stride: of a window: how many, from one's start to the next one's, and between
            its elements.
        drop_remainder: leave out windows that are short.
        make: turns the number of a component and a list of elements into a data set.
        like: makes a data set of a spec, to try functions on.
    """

    title = "Window"

    def __init__(
        self,
        source: DatasetOp,
        size: int,
        shift: int | None,
        stride: int,
        drop_remainder: bool,
        make: Callable[[Any, list[Leaves]], Any],
        like: Callable[[Any], Any],
    ) -> None:
        shift = size if shift is None else shift
        if min(size, shift, stride) < 1:
            raise InvalidArgumentError(
                f"window: size, shift and stride must be at least 1, got {size}, {shift}, {stride}"
            )
        self.source, self.size, self.shift, self.stride = source, size, shift, stride
        self.drop, self.make, self.like = drop_remainder, make, like

    def spec(self) -> Any:
        return nest.map_structure(
            lambda spec: structure.dataset_spec(spec, lambda: self.like(spec)), self.source.spec()
        )

    def template(self) -> Any:
        return self.source.template()

    def count(self) -> int:
        source_count = self.source.count()
        if source_count < 0:
            return source_count
        span = (self.size - 1) * self.stride + 1
        if self.drop:
            return max(0, (source_count - span) // self.shift + 1)
        return -(-source_count // self.shift)

    def stage(self) -> Stage:
        return WindowStage(self)


class WindowStage(Piped):
    """Keeps the elements that later windows need."""

    def __init__(self, node: WindowNode) -> None:
        super().__init__(node.source.stage())
        self.node = node
        self.buffer: list[Any] = []  # elements, and errors in place of those that failed
        self.ended = False

    def next(self) -> Leaves:
        node = self.node
        span = (node.size - 1) * node.stride + 1
        while not self.ended and len(self.buffer) < max(span, node.shift):
            try:
                self.buffer.append(self.source.next())
            except StopIteration:
                self.ended = True
            except Exception as error:
                self.buffer.append(error)
        elements = self.buffer[: span : node.stride]
        if not elements or (node.drop and len(elements) < node.size):
            raise StopIteration
        del self.buffer[: node.shift]
        for element in elements:
            if isinstance(element, Exception):
                raise element
        return [node.make(i, elements) for i in range(len(elements[0]))]

    def state(self) -> dict[str, Any]:
        buffer = [[] if isinstance(b, Exception) else list(b) for b in self.buffer]
        return {**super().state(), "buffer": buffer, "ended": self.ended}

    def load(self, state: dict[str, Any]) -> None:
        super().load(state)
        failed = InvalidArgumentError("window: an element of this window could not be made")
        self.buffer = [list(b) or failed for b in state["buffer"]]
        self.ended = bool(state["ended"])
