"""Operators that move, join, cut and repeat elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core import dtypes
from trainkit.core.errors import InvalidArgumentError, UnimplementedError
from trainkit.core.tensor import Tensor
from trainkit.onnx.imported_values import (
    ChannelsLast,
    axes_of,
    axis_of,
    channels_last,
    dims,
    first_order,
    known_array,
    live_sizes,
    numbers,
    rank,
    sizes,
    tensor,
)
from trainkit.onnx.operator_rules import NodeCall, check_count, onnx_rule
from trainkit.onnx.rules.slicing import slice_key
from trainkit.onnx.tensor_reading import dtype_name


@onnx_rule("Constant")
def _constant(call: NodeCall) -> Any:
    for name, dtype in (("value_float", "float32"), ("value_floats", "float32"),
                        ("value_int", "int64"), ("value_ints", "int64")):  # fmt: skip
        if name in call.record.attributes:
            return np.array(call.record.attributes[name], dtype)
    raise UnimplementedError(
        "the constant is of text or sparse, which is not supported; tensors and numbers are"
    )


@onnx_rule("Reshape")
def _reshape(call: NodeCall, x: Any, shape: Any) -> Tensor:
    old, new = live_sizes(x), list(sizes(shape))
    if not call.flag("allowzero"):
        for i, n in enumerate(new):
            if isinstance(n, int) and n == 0:
                if i >= len(old):
                    raise InvalidArgumentError(f"size {i} of {new} is 0, and x has {len(old)} axes")
                new[i] = old[i]
    if all(isinstance(n, Tensor) for n in new) and len(new) == 1:
        new = [-1]
    return ops.reshape(tensor(x), tuple(new))


@onnx_rule("Flatten")
def _flatten(call: NodeCall, x: Any) -> Tensor:
    axis = call.int("axis", 1)
    live, fixed = live_sizes(x), dims(x)
    axis = axis + len(live) if axis < 0 else axis
    parts: list[Any] = []
    for cut in (slice(None, axis), slice(axis, None)):
        known_sizes = [n for n in fixed[cut] if n is not None]
        if len(known_sizes) == len(fixed[cut]):
            parts.append(math.prod(known_sizes))
        else:
            parts.append(live[cut][0] if len(fixed[cut]) == 1 else -1)
    if all(isinstance(n, int) and n < 0 for n in parts):
        total: Any = 1
        for n in live[axis:]:
            total = total * n
        parts[1] = total
    return ops.reshape(tensor(x), tuple(parts))


@onnx_rule("Transpose")
def _transpose(call: NodeCall, x: Any) -> Any:
    count = rank(x)
    perm = axes_of(call.list("perm", tuple(reversed(range(count)))), count)
    if isinstance(x, ChannelsLast):
        if perm == (0, *range(2, count), 1):
            return x.tensor
        order = first_order(count)
        return ops.transpose(x.tensor, tuple(order[a] for a in perm))
    if count > 2 and perm == first_order(count):
        return ChannelsLast(tensor(x))
    return ops.transpose(tensor(x), perm)


@onnx_rule("Squeeze")
def _squeeze(call: NodeCall, x: Any, axes: Any = None) -> Tensor:
    squeezed_axes = call.axes(axes)
    if squeezed_axes is None:
        return ops.squeeze(tensor(x))
    return ops.squeeze(tensor(x), axes_of(squeezed_axes, rank(x))) if squeezed_axes else tensor(x)


@onnx_rule("Unsqueeze")
def _unsqueeze(call: NodeCall, x: Any, axes: Any = None) -> Tensor:
    new_axes = call.axes(axes) or ()
    y = tensor(x)
    for axis in sorted(axes_of(new_axes, rank(x) + len(new_axes))):
        y = ops.expand_dims(y, axis)
    return y


@onnx_rule("Concat")
def _concat(call: NodeCall, *xs: Any) -> Any:
    count = rank(xs[0])
    axis = axis_of(call.int("axis"), count)
    if count > 2 and all(isinstance(x, ChannelsLast) for x in xs):
        return ChannelsLast(ops.concatenate([x.tensor for x in xs], axis=first_order(count)[axis]))
    return ops.concatenate([tensor(x) for x in xs], axis=axis)


@onnx_rule("Split")
def _split(call: NodeCall, x: Any, parts: Any = None) -> tuple[Any, ...]:
    count = rank(x)
    axis = axis_of(call.int("axis", 0), count)
    lengths = call.list("split", None) if parts is None else numbers(parts, "the sizes of a split")
    size = dims(x)[axis]
    if lengths is None:
        pieces = call.int("num_outputs", call.output_count)
        if size is None:
            raise UnimplementedError("the size of the axis that is split is not known")
        each = -(-size // pieces)
        lengths = [min(each, max(size - i * each, 0)) for i in range(pieces)]
    is_last = isinstance(x, ChannelsLast)
    y = x.tensor if is_last else tensor(x)
    where = first_order(count)[axis] if is_last else axis
    cut = ops.split(y, [int(n) for n in np.cumsum(lengths)[:-1]], axis=where)
    return tuple(ChannelsLast(part) for part in cut) if is_last else tuple(cut)


@onnx_rule("Slice")
def _slice(call: NodeCall, x: Any, *bounds: Any) -> Any:
    if all(b is None or known_array(b) is not None for b in bounds):
        key = slice_key(call, dims(x), bounds)
        if isinstance(x, ChannelsLast):
            return ChannelsLast(x.tensor[(key[0], *key[2:], key[1])])
        return tensor(x)[key]
    starts, ends, axes, steps = [*bounds, None, None][:4]
    steps = None if steps is None else numbers(steps, "a step of a slice")
    first, last = sizes(starts), sizes(ends)
    sliced_axes = range(len(first)) if axes is None else numbers(axes, "an axis of a slice")
    live = [slice(None)] * rank(x)
    for i, axis in enumerate(sliced_axes):
        step = 1 if steps is None else steps[i]
        live[axis_of(axis, rank(x))] = slice(_bound(first[i]), _bound(last[i]), step)
    return tensor(x)[tuple(live)]


def _bound(n: Any) -> Any:
    return max(-(1 << 30), min(n, 1 << 30)) if isinstance(n, int) else ops.cast(n, "int32")


@onnx_rule("Expand")
def _expand(call: NodeCall, x: Any, shape: Any) -> Tensor:
    old, new = live_sizes(x), list(sizes(shape))
    fixed = dims(x)
    count = max(len(old), len(new))
    old, fixed = (1,) * (count - len(old)) + tuple(old), (1,) * (count - len(fixed)) + tuple(fixed)
    new = [1] * (count - len(new)) + new
    target = []
    for size, now, live in zip(new, fixed, old, strict=True):
        if isinstance(size, int):
            target.append(live if size == 1 else size)
        else:  # known when the graph runs: a 1 there keeps what x has
            target.append(
                size
                if now == 1
                else live
                if now is not None
                else ops.maximum(ops.cast(size, "int32"), ops.cast(live, "int32"))
            )
    return ops.broadcast_to(tensor(x), tuple(check_count(target)))


@onnx_rule("Tile")
def _tile(call: NodeCall, x: Any, repeats: Any) -> Tensor:
    times = sizes(repeats)
    fixed = [n * t if isinstance(n, int) and isinstance(t, int) else 1
             for n, t in zip(dims(x), times, strict=True)]  # fmt: skip
    check_count(fixed)
    return ops.tile(tensor(x), times)


@onnx_rule("ConstantOfShape")
def _constant_of_shape(call: NodeCall, shape: Any) -> Tensor:
    value = call.array("value", np.zeros(1, np.float32))
    if value.size != 1:
        raise InvalidArgumentError(f"the value has {value.size} elements, and not one")
    live = tuple(check_count(sizes(shape)))
    return ops.full(live, value.ravel()[0], dtype=value.dtype)


@onnx_rule("Range")
def _range(call: NodeCall, start: Any, stop: Any, step: Any) -> Tensor:
    parts = [known_array(x) for x in (start, stop, step)]
    if all(p is not None for p in parts):
        a, b, s = (p.ravel()[0] for p in parts)
        if not s:
            raise InvalidArgumentError("the step of a range is 0")
        check_count([max(0, int(np.ceil((b - a) / s)))])
        return ops.arange(a, b, s, dtype=dtypes.as_dtype(parts[0].dtype))
    x = tensor(start)
    ends = [_as_scalar(v) for v in (start, stop, step)]
    return ops.cast(ops.arange(*ends), x.dtype)


def _as_scalar(value: Any) -> Any:
    array = known_array(value)
    return array.ravel()[0].item() if array is not None else ops.reshape(tensor(value), ())


@onnx_rule("OneHot")
def _one_hot(call: NodeCall, indices: Any, depth: Any, values: Any) -> Tensor:
    (size,) = numbers(depth, "the depth")
    check_count([size, *(n for n in dims(indices) if n is not None)])
    x, ends = tensor(indices), tensor(values)
    x = ops.cast(x, "int64")
    x = ops.where(ops.less(x, 0), x + size, x)
    hot = ops.one_hot(x, size, axis=call.int("axis", -1), dtype="bool")
    return ops.where(hot, ends[1], ends[0])


@onnx_rule("EyeLike")
def _eye_like(call: NodeCall, x: Any) -> Tensor:
    number = call.int("dtype", None)
    name = tensor(x).dtype.name if number is None else dtype_name(number, "the result")
    rows, columns = dims(x)
    if rows is None or columns is None:
        raise UnimplementedError("the size of the matrix is not known")
    return ops.eye(rows, columns, k=call.int("k", 0), dtype=name)


@onnx_rule("Trilu")
def _trilu(call: NodeCall, x: Any, k: Any = None) -> Tensor:
    (shift,) = (0,) if k is None else numbers(k, "the diagonal")
    return (ops.triu if call.flag("upper", True) else ops.tril)(tensor(x), k=shift)


_PAD_MODES = ("constant", "reflect", "edge", "wrap")


@onnx_rule("Pad")
def _pad(call: NodeCall, x: Any, pads: Any = None, value: Any = None, axes: Any = None) -> Any:
    mode = call.one_of("mode", "constant", _PAD_MODES)
    count = rank(x)
    if call.version < 11:
        ends, fill = call.list("pads"), call.float("value", 0.0)
    else:
        ends = sizes(pads)
        fill = 0.0 if value is None else _as_scalar(value)
    padded_axes = range(count) if axes is None else axes_of(numbers(axes, "the axes"), count)
    pairs = [(0, 0)] * count
    for i, axis in enumerate(padded_axes):
        pairs[axis] = ends[i], ends[i + len(ends) // 2]
    if not all(isinstance(n, int) for n in ends):
        return _pad_later(tensor(x), pairs, mode, fill)
    check_count([n + sum(max(p, 0) for p in pair) for n, pair in zip(dims(x), pairs, strict=True)
                 if n is not None])  # fmt: skip
    is_last = isinstance(x, ChannelsLast)
    y = x.tensor if is_last else tensor(x)
    if is_last:
        pairs = [pairs[0], *pairs[2:], pairs[1]]
    y = _crop(y, pairs)
    pairs = [(max(a, 0), max(b, 0)) for a, b in pairs]
    if any(pair != (0, 0) for pair in pairs):
        y = _padded(y, pairs, mode, fill)
    return ChannelsLast(y) if is_last else y


def _pad_later(y: Tensor, pairs: Any, mode: str, fill: Any) -> Tensor:
    """Padding by sizes that are known when the graph runs; they are not negative."""
    if mode != "constant":
        raise UnimplementedError(f"{mode!r} padding needs sizes that are known")
    value = ops.cast(fill, y.dtype)
    for axis, ends in enumerate(pairs):
        blocks = []
        for n in ends:
            shape = list(ops.shape(y))
            shape[axis] = n if isinstance(n, int) else ops.cast(n, "int32")
            blocks.append(None if isinstance(n, int) and not n else ops.broadcast_to(value, shape))
        parts = [part for part in (blocks[0], y, blocks[1]) if part is not None]
        y = ops.concatenate(parts, axis=axis) if len(parts) > 1 else y
    return y


def _crop(y: Tensor, pairs: Any) -> Tensor:
    """A negative padding takes elements away."""
    if min(min(pair) for pair in pairs) >= 0:
        return y
    return y[tuple(slice(max(-a, 0), b if b < 0 else None) for a, b in pairs)]


def _padded(y: Tensor, pairs: Any, mode: str, fill: Any) -> Tensor:
    if mode == "constant":
        return ops.pad(y, pairs, "constant", ops.cast(fill, y.dtype))
    if mode == "reflect":
        return ops.pad(y, pairs, "reflect")
    for axis, (before, after) in enumerate(pairs):
        size = y.shape[axis]
        if not (before or after):
            continue
        if size is None:
            raise UnimplementedError(f"{mode!r} padding needs a known size of axis {axis}")
        indices = np.arange(-before, size + after)
        indices = np.clip(indices, 0, size - 1) if mode == "edge" else indices % size
        y = ops.take(y, indices, axis=axis)
    return y


@onnx_rule("DepthToSpace")
def _depth_to_space(call: NodeCall, x: Any) -> Any:
    block = call.int("blocksize")
    mode = call.one_of("mode", "DCR", ("DCR", "CRD"))
    y = channels_last(x)
    batch, height, width, channels = ops.shape(y)
    depth = int(channels) // (block * block)
    if mode == "DCR":
        y = ops.reshape(y, (batch, height, width, block, block, depth))
        y = ops.transpose(y, (0, 1, 3, 2, 4, 5))
    else:
        y = ops.reshape(y, (batch, height, width, depth, block, block))
        y = ops.transpose(y, (0, 1, 4, 2, 5, 3))
    return ChannelsLast(ops.reshape(y, (batch, height * block, width * block, depth)))


@onnx_rule("SpaceToDepth")
def _space_to_depth(call: NodeCall, x: Any) -> Any:
    block = call.int("blocksize")
    y = channels_last(x)
    batch, height, width, channels = ops.shape(y)
    y = ops.reshape(y, (batch, height // block, block, width // block, block, channels))
    is_dcr = call.one_of("mode", "DCR", ("DCR", "CRD")) == "DCR"
    y = ops.transpose(y, (0, 1, 3, 2, 4, 5) if is_dcr else (0, 1, 3, 5, 2, 4))
    shape = (batch, height // block, width // block, block * block * channels)
    return ChannelsLast(ops.reshape(y, shape))


@onnx_rule("CenterCropPad")
def _center_crop_pad(call: NodeCall, x: Any, shape: Any) -> Tensor:
    target, count = numbers(shape, "the shape"), rank(x)
    check_count(target)
    y = tensor(x)
    for axis, size in zip(
        axes_of(call.list("axes", tuple(range(count))), count), target, strict=True
    ):
        now = y.shape[axis]
        if now is None:
            raise UnimplementedError(f"the size of axis {axis} is not known")
        pairs = [(0, 0)] * count
        if now >= size:
            start = (now - size) // 2
            y = y[(*[slice(None)] * axis, slice(start, start + size))]
        else:
            before = (size - now) // 2
            pairs[axis] = before, size - now - before
            y = ops.pad(y, pairs)
    return y
