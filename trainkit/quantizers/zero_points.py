"""Integers with a scale and a zero point: `x` is near to `(integer - zero) * scale`."""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor

LEAST_SCALE = 1e-8


def compute_quantization_parameters(
    x: Any,
    *,
    bits: int,
    symmetric: bool = False,
    per_channel: bool = False,
    group_size: int = -1,
    compute_dtype: str = "float32",
    epsilon: float = 0.0,
    signed: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """The scales and zero points of a matrix.

    Args:
        x: weights, shape (out_features, in_features).
        bits: of an integer.
        symmetric: whether the range of the integers stands for one that is symmetric around 0.
        per_channel: one scale for each row, not one in all.
        group_size: with `per_channel`, one scale for so many neighbours in a row; -1 for none.
        compute_dtype: dtype of the greatest integer that is given back.
        epsilon: added to a range.
        signed: integers from `-2**(bits - 1)` on, int8; otherwise from 0 on, uint8.

    Returns:
        Scales and zero points, shape (out_features, groups), and the greatest unsigned integer. A
        range whose zero point would not fit into its dtype is widened to hold 0.

    Raises:
        ValueError: there is nothing in `x`, or it is no matrix.
    """
    if x is None:
        raise ValueError("compute_quantization_parameters: x cannot be None")
    x = x if is_tensor(x) else convert_to_tensor(x)
    if len(x.shape) < 2:
        raise ValueError(
            "compute_quantization_parameters: weights must have a rank of at least 2, got shape "
            f"{tuple(x.shape)}"
        )
    if 0 in tuple(x.shape):
        raise ValueError(
            f"compute_quantization_parameters: x cannot be empty, got shape {tuple(x.shape)}"
        )
    rows = int(x.shape[0])
    low, high, groups = _ranges(x, per_channel, group_size)
    if symmetric:
        largest = ops.maximum(ops.abs(low), high)
        low, high = ops.where(low < 0, ops.negative(largest), low), largest
    alike = ops.equal(low, high)
    low = ops.where(alike, ops.subtract(low, 1), low)
    high = ops.where(alike, ops.add(high, 1), high)
    greatest, lowest = 2**bits - 1, -(2 ** (bits - 1)) if signed else 0
    scale, zero = _lines(low, high, greatest, lowest, epsilon)
    if symmetric:
        zero = ops.full_like(scale, 2 ** (bits - 1) + lowest)
    else:  # a zero point that its dtype can't hold: the range has to reach to 0
        is_beyond = ops.logical_or(zero < lowest, zero > (lowest + greatest if signed else 255))
        low = ops.where(is_beyond, ops.minimum(low, 0.0), low)
        high = ops.where(is_beyond, ops.maximum(high, 0.0), high)
        scale, zero = _lines(low, high, greatest, lowest, epsilon)
    if signed:
        zero = ops.clip(zero, lowest, lowest + greatest)
    shape = (rows, groups) if groups > 1 else (-1, 1)
    scale, zero = ops.reshape(scale, shape), ops.reshape(zero, shape)
    if not per_channel:
        scale, zero = ops.tile(scale, (rows, 1)), ops.tile(zero, (rows, 1))
    kind = "int8" if signed else "uint8"
    return scale, ops.cast(zero, kind), ops.cast(greatest, compute_dtype)


def _lines(low: Any, high: Any, greatest: int, lowest: int, epsilon: float) -> tuple[Any, Any]:
    """The scale of a range, and the integer that stands for 0."""
    scale = ops.divide(ops.add(ops.subtract(high, low), epsilon), greatest)
    scale = ops.where(ops.less_equal(scale, 0), LEAST_SCALE, scale)
    return scale, ops.add(ops.round(ops.divide(ops.negative(low), scale)), lowest)


def _ranges(x: Any, per_channel: bool, group_size: int) -> tuple[Any, Any, int]:
    """The least and greatest number of each group, and how many groups a row has."""
    rows, columns = (int(n) for n in x.shape[:2])
    groups = -(-columns // group_size) if per_channel and group_size > 0 else 1
    if groups > 1:
        missing = groups * group_size - columns
        padded = ops.pad(x, [[0, 0], [0, missing]]) if missing else x
        parts = ops.reshape(padded, (rows, groups, group_size))
    else:
        parts = ops.reshape(x, (rows if per_channel else 1, -1))
    return ops.min(parts, axis=-1), ops.max(parts, axis=-1), groups


def quantize_with_zero_point(input_tensor: Any, scale: Any, zero: Any, maxq: Any) -> Tensor:
    """The integers `round(input / scale + zero)` in [0, maxq], as floats.

    Args:
        input_tensor: floats.
        scale: a scale of 0 counts as a very small one.
        zero: zero points.
        maxq: the greatest integer.
    """
    safe = ops.where(ops.equal(scale, 0), ops.cast(LEAST_SCALE, scale.dtype), scale)
    near = ops.round(ops.add(ops.divide(input_tensor, safe), ops.cast(zero, scale.dtype)))
    return ops.clip(near, 0, maxq)


def dequantize_with_zero_point(input_tensor: Any, scale: Any, zero: Any) -> Tensor:
    """`(input - zero) * scale`.

    Args:
        input_tensor: integers.
        scale: what they are multiplied by.
        zero: what stands for 0.
    """
    shifted = ops.subtract(input_tensor, ops.cast(zero, scale.dtype))
    return ops.multiply(scale, shifted)


def quantize_with_sz_map(
    weights_matrix: Any, scale: Any, zero: Any, g_idx: Any, maxq: Any, group_axis: int = -1
) -> Tensor:
    """`quantize_with_zero_point` with the scale and zero point of each position's group.

    Args:
        weights_matrix: floats.
        scale: scales by group.
        zero: zero points by group.
        g_idx: the group of each position along `group_axis`.
        maxq: the greatest integer.
        group_axis: the axis of `scale` and `zero` that counts groups.
    """
    groups = ops.cast(g_idx, "int32")
    return quantize_with_zero_point(
        weights_matrix,
        ops.take(scale, groups, axis=group_axis),
        ops.take(zero, groups, axis=group_axis),
        maxq,
    )


def dequantize_with_sz_map(
    weights_matrix: Any, scale: Any, zero: Any, g_idx: Any, group_axis: int = -1
) -> Tensor:
    """The floats of integers that `quantize_with_sz_map` made.

    Args:
        weights_matrix: the integers.
        scale: scales by group.
        zero: zero points by group.
        g_idx: the group of each position along `group_axis`.
        group_axis: the axis of `scale` and `zero` that counts groups.
    """
    groups = ops.cast(g_idx, "int32")
    scales = ops.take(scale, groups, axis=group_axis)
    zeros = ops.cast(ops.take(zero, groups, axis=group_axis), scales.dtype)
    integers = ops.cast(weights_matrix, scales.dtype)
    return ops.multiply(ops.subtract(integers, zeros), scales)
