"""Softmax of rows, its gradient, and cross-entropy with class numbers, each row in one visit."""

from __future__ import annotations

import numpy as np
from numba import int64

from trainkit.kernels.elementwise.vector_math import exponential
from trainkit.kernels.jit.builders import MATRIX, VECTOR, by_parts
from trainkit.kernels.jit.options import inlined
from trainkit.kernels.reductions.reductions_compiled import number_of, rank
from trainkit.kernels.threads.parallel_for import chunk_range

_NUMBERS = int64[::1]


@inlined
def _greatest(x, row):
    """The largest number of a row; any with NaN in it: its sum is NaN whatever was taken off."""
    top = rank(x[row, 0])
    for c in range(1, x.shape[1]):
        top = max(top, rank(x[row, c]))
    return number_of(top)


@inlined
def _sum_of_powers(x, row, top):
    """The sum of exp(row - top)."""
    total = np.float32(0)
    for c in range(x.shape[1]):
        total += exponential(x[row, c] - top)
    return total


@inlined
def _write_powers(x, row, top, y):
    """exp(row - top) in `y`, and the sum."""
    total = np.float32(0)
    for c in range(x.shape[1]):
        power = exponential(x[row, c] - top)
        y[row, c] = power
        total += power
    return total


@by_parts(MATRIX, MATRIX)
def softmax(part, parts, x, y):
    """exp(row) / sum(exp(row))."""
    classes = x.shape[1]
    first, last = chunk_range(part, parts, x.shape[0], 1)
    for row in range(first, last):
        top = _greatest(x, row)
        total = _write_powers(x, row, top, y)
        share = np.float32(1) / total
        for c in range(classes):
            y[row, c] *= share


@by_parts(MATRIX, MATRIX, MATRIX)
def softmax_gradient(part, parts, g, y, result):
    """y * (g - sum(g * y)) of each row."""
    classes = g.shape[1]
    first, last = chunk_range(part, parts, g.shape[0], 1)
    for row in range(first, last):
        level = np.float32(0)
        for c in range(classes):
            level += g[row, c] * y[row, c]
        for c in range(classes):
            result[row, c] = y[row, c] * (g[row, c] - level)


@by_parts(MATRIX, MATRIX)
def log_softmax(part, parts, x, y):
    """The row less its greatest number and the logarithm of sum(exp(row - greatest))."""
    first, last = chunk_range(part, parts, x.shape[0], 1)
    for row in range(first, last):
        top = _greatest(x, row)
        total = np.float32(0)
        for c in range(x.shape[1]):
            # Written at once, as else LLVM would take `top + level` off, which has lost digits.
            y[row, c] = x[row, c] - top
            total += exponential(y[row, c])
        level = np.log(total)
        for c in range(x.shape[1]):
            y[row, c] -= level


@by_parts(MATRIX, MATRIX, MATRIX)
def log_softmax_gradient(part, parts, g, y, result):
    """Each row g - exp(y) * sum(g)."""
    first, last = chunk_range(part, parts, g.shape[0], 1)
    for row in range(first, last):
        level = np.float32(0)
        for c in range(g.shape[1]):
            level += g[row, c]
        for c in range(g.shape[1]):
            result[row, c] = g[row, c] - exponential(y[row, c]) * level


@by_parts(_NUMBERS, MATRIX, VECTOR)
def loss(part, parts, labels, logits, losses):
    """log(sum(exp(row))) - row[label]."""
    first, last = chunk_range(part, parts, logits.shape[0], 1)
    for row in range(first, last):
        top = _greatest(logits, row)
        total = _sum_of_powers(logits, row, top)
        losses[row] = np.log(total) - (logits[row, labels[row]] - top)


@by_parts(_NUMBERS, MATRIX, VECTOR, MATRIX)
def loss_and_gradients(part, parts, labels, logits, losses, grads):
    """`loss`, and softmax(row) - one_hot(label)."""
    classes = logits.shape[1]
    first, last = chunk_range(part, parts, logits.shape[0], 1)
    for row in range(first, last):
        top = _greatest(logits, row)
        total = _write_powers(logits, row, top, grads)
        losses[row] = np.log(total) - (logits[row, labels[row]] - top)
        share = np.float32(1) / total
        for c in range(classes):
            grads[row, c] *= share
        grads[row, labels[row]] -= np.float32(1)


@by_parts(VECTOR, MATRIX, MATRIX, exact=True)
def scaled_rows(part, parts, g, grads, result):
    """Each row times its number."""
    first, last = chunk_range(part, parts, grads.shape[0], 1)
    for row in range(first, last):
        scale = g[row]
        for c in range(grads.shape[1]):
            result[row, c] = grads[row, c] * scale


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


@by_parts(MATRIX, MATRIX, VECTOR)
def dense_loss(part, parts, labels, logits, losses):
    """-sum(labels * log(softmax(row)))."""
    first, last = chunk_range(part, parts, logits.shape[0], 1)
    for row in range(first, last):
        top = _greatest(logits, row)
        total = _sum_of_powers(logits, row, top)
        losses[row] = _dense_loss(logits, labels, row, top, total)


@by_parts(MATRIX, MATRIX, VECTOR, MATRIX)
def dense_loss_and_gradients(part, parts, labels, logits, losses, grads):
    """`dense_loss`, and softmax * sum(labels) - labels."""
    classes = logits.shape[1]
    first, last = chunk_range(part, parts, logits.shape[0], 1)
    for row in range(first, last):
        top = _greatest(logits, row)
        total, mass = np.float32(0), np.float32(0)
        for c in range(classes):
            power = exponential(logits[row, c] - top)
            grads[row, c] = power
            total += power
            mass += labels[row, c]
        losses[row] = _dense_loss(logits, labels, row, top, total)
        share = mass / total
        for c in range(classes):
            grads[row, c] = grads[row, c] * share - labels[row, c]


@by_parts(VECTOR, _NUMBERS, MATRIX, MATRIX)
def gradient(part, parts, g, labels, logits, result):
    """g * (softmax(row) - one_hot(label))."""
    classes = logits.shape[1]
    first, last = chunk_range(part, parts, logits.shape[0], 1)
    for row in range(first, last):
        top = _greatest(logits, row)
        total = _write_powers(logits, row, top, result)
        share = g[row] / total
        for c in range(classes):
            result[row, c] *= share
        if labels[row] >= 0 and labels[row] < classes:
            result[row, labels[row]] -= g[row]
