"""How images and bands of weights are laid out for the kernels that make images of other sizes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from trainkit.core.cpu.cost_model import BYTE_NANOSECONDS, PRODUCT_NANOSECONDS
from trainkit.kernels.jit.kernel_family import BYTE_SECONDS, Family, owned
from trainkit.kernels.threads.thread_pool import shared

Array = Any

_F32 = np.dtype(np.float32)

SHRINK = Family("resize_shrink", "resizing.resize_compiled", "shrink")
ENLARGE = Family("resize_enlarge", "resizing.resize_compiled", "enlarge")


class Bands(NamedTuple):
    """The weights of a matrix without the zeros on both sides of each row.

    Attributes:
        old: how many columns the matrix has.
        bands: int64 (rows, 2), the first column that is not zero and how many there are from it to
            the last one.
        weights: float32 (rows, the most of these), zeros behind them.
    """

    old: int
    bands: Array
    weights: Array


def bands_of(matrix: Array) -> Bands:
    """The bands of weights (new, old)."""
    some = matrix != 0
    first = some.argmax(axis=1)
    counts = np.where(some.any(axis=1), matrix.shape[1] - some[:, ::-1].argmax(axis=1) - first, 0)
    columns = np.arange(max(int(counts.max()), 1))
    positions = np.minimum(first[:, None] + columns, matrix.shape[1] - 1)
    weights = np.where(columns < counts[:, None], np.take_along_axis(matrix, positions, 1), 0)
    bands = np.stack([first, counts], axis=1).astype(np.int64)
    return Bands(matrix.shape[1], bands, np.ascontiguousarray(weights, np.float32))


def resize(x: Array, rows: Bands, columns: Bands) -> Array | None:
    """Images (batch, height, width, channels) in another size, `None` where the body makes them."""
    if x.dtype is not _F32 or not x.size or x.shape[1:3] != (rows.old, columns.old):
        return None
    batch, height, width, channels = x.shape
    high, y_width = len(rows.bands), len(columns.bands)
    y = np.empty((batch, high, y_width, channels), np.float32)
    products = y.size * (rows.weights.shape[1] + columns.weights.shape[1])
    run = (ENLARGE if high > height else SHRINK).find((), BYTE_SECONDS * 10 * (x.nbytes + y.nbytes))
    if run is None:
        return None
    nanoseconds = BYTE_NANOSECONDS * (x.nbytes + y.nbytes) + PRODUCT_NANOSECONDS * products
    run(
        *shared(nanoseconds),
        owned(x).reshape(-1), y.reshape(-1), (height, width),
        rows.bands, rows.weights, columns.bands, columns.weights, channels,
    )  # fmt: skip
    return y
