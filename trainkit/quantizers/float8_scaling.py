"""Numbers of 8 bits with a floating point: how training rounds to them, and what it scales by.

Source of the scales: NVIDIA's Transformer Engine, `update_fp8_metas`.
"""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.autodiff.custom_vjp import grad_pass_through
from trainkit.core.tensor import Tensor
from trainkit.ops.neural.fake_quant import FLOAT8, float8_rounded


def compute_float8_scale(amax: Any, scale: Any, dtype_max: Any, margin: int = 0) -> Tensor:
    """The factor by which to divide numbers before they are rounded to 8 bits.

    Args:
        amax: the greatest magnitude lately.
        scale: the factor until now, kept where `amax` is 0 or not finite.
        dtype_max: the greatest number of the format.
        margin: powers of 2 that are left free.
    """
    amax = ops.convert_to_tensor(amax, "float32")
    old = ops.reciprocal(ops.convert_to_tensor(scale, "float32"))
    new = ops.divide(ops.divide(dtype_max, amax), 2.0**margin)
    new = ops.where(ops.logical_and(amax > 0.0, ops.isfinite(amax)), new, old)
    return ops.reciprocal(new)


def compute_float8_amax_history(x: Any, amax_history: Any) -> Tensor:
    """The history of greatest magnitudes moved on by one, that of `x` in front.

    Args:
        x: numbers.
        amax_history: shape (length,).
    """
    greatest = ops.cast(ops.max(ops.abs(x)), amax_history.dtype)
    moved = ops.roll(amax_history, shift=-1)
    return ops.concatenate([ops.reshape(greatest, (1,)), moved[1:]], axis=0)


def quantize_and_dequantize(
    inputs: Any, scale: Any, quantized_dtype: Any, compute_dtype: Any
) -> Tensor:
    """`inputs` as they come back from 8 bits: `rounded(inputs / scale) * scale`.

    Args:
        inputs: floats.
        scale: factor by which they are divided first.
        quantized_dtype: `"float8_e4m3fn"` or `"float8_e5m2"`; greater numbers become its greatest.
        compute_dtype: dtype of the arithmetic and of the result.

    The gradient is that of the identity where nothing is clipped.

    Raises:
        ValueError: another format.
    """
    kind = str(getattr(quantized_dtype, "name", quantized_dtype))
    if kind not in FLOAT8:
        raise ValueError(
            f"quantize_and_dequantize: quantized_dtype must be one of {sorted(FLOAT8)}, got "
            f"{quantized_dtype!r}"
        )
    factor = ops.cast(scale, compute_dtype)
    scaled = ops.divide(ops.cast(inputs, compute_dtype), factor)
    greatest = FLOAT8[kind][2]
    return ops.multiply(_ROUNDED(ops.clip(scaled, -greatest, greatest), kind=kind), factor)


_ROUNDED = grad_pass_through(float8_rounded)
