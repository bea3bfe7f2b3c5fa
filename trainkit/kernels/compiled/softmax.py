"""Softmax cross-entropy with class numbers: a row's loss, or its gradient, in one visit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float32, int64, prange, void

from trainkit.kernels.compiled.activations import exponential
from trainkit.kernels.compiled.options import compiled

_MATRIX, _VECTOR = float32[:, ::1], float32[::1]


def loss() -> Any:
    """`run(logits, tops, labels, losses)`: log(sum(exp(row))) - row[label].

    `tops` are the largest numbers of the rows, which NumPy finds faster.
    """

    @compiled()
    def run(logits, tops, labels, losses):
        classes = logits.shape[1]
        for row in prange(logits.shape[0]):
            top = tops[row]
            total = np.float32(0)
            for c in range(classes):
                total += exponential(logits[row, c] - top)
            losses[row] = np.log(total) - (logits[row, labels[row]] - top)

    run.compile(void(_MATRIX, _VECTOR, int64[::1], _VECTOR))
    return run


def gradient() -> Any:
    """`run(g, logits, tops, labels, result)`: g * (softmax(row) - one_hot(label))."""

    @compiled()
    def run(g, logits, tops, labels, result):
        classes = logits.shape[1]
        for row in prange(logits.shape[0]):
            top = tops[row]
            total = np.float32(0)
            for c in range(classes):
                power = exponential(logits[row, c] - top)
                result[row, c] = power
                total += power
            share = g[row] / total
            for c in range(classes):
                result[row, c] *= share
            if labels[row] >= 0 and labels[row] < classes:
                result[row, labels[row]] -= g[row]

    run.compile(void(_VECTOR, _MATRIX, _VECTOR, int64[::1], _MATRIX))
    return run
