"""Compiled kernels of special functions, for float32 and float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core.dispatch.facets import Tuned
from trainkit.kernels.jit.array_kernel import ArrayKernel
from trainkit.kernels.jit.kernel_family import FLOAT_SUFFIXES, Family, owned
from trainkit.kernels.threads.thread_pool import shared

Array = Any

_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)


class FloatKernel:
    """A kernel of one formula for arrays of either dtype.

    Attributes:
        kernels: that for each dtype.
        min_elements: arrays with fewer are left to the plain version.
    """

    def __init__(self, name: str, takes: str, plain: float, min_elements: int = 1) -> None:
        file = "special.special_compiled"
        self.kernels = {
            dtype: ArrayKernel(
                name + suffix,
                file,
                name + suffix,
                takes,
                plain=plain,
                fewest=min_elements,
                dtype=dtype,
            )
            for dtype, suffix in FLOAT_SUFFIXES.items()
        }
        self.min_elements = self.kernels[_F32].fewest

    def __call__(self, *arrays: Array) -> Array | None:
        """The result, or `None` where the plain version is to make it."""
        kernel = self.kernels.get(getattr(arrays[0], "dtype", None))
        return None if kernel is None else kernel(*arrays)

    def facet(self) -> Tuned:
        """This kernel as what an operation declares of itself."""
        return Tuned(self, fewest=self.min_elements)


ERFC = FloatKernel("erfc", "flat", 95.0)
ERFINV = FloatKernel("erfinv", "flat", 96.0)
ERFCINV = FloatKernel("erfcinv", "flat", 96.0)
NDTRI = FloatKernel("ndtri", "flat", 91.0)
LGAMMA = FloatKernel("lgamma", "flat", 170.0)
DIGAMMA = FloatKernel("digamma", "flat", 200.0)
LOGADDEXP = FloatKernel("logaddexp", "flat flat", 35.0, 64)

# ------------------------------------------------------------------ incomplete functions

_INCOMPLETE_GAMMA = Family("incomplete_gamma", "special.incomplete_compiled", "incomplete_gamma")
_PLAIN_SECONDS = 3.5e-6
_NANOSECONDS = 100.0
_TOLERANCES = {_F32: 1e-12, _F64: 4.5e-16}
"""To which part of a sum its terms are added, by the dtype that it is rounded to."""


def _incomplete_gamma(a: Array, x: Array, is_upper: bool) -> Array | None:
    if x.dtype not in _TOLERANCES or a.dtype is not x.dtype:
        return None
    shape = np.broadcast_shapes(a.shape, x.shape)
    y = np.empty(shape)
    run = _INCOMPLETE_GAMMA.find((), _PLAIN_SECONDS * y.size) if y.size else None
    if run is None:
        return None
    doubles = [
        owned(np.broadcast_to(v.astype(_F64, copy=False), shape)).reshape(-1) for v in (a, x)
    ]
    run(
        *shared(_NANOSECONDS * y.size), *doubles, y.reshape(-1), int(is_upper), _TOLERANCES[x.dtype]
    )
    return y.astype(x.dtype, copy=False)


IGAMMA = Tuned(lambda a, x: _incomplete_gamma(a, x, False), fewest=1, fewest_beside=1)
IGAMMAC = Tuned(lambda a, x: _incomplete_gamma(a, x, True), fewest=1, fewest_beside=1)
