"""Shapes and the order of elements: reshaping, broadcasting, concat, split, pad, fill."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from trainkit.core import dtypes
from trainkit.core.errors import UnimplementedError
from trainkit.saved_graph.onnx.graph_builder import GraphBuilder
from trainkit.saved_graph.onnx.graph_values import Value, axis_in_first, to_first, to_last
from trainkit.saved_graph.onnx.rules.onnx_form import onnx_form

FAR = np.iinfo(np.int64).max
"""A position behind the end of any axis."""


def spec_shape(to: GraphBuilder) -> tuple[int | None, ...]:
    """The shape of the result, as far as it is known."""
    return tuple(to.call.specs[0].shape)


def filled(shape: Sequence[int | None], sizes: Sequence[Any]) -> list[Any]:
    """`shape` with `sizes` in place of what is `None`."""
    live = iter(sizes)
    return [next(live) if n is None else n for n in shape]


@onnx_form("reshape")
def _reshape(to: GraphBuilder, x: Value, shape: Sequence[int]) -> Value:
    if len(shape) > 2 and all(n == 1 for n in shape[1:-1]):  # alike with channels first
        sizes = to.known([shape[0], shape[-1], *shape[1:-1]], "int64")
        name = to.node("Reshape", [to.name_of(x), to.name_of(sizes)])
        return Value(to, spec_shape(to), x.dtype, channels_first=name)
    return to.reshape(x, list(shape), spec_shape(to))


@onnx_form("reshape_sized")
def _reshape_sized(to: GraphBuilder, x: Value, *sizes: Any, shape: Sequence[int | None]) -> Value:
    return to.reshape(x, filled(shape, sizes), spec_shape(to))


@onnx_form("reshape_like")
def _reshape_like(to: GraphBuilder, x: Value, like: Value) -> Value:
    return to.op("Reshape", x, to.shape_of(like), shape=like.shape)


onnx_form("broadcast_to")(lambda to, x, shape: expand(to, x, [1 if n == -1 else n for n in shape]))


@onnx_form("broadcast_to_sized")
def _broadcast_to_sized(
    to: GraphBuilder, x: Value, *sizes: Any, shape: Sequence[int | None]
) -> Value:
    live = [1 if n == -1 else n for n in shape]
    return expand(to, x, filled(live, sizes))


def expand(to: GraphBuilder, x: Value, sizes: Sequence[Any]) -> Value:
    """`x` broadcast to sizes that are ints or values; truth values go by way of int32."""
    if x.dtype == "bool":
        return to.cast(expand(to, to.cast(x, "int32"), sizes), "bool")
    return to.op("Expand", x, to.vector(sizes), shape=spec_shape(to))


@onnx_form("broadcast_like")
def _broadcast_like(to: GraphBuilder, x: Value, like: Value) -> Value:
    return to.op("Expand", x, to.shape_of(like), shape=like.shape)


@onnx_form("transpose")
def _transpose(to: GraphBuilder, x: Value, axes: Sequence[int] | None = None) -> Value:
    rank = x.rank
    order = list(range(rank))[::-1] if axes is None else [a % rank for a in axes]
    shape = tuple(x.shape[i] for i in order)
    if rank > 2 and x.channels_first is not None and order == to_first(rank):
        return Value(x.owner, shape, x.dtype, x.channels_first)
    if rank > 2 and not x.is_known and order == to_last(rank):
        return Value(x.owner, shape, x.dtype, channels_first=to.name_of(x))
    return to.transpose(x, order)


@onnx_form("expand_dims")
def _expand_dims(to: GraphBuilder, x: Value, axis: Any) -> Value:
    return to.unsqueeze(x, axis if isinstance(axis, tuple | list) else [axis])


@onnx_form("squeeze")
def _squeeze(to: GraphBuilder, x: Value, axis: Any) -> Value:
    if axis is None:
        axis = [i for i, n in enumerate(x.shape) if n == 1]
    return to.squeeze(x, axis if isinstance(axis, tuple | list) else [axis])


onnx_form("shape")(lambda to, x: to.cast(to.shape_of(x), to.call.specs[0].dtype.name))


@onnx_form("size")
def _size(to: GraphBuilder, x: Value) -> Value:
    if None not in x.shape:
        return to.known(int(np.prod(x.shape)), to.call.specs[0].dtype.name)
    return to.op("Size", x, dtype="int64")


@onnx_form("concatenate")
def concatenate(to: GraphBuilder, *values: Value, axis: int) -> Value:
    """Values one behind the other; those that have their channels in front stay so."""
    rank = values[0].rank
    sizes = [x.shape[axis] for x in values]
    total = None if None in sizes else sum(sizes)
    shape = list(values[0].shape)
    shape[axis % rank] = total
    if all(x.is_transposed for x in values):
        names = [to.name_with_channels_first(x) for x in values]
        name = to.node("Concat", names, axis=axis_in_first(axis, rank))
        return Value(to, tuple(shape), values[0].dtype, channels_first=name)
    return to.op("Concat", *values, axis=axis % rank, shape=tuple(shape))


@onnx_form("stack")
def _stack(to: GraphBuilder, *values: Value, axis: int) -> Value:
    axis %= values[0].rank + 1
    parts = [to.unsqueeze(x, [axis]) for x in values]
    return to.op("Concat", *parts, axis=axis, shape=spec_shape(to))


@onnx_form("unstack")
def _unstack(to: GraphBuilder, x: Value, axis: int, num: int) -> tuple[Value, ...]:
    axis %= x.rank
    shape = x.shape[:axis] + x.shape[axis + 1 :]
    return tuple(
        to.op("Gather", x, to.known(i, "int64"), axis=axis, shape=shape) for i in range(num)
    )


@onnx_form("split")
def _split(to: GraphBuilder, x: Value, parts: Any, axis: int) -> tuple[Value, ...]:
    axis %= x.rank
    size = x.shape[axis]
    if size is None and not isinstance(parts, int):
        bounds = [0, *parts, FAR]
        return tuple(to.slice_axis(x, axis, a, b) for a, b in itertools.pairwise(bounds))
    if size is None:
        count, sizes = int(parts), None
        attributes: dict[str, Any] = {"num_outputs": count}
    else:
        bounds = list(range(0, size + 1, size // parts)) if isinstance(parts, int) else [
            0, *[min(p % size if p < 0 else p, size) for p in parts], size
        ]  # fmt: skip
        sizes = [max(b - a, 0) for a, b in itertools.pairwise(bounds)]
        count, attributes = len(sizes), {}
    specs = to.call.specs
    return tuple(
        to.ops(
            "Split",
            x,
            sizes,
            count=count,
            shapes=[s.shape for s in specs],
            dtypes=[x.dtype] * count,
            axis=axis,
            **attributes,
        )
    )


@onnx_form("tile")
def _tile(to: GraphBuilder, x: Value, repeats: Any) -> Value:
    counts = list(repeats) if isinstance(repeats, tuple | list) else [repeats]
    if len(counts) > x.rank:
        x = to.unsqueeze(x, list(range(len(counts) - x.rank)))
    counts = [1] * (x.rank - len(counts)) + counts
    return to.op("Tile", x, counts, shape=spec_shape(to))


@onnx_form("tile_sized")
def _tile_sized(to: GraphBuilder, x: Value, *sizes: Any, **settings: Any) -> Value:
    (shape,) = settings.values()
    counts = filled(shape, sizes)
    if len(counts) > x.rank:
        x = to.unsqueeze(x, list(range(len(counts) - x.rank)))
    counts = [1] * (x.rank - len(counts)) + counts
    return to.op("Tile", x, to.vector(counts), shape=spec_shape(to))


@onnx_form("repeat")
def _repeat(to: GraphBuilder, x: Value, repeats: Any, axis: int | None) -> Value:
    if axis is None:
        x, axis = to.reshape(x, [-1], (None,)), 0
    axis %= x.rank
    size = x.shape[axis]
    if size is not None:
        return gather_known(to, x, np.repeat(np.arange(size), repeats), axis)
    if not isinstance(repeats, int):
        raise UnimplementedError("elements of an axis of unknown size are repeated unevenly")
    sizes = [to.size_of(x, i) for i in range(x.rank)]
    counts = [1] * (x.rank + 1)
    counts[axis + 1] = repeats
    column = to.unsqueeze(x, [axis + 1])
    tiled = to.op("Tile", column, counts, shape=(None,) * column.rank)
    return to.reshape(tiled, [*sizes[:axis], -1, *sizes[axis + 1 :]], spec_shape(to))


def gather_known(to: GraphBuilder, x: Value, positions: Any, axis: int) -> Value:
    """Elements at known positions of an axis; channels in front stay there."""
    shape = (*x.shape[:axis], len(positions), *x.shape[axis + 1 :])
    indices = to.known(positions, "int64")
    if x.is_transposed:
        names = [to.name_with_channels_first(x), to.name_of(indices)]
        name = to.node("Gather", names, axis=axis_in_first(axis, x.rank))
        return Value(to, shape, x.dtype, channels_first=name)
    return to.op("Gather", x, indices, axis=axis, shape=shape)


@onnx_form("flip")
def _flip(to: GraphBuilder, x: Value, axis: Any) -> Value:
    axes = range(x.rank) if axis is None else axis if isinstance(axis, tuple | list) else [axis]
    y = x
    for each in axes:
        y = reversed_axis(to, y, each)
    if x.source is not None and [a % x.rank for a in axes] == [1]:  # of a layer that goes backwards
        (inputs, kernel, bias), activation = x.source
        if inputs.rank == x.rank:
            y.source = (reversed_axis(to, inputs, 1), kernel, bias), activation
    return y


def reversed_axis(to: GraphBuilder, x: Value, axis: int) -> Value:
    """`x` with the elements of an axis in the opposite order."""
    return to.op("Slice", x, [-1], [-FAR], [axis % x.rank], [-1], shape=x.shape)


@onnx_form("roll")
def _roll(to: GraphBuilder, x: Value, shift: Any, axis: Any) -> Value:
    if axis is None:
        raise UnimplementedError("roll without axes")
    shifts = shift if isinstance(shift, tuple | list) else [shift]
    axes = axis if isinstance(axis, tuple | list) else [axis]
    for count, axis in zip(shifts, axes, strict=True):
        size = x.shape[axis]
        if size is None:
            raise UnimplementedError("an axis of unknown size is rolled")
        x = gather_known(to, x, np.roll(np.arange(size), count), axis % x.rank)
    return x


@onnx_form("pad")
def _pad(to: GraphBuilder, x: Value, pad_width: Any, mode: str, value: Any) -> Value:
    if mode not in ("constant", "reflect", "edge"):
        return _pad_by_positions(to, x, pad_width, mode)
    if mode == "constant" and x.dtype == "bool":
        numbers = _pad(to, to.cast(x, "int32"), pad_width, mode, int(value or 0))
        return to.cast(numbers, "bool")
    pairs = [tuple(pair) for pair in pad_width]
    shape = tuple(
        None if n is None else n + a + b for n, (a, b) in zip(x.shape, pairs, strict=True)
    )
    fill = to.known(value or 0, x.dtype) if mode == "constant" else None
    if x.is_transposed:
        pairs = [pairs[0], pairs[-1], *pairs[1:-1]]
    pads = to.known([a for a, _ in pairs] + [b for _, b in pairs], "int64")
    names = [to.name_of(pads), *([] if fill is None else [to.name_of(fill)])]
    if x.is_transposed:
        name = to.node("Pad", [to.name_with_channels_first(x), *names], mode=mode)
        return Value(to, shape, x.dtype, channels_first=name)
    return to.op("Pad", x, pads, fill, mode=mode, shape=shape)


def _pad_by_positions(to: GraphBuilder, x: Value, pad_width: Any, mode: Any) -> Value:
    for axis, pair in enumerate(pad_width):
        if any(pair):
            if x.shape[axis] is None:
                raise UnimplementedError(f"padding {mode!r} of an axis of unknown size")
            positions = np.pad(np.arange(x.shape[axis]), tuple(pair), mode)
            x = gather_known(to, x, positions, axis)
    return x


# ---------------------------------------------------------------------- filling


def _result_dtype(to: GraphBuilder) -> Any:
    return to.call.specs[0].dtype


def filled_like(to: GraphBuilder, shape: Value, number: Any) -> Value:
    """A tensor of one number, of the dtype of the result."""
    name = _result_dtype(to).name
    if name == "bool":
        numbers = to.op("Expand", to.known(int(bool(number)), "int32"), shape, shape=spec_shape(to))
        return to.cast(numbers, "bool")
    return to.op("Expand", to.known(number, name), shape, shape=spec_shape(to))


onnx_form("zeros_like")(lambda to, x, dtype=None: filled_like(to, to.shape_of(x), 0))
onnx_form("ones_like")(lambda to, x, dtype=None: filled_like(to, to.shape_of(x), 1))


@onnx_form("full_like")
def _full_like(to: GraphBuilder, x: Value, value: Any, dtype: Any = None) -> Value:
    if not isinstance(value, Value):
        return filled_like(to, to.shape_of(x), value)
    return to.op("Expand", to.cast(value, _result_dtype(to).name), to.shape_of(x),
                 shape=spec_shape(to))  # fmt: skip


@onnx_form("fill")
def _fill(to: GraphBuilder, value: Any, shape: Sequence[int]) -> Value:
    value = to.as_value(value, to.known(0, _result_dtype(to).name))
    return to.op("Expand", value, list(shape), shape=spec_shape(to))


@onnx_form("arange")
def _arange(to: GraphBuilder, start: Any, stop: Any, step: Any, dtype: Any = None) -> Value:
    name = _result_dtype(to).name
    like = to.known(0, name)
    if not any(isinstance(x, Value) and not x.is_known for x in (start, stop, step)):
        bounds = [x.array if isinstance(x, Value) else x for x in (start, stop, step)]
        return to.known(np.arange(*bounds, dtype=dtypes.as_dtype(name).dtype))
    bounds = [to.cast(to.as_value(x, like), name) for x in (start, stop, step)]
    return to.op("Range", *bounds, shape=(None,), dtype=name)


@onnx_form("one_hot")
def _one_hot(to: GraphBuilder, x: Value, num_classes: int, axis: int, dtype: Any) -> Value:
    axis %= x.rank + 1
    classes = [1] * (x.rank + 1)
    classes[axis] = num_classes
    indices = to.unsqueeze(to.cast(x, "int64"), [axis])
    row = to.known(np.arange(num_classes).reshape(classes), "int64")
    return to.each("Equal", indices, row, dtype="bool")


@onnx_form("tril")
def _tril(to: GraphBuilder, x: Value, k: int = 0) -> Value:
    return to.op("Trilu", x, to.known(k, "int64"), upper=0, shape=x.shape)


@onnx_form("triu")
def _triu(to: GraphBuilder, x: Value, k: int = 0) -> Value:
    return to.op("Trilu", x, to.known(k, "int64"), upper=1, shape=x.shape)
