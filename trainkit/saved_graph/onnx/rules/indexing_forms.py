"""Parts of tensors: brackets, slices, and elements by their positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainkit.core.errors import UnimplementedError
from trainkit.saved_graph.onnx.graph_builder import GraphBuilder
from trainkit.saved_graph.onnx.graph_values import Value
from trainkit.saved_graph.onnx.rules.onnx_form import onnx_form
from trainkit.saved_graph.onnx.rules.shapes_forms import FAR, filled, spec_shape

LAST_STEP = ((None, None, None), -1)
"""The key of the last element of the second axis."""


class Brackets:
    """What stands in brackets, sorted by what ONNX does with it.

    Attributes:
        cuts: `(axis, start, end, step)` of the slices, axes of the tensor itself.
        dropped: the axes of single positions, which are cut to one element first.
        arrays: `(axis, positions)` of index arrays and of single positions that are values.
        added: where new axes stand in the result.
    """

    def __init__(self, key: Sequence[Any], parts: Sequence[Value], rank: int) -> None:
        self.cuts: list[tuple[int, Any, Any, int]] = []
        self.dropped: list[int] = []
        self.arrays: list[tuple[int, Value]] = []
        self.added: list[int] = []
        self._parts = parts
        axis = output_axis = 0
        axis_count = sum(self._width(item) for item in key)
        for item in key:
            if item is None:
                self.added.append(output_axis)
                output_axis += 1
            elif isinstance(item, str) and item == "...":
                axis += rank - axis_count
                output_axis += rank - axis_count
            else:
                output_axis += self._add(item, axis)
                axis += self._width(item)

    def _width(self, item: Any) -> int:
        """How many axes of the tensor an item is about: a mask has as many as it has itself."""
        if item is None or item == "...":
            return 0
        part = self._part(item) if isinstance(item, str) else None
        return part.rank if part is not None and part.dtype == "bool" else 1

    def _add(self, item: Any, axis: int) -> int:
        """Take note of an item, and give how many axes it leaves."""
        if isinstance(item, str):
            part = self._part(item)
            self.arrays.append((axis, part))
            return 1 if part.dtype == "bool" else part.rank
        if isinstance(item, tuple):
            self._slice(item, axis)
            return 1
        self.cuts.append((axis, item, FAR if item == -1 else item + 1, 1))
        self.dropped.append(axis)
        return 0

    def _slice(self, item: tuple[Any, Any, Any], axis: int) -> None:
        start, end, step = [self._part(x) if isinstance(x, str) else x for x in item]
        if isinstance(step, Value):
            raise UnimplementedError("the step of a slice is a tensor")
        step = 1 if step is None else int(step)
        if (start, end, step) == (None, None, 1):
            return
        start = (0 if step > 0 else FAR) if start is None else start
        end = (FAR if step > 0 else -FAR) if end is None else end
        self.cuts.append((axis, start, end, step))

    def check_side_by_side(self) -> None:
        """Refuse positions whose axes NumPy moves to the front: those with others between them.

        Raises:
            UnimplementedError: an index array and other positions are not side by side.
        """
        axes = sorted([*self.dropped, *[axis for axis, _ in self.arrays]])
        if not any(p.rank for _, p in self.arrays) or len(axes) < 2:
            return
        if self.added or axes[-1] - axes[0] >= len(axes):
            raise UnimplementedError(
                "an index array and other positions that are not side by side; index twice"
            )

    def _part(self, item: str) -> Value:
        return self._parts[int(item[1:])]


@onnx_form("get_item", "get_item_at")
def get_item(to: GraphBuilder, x: Value, *parts: Value, key: Sequence[Any]) -> Value:
    """`x[key]`, as the traced graph stores keys."""
    if x.last_step is not None and tuple(key[:2]) == LAST_STEP:
        x, key = x.last_step, (key[0], *key[2:])
    brackets = Brackets(key, parts, x.rank)
    if brackets.cuts:
        x = _cut(to, x, brackets.cuts)
    x = _pick(to, x, brackets)
    return to.unsqueeze(x, brackets.added) if brackets.added else x


def _cut(to: GraphBuilder, x: Value, cuts: Sequence[tuple[int, Any, Any, int]]) -> Value:
    axes = [axis for axis, _, _, _ in cuts]
    starts, ends = [to.vector([cut[i] for cut in cuts]) for i in (1, 2)]
    return to.slice(x, starts, ends, axes, [step for _, _, _, step in cuts])


def _compress(to: GraphBuilder, x: Value, brackets: Brackets) -> Value:
    """The elements where a mask is true: its axes become one, which is compressed."""
    if len(brackets.arrays) > 1:
        raise UnimplementedError("a mask beside another index that is a tensor; index twice")
    ((axis, mask),) = brackets.arrays
    if not mask.rank:
        raise UnimplementedError("a mask without an axis as an index")
    if mask.rank > 1:
        behind = range(axis + mask.rank, x.rank)
        sizes = [*(to.size_of(x, i) for i in range(axis)), -1, *(to.size_of(x, i) for i in behind)]
        shape = (*x.shape[:axis], None, *(x.shape[i] for i in behind))
        x, mask = to.reshape(x, sizes, shape), to.reshape(mask, [-1], (None,))
    result_shape = (*x.shape[:axis], None, *x.shape[axis + 1 :])
    y = to.op("Compress", x, mask, axis=axis, shape=result_shape)
    if not brackets.dropped:
        return y
    if any(i > axis for i in brackets.dropped):
        raise UnimplementedError("a mask in front of a single position; index twice")
    return to.squeeze(y, brackets.dropped)


def _pick(to: GraphBuilder, x: Value, brackets: Brackets) -> Value:
    """Elements at positions that are values, and axes of one element dropped."""
    if any(positions.dtype == "bool" for _, positions in brackets.arrays):
        return _compress(to, x, brackets)
    dropped = list(brackets.dropped)
    brackets.check_side_by_side()
    if len(brackets.arrays) > 1 and any(p.rank for _, p in brackets.arrays):
        return _at_many(to, x, brackets)
    for axis, positions in reversed(brackets.arrays):  # from behind: axes in front stay
        later = [d for d in dropped if d > axis]
        if later:
            x = to.squeeze(x, later)
            dropped = [d for d in dropped if d < axis]
        x = _gather(to, x, to.cast(positions, "int64"), axis)
    return to.squeeze(x, dropped) if dropped else x


def _gather(to: GraphBuilder, x: Value, positions: Value, axis: int) -> Value:
    shape = x.shape[:axis] + positions.shape + x.shape[axis + 1 :]
    return to.op("Gather", x, positions, axis=axis, shape=shape)


def _at_many(to: GraphBuilder, x: Value, brackets: Brackets) -> Value:
    """Elements at positions along several axes that stand side by side in front."""
    axes = [axis for axis, _ in brackets.arrays]
    if axes != list(range(len(axes))) or brackets.dropped or brackets.added:
        raise UnimplementedError(
            f"index arrays along the axes {axes}; ONNX takes those of the first axes alone"
        )
    positions = [to.cast(p, "int64") for _, p in brackets.arrays]
    total = positions[0]
    for other in positions[1:]:
        total = to.each("Add", total, other)
    zeros = to.each("Mul", total, 0)
    parts = [to.each("Add", p, zeros) for p in positions]
    columns = [to.unsqueeze(p, [p.rank]) for p in parts]
    indices = to.op("Concat", *columns, axis=-1, shape=(*total.shape, len(axes)))
    return to.op("GatherND", x, indices, shape=total.shape + x.shape[len(axes) :])


@onnx_form("slice")
def _slice(to: GraphBuilder, x: Value, *live: Value, start: Any, sizes: Any) -> Value:
    cuts = []
    for axis, (first, count) in enumerate(zip(filled(start, live), sizes, strict=True)):
        if isinstance(first, Value):
            ends = FAR if count == -1 else to.each("Add", to.cast(first, "int64"), int(count))
            cuts.append((axis, first, ends, 1))
        elif first or count != -1:
            cuts.append((axis, first, FAR if count == -1 else first + count, 1))
    return _cut(to, x, cuts) if cuts else x


@onnx_form("slice_update")
def _slice_update(
    to: GraphBuilder, x: Value, updates: Value, *live: Value, start: Sequence[Any]
) -> Value:
    starts = filled(start, live)
    axes = [
        i
        for i, (n, m) in enumerate(zip(x.shape, updates.shape, strict=True))
        if n is None or n != m
    ]
    return _replace(to, x, updates, [(i, starts[i]) for i in axes])


def _replace(
    to: GraphBuilder, x: Value, updates: Value, starts: Sequence[tuple[int, Any]]
) -> Value:
    """`x` with a block of other values: along the first axis of three parts, the middle anew."""
    if not starts:
        return updates
    (axis, start), *remaining_starts = starts
    first = to.vector([start])
    count = to.vector([to.size_of(updates, axis)])
    end = to.known(first.array + count.array) if first.is_known and count.is_known else to.op(
        "Add", first, count, shape=(1,)
    )  # fmt: skip
    middle = to.slice_axis(x, axis, first, end)
    parts = [
        to.slice_axis(x, axis, 0, first),
        _replace(to, middle, updates, remaining_starts),
        to.slice_axis(x, axis, end, FAR),
    ]
    return to.op("Concat", *parts, axis=axis, shape=x.shape)


@onnx_form("take")
def _take(to: GraphBuilder, x: Value, indices: Value, axis: int | None, wrap: bool = True) -> Value:
    if axis is None:
        x, axis = to.reshape(x, [-1], (None,)), 0
    return _gather(to, x, _positions(to, indices), axis % x.rank)


def _positions(to: GraphBuilder, indices: Any) -> Value:
    return to.cast(to.as_value(indices), "int64")


onnx_form("embedding_lookup")(lambda to, table, ids: _gather(to, table, _positions(to, ids), 0))


@onnx_form("take_along_axis")
def _take_along_axis(to: GraphBuilder, x: Value, indices: Value, axis: int) -> Value:
    axis %= x.rank
    others = [i for i in range(x.rank) if i != axis]
    if any(x.shape[i] != indices.shape[i] and 1 in (x.shape[i], indices.shape[i]) for i in others):
        dims = [to.size_of(indices if x.shape[i] == 1 else x, i) for i in range(x.rank)]
        sizes = [*dims[:axis], to.size_of(x, axis), *dims[axis + 1 :]]
        x = to.op("Expand", x, to.vector(sizes), shape=(None,) * x.rank)
        sizes = [*dims[:axis], to.size_of(indices, axis), *dims[axis + 1 :]]
        indices = to.op("Expand", indices, to.vector(sizes), shape=(None,) * x.rank)
    positions = to.cast(indices, "int64")
    return to.op("GatherElements", x, positions, axis=axis, shape=spec_shape(to))


@onnx_form("gather_nd")
def _gather_nd(to: GraphBuilder, x: Value, indices: Value) -> Value:
    return to.op("GatherND", x, to.cast(indices, "int64"), shape=spec_shape(to))


@onnx_form("positions_from_start")
def _positions_from_start(to: GraphBuilder, indices: Value, x: Value, **settings: Any) -> Value:
    return to.cast(indices, to.call.specs[0].dtype.name)  # ONNX has no checks


@onnx_form("cut_to_sizes")
def _cut_to_sizes(to: GraphBuilder, x: Value, sizes: Value, dims: Any) -> Value:
    starts = to.known([0] * x.rank, "int64")
    return to.slice(x, starts, to.cast(sizes, "int64"), list(range(x.rank)), [1] * x.rank)
