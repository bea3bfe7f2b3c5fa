"""Activations that an operation applies to its own result, which saves a pass over memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainkit import activations

_IN_PLACE = {activations.relu: "relu", activations.linear: None}


def split_activation(activation: Any) -> tuple[str | None, Callable[[Any], Any] | None]:
    """What `ops.dense` and `ops.conv_with_bias` are to apply, and what is left for after them."""
    try:
        return _IN_PLACE[activation], None
    except (KeyError, TypeError):  # another function, or an object that has no hash
        return None, activation
