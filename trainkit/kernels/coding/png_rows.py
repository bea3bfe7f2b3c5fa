"""Rows of PNG files: bytes from differences to their neighbours at the left and above.

Source: the PNG specification, ISO/IEC 15948, section 9.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from trainkit.core.cpu.cost_model import CACHE_LINE
from trainkit.kernels.jit import kernel_family

Array = Any

PNG_ROWS = kernel_family.Family(
    "png_rows", "coding.png_rows_compiled", "png_rows", exact=True, alone=True
)

NONE, LEFT, ABOVE, MEAN, NEAREST = range(5)
"""The filters of a row; the last is Paeth's: left, above or the corner between them."""


def unfiltered(lines: Array, step: int) -> Array:
    """The bytes of rows.

    Args:
        lines: uint8 (rows, 1 + bytes of a row): the filter, 0 to 4, then differences.
        step: bytes from a pixel to the next one, at least 1.

    Returns:
        uint8 (rows, bytes of a row).
    """
    rows, length = len(lines), lines.shape[1] - 1
    run = PNG_ROWS.find((), kernel_family.STEP_SECONDS * (rows + length // step))  # of diagonals
    if run is not None:
        decoded = np.empty((rows, length), np.uint8)
        run(np.ascontiguousarray(lines), decoded, step)
        return decoded
    return _plain(lines, step)


def _plain(lines: Array, step: int) -> Array:
    """The same over NumPy."""
    rows, length = len(lines), lines.shape[1] - 1
    pixels = -(-length // step)
    # a row of zeros before the first, and a pixel of zeros before each row
    decoded = np.zeros((rows + 1, (pixels + 1) * step), np.uint8)
    values = np.zeros((rows, pixels * step), np.uint8)
    values[:, :length] = lines[:, 1:]
    kinds = lines[:, 0]
    if not (kinds >= MEAN).any():
        _by_rows(kinds, values, decoded, step)
    elif min(rows, pixels) * step < CACHE_LINE:  # such diagonals are not worth their calls
        _by_bytes(kinds, values, decoded, step)
    else:
        _by_diagonals(kinds, values, decoded, step)
    return decoded[1:, step : step + length]


def _by_rows(kinds: Array, values: Array, decoded: Array, step: int) -> None:
    for k, (kind, row) in enumerate(zip(kinds.tolist(), values, strict=True)):
        if kind == LEFT:
            row = row.reshape(-1, step).cumsum(axis=0, dtype=np.uint8).reshape(-1)
        elif kind == ABOVE:
            row = row + decoded[k, step:]
        decoded[k + 1, step:] = row


def _by_bytes(kinds: Array, values: Array, decoded: Array, step: int) -> None:
    above = decoded[0].tolist()
    for k, (kind, row) in enumerate(zip(kinds.tolist(), values.tolist(), strict=True)):
        out = [0] * step
        for i, value in enumerate(row):
            left, up, corner = out[i], above[i + step], above[i]
            if kind == NEAREST:
                a, b, c = abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)
                guess = left if a <= b and a <= c else up if b <= c else corner
            else:
                guess = (0, left, up, (left + up) // 2)[kind]
            out.append((value + guess) & 255)
        decoded[k + 1] = above = out


def _by_diagonals(kinds: Array, values: Array, decoded: Array, step: int) -> None:
    """All rows at a time, each a pixel behind the one above, whose bytes are known by then."""
    rows, pixels = len(values), values.shape[1] // step
    shape = pixels + rows, rows, step
    skewed_values = as_strided(values, shape, (step, values.shape[1] - step, 1))
    target = as_strided(decoded[1:, step:], shape, (step, decoded.shape[1] - step, 1))
    first = decoded[0, step:].reshape(pixels, step)
    masks = [(kind, (kinds == kind)[:, None]) for kind in range(NEAREST) if (kinds == kind).any()]
    # three diagonals, by row, from the one above all on
    now, last, before = (np.zeros((rows + 1, step), np.int16) for _ in range(3))
    last[0] = first[0]
    for t in range(pixels + rows - 1):
        some = slice(max(0, t - pixels + 1), min(rows, t + 1))
        below = slice(some.start + 1, some.stop + 1)
        left, up, corner = last[below], last[some], before[some]
        guess = _nearest(left, up, corner)
        others: tuple[Array, ...] = (0, left, up, (left + up) >> 1) if masks else ()
        for kind, mask in masks:
            np.copyto(guess, others[kind], where=mask[some])
        guess += skewed_values[t, some]
        guess &= 255
        now[below] = guess
        target[t, some] = guess
        if t + 1 < pixels:
            now[0] = first[t + 1]
        now, last, before = before, now, last


def _nearest(left: Array, up: Array, corner: Array) -> Array:
    """Which of the three is nearest to left + up - corner; in doubt the first."""
    down, right = up - corner, left - corner
    a, b, c = np.abs(down), np.abs(right), np.abs(down + right)
    guess: Array = np.where(b <= c, up, corner)
    np.copyto(guess, left, where=a <= np.minimum(b, c))
    return guess
