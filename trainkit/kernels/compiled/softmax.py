"""Softmax of rows, its gradient, and cross-entropy with class numbers, each row in one visit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float32, int64, prange, void

from trainkit.kernels.compiled.activations import exponential
from trainkit.kernels.compiled.options import compiled, inlined
from trainkit.kernels.compiled.reductions import number_of, rank

_MATRIX, _VECTOR = float32[:, ::1], float32[::1]


@inlined
def _greatest(x, row):
    """The largest number of a row; any with NaN in it: its sum is NaN whatever was taken off."""
    top = rank(x[row, 0])
    for c in range(1, x.shape[1]):
        top = max(top, rank(x[row, c]))
    return number_of(top)


def softmax() -> Any:
    """`run(x, y)`: exp(row) / sum(exp(row))."""

    @compiled()
    def run(x, y):
        classes = x.shape[1]
        for row in prange(x.shape[0]):
            top = _greatest(x, row)
            total = np.float32(0)
            for c in range(classes):
                power = exponential(x[row, c] - top)
                y[row, c] = power
                total += power
            share = np.float32(1) / total
            for c in range(classes):
                y[row, c] *= share

    run.compile(void(_MATRIX, _MATRIX))
    return run


def softmax_gradient() -> Any:
    """`run(g, y, result)`: y * (g - sum(g * y)) of each row."""

    @compiled()
    def run(g, y, result):
        classes = g.shape[1]
        for row in prange(g.shape[0]):
            level = np.float32(0)
            for c in range(classes):
                level += g[row, c] * y[row, c]
            for c in range(classes):
                result[row, c] = y[row, c] * (g[row, c] - level)

    run.compile(void(_MATRIX, _MATRIX, _MATRIX))
    return run


def loss() -> Any:
    """`run(logits, labels, losses)`: log(sum(exp(row))) - row[label]."""

    @compiled()
    def run(logits, labels, losses):
        classes = logits.shape[1]
        for row in prange(logits.shape[0]):
            top = _greatest(logits, row)
            total = np.float32(0)
            for c in range(classes):
                total += exponential(logits[row, c] - top)
            losses[row] = np.log(total) - (logits[row, labels[row]] - top)

    run.compile(void(_MATRIX, int64[::1], _VECTOR))
    return run


def loss_and_slopes() -> Any:
    """`run(logits, labels, losses, slopes)`: the same, and softmax(row) - one_hot(label)."""

    @compiled()
    def run(logits, labels, losses, slopes):
        classes = logits.shape[1]
        for row in prange(logits.shape[0]):
            top = _greatest(logits, row)
            total = np.float32(0)
            for c in range(classes):
                power = exponential(logits[row, c] - top)
                slopes[row, c] = power
                total += power
            losses[row] = np.log(total) - (logits[row, labels[row]] - top)
            share = np.float32(1) / total
            for c in range(classes):
                slopes[row, c] *= share
            slopes[row, labels[row]] -= np.float32(1)

    run.compile(void(_MATRIX, int64[::1], _VECTOR, _MATRIX))
    return run


def scaled_rows() -> Any:
    """`run(g, slopes, result)`: each row times its number."""

    @compiled(exact=True)
    def run(g, slopes, result):
        for row in prange(slopes.shape[0]):
            scale = g[row]
            for c in range(slopes.shape[1]):
                result[row, c] = slopes[row, c] * scale

    run.compile(void(_VECTOR, _MATRIX, _MATRIX))
    return run


@inlined
def _dense_loss(logits, labels, row, top, total):
    """-sum(labels * (row - top - log(total))), nothing where the label is 0."""
    level = np.log(total)
    loss = np.float32(0)
    for c in range(logits.shape[1]):
        label = labels[row, c]
        product = label * (logits[row, c] - top - level)
        loss -= product if label != np.float32(0) else np.float32(0)
    return loss


def dense_loss() -> Any:
    """`run(logits, labels, losses)`: -sum(labels * log(softmax(row)))."""

    @compiled()
    def run(logits, labels, losses):
        for row in prange(logits.shape[0]):
            top = _greatest(logits, row)
            total = np.float32(0)
            for c in range(logits.shape[1]):
                total += exponential(logits[row, c] - top)
            losses[row] = _dense_loss(logits, labels, row, top, total)

    run.compile(void(_MATRIX, _MATRIX, _VECTOR))
    return run


def dense_loss_and_slopes() -> Any:
    """`run(logits, labels, losses, slopes)`: the same, and softmax(row) * sum(labels) - labels."""

    @compiled()
    def run(logits, labels, losses, slopes):
        classes = logits.shape[1]
        for row in prange(logits.shape[0]):
            top = _greatest(logits, row)
            total, mass = np.float32(0), np.float32(0)
            for c in range(classes):
                power = exponential(logits[row, c] - top)
                slopes[row, c] = power
                total += power
                mass += labels[row, c]
            losses[row] = _dense_loss(logits, labels, row, top, total)
            share = mass / total
            for c in range(classes):
                slopes[row, c] = slopes[row, c] * share - labels[row, c]

    run.compile(void(_MATRIX, _MATRIX, _VECTOR, _MATRIX))
    return run


def gradient() -> Any:
    """`run(g, logits, labels, result)`: g * (softmax(row) - one_hot(label))."""

    @compiled()
    def run(g, logits, labels, result):
        classes = logits.shape[1]
        for row in prange(logits.shape[0]):
            top = _greatest(logits, row)
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

    run.compile(void(_VECTOR, _MATRIX, int64[::1], _MATRIX))
    return run
