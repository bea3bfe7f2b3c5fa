"""Fake quantization with trainable ends of the interval."""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.core.shapes import canonical_axis
from trainkit.core.tensor import Tensor
from trainkit.ops.neural.fake_quant import fake_quant
from trainkit.quantizers.abs_max import as_tensor


def fake_quant_with_min_max_vars(
    inputs: Any,
    min_vals: Any,
    max_vals: Any,
    num_bits: int = 8,
    narrow_range: bool = False,
    axis: int | None = None,
) -> Tensor:
    """`inputs` clipped to [min_vals, max_vals] and rounded to one of `2**num_bits` numbers there.

    Args:
        inputs: floats.
        min_vals: the least number: one, or one for each channel.
        max_vals: the greatest.
        num_bits: how many numbers there are, as a power of 2.
        narrow_range: leave the least of them out.
        axis: which axis of `inputs` counts channels; `None` for one interval in all.

    Returns:
        Floats like `inputs`. Their gradient by `inputs` is 1 inside of the interval and 0 outside;
        an end of it gets the gradient of all that is clipped to it.

    Raises:
        ValueError: `axis` is none of `inputs`, or the ends are not as many as it has channels.
    """
    x = as_tensor(inputs)
    ends = [ops.cast(as_tensor(end), "float32") for end in (min_vals, max_vals)]
    if axis is None:
        shape: tuple[int, ...] = ()
    else:
        rank = len(x.shape)
        position = canonical_axis(axis, rank, "fake_quant_with_min_max_vars")
        shape = (*[1] * position, -1, *[1] * (rank - 1 - position))
        for end in ends:
            if len(end.shape) > 1 or tuple(end.shape) not in ((), (1,), (x.shape[position],)):
                raise ValueError(
                    f"fake_quant_with_min_max_vars: axis {axis} of inputs of shape "
                    f"{tuple(x.shape)} needs one number for each channel, got ends of shapes "
                    f"{tuple(ends[0].shape)} and {tuple(ends[1].shape)}"
                )
    low, high = (ops.reshape(end, shape) for end in ends)
    floats = x if x.dtype.name in ("float32", "float64") else ops.cast(x, "float32")
    y = fake_quant(floats, low, high, num_bits=int(num_bits), narrow_range=bool(narrow_range))
    return y if y.dtype == x.dtype else ops.cast(y, x.dtype)
