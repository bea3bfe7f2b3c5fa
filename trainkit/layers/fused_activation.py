"""Activations that an operation applies to its own result, which saves a pass over memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainkit import activations, ops
from trainkit.ops.neural.bias_activation import biased_gelu

_IN_PLACE = {activations.relu: "relu", activations.linear: None}


def split_activation(activation: Any) -> tuple[str | None, Callable[[Any], Any] | None]:
    """What `ops.dense` and `ops.conv_with_bias` are to apply, and what is left for after them."""
    try:
        return _IN_PLACE[activation], None
    except (KeyError, TypeError):  # another function, or an object that has no hash
        return None, activation


def dense(inputs: Any, kernel: Any, bias: Any, activation: Any) -> Any:
    """activation(inputs @ kernel + bias) in as few passes over memory as there is an operation for.

    On a GPU the steps stay apart where graphs fuse them by themselves.
    """
    if activation is activations.gelu and bias is not None:
        z = ops.dense(inputs, kernel)
        if z.dtype == bias.dtype and z.dtype.name == "float32" and "CPU" in z.device:
            return biased_gelu(z, bias)
        return activation(ops.add(z, bias))
    if activation is activations.linear:
        return ops.dense(inputs, kernel, bias)
    applied, left = split_activation(activation)
    y = ops.dense(inputs, kernel, bias, applied)
    return y if left is None else left(y)
