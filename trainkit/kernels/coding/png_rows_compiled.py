"""Rows of PNG files, byte by byte."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int64, uint8, void
from numba.core.types import Array

from trainkit.kernels.jit.options import compiled

_LINES, _ROWS = Array(uint8, 2, "C", readonly=True), uint8[:, ::1]


def png_rows() -> Any:
    """`run(lines, decoded, step)`: bytes from the filter of each row and its differences."""

    @compiled(parallel=False, exact=True)
    def run(lines, decoded, step):
        for r in range(decoded.shape[0]):
            kind = lines[r, 0]
            for i in range(decoded.shape[1]):
                left = np.int64(decoded[r, i - step]) if i >= step else 0
                up = np.int64(decoded[r - 1, i]) if r > 0 else 0
                guess = 0
                if kind == 1:
                    guess = left
                elif kind == 2:
                    guess = up
                elif kind == 3:
                    guess = (left + up) // 2
                elif kind == 4:
                    corner = np.int64(decoded[r - 1, i - step]) if r > 0 and i >= step else 0
                    a, b, c = abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)
                    guess = left if a <= b and a <= c else up if b <= c else corner
                decoded[r, i] = np.uint8((np.int64(lines[r, i + 1]) + guess) & 255)

    run.compile(void(_LINES, _ROWS, int64))
    return run
