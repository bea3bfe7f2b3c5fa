"""Numbers in few bits: to integers with a scale, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core import dtypes
from trainkit.core.tensor import Tensor
from trainkit.onnx.imported_values import (
    ChannelsLast,
    axis_of,
    channels_last,
    dtype_of,
    live_sizes,
    rank,
    tensor,
)
from trainkit.onnx.operator_rules import RULES, NodeCall, onnx_rule
from trainkit.onnx.tensor_reading import dtype_name


def _spread(call: NodeCall, x: Any, part: Any) -> Tensor:
    """A scale or zero point in a shape that broadcasts to that of x."""
    value, count = tensor(part), rank(x)
    if rank(value) == 0 or count == 0:
        return value if rank(value) == 0 else ops.reshape(value, ())
    axis = axis_of(call.int("axis", 1), count) if count > 1 or rank(value) > 1 else 0
    block = call.int("block_size", 0)
    if block and rank(value) == count:
        size = live_sizes(x)[axis]
        repeated = ops.repeat(value, block, axis=axis)
        return repeated[(*[slice(None)] * axis, slice(0, size))]
    if rank(value) == 1 and value.shape[0] == 1:
        return ops.reshape(value, ())
    return ops.reshape(value, (*[1] * axis, -1, *[1] * (count - axis - 1)))


@onnx_rule("DequantizeLinear")
def _dequantize(call: NodeCall, x: Any, scale: Any, zero: Any = None) -> Tensor:
    factor = _spread(call, x, scale)
    y = ops.cast(tensor(x), factor.dtype)
    if zero is not None:
        y = y - ops.cast(_spread(call, x, zero), factor.dtype)
    number = call.int("output_dtype", 0)
    return ops.cast(y * factor, dtype_name(number, "the result")) if number else y * factor


@onnx_rule("QuantizeLinear")
def _quantize(call: NodeCall, x: Any, scale: Any, zero: Any = None) -> Tensor:
    number = call.int("output_dtype", 0)
    name = (
        dtype_of(zero)
        if zero is not None
        else dtype_name(number, "the result")
        if number
        else "uint8"
    )
    y = ops.cast(tensor(x), "float32") / ops.cast(_spread(call, x, scale), "float32")
    y = ops.round(y)
    if zero is not None:
        y = y + ops.cast(_spread(call, x, zero), "float32")
    return _saturate(y, name, _FOUR_BITS.get(number))


_FOUR_BITS = {21: (0.0, 15.0), 22: (-8.0, 7.0)}  # of ONNX's numbers of uint4 and int4


def _saturate(y: Tensor, name: str, bounds: tuple[float, float] | None = None) -> Tensor:
    if bounds is None:
        limits = np.iinfo(dtypes.as_dtype(name).dtype)
        bounds = float(limits.min), float(limits.max)
    return ops.cast(ops.clip(y, *bounds), name)


@onnx_rule("DynamicQuantizeLinear")
def _dynamic_quantize(call: NodeCall, x: Any) -> tuple[Tensor, Tensor, Tensor]:
    y = tensor(x)
    low, high = ops.minimum(ops.min(y), 0.0), ops.maximum(ops.max(y), 0.0)
    scale = (high - low) / 255.0
    zero = _saturate(ops.round(-low / scale), "uint8")
    return _saturate(ops.round(y / scale) + ops.cast(zero, y.dtype), "uint8"), scale, zero


@onnx_rule("QLinearMatMul")
def _qlinear_matmul(
    call: NodeCall, a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any,
    y_scale: Any, y_zero: Any,
) -> Tensor:  # fmt: skip
    left = ops.cast(tensor(a), "int32") - ops.cast(_rows(a_zero), "int32")
    right = ops.cast(tensor(b), "int32") - ops.cast(tensor(b_zero), "int32")
    total = ops.cast(ops.matmul(left, right), "float32")
    factor = ops.cast(_rows(a_scale), "float32") * ops.cast(tensor(b_scale), "float32")
    y = total * (factor / ops.cast(tensor(y_scale), "float32"))
    return _saturate(ops.round(y) + ops.cast(tensor(y_zero), "float32"), dtype_of(y_zero))


@onnx_rule("ConvInteger")
def _conv_integer(call: NodeCall, x: Any, w: Any, x_zero: Any = None, w_zero: Any = None) -> Any:
    return _whole_conv(call, _shift(x, x_zero), _shift(w, w_zero, kernel=True), "int32")


@onnx_rule("QLinearConv")
def _qlinear_conv(
    call: NodeCall, x: Any, x_scale: Any, x_zero: Any, w: Any, w_scale: Any, w_zero: Any,
    y_scale: Any, y_zero: Any, bias: Any = None,
) -> Any:  # fmt: skip
    total = _whole_conv(call, _shift(x, x_zero), _shift(w, w_zero, kernel=True), "float32")
    y = channels_last(total)
    if bias is not None:
        y = y + ops.cast(tensor(bias), y.dtype)
    factor = ops.cast(tensor(x_scale), y.dtype) * ops.cast(tensor(w_scale), y.dtype)
    y = ops.round(y * (factor / ops.cast(tensor(y_scale), y.dtype)))
    return ChannelsLast(_saturate(y + ops.cast(tensor(y_zero), y.dtype), dtype_of(y_zero)))


def _shift(x: Any, zero: Any, kernel: bool = False) -> Tensor:
    """Integers less their zero point, as floats that hold them exactly."""
    y = ops.cast(tensor(x), "float64")
    if zero is None:
        return y
    shift = ops.cast(tensor(zero), "float64")
    if kernel and rank(shift) == 1:
        shift = ops.reshape(shift, (-1, *[1] * (rank(y) - 1)))
    return y - shift


def _whole_conv(call: NodeCall, x: Tensor, w: Tensor, dtype: str) -> Any:
    total = channels_last(RULES["Conv"](call, x, w))
    return ChannelsLast(ops.cast(total, dtype))


def _rows(value: Any) -> Tensor:
    """One number for each row."""
    x = tensor(value)
    return x[:, None] if rank(x) == 1 and x.shape[0] != 1 else x
