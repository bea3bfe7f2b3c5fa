"""Moments with weights, moments in two steps, and normalization by given moments.

The arguments are TensorFlow's; `name` is not kept.
"""

from __future__ import annotations

from typing import Any

from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import Axis, TensorLike
from trainkit.ops.arrays.axes import squeeze
from trainkit.ops.arrays.creation import zeros_like
from trainkit.ops.collective.denominators import summing_replicas
from trainkit.ops.core.axis_numbers import plain
from trainkit.ops.math.elementwise import (
    add,
    cast,
    divide,
    multiply,
    negative,
    rsqrt,
    square,
    subtract,
)
from trainkit.ops.math.reductions import sum as sum_


def weighted_moments(
    x: TensorLike,
    axes: Axis,
    frequency_weights: Any,
    keepdims: bool = False,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Mean and variance in which each value counts as often as its weight says.

    Args:
        x: tensor.
        axes: axes to average over.
        frequency_weights: 0 or above; broadcasts with `x`.
        keepdims: keep the axes with size 1.

    Example:
        >>> mean, variance = tk.nn.weighted_moments([1.0, 5.0], [0], [3.0, 1.0])
        >>> float(mean), float(variance)
        (2.0, 3.0)
    """
    x, weights = convert_to_tensor(x), convert_to_tensor(frequency_weights)
    result_dtype = x.dtype
    if result_dtype.name in ("float16", "bfloat16"):
        x = cast(x, "float32")
    weights = cast(weights, x.dtype)
    weights = add(weights, zeros_like(x))
    axis = plain(axes)
    total = sum_(weights, axis=axis, keepdims=True)
    mean = divide(sum_(multiply(weights, x), axis=axis, keepdims=True), total)
    squares = multiply(weights, square(subtract(x, mean)))
    variance = divide(sum_(squares, axis=axis, keepdims=True), total)
    if not keepdims:
        mean, variance = squeeze(mean, axis), squeeze(variance, axis)
    return cast(mean, result_dtype), cast(variance, result_dtype)


def sufficient_statistics(
    x: TensorLike,
    axes: Axis,
    shift: TensorLike | None = None,
    keepdims: bool = False,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor, Any]:
    """What `normalize_moments` needs: count, sum and sum of squares, and the shift.

    Args:
        x: tensor.
        axes: axes to sum over.
        shift: number near the mean that is subtracted first; helps where the mean is far from 0.
        keepdims: keep the axes with size 1.

    Example:
        >>> count, total, squares, shift = tk.nn.sufficient_statistics([[1.0], [3.0]], axes=[0])
        >>> float(count), total.numpy(), squares.numpy()
        (2.0, array([4.], dtype=float32), array([10.], dtype=float32))
    """
    x = convert_to_tensor(x)
    axis = plain(axes)
    axis = (axis,) if isinstance(axis, int) else tuple(axis)
    count = 1
    for k in axis:
        count *= x.shape[k]
    moved = x if shift is None else subtract(x, shift)
    total = sum_(moved, axis=axis, keepdims=keepdims)
    squares = sum_(square(moved), axis=axis, keepdims=keepdims)
    shift_tensor = None if shift is None else convert_to_tensor(shift, dtype_hint=x.dtype)
    return cast(count, x.dtype), total, squares, shift_tensor


def normalize_moments(
    counts: TensorLike,
    mean_ss: TensorLike,
    variance_ss: Any,
    shift: TensorLike | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Mean and variance from `sufficient_statistics`.

    Args:
        counts: how many values.
        mean_ss: their sum.
        variance_ss: the sum of their squares.
        shift: what was subtracted from the values.

    Example:
        >>> mean, variance = tk.nn.normalize_moments(2.0, 4.0, 10.0)
        >>> float(mean), float(variance)
        (2.0, 1.0)
    """
    counts = convert_to_tensor(counts)
    moved = divide(mean_ss, counts)
    variance = subtract(divide(variance_ss, counts), square(moved))
    return (moved if shift is None else add(moved, shift)), variance


def batch_normalization(
    x: TensorLike,
    mean: TensorLike,
    variance: TensorLike,
    offset: TensorLike | None,
    scale: TensorLike | None,
    variance_epsilon: float,
    name: str | None = None,
) -> Tensor:
    """(x - mean) / sqrt(variance + variance_epsilon) * scale + offset; everything broadcasts.

    Args:
        x: tensor of floats.
        mean: of the values.
        variance: of the values.
        offset: what is added; nothing for `None`.
        scale: factor; 1 for `None`.
        variance_epsilon: keeps the divisor from 0.

    Example:
        >>> x = tk.constant([[1.0], [3.0]])
        >>> tk.nn.batch_normalization(x, [2.0], [1.0], [0.5], [2.0], 0.0).numpy()
        array([[-1.5],
               [ 2.5]], dtype=float32)
    """
    factor = rsqrt(add(variance, variance_epsilon))
    if scale is not None:
        factor = multiply(factor, scale)
    shift = negative(multiply(mean, factor))
    if offset is not None:
        shift = add(shift, offset)
    return add(multiply(x, factor), shift)


def batch_norm_with_global_normalization(
    input: Any,
    mean: Any,
    variance: Any,
    beta: Any,
    gamma: Any,
    variance_epsilon: float,
    scale_after_normalization: bool,
    name: str | None = None,
) -> Tensor:
    """Batch normalization with given moments; `gamma` counts if asked for.

    Args:
        input: tensor of floats.
        mean: of the values.
        variance: of the values.
        beta: what is added.
        gamma: factor.
        variance_epsilon: keeps the divisor from 0.
        scale_after_normalization: whether `gamma` counts.

    Example:
        >>> x = tk.constant([[1.0], [3.0]])
        >>> y = tk.nn.batch_norm_with_global_normalization(x, [2.0], [1.0], [0.0], [1.0], 0.0, True)
        >>> y.numpy()
        array([[-1.],
               [ 1.]], dtype=float32)
    """
    factor = gamma if scale_after_normalization else None
    return batch_normalization(input, mean, variance, beta, factor, variance_epsilon)


def scale_regularization_loss(regularization_loss: Any) -> Tensor:
    """The loss divided by the number of replicas whose gradients are added up.

    Args:
        regularization_loss: tensor of floats; several are added up.

    Raises:
        InvalidArgumentError: the loss is no number.

    Example:
        >>> float(tk.nn.scale_regularization_loss(3.0))
        3.0
    """
    loss = convert_to_tensor(regularization_loss)
    if not loss.dtype.is_floating:
        raise InvalidArgumentError(
            f"scale_regularization_loss: the loss must be floating, got {loss.dtype.name}"
        )
    return divide(sum_(loss), summing_replicas())
