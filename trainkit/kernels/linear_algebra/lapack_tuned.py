"""Matrices of floats factored and solved by LAPACK itself, where NumPy turns and copies them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from trainkit.core.cpu.lapack_library import lapack_addresses
from trainkit.core.dispatch import native
from trainkit.core.dispatch.facets import Tuned

Array = Any


@lru_cache(maxsize=1)
def _is_bound() -> bool:
    """Whether the compiled half knows where LAPACK is, which it learns once."""
    addresses = None if native.NATIVE is None else lapack_addresses()
    if addresses is not None:
        native.call_if_built("bind_lapack", *addresses)
    return addresses is not None and native.NATIVE is not None


def _call(name: str, *arrays: Array, **settings: Any) -> Any:
    """What a function of the compiled half gives for arrays, which it needs in C order.

    `None` for other types of floats, and where it finds what the body has the words for, such as a
    singular matrix.
    """
    if arrays[0].dtype.char not in "fd" or not _is_bound():
        return None
    in_order = [x if x.flags.c_contiguous else np.ascontiguousarray(x) for x in arrays]
    return getattr(native.NATIVE, name)(*in_order, **settings)


def _cholesky(x: Array, *, or_nan: bool = False) -> Array | None:
    return _call("cholesky_factors", x)


def _qr(x: Array, *, mode: str) -> tuple[Array, Array] | None:
    factors: tuple[Array, Array] | None = _call("qr_factors", x, complete=mode == "complete")
    return factors


def _slogdet(x: Array) -> tuple[Array, Array] | None:
    parts: tuple[Array, Array] | None = _call("log_determinants", x)
    return parts


def _solve_triangular(a: Array, b: Array, *, lower: bool) -> Array | None:
    return _call("triangle_solutions", a, b, lower=lower)


def _permute(pivots: Array, *, rows: int | None = None) -> Array | None:
    if native.NATIVE is None:
        return None
    size = pivots.shape[-1] if rows is None else rows
    permutations: Array | None = native.NATIVE.permutations_of(pivots, size)
    return permutations


CHOLESKY = Tuned(_cholesky)
QR = Tuned(_qr)
LU = Tuned(lambda x: _call("lu_factors", x))
INVERSE = Tuned(lambda x: _call("inverses", x))
SOLVE = Tuned(lambda a, b: _call("solutions", a, b))
SOLVE_TRIANGULAR = Tuned(_solve_triangular)
DETERMINANT = Tuned(lambda x: _call("determinants", x))
LOG_DETERMINANT = Tuned(_slogdet)
PERMUTATION = Tuned(_permute, exact=True)
