"""Convolution, its transpose, and pooling, which ONNX does with channels first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from trainkit.core.errors import UnimplementedError
from trainkit.ops.convolutional import local_response as local_response  # declares an operation
from trainkit.saved_graph.onnx.graph_builder import GraphBuilder
from trainkit.saved_graph.onnx.graph_values import Value
from trainkit.saved_graph.onnx.rules.composites_forms import activated
from trainkit.saved_graph.onnx.rules.onnx_form import onnx_form
from trainkit.saved_graph.onnx.rules.shapes_forms import spec_shape

Padding = str | Sequence[tuple[int, int]]


def _pads(
    x: Value, window: Sequence[int], strides: Sequence[int], padding: Padding, rates: Sequence[int]
) -> dict[str, Any]:
    """ONNX's attribute for the padding: what is added in front of all axes, then behind them."""
    if padding == "valid":
        return {}
    if padding != "same":
        return {"pads": [int(pair[end]) for end in (0, 1) for pair in padding]}
    pairs = []
    for size, k, s, d in zip(x.shape[1:-1], window, strides, rates, strict=True):
        if size is None and s != 1:
            return {"auto_pad": "SAME_UPPER"}
        count = 0 if size is None else (-(-size // s) - 1) * s - size
        total = max(count + (k - 1) * d + 1, 0) if size is not None else (k - 1) * d
        pairs.append((total // 2, total - total // 2))
    return {"pads": [pair[end] for end in (0, 1) for pair in pairs]}


def _window_shape(value: Value) -> list[int]:
    sizes = [n for n in value.shape if n is not None]
    if len(sizes) < value.rank:
        raise UnimplementedError("the size of the kernel is not known")
    return sizes


def _moved_kernel(to: GraphBuilder, kernel: Value, order: Sequence[int]) -> Value:
    if kernel.is_known:
        moved = np.ascontiguousarray(kernel.array.transpose(order))
        return to.known(moved, label=kernel.label)
    return to.transpose(kernel, order)


@onnx_form("conv")
def _conv(
    to: GraphBuilder,
    x: Value,
    kernel: Value,
    bias: Value | None,
    strides: Sequence[int],
    padding: Padding,
    dilation_rate: Sequence[int],
    activation: str | None,
) -> Value:
    *window, inputs, _ = _window_shape(kernel)
    rank = x.rank
    weights = _moved_kernel(to, kernel, [rank - 1, rank - 2, *range(rank - 2)])
    names = [to.name_with_channels_first(x), to.name_of(weights)]
    names += [] if bias is None else [to.name_of(bias)]
    name = to.node(
        "Conv", names, kernel_shape=window, strides=list(strides), dilations=list(dilation_rate),
        group=int(x.shape[-1] or inputs) // inputs,
        **_pads(x, window, strides, padding, dilation_rate),
    )  # fmt: skip
    y = Value(to, spec_shape(to), x.dtype, channels_first=name)
    return activated(to, y, activation)


@onnx_form("conv_transpose")
def _conv_transpose(
    to: GraphBuilder,
    x: Value,
    kernel: Value,
    strides: Sequence[int],
    padding: str,
    output_padding: Sequence[int] | None,
    dilation_rate: Sequence[int],
) -> Value:
    window = _window_shape(kernel)[:-2]
    rank = x.rank
    weights = _moved_kernel(to, kernel, [rank - 1, rank - 2, *range(rank - 2)])
    extra: Sequence[int | None] = output_padding or [None] * len(window)
    axes = [
        _transposed_pads(k, s, d, padding, more)
        for k, s, d, more in zip(window, strides, dilation_rate, extra, strict=True)
    ]
    name = to.node(
        "ConvTranspose", [to.name_with_channels_first(x), to.name_of(weights)],
        kernel_shape=window, strides=list(strides), dilations=list(dilation_rate),
        pads=[a for a, _, _ in axes] + [b for _, b, _ in axes],
        output_padding=[more for _, _, more in axes],
    )  # fmt: skip
    return Value(to, spec_shape(to), x.dtype, channels_first=name)


def _transposed_pads(
    window: int, stride: int, rate: int, padding: str, more: int | None
) -> tuple[int, int, int]:
    """What is cut off in front and behind of the full result, and what is added behind it.

    The result is the input of the convolution whose transpose it is: what that pads is cut off.
    """
    span = (window - 1) * rate + 1
    if padding == "valid":
        return 0, 0, max(stride - span, 0) if more is None else more
    # the result has n * stride positions, or (n - 1) * stride + inner
    inner = stride if more is None else span - 2 * (span // 2) + more
    total = max(span - inner, 0)
    return total // 2, total - total // 2, max(inner - span, 0)


def _pool(to: GraphBuilder, kind: str, x: Value, window: Any, strides: Any, padding: Padding,
          **more: int) -> Value:  # fmt: skip
    dtype = x.dtype
    if "float" not in dtype:
        x = to.cast(x, "float32")
    name = to.node(
        kind, [to.name_with_channels_first(x)], kernel_shape=list(window), strides=list(strides),
        **more, **_pads(x, window, strides, padding, [1] * len(window)),
    )  # fmt: skip
    return Value(to, spec_shape(to), x.dtype, channels_first=name)


@onnx_form("max_pool")
def _max_pool(to: GraphBuilder, x: Value, pool_size: Any, strides: Any, padding: Any) -> Value:
    return _pool(to, "MaxPool", x, pool_size, strides, padding)


@onnx_form("max_pool_with_argmax")
def _max_pool_with_argmax(
    to: GraphBuilder, x: Value, pool_size: Any, strides: Any, padding: Any
) -> tuple[Value, Value]:
    _, *space, channels = x.shape
    if None in space or channels is None:
        raise UnimplementedError("height, width and channels are not known")
    dtype = x.dtype if "float" in x.dtype else "float32"
    names = to.nodes(
        "MaxPool", [to.name_with_channels_first(to.cast(x, dtype))], 2,
        {"kernel_shape": list(pool_size), "strides": list(strides),
         **_pads(x, pool_size, strides, padding, [1, 1])},
    )  # fmt: skip
    shape = spec_shape(to)
    y = Value(to, shape, dtype, channels_first=names[0])
    # of the whole batch with channels first: (image * channels + channel) * pixels + pixel
    index = Value(to, shape, "int64", channels_first=names[1])
    pixels, count = (to.known(np.int64(n)) for n in (math.prod(space), channels))
    pixel = to.each("Mod", index, pixels)
    channel = to.each("Mod", to.each("Div", index, pixels), count)
    return to.cast(y, x.dtype), to.each("Add", to.each("Mul", pixel, count), channel)


@onnx_form("average_pool")
def _average_pool(to: GraphBuilder, x: Value, pool_size: Any, strides: Any, padding: Any) -> Value:
    return _pool(to, "AveragePool", x, pool_size, strides, padding, count_include_pad=0)


@onnx_form("channel_window_sums")
def _channel_window_sums(to: GraphBuilder, x: Value, radius: int) -> Value:
    channels = x.shape[-1]
    if channels is None:
        raise UnimplementedError("the number of channels is not known")
    radius, dtype = min(radius, channels), x.dtype if "float" in x.dtype else "float32"
    rows = to.reshape(to.cast(x, dtype), [-1, 1, channels], (None, 1, channels))
    means = to.op(
        "AveragePool", rows, kernel_shape=[2 * radius + 1], pads=[radius, radius],
        count_include_pad=1, shape=rows.shape,
    )  # fmt: skip
    sums = to.op("Reshape", to.each("Mul", means, 2 * radius + 1), to.shape_of(x), shape=x.shape)
    return to.cast(sums, x.dtype)
