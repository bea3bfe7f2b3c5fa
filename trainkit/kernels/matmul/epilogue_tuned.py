"""What follows a product or a convolution in an inference: normalization, shortcut, rectifier."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from trainkit.kernels.jit import kernel_family
from trainkit.kernels.normalization.norm_tuned import NONE, Rectifier
from trainkit.kernels.threads.thread_pool import shared

Array = Any

EPILOGUE = kernel_family.Family("epilogue", "matmul.epilogue_compiled", "epilogue")
_NANOSECONDS = 0.2
"""What the kernel takes for an element."""
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
        return np.float32(self.rectifier.low), np.float32(self.rectifier.high)

    def residual_of(self, shape: tuple[int, ...], empty: Array) -> Array:
        """The residual as an array of `shape`, `empty` where there is none."""
        return empty if self.residual is None else self.residual.reshape(shape)


def is_compiled() -> bool:
    """Whether the kernel is at hand, so that it serves from the first call."""
    return EPILOGUE.find((), 0.0) is not None


def fits(epilogue: Epilogue, shape: tuple[int, ...]) -> bool:
    """Whether kernels may read an epilogue of results of `shape` where its arrays lie."""
    factor, shift, residual, _ = epilogue
    arrays = (factor, shift) if residual is None else (factor, shift, residual)
    return (
        factor.shape == shift.shape == shape[-1:]
        and (residual is None or residual.shape == shape)
        # the kernels' types are those of arrays that may be written
        and all(a.dtype is _F32 and a.flags.carray for a in arrays)
    )


def finish(y: Array, epilogue: Epilogue) -> bool:
    """Change `y`, which nobody else holds, into what follows.

    Returns:
        False, and leaves `y` as it is, where there is no kernel for it.
    """
    run = EPILOGUE.find((), y.size * _NANOSECONDS * 1e-9)
    if run is None or not y.flags.c_contiguous or not fits(epilogue, y.shape) or not y.size:
        return False
    rows = y.reshape(-1, y.shape[-1])
    residual = epilogue.residual_of(rows.shape, EMPTY_MATRIX)
    work = shared(_NANOSECONDS * y.size)
    run(*work, epilogue.factor, epilogue.shift, residual, rows, *epilogue.limits)
    return True
