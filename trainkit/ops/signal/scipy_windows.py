"""Windows of signals as NumPy arrays, by the names that SciPy's `get_window` knows them by.

Source: Harris 1978, "On the use of windows for harmonic analysis with the discrete Fourier
transform", Proc. IEEE 66(1); Nuttall 1981, "Some windows with very good sidelobe behavior", IEEE
Trans. Acoustics, Speech, and Signal Processing 29(1), for the sums of cosines of four terms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any

# The factors of 1, -cos(t), cos(2 t), -cos(3 t) ... with t from 0 to 2 pi.
_COSINES = {
    "boxcar": (1.0,),
    "hann": (0.5, 0.5),
    "hamming": (0.54, 0.46),
    "blackman": (0.42, 0.5, 0.08),
    "blackmanharris": (0.35875, 0.48829, 0.14128, 0.01168),
    "nuttall": (0.3635819, 0.4891775, 0.1365995, 0.0106411),
    "flattop": (0.21557895, 0.41663158, 0.277263158, 0.083578947, 0.006947368),
}


def _sum_of_cosines(factors: tuple[float, ...], n: int) -> Array:
    turn = 2 * np.pi * np.arange(n) / (n - 1)
    return sum((-1) ** k * a * np.cos(k * turn) for k, a in enumerate(factors))


def _barthann(n: int) -> Array:
    away = abs(np.arange(n) / (n - 1) - 0.5)
    return 0.62 - 0.48 * away + 0.38 * np.cos(2 * np.pi * away)


def _bohman(n: int) -> Array:
    away = abs(np.linspace(-1, 1, n))
    bell = (1 - away) * np.cos(np.pi * away) + np.sin(np.pi * away) / np.pi
    bell[[0, -1]] = 0
    return bell


def _lanczos(n: int) -> Array:
    return np.sinc(2 * np.arange(n) / (n - 1) - 1)


def _parzen(n: int) -> Array:
    away = abs(np.arange(n) - (n - 1) / 2)
    share = away / (n / 2)
    return np.where(away <= (n - 1) / 4, 1 - 6 * share**2 + 6 * share**3, 2 * (1 - share) ** 3)


def _triang(n: int) -> Array:
    from_end = np.minimum(np.arange(n), np.arange(n)[::-1])
    return (2 * from_end + 1) / n if n % 2 == 0 else 2 * (from_end + 1) / (n + 1)


def _tukey(n: int) -> Array:
    """Flat in the middle half, a cosine at each end."""
    from_end = np.minimum(np.arange(n), np.arange(n)[::-1])
    return 0.5 * (1 - np.cos(np.pi * np.minimum(4 * from_end / (n - 1), 1)))


_SHAPES: dict[str, Callable[[int], Array]] = {
    "bartlett": lambda n: 1 - abs(2 * np.arange(n) / (n - 1) - 1),
    "barthann": _barthann,
    "bohman": _bohman,
    "cosine": lambda n: np.sin(np.pi / n * (np.arange(n) + 0.5)),
    "lanczos": _lanczos,
    "parzen": _parzen,
    "triang": _triang,
    "tukey": _tukey,
}
NAMES = tuple(sorted({*_COSINES, *_SHAPES}))
"""The names of all windows."""


def signal_window(name: str, length: int, periodic: bool) -> Array:
    """A window of float64 numbers.

    Args:
        name: one of `NAMES`.
        length: number of points.
        periodic: whether it is one period of a longer signal rather than symmetric.
    """
    n = length + 1 if periodic else length
    if length <= 1:
        return np.ones(length)
    factors = _COSINES.get(name)
    window = _SHAPES[name](n) if factors is None else _sum_of_cosines(factors, n)
    return window[:length]
