"""Compiled forward and backward variables of CTC."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core.cpu.cost_model import FUNCTION_NANOSECONDS
from trainkit.kernels.jit.kernel_family import FLOAT_SUFFIXES, FUNCTION_SECONDS, Family, owned
from trainkit.kernels.threads.thread_pool import shared

Array = Any

_FILE = "alignment.alignment_compiled"
FAMILIES = {
    (direction, dtype): Family(f"ctc_{direction}{suffix}", _FILE, f"{direction}{suffix}")
    for direction in ("forward", "backward")
    for dtype, suffix in FLOAT_SUFFIXES.items()
}


def forward(emitted: Array, skips: Array, lengths: Array) -> Array | None:
    """Log of the chance of all ways to each state at each time, or `None`.

    Args:
        emitted: (batch, time, states), log of the chance of each state's class.
        skips: (batch, states), whether a path may come from two states before.
        lengths: (batch,), how many steps count.

    Returns:
        (batch, time, states).
    """
    return _run("forward", emitted, skips, lengths)


def backward(emitted: Array, skips: Array, last: Array, lengths: Array) -> Array | None:
    """Log of the chance of all ways from each state to the end; `last` is the last state."""
    return _run("backward", emitted, skips, last, lengths)


def _run(direction: str, emitted: Array, skips: Array, *numbers: Array) -> Array | None:
    family = FAMILIES.get((direction, emitted.dtype))
    if family is None or not emitted.size:
        return None
    function_count = 2 * emitted.size  # chances of two states are added up for each
    run = family.find((), FUNCTION_SECONDS * function_count)
    if run is None:
        return None
    result = np.empty(emitted.shape, emitted.dtype)
    vectors = [owned(n.astype(np.int64, copy=False)) for n in numbers]
    work = shared(FUNCTION_NANOSECONDS * function_count)
    run(*work, owned(emitted), owned(skips), *vectors, result)
    return result
