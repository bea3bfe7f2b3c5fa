"""Compiles the loops that optimizers write for their update rules."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.kernels.jit.array_addresses import data_offset
from trainkit.kernels.jit.generated import compiled_function


def update(source: str, name: str, dtype: str, buffers: int, scalars: int, parallel: bool) -> Any:
    """The function `name` of `source`, compiled.

    Args:
        source: text of a module.
        name: the function in it.
        dtype: that of all arguments.
        buffers: how many arrays it takes first.
        scalars: how many numbers it takes then.
        parallel: `prange` spreads over the cores.
    """
    loop = compiled_function(source, name, parallel)
    arrays = [np.ones(1, dtype) for _ in range(buffers)]
    loop(*arrays, *[np.dtype(dtype).type(1)] * scalars)
    return loop


def joint_update(
    source: str, name: str, dtype: str, buffers: int, scalars: int, parallel: bool
) -> Any:
    """The function `name` of `source`, which takes the addresses of arrays, compiled.

    Args:
        source: text of a module.
        name: the function in it.
        dtype: that of the numbers in the arrays, and of the numbers that follow.
        buffers: how many arrays there are for a weight.
        scalars: how many numbers it takes.
        parallel: `prange` spreads over the cores.
    """
    loop = compiled_function(source, name, parallel)
    arrays = [np.ones(1, dtype) for _ in range(buffers)]
    items = np.array([[id(x) for x in arrays]], np.int64)
    sizes = np.ones(1, np.int64)
    loop(items, data_offset(), sizes, 1, *[np.dtype(dtype).type(1)] * scalars)
    return loop
