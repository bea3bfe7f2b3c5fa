"""What follows a product or a convolution in an inference: normalization, shortcut, rectifier."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from trainkit.core.cpu.cost_model import BYTE_NANOSECONDS
from trainkit.kernels.jit import kernel_family
from trainkit.kernels.normalization.norm_tuned import NONE, Rectifier
from trainkit.kernels.threads.thread_pool import shared

Array = Any

EPILOGUE = kernel_family.Family("epilogue", "matmul.epilogue_compiled", "epilogue")
_F32 = np.dtype(np.float32)
EMPTY_VECTOR, EMPTY_MATRIX = np.empty(0, _F32), np.empty((0, 0), _F32)
"""Stand for what there is not."""


class Epilogue(NamedTuple):
    """y * factor + shift + residual, rectified.

    Attributes:
        factor: (features,).
        shift: (features,).
        residual: of the shape of y, or `None`.
        rectifier: what holds the results between limits.
    """

    factor: Array
    shift: Array
    residual: Array | None = None
    rectifier: Rectifier = NONE

    @property
    def limits(self) -> tuple[Any, Any]:
        """The smallest and the largest result, as float32."""
        return limits_of(self.rectifier)

    def residual_of(self, shape: tuple[int, ...], empty: Array) -> Array:
        """The residual as an array of `shape`, `empty` where there is none."""
        return empty if self.residual is None else self.residual.reshape(shape)


@lru_cache
def limits_of(rectifier: Rectifier) -> tuple[Any, Any]:
    """The smallest and the largest result that a rectifier lets pass, as float32."""
    return np.float32(rectifier.low), np.float32(rectifier.high)


def is_compiled() -> bool:
    """Whether the kernel is at hand, so that it serves from the first call."""
    return EPILOGUE.find((), 0.0) is not None


def fits(epilogue: Epilogue, shape: tuple[int, ...]) -> bool:
    """Whether kernels may read an epilogue of results of `shape` where its arrays lie."""
    factor, shift, residual, _ = epilogue
    if not factor.shape == shift.shape == shape[-1:]:
        return False
    if residual is not None and not (residual.shape == shape and _is_readable(residual)):
        return False
    return _is_readable(factor) and _is_readable(shift)


def _is_readable(array: Array) -> bool:
    # the kernels' types are those of arrays that may be written
    return array.dtype is _F32 and array.flags.carray


def finish(y: Array, epilogue: Epilogue) -> bool:
    """Change `y`, which nobody else holds, into what follows.

    Returns:
        False, and leaves `y` as it is, where there is no kernel for it.
    """
    nanoseconds = 2 * BYTE_NANOSECONDS * y.nbytes
    run = EPILOGUE.find((), nanoseconds * 1e-9)
    if run is None or not y.flags.c_contiguous or not fits(epilogue, y.shape) or not y.size:
        return False
    rows = y.reshape(-1, y.shape[-1])
    residual = epilogue.residual_of(rows.shape, EMPTY_MATRIX)
    run(*shared(nanoseconds), epilogue.factor, epilogue.shift, residual, rows, *epilogue.limits)
    return True
