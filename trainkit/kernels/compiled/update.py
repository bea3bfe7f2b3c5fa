"""Compiles the loops that optimizers write for their update rules."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.kernels.generated import compiled_function


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
