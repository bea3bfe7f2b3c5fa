"""Moments with weights, and normalization over neighbouring channels."""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.tf.arrays import plain


def local_response_normalization(
    input: Any,
    depth_radius: int = 5,
    bias: float = 1.0,
    alpha: float = 1.0,
    beta: float = 0.5,
    name: Any = None,
) -> Tensor:
    """Each value divided by the strength of the channels around it.

    y = x / (bias + alpha * sum of x**2 over channels c - depth_radius to c + depth_radius)**beta
    Source: Krizhevsky, Sutskever and Hinton 2012, "ImageNet classification with deep convolutional
    neural networks", section 3.3.

    Args:
        input: (batch, height, width, channels), floating.
        depth_radius: how many channels on either side count.
        bias: keeps the divisor from 0.
        alpha: factor of the sum.
        beta: exponent.
        name: not kept.

    Raises:
        ShapeError: the rank is not 4.
    """
    x = convert_to_tensor(input)
    if len(x.shape) != 4:
        raise ShapeError(
            "local_response_normalization: needs (batch, height, width, channels), got shape "
            f"{tuple(x.shape)}"
        )
    radius, channels = int(plain(depth_radius)), x.shape[-1]
    squares = ops.pad(ops.square(x), ((0, 0), (0, 0), (0, 0), (radius, radius)))
    total = squares[..., :channels]
    for k in range(1, 2 * radius + 1):
        total = ops.add(total, squares[..., k : k + channels])
    strength = ops.add(ops.multiply(total, alpha), bias)
    return ops.multiply(x, ops.power(strength, -beta))


lrn = local_response_normalization


def weighted_moments(
    x: Any, axes: Any, frequency_weights: Any, keepdims: bool = False, name: Any = None
) -> tuple[Tensor, Tensor]:
    """Mean and variance in which each value counts as often as its weight says.

    Args:
        x: tensor.
        axes: axes to average over.
        frequency_weights: 0 or above; broadcasts with `x`.
        keepdims: keep the axes with size 1.
        name: not kept.
    """
    x, weights = convert_to_tensor(x), convert_to_tensor(frequency_weights)
    wanted = x.dtype
    if wanted.name in ("float16", "bfloat16"):
        x = ops.cast(x, "float32")
    weights = ops.cast(weights, x.dtype)
    weights = ops.add(weights, ops.zeros_like(x))
    axis = plain(axes)
    total = ops.sum(weights, axis=axis, keepdims=True)
    mean = ops.divide(ops.sum(ops.multiply(weights, x), axis=axis, keepdims=True), total)
    squares = ops.multiply(weights, ops.square(ops.subtract(x, mean)))
    variance = ops.divide(ops.sum(squares, axis=axis, keepdims=True), total)
    if not keepdims:
        mean, variance = ops.squeeze(mean, axis), ops.squeeze(variance, axis)
    return ops.cast(mean, wanted), ops.cast(variance, wanted)


def sufficient_statistics(
    x: Any, axes: Any, shift: Any = None, keepdims: bool = False, name: Any = None
) -> tuple[Tensor, Tensor, Tensor, Any]:
    """What `normalize_moments` needs: count, sum and sum of squares, and the shift.

    Args:
        x: tensor.
        axes: axes to sum over.
        shift: number near the mean that is subtracted first; helps where the mean is far from 0.
        keepdims: keep the axes with size 1.
        name: not kept.
    """
    x = convert_to_tensor(x)
    axis = plain(axes)
    axis = (axis,) if isinstance(axis, int) else tuple(axis)
    count = 1
    for k in axis:
        count *= x.shape[k]
    moved = x if shift is None else ops.subtract(x, shift)
    total = ops.sum(moved, axis=axis, keepdims=keepdims)
    squares = ops.sum(ops.square(moved), axis=axis, keepdims=keepdims)
    given = None if shift is None else convert_to_tensor(shift, dtype_hint=x.dtype)
    return ops.cast(count, x.dtype), total, squares, given


def normalize_moments(
    counts: Any, mean_ss: Any, variance_ss: Any, shift: Any = None, name: Any = None
) -> tuple[Tensor, Tensor]:
    """Mean and variance from `sufficient_statistics`."""
    counts = convert_to_tensor(counts)
    moved = ops.divide(mean_ss, counts)
    variance = ops.subtract(ops.divide(variance_ss, counts), ops.square(moved))
    return (moved if shift is None else ops.add(moved, shift)), variance


def batch_norm_with_global_normalization(
    input: Any,
    mean: Any,
    variance: Any,
    beta: Any,
    gamma: Any,
    variance_epsilon: float,
    scale_after_normalization: bool,
    name: Any = None,
) -> Tensor:
    """Batch normalization with given moments; `gamma` counts if asked for."""
    from trainkit.tf.nn import batch_normalization

    factor = gamma if scale_after_normalization else None
    return batch_normalization(input, mean, variance, beta, factor, variance_epsilon)


def scale_regularization_loss(regularization_loss: Any) -> Tensor:
    """The loss divided by the number of replicas, which is 1: `tk.distribute` is not part of this.

    Raises:
        InvalidArgumentError: the loss is no number.
    """
    loss = convert_to_tensor(regularization_loss)
    if not loss.dtype.is_floating:
        raise InvalidArgumentError(
            f"scale_regularization_loss: the loss must be floating, got {loss.dtype.name}"
        )
    return loss
