"""Convolutions and pooling, which are done here with the channels last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import product
from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError, UnimplementedError
from trainkit.core.tensor import Tensor
from trainkit.onnx.imported_values import ChannelsLast, channels_last, tensor
from trainkit.onnx.operator_rules import NodeCall, check_count, onnx_rule
from trainkit.ops.convolutional.convolution import conv_with_bias

Pairs = list[tuple[int, int]]
_AUTO = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


def per_axis(call: NodeCall, name: str, count: int, default: int = 1) -> tuple[int, ...]:
    """An attribute with a positive int for each spatial axis.

    Raises:
        InvalidArgumentError: it has another number of them, or one below 1.
    """
    values = call.list(name, None) or (default,) * count
    if len(values) != count or min(values) < 1:
        raise InvalidArgumentError(
            f"the attribute {name!r} is {values}, and has to be {count} positive ints"
        )
    return tuple(values)


def _pads(
    call: NodeCall, sizes: Sequence[int | None], window: Sequence[int], strides: Sequence[int],
    rates: Sequence[int],
) -> Any:  # fmt: skip
    """What is added before and behind each spatial axis, or "same" where a size is not known."""
    auto = call.one_of("auto_pad", "NOTSET", _AUTO)
    if auto == "VALID":
        return [(0, 0)] * len(window)
    if auto == "NOTSET":
        ends = call.list("pads", None) or (0,) * (2 * len(window))
        if len(ends) != 2 * len(window) or min(ends, default=0) < 0:
            raise InvalidArgumentError(f"the pads {ends} do not fit {len(window)} spatial axes")
        return list(zip(ends[: len(window)], ends[len(window) :], strict=True))
    pairs: Pairs = []
    for size, k, s, d in zip(sizes, window, strides, rates, strict=True):
        if size is None and s != 1:
            if auto == "SAME_UPPER":
                return "same"
            raise UnimplementedError(
                "auto_pad SAME_LOWER needs known sizes where strides are not 1"
            )
        reach = (k - 1) * d + 1
        total = reach - 1 if size is None else max((-(-size // s) - 1) * s + reach - size, 0)
        less = total // 2
        pairs.append((less, total - less) if auto == "SAME_UPPER" else (total - less, less))
    return pairs


@onnx_rule("Conv")
def _conv(call: NodeCall, x: Any, kernel: Any, bias: Any = None) -> Any:
    y, w = channels_last(x), tensor(kernel)
    count = len(y.shape) - 2
    window = _window(w, count)
    strides, rates = per_axis(call, "strides", count), per_axis(call, "dilations", count)
    padding = _pads(call, y.shape[1:-1], window, strides, rates)
    groups, channels = call.int("group", 1), y.shape[-1]
    if channels is not None and channels != groups * w.shape[1]:
        raise InvalidArgumentError(
            f"x has {channels} channels, and {groups} groups of a kernel {tuple(w.shape)} take "
            f"{groups * w.shape[1]}"
        )
    b = None if bias is None else tensor(bias)
    weights = ops.transpose(w, (*range(2, count + 2), 1, 0))
    return ChannelsLast(conv_with_bias(y, weights, b, strides, padding, dilation_rate=rates))


def _window(w: Tensor, count: int) -> tuple[int, ...]:
    window = tuple(w.shape)[2:]
    if len(window) != count or None in window:
        raise InvalidArgumentError(f"a kernel {tuple(w.shape)} does not fit {count} spatial axes")
    return window


@onnx_rule("ConvTranspose")
def _conv_transpose(call: NodeCall, x: Any, kernel: Any, bias: Any = None) -> Any:
    y, w = channels_last(x), tensor(kernel)
    count = len(y.shape) - 2
    window, groups = _window(w, count), call.int("group", 1)
    strides, rates = per_axis(call, "strides", count), per_axis(call, "dilations", count)
    extra = call.list("output_padding", None) or (0,) * count
    weights = ops.transpose(w, (*range(2, count + 2), 1, 0))
    parts = ops.split(y, groups, axis=-1) if groups > 1 else [y]
    kernels = ops.split(weights, groups, axis=-1) if groups > 1 else [weights]
    spread = [
        ops.conv_transpose(part, k, strides, "valid", None, dilation_rate=rates)
        for part, k in zip(parts, kernels, strict=True)
    ]
    result = ops.concatenate(spread, axis=-1) if groups > 1 else spread[0]
    lengths = [
        None if n is None else (n - 1) * s + (k - 1) * d + 1
        for n, s, k, d in zip(y.shape[1:-1], strides, window, rates, strict=True)
    ]
    pads = _transposed_pads(call, y.shape[1:-1], lengths, strides, extra)
    for axis, (k, s, d) in enumerate(zip(window, strides, rates, strict=True)):
        surplus = max(s - (k - 1) * d - 1, 0)  # zeros behind the last window
        before, after = pads[axis][0], pads[axis][1] - extra[axis] + surplus
        result = _cut(result, axis + 1, before, after)
    b = None if bias is None else tensor(bias)
    return ChannelsLast(result if b is None else result + b)


def _cut(y: Tensor, axis: int, before: int, after: int) -> Tensor:
    """Without so many elements at both ends; with more zeros where that is negative."""
    if min(before, after) < 0:
        pairs = [(0, 0)] * len(y.shape)
        pairs[axis] = max(-before, 0), max(-after, 0)
        y = ops.pad(y, pairs)
    before, after = max(before, 0), max(after, 0)
    if not (before or after):
        return y
    return y[(*[slice(None)] * axis, slice(before, -after if after else None))]


def _transposed_pads(
    call: NodeCall, sizes: Any, lengths: Any, strides: Sequence[int], extra: Sequence[int]
) -> Pairs:
    """What is cut off at the front and the end of each spatial axis."""
    auto = call.one_of("auto_pad", "NOTSET", _AUTO)
    output_shape = call.list("output_shape", None)
    count = len(strides)
    if output_shape is None and auto in ("NOTSET", "VALID"):
        ends = call.list("pads", None) or (0,) * (2 * count)
        if len(ends) != 2 * count:
            raise InvalidArgumentError(f"the pads {ends} do not fit {count} spatial axes")
        return list(zip(ends[:count], ends[count:], strict=True))
    if None in lengths:
        raise UnimplementedError("output_shape and auto_pad need known sizes")
    targets = (
        [n * s for n, s in zip(sizes, strides, strict=True)]
        if output_shape is None
        else output_shape[-count:]
    )
    pairs: Pairs = []
    for length, target, more in zip(lengths, targets, extra, strict=True):
        total = length + more - target
        half = max(total, 0) // 2
        if total < 0:  # the windows do not reach as far: there are zeros behind
            pairs.append((0, total))
            continue
        pairs.append((half, total - half) if auto == "SAME_UPPER" else (total - half, half))
    return pairs


# ------------------------------------------------------------------ pooling


@onnx_rule("GlobalAveragePool", "GlobalMaxPool")
def _global_pool(call: NodeCall, x: Any) -> Any:
    y = channels_last(x)
    axes = tuple(range(1, len(y.shape) - 1))
    function = ops.mean if call.op_type == "GlobalAveragePool" else ops.max
    return ChannelsLast(function(y, axis=axes, keepdims=True))


@onnx_rule("GlobalLpPool")
def _global_lp_pool(call: NodeCall, x: Any) -> Any:
    y, p = channels_last(x), call.int("p", 2)
    axes = tuple(range(1, len(y.shape) - 1))
    total = ops.sum(ops.power(ops.abs(y), p), axis=axes, keepdims=True)
    return ChannelsLast(ops.cast(ops.power(total, 1 / p), y.dtype))


class _PoolingWindows:
    """Where the windows of a pooling node lie."""

    def __init__(self, call: NodeCall, y: Tensor) -> None:
        self.window = tuple(call.list("kernel_shape"))
        count = len(y.shape) - 2
        if len(self.window) != count or min(self.window) < 1:
            raise InvalidArgumentError(f"a window {self.window} does not fit {count} spatial axes")
        self.strides = per_axis(call, "strides", count)
        self.rates = per_axis(call, "dilations", count)
        self.pads = _pads(call, y.shape[1:-1], self.window, self.strides, self.rates)
        self.behind = [0] * count  # what rounding up adds behind the padding
        if call.flag("ceil_mode") and self.pads != "same":
            self._round_up(y.shape[1:-1])

    def _round_up(self, sizes: Sequence[int | None]) -> None:
        axes = zip(sizes, self.window, self.strides, self.rates, self.pads, strict=True)
        for i, (n, k, s, d, (a, b)) in enumerate(axes):
            if n is None:
                if s != 1:
                    raise UnimplementedError("ceil_mode needs known sizes")
                continue
            free = n + a + b - ((k - 1) * d + 1)
            out = -(-free // s) + 1
            if (out - 1) * s >= n + a:  # a window that begins in the padding behind does not count
                out -= 1
            self.behind[i] = max((out - 1) * s - free, 0)

    @property
    def is_plain(self) -> bool:
        """Whether the pooling of trainkit has such windows."""
        few = len(self.window) <= 3
        return few and set(self.rates) == {1} and not any(self.behind)

    def padded(self, y: Tensor, fill: Any) -> Tensor:
        """What the windows lie on, with a value around."""
        if self.pads == "same":
            raise UnimplementedError("these windows need known sizes")
        pairs = [(0, 0), *((a, b + c) for (a, b), c in zip(self.pads, self.behind, strict=True))]
        pairs.append((0, 0))
        check_count([n + a + b for n, (a, b) in zip(y.shape, pairs, strict=True) if n is not None])
        if not any(a or b for a, b in pairs):
            return y
        return ops.pad(y, pairs, "constant", ops.cast(fill, y.dtype))

    def shifted(self, y: Tensor) -> Iterator[Tensor]:
        """For each place of the window what stands there, of all windows."""
        live = ops.shape(y)[1:-1]
        geometry = zip(live, self.window, self.strides, self.rates, strict=True)
        outs = [(n - ((k - 1) * d + 1)) // s + 1 for n, k, s, d in geometry]
        for offsets in product(*map(range, self.window)):
            key = [
                slice(o * d, o * d + (n - 1) * s + 1, s)
                for o, d, n, s in zip(offsets, self.rates, outs, self.strides, strict=True)
            ]
            yield y[(slice(None), *key)]


def _lowest(y: Tensor) -> Any:
    dtype = y.dtype.dtype
    return -np.inf if y.dtype.is_floating else np.iinfo(dtype).min


@onnx_rule("MaxPool")
def _max_pool(call: NodeCall, x: Any) -> Any:
    y = channels_last(x)
    windows = _PoolingWindows(call, y)
    if call.needs(1):
        return _max_pool_with_places(call, y, windows)
    if windows.is_plain:
        return ChannelsLast(ops.max_pool(y, windows.window, windows.strides, windows.pads))
    return ChannelsLast(reduce(ops.maximum, windows.shifted(windows.padded(y, _lowest(y)))))


def _max_pool_with_places(call: NodeCall, y: Tensor, windows: _PoolingWindows) -> tuple[Any, Any]:
    """The largest of each window, and where it stands in the tensor with channels first."""
    shape = tuple(y.shape)
    if None in shape:
        raise UnimplementedError("the places of the largest values need known sizes")
    first = np.moveaxis(
        np.arange(int(np.prod(shape))).reshape((shape[0], shape[-1], *shape[1:-1])), 1, -1
    )
    if call.flag("storage_order"):
        count = len(shape) - 2
        inner = (
            np.arange(int(np.prod(shape[1:-1])))
            .reshape(shape[1:-1][::-1])
            .transpose(range(count)[::-1])
        )
        base = np.arange(shape[0] * shape[-1]).reshape((shape[0], *[1] * count, shape[-1]))
        first = base * inner.size + inner[None, ..., None]
    values = ops.stack(list(windows.shifted(windows.padded(y, _lowest(y)))), axis=-1)
    positions = ops.stack(
        list(windows.shifted(windows.padded(ops.convert_to_tensor(first), -1))), axis=-1
    )
    largest = ops.max(values, axis=-1, keepdims=True)
    is_largest = ops.logical_or(ops.equal(values, largest), ops.isnan(values))
    # The padding is as large where all that a window sees is the least number of its dtype.
    is_largest = ops.logical_and(is_largest, ops.greater_equal(positions, 0))
    best = ops.argmax(ops.cast(is_largest, "uint8"), axis=-1, keepdims=True)
    picked = ops.take_along_axis(positions, best, axis=-1)
    return ChannelsLast(largest[..., 0]), ChannelsLast(picked[..., 0])


@onnx_rule("AveragePool")
def _average_pool(call: NodeCall, x: Any) -> Any:
    y = channels_last(x)
    windows, counts_padding = _PoolingWindows(call, y), call.flag("count_include_pad")
    if windows.is_plain and (not counts_padding or windows.pads == [(0, 0)] * len(windows.window)):
        return ChannelsLast(ops.average_pool(y, windows.window, windows.strides, windows.pads))
    if windows.is_plain and windows.pads != "same":
        return ChannelsLast(
            ops.average_pool(windows.padded(y, 0.0), windows.window, windows.strides)
        )
    total = _total(windows, y)
    ones = ops.ones_like(y[:1, ..., :1])
    if counts_padding:
        pairs = [(0, 0), *windows.pads, (0, 0)]
        ones = ops.pad(ones, pairs, "constant", ops.cast(1, y.dtype))
        windows.pads = [(0, 0)] * len(windows.window)
    return ChannelsLast(total / _total(windows, ones))


def _total(windows: _PoolingWindows, y: Tensor) -> Tensor:
    return reduce(ops.add, windows.shifted(windows.padded(y, 0)))


@onnx_rule("LpPool")
def _lp_pool(call: NodeCall, x: Any) -> Any:
    y, p = channels_last(x), call.int("p", 2)
    total = _total(_PoolingWindows(call, y), ops.power(ops.abs(y), p))
    return ChannelsLast(ops.cast(ops.power(total, 1 / p), y.dtype))
