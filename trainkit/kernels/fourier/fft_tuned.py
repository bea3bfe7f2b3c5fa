"""When compiled Fourier transforms pay, and what they are called with.

They take float32 and lengths with no factors but 2, 3 and 5; the others are NumPy's. Each line is
summed by itself, in the same order whatever lines are beside it.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from trainkit.core.cpu.cost_model import BYTE_NANOSECONDS, CALL_FLOATS
from trainkit.kernels.jit.kernel_family import BYTE_SECONDS, Family, owned
from trainkit.kernels.jit.register_tiles import tiling
from trainkit.kernels.threads.pools import MATRIX_SHARES
from trainkit.kernels.threads.thread_pool import shared

Array = Any

_F32, _C64 = np.dtype(np.float32), np.dtype(np.complex64)
LINES, COLUMNS, REAL_LINES, INVERSE_REAL_LINES = (
    Family(f"fourier_{name}", "fourier.fft_compiled", name)
    for name in ("lines", "columns", "real_lines", "inverse_real_lines")
)
FEWEST = CALL_FLOATS // 8
"""Numbers of an array from which on a call of a kernel takes less than one of NumPy's."""


class Passes(NamedTuple):
    """How lines of one length are transformed.

    Attributes:
        steps: rows of (radix, groups, transforms of a group, first of its roots).
        roots: pairs of floats, one below the other.
    """

    steps: Array
    roots: Array


@lru_cache(maxsize=128)
def passes_of(n: int) -> Passes | None:
    """The passes for lines of `n` complex numbers, `None` where `n` has other factors."""
    radices, quotient = [], n
    for radix in (5, 3, 4, 2):
        while quotient % radix == 0:
            radices.append(radix)
            quotient //= radix
    if quotient != 1 or n < 2:
        return None
    steps: list[tuple[int, ...]] = []
    roots: list[float] = []
    size, together = n, 1
    for radix in radices:
        groups = size // radix
        steps.append((radix, groups, together, len(roots)))
        roots += [p * k / size for p in range(groups) for k in range(1, radix)]
        size, together = groups, together * radix
    return Passes(np.array(steps, np.int64), _powers(np.array(roots)))


def _powers(turns: Array) -> Array:
    """exp(-2 pi i * turns) as pairs of floats, each rounded once."""
    angles = -2 * np.pi * turns
    return np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32)


@lru_cache(maxsize=128)
def ends_of(n: int) -> Array:
    """exp(-2 pi i k / n) for k up to n / 4: what spectra of real lines take."""
    return _powers(np.arange(n // 4 + 1) / n)


def _serves(x: Array, n: int, dtype: Any) -> Passes | None:
    """The passes over lines of `n` complex numbers, `None` where NumPy is to transform them."""
    if type(x) is not np.ndarray or x.dtype is not dtype or not x.ndim or x.size < FEWEST:
        return None
    # A block of longer lines lies in no near cache, and few lines leave most lanes empty. No
    # processor decides: which version makes a line tells its bits.
    return passes_of(n) if 8 <= n <= 4096 and x.size >= 4 * n else None


def _plain_seconds(x: Array) -> float:
    """What NumPy takes, as long as for ten passes over memory."""
    return float(10 * x.nbytes * BYTE_SECONDS)


def _element_bytes() -> int:
    """Bytes of an element of a line in each lane."""
    return 8 * tiling(1)[2]


def _work(x: Array, blocks: int, n: int) -> tuple[int, int, Array]:
    """The pool, parts, and a room for each."""
    pool, parts = shared(8 * BYTE_NANOSECONDS * x.nbytes)
    parts = max(1, min(parts, blocks, MATRIX_SHARES))
    return pool, parts, np.empty((parts, 2 * n * _element_bytes() // 4), _F32)


def _blocks(lines: int) -> int:
    return -(-lines // tiling(1)[2])


def transform(x: Array, axis: int, is_inverse: bool, factor: float) -> Array | None:
    """Complex transform along an axis, counted from the end, times `factor`; or `None`.

    Args:
        x: complex64.
        axis: -1 for the last one.
        is_inverse: whether the exponent is positive.
        factor: of the result.
    """
    n = x.shape[axis] if x.ndim >= -axis else 0
    passes = _serves(x, n, _C64)
    family = LINES if axis == -1 else COLUMNS
    run = None if passes is None else family.find((), _plain_seconds(x))
    if run is None or passes is None:
        return None
    inner = math.prod(x.shape[x.ndim + axis + 1 :])
    shape = (-1, 2 * n) if axis == -1 else (x.size // (n * inner), n, 2 * inner)
    lines = x.size // n
    blocks = _blocks(lines) if axis == -1 else lines // inner * _blocks(inner)
    pool, parts, rooms = _work(x, blocks, n)
    y = np.empty(x.shape, _C64)
    source, target = owned(x).view(_F32).reshape(shape), y.view(_F32).reshape(shape)
    run(pool, parts, source, target, *passes, np.float32(factor), int(is_inverse), rooms)
    return y


def transform_axes(x: Array, rank: int, is_inverse: bool, is_divided: bool) -> Array | None:
    """The same along the last `rank` axes, by the number of elements if `is_divided`; or `None`."""
    if x.ndim < rank or any(_serves(x, n, _C64) is None for n in x.shape[x.ndim - rank :]):
        return None
    y: Array | None = x
    for axis in range(-1, -rank - 1, -1):
        factor = 1 / x.shape[axis] if is_divided else 1.0
        y = None if y is None else transform(y, axis, is_inverse, factor)
    return y


def real_transform(x: Array, factor: float) -> Array | None:
    """The first n / 2 + 1 elements of the transforms of real lines, times `factor`; or `None`."""
    n = x.shape[-1] if x.ndim else 0
    passes = None if n % 2 else _serves(x, n // 2, _F32)
    run = None if passes is None else REAL_LINES.find((), _plain_seconds(x))
    if run is None or passes is None:
        return None
    pool, parts, rooms = _work(x, _blocks(x.size // n), n // 2 + 1)
    y = np.empty((*x.shape[:-1], n // 2 + 1), _C64)
    source, target = owned(x).reshape(-1, n), y.view(_F32).reshape(-1, n + 2)
    run(pool, parts, source, target, *passes, ends_of(n), np.float32(factor), rooms)
    return y


def inverse_real_transform(x: Array, n: int, factor: float) -> Array | None:
    """Real lines of length `n`, times `factor` and n / 2, from halves of spectra; or `None`."""
    if n % 2 or not x.ndim or x.shape[-1] != n // 2 + 1:
        return None
    passes = _serves(x, n // 2, _C64)
    run = None if passes is None else INVERSE_REAL_LINES.find((), _plain_seconds(x))
    if run is None or passes is None:
        return None
    pool, parts, rooms = _work(x, _blocks(x.size // x.shape[-1]), n // 2 + 1)
    y = np.empty((*x.shape[:-1], n), _F32)
    source, target = owned(x).view(_F32).reshape(-1, n + 2), y.reshape(-1, n)
    run(pool, parts, source, target, *passes, ends_of(n), np.float32(factor), rooms)
    return y
