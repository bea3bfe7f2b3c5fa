"""Compiled kernels of special functions, for float32 and float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core.cpu.cost_model import FUNCTION_NANOSECONDS
from trainkit.core.dispatch.facets import Tuned
from trainkit.kernels.jit.array_kernel import ArrayKernel
from trainkit.kernels.jit.kernel_family import FLOAT_SUFFIXES, FUNCTION_SECONDS, Family, owned
from trainkit.kernels.threads.thread_pool import shared

Array = Any

_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)


class FloatKernel:
    """A kernel of one formula for arrays of either dtype.

    Attributes:
        kernels: that for each dtype.
        min_elements: arrays with fewer are left to the plain version.
    """

    def __init__(self, name: str, takes: str, min_elements: int = 1) -> None:
        file = "special.special_compiled"
        self.kernels = {
            dtype: ArrayKernel(
                name + suffix,
                file,
                name + suffix,
                takes,
                functions=1,
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


ERFC = FloatKernel("erfc", "flat")
ERFINV = FloatKernel("erfinv", "flat")
ERFCINV = FloatKernel("erfcinv", "flat")
NDTRI = FloatKernel("ndtri", "flat")
LGAMMA = FloatKernel("lgamma", "flat")
DIGAMMA = FloatKernel("digamma", "flat")
TRIGAMMA = FloatKernel("trigamma", "flat")
LOGADDEXP = FloatKernel("logaddexp", "flat flat", 64)
BESSEL_J0 = FloatKernel("bessel_j0", "flat")
BESSEL_J1 = FloatKernel("bessel_j1", "flat")
BESSEL_Y0 = FloatKernel("bessel_y0", "flat")
BESSEL_Y1 = FloatKernel("bessel_y1", "flat")
BESSEL_I0 = FloatKernel("bessel_i0", "flat")
BESSEL_I1 = FloatKernel("bessel_i1", "flat")
BESSEL_I0E = FloatKernel("bessel_i0e", "flat")
BESSEL_I1E = FloatKernel("bessel_i1e", "flat")
BESSEL_K0 = FloatKernel("bessel_k0", "flat")
BESSEL_K1 = FloatKernel("bessel_k1", "flat")
BESSEL_K0E = FloatKernel("bessel_k0e", "flat")
BESSEL_K1E = FloatKernel("bessel_k1e", "flat")

# ------------------------------------------------------------------ incomplete functions

_INCOMPLETE_GAMMA = Family("incomplete_gamma", "special.incomplete_compiled", "incomplete_gamma")
_TOLERANCES = {_F32: 1e-12, _F64: 4.5e-16}
"""To which part of a sum its terms are added, by the dtype that it is rounded to."""


def _incomplete_gamma(a: Array, x: Array, is_upper: bool) -> Array | None:
    if x.dtype not in _TOLERANCES or a.dtype is not x.dtype:
        return None
    shape = np.broadcast_shapes(a.shape, x.shape)
    y = np.empty(shape)
    function_count = 20 * y.size  # a sum of so many terms takes as long
    run = _INCOMPLETE_GAMMA.find((), FUNCTION_SECONDS * function_count) if y.size else None
    if run is None:
        return None
    doubles = [
        owned(np.broadcast_to(v.astype(_F64, copy=False), shape)).reshape(-1) for v in (a, x)
    ]
    work = shared(FUNCTION_NANOSECONDS * function_count)
    run(*work, *doubles, y.reshape(-1), int(is_upper), _TOLERANCES[x.dtype])
    return y.astype(x.dtype, copy=False)


IGAMMA = Tuned(lambda a, x: _incomplete_gamma(a, x, False), fewest=1, fewest_beside=1)
IGAMMAC = Tuned(lambda a, x: _incomplete_gamma(a, x, True), fewest=1, fewest_beside=1)
