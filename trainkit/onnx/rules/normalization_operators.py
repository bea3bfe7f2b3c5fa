"""Normalization and dropout, which differ in training."""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.core.errors import UnimplementedError
from trainkit.core.tensor import Tensor
from trainkit.core.variable import Variable
from trainkit.onnx.imported_values import (
    ChannelsLast,
    axes_of,
    axis_of,
    channels_last,
    known_array,
    live_sizes,
    rank,
    tensor,
)
from trainkit.onnx.operator_rules import NodeCall, onnx_rule
from trainkit.onnx.tensor_reading import dtype_name
from trainkit.ops.convolutional.local_response import channel_window_sums
from trainkit.ops.sampling import random


@onnx_rule("BatchNormalization")
def _batch_normalization(
    call: NodeCall, x: Any, scale: Any, shift: Any, mean: Any, variance: Any
) -> Any:
    y = channels_last(x) if rank(x) > 1 else tensor(x)[:, None]
    epsilon, momentum = call.float("epsilon", 1e-5), call.float("momentum", 0.9)
    trains = call.training and call.run.state.trainable
    means, spread = tensor(mean), tensor(variance)
    running = [means, spread]
    if trains:  # whatever mode the file was written in: the call says it, as to a layer
        axes = tuple(range(len(y.shape) - 1))
        means = ops.cast(ops.mean(y, axis=axes), means.dtype)
        spread = ops.cast(
            ops.mean(ops.square(y - ops.cast(means, y.dtype)), axis=axes), spread.dtype
        )
        running = [old * momentum + new * (1 - momentum)
                   for old, new in zip(running, (means, spread), strict=True)]  # fmt: skip
        for cell, new in zip((mean, variance), running, strict=True):
            if isinstance(cell, Variable):
                cell.assign(new)
    result = ops.batch_normalization(
        y, ops.cast(means, y.dtype), ops.cast(spread, y.dtype), -1,
        ops.cast(tensor(shift), y.dtype), ops.cast(tensor(scale), y.dtype), epsilon,
    )  # fmt: skip
    first = ChannelsLast(result) if rank(x) > 1 else result[:, 0]
    return first, *running, means, spread


@onnx_rule("InstanceNormalization")
def _instance_normalization(call: NodeCall, x: Any, scale: Any, shift: Any) -> Any:
    y = channels_last(x)
    axes = tuple(range(1, len(y.shape) - 1))
    normal = _normalize(y, axes, call.float("epsilon", 1e-5))
    return ChannelsLast(normal * tensor(scale) + tensor(shift))


def _normalize(y: Tensor, axes: tuple[int, ...], epsilon: float) -> Tensor:
    mean = ops.mean(y, axis=axes, keepdims=True)
    centred = y - mean
    return centred * ops.rsqrt(ops.mean(ops.square(centred), axis=axes, keepdims=True) + epsilon)


@onnx_rule("GroupNormalization")
def _group_normalization(call: NodeCall, x: Any, scale: Any, shift: Any) -> Any:
    y, groups = channels_last(x), call.int("num_groups")
    *outer, channels = ops.shape(y)
    parts = ops.reshape(y, (*outer, groups, channels // groups))
    axes = (*range(1, len(outer)), len(outer) + 1)
    normal = _normalize(parts, axes, call.float("epsilon", 1e-5))
    if call.version < 21:
        normal = normal * tensor(scale)[:, None] + tensor(shift)[:, None]
        return ChannelsLast(ops.reshape(normal, (*outer, channels)))
    return ChannelsLast(ops.reshape(normal, (*outer, channels)) * tensor(scale) + tensor(shift))


@onnx_rule("LayerNormalization")
def _layer_normalization(call: NodeCall, x: Any, scale: Any, shift: Any = None) -> Any:
    y = tensor(x)
    axes = tuple(range(axis_of(call.int("axis", -1), rank(y)), rank(y)))
    epsilon = call.float("epsilon", 1e-5)
    is_last = axes == (rank(y) - 1,) and rank(scale) == 1
    if is_last and shift is not None and call.output_count == 1:
        return ops.layer_normalization(y, tensor(scale), tensor(shift), -1, epsilon)
    mean = ops.mean(y, axis=axes, keepdims=True)
    inverse = ops.rsqrt(ops.mean(ops.square(y - mean), axis=axes, keepdims=True) + epsilon)
    result = (y - mean) * inverse * tensor(scale)
    return (result if shift is None else result + tensor(shift)), mean, inverse


@onnx_rule("RMSNormalization", "SimplifiedLayerNormalization")
def _rms_normalization(call: NodeCall, x: Any, scale: Any) -> Any:
    y = tensor(x)
    axes = tuple(range(axis_of(call.int("axis", -1), rank(y)), rank(y)))
    square = ops.mean(ops.square(y), axis=axes, keepdims=True)
    return y * ops.rsqrt(square + call.float("epsilon", 1e-5)) * tensor(scale)


@onnx_rule("LpNormalization")
def _lp_normalization(call: NodeCall, x: Any) -> Tensor:
    y, axis, p = tensor(x), call.int("axis", -1), call.int("p", 2)
    size = ops.sum(ops.abs(y), axis=axis, keepdims=True) if p == 1 else ops.sqrt(
        ops.sum(y * y, axis=axis, keepdims=True)
    )  # fmt: skip
    return ops.where(
        ops.equal(size, 0),
        ops.zeros_like(y),
        y / ops.where(ops.equal(size, 0), ops.ones_like(size), size),
    )


@onnx_rule("MeanVarianceNormalization")
def _mean_variance(call: NodeCall, x: Any) -> Tensor:
    y = tensor(x)
    axes = axes_of(call.list("axes", (0, 2, 3)), rank(y))
    mean = ops.mean(y, axis=axes, keepdims=True)
    spread = ops.sqrt(ops.mean(ops.square(y - mean), axis=axes, keepdims=True))
    return (y - mean) / (spread + 1e-9)


@onnx_rule("LRN")
def _lrn(call: NodeCall, x: Any) -> Any:
    y, size = channels_last(x), call.int("size")
    squares, before = ops.square(y), (size - 1) // 2
    total = channel_window_sums(squares, radius=before)
    if size % 2 == 0:  # one more channel counts behind
        channels = y.shape[-1]
        if channels is None:
            raise UnimplementedError("the number of channels is not known")
        behind = [*[(0, 0)] * (rank(y) - 1), (0, before + 1)]
        total = total + ops.pad(squares, behind)[..., before + 1 :][..., :channels]
    scale = call.float("bias", 1.0) + call.float("alpha", 1e-4) / size * total
    return ChannelsLast(y / ops.power(scale, call.float("beta", 0.75)))


@onnx_rule("Dropout")
def _dropout(call: NodeCall, x: Any, ratio: Any = None, mode: Any = None) -> Any:
    share: Any = call.float("ratio", 0.5)
    if ratio is not None:
        array = known_array(ratio)
        if array is None:
            raise UnimplementedError("the ratio of a dropout has to be known before the graph runs")
        share = float(array.ravel()[0])
    first, second = x, None
    if call.training and share:
        first = random.dropout(tensor(x), share, seed=call.run.state.seed_generator)
        second = ops.not_equal(first, 0)
    elif call.needs(1):
        second = ops.full(live_sizes(x), True, dtype="bool")
    return first, second


@onnx_rule("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli")
def _draw(call: NodeCall, x: Any = None) -> Tensor:
    number = call.int("dtype", None)
    like = None if x is None else tensor(x)
    dtype = (
        dtype_name(number, "the result")
        if number
        else ("float32" if like is None else like.dtype.name)
    )
    shape = tuple(call.list("shape")) if like is None else live_sizes(like)
    seed = call.run.state.seed_generator
    if call.op_type == "Bernoulli":
        draws = random.uniform(shape, seed=seed)
        return ops.cast(ops.less(draws, ops.cast(tensor(x), "float32")), dtype)
    if call.op_type.startswith("RandomNormal"):
        mean, scale = call.float("mean", 0.0), call.float("scale", 1.0)
        return ops.cast(random.normal(shape, mean, scale, seed=seed), dtype)
    low, high = call.float("low", 0.0), call.float("high", 1.0)
    return ops.cast(random.uniform(shape, low, high, seed=seed), dtype)
