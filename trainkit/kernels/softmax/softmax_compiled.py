"""Softmax of rows, its gradient, and cross-entropy with class numbers, each row in one visit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float32, int64, void

from trainkit.kernels.elementwise.vector_math import exponential
from trainkit.kernels.jit.options import compiled, inlined
from trainkit.kernels.reductions.reductions_compiled import number_of, rank
from trainkit.kernels.threads.parallel_for import TEAM, spread, stretch

_MATRIX, _VECTOR = float32[:, ::1], float32[::1]


@inlined
def _greatest(x, row):
    """The largest number of a row; any with NaN in it: its sum is NaN whatever was taken off."""
    top = rank(x[row, 0])
    for c in range(1, x.shape[1]):
        top = max(top, rank(x[row, c]))
    return number_of(top)


@compiled(parallel=False)
def _softmax_part(part, parts, x, y):
    classes = x.shape[1]
    first, last = stretch(part, parts, x.shape[0], 1)
    for row in range(first, last):
        top = _greatest(x, row)
        total = np.float32(0)
        for c in range(classes):
            power = exponential(x[row, c] - top)
            y[row, c] = power
            total += power
        share = np.float32(1) / total
        for c in range(classes):
            y[row, c] *= share


def softmax() -> Any:
    """`run(team, parts, x, y)`: exp(row) / sum(exp(row))."""

    @compiled(parallel=False)
    def run(team, parts, x, y):
        spread(team, parts, _softmax_part, (x, y))

    run.compile(void(*TEAM, _MATRIX, _MATRIX))
    return run


@compiled(parallel=False)
def _softmax_gradient_part(part, parts, g, y, result):
    classes = g.shape[1]
    first, last = stretch(part, parts, g.shape[0], 1)
    for row in range(first, last):
        level = np.float32(0)
        for c in range(classes):
            level += g[row, c] * y[row, c]
        for c in range(classes):
            result[row, c] = y[row, c] * (g[row, c] - level)


def softmax_gradient() -> Any:
    """`run(team, parts, g, y, result)`: y * (g - sum(g * y)) of each row."""

    @compiled(parallel=False)
    def run(team, parts, g, y, result):
        spread(team, parts, _softmax_gradient_part, (g, y, result))

    run.compile(void(*TEAM, _MATRIX, _MATRIX, _MATRIX))
    return run


@compiled(parallel=False)
def _loss_part(part, parts, logits, labels, losses):
    classes = logits.shape[1]
    first, last = stretch(part, parts, logits.shape[0], 1)
    for row in range(first, last):
        top = _greatest(logits, row)
        total = np.float32(0)
        for c in range(classes):
            total += exponential(logits[row, c] - top)
        losses[row] = np.log(total) - (logits[row, labels[row]] - top)


def loss() -> Any:
    """`run(team, parts, logits, labels, losses)`: log(sum(exp(row))) - row[label]."""

    @compiled(parallel=False)
    def run(team, parts, logits, labels, losses):
        spread(team, parts, _loss_part, (logits, labels, losses))

    run.compile(void(*TEAM, _MATRIX, int64[::1], _VECTOR))
    return run


@compiled(parallel=False)
def _loss_and_slopes_part(part, parts, logits, labels, losses, slopes):
    classes = logits.shape[1]
    first, last = stretch(part, parts, logits.shape[0], 1)
    for row in range(first, last):
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


def loss_and_slopes() -> Any:
    """`run(team, parts, logits, labels, losses, slopes)`: also softmax(row) - one_hot(label)."""

    @compiled(parallel=False)
    def run(team, parts, logits, labels, losses, slopes):
        spread(team, parts, _loss_and_slopes_part, (logits, labels, losses, slopes))

    run.compile(void(*TEAM, _MATRIX, int64[::1], _VECTOR, _MATRIX))
    return run


@compiled(parallel=False, exact=True)
def _scaled_rows_part(part, parts, g, slopes, result):
    first, last = stretch(part, parts, slopes.shape[0], 1)
    for row in range(first, last):
        scale = g[row]
        for c in range(slopes.shape[1]):
            result[row, c] = slopes[row, c] * scale


def scaled_rows() -> Any:
    """`run(team, parts, g, slopes, result)`: each row times its number."""

    @compiled(parallel=False)
    def run(team, parts, g, slopes, result):
        spread(team, parts, _scaled_rows_part, (g, slopes, result))

    run.compile(void(*TEAM, _VECTOR, _MATRIX, _MATRIX))
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


@compiled(parallel=False)
def _dense_loss_part(part, parts, logits, labels, losses):
    first, last = stretch(part, parts, logits.shape[0], 1)
    for row in range(first, last):
        top = _greatest(logits, row)
        total = np.float32(0)
        for c in range(logits.shape[1]):
            total += exponential(logits[row, c] - top)
        losses[row] = _dense_loss(logits, labels, row, top, total)


def dense_loss() -> Any:
    """`run(team, parts, logits, labels, losses)`: -sum(labels * log(softmax(row)))."""

    @compiled(parallel=False)
    def run(team, parts, logits, labels, losses):
        spread(team, parts, _dense_loss_part, (logits, labels, losses))

    run.compile(void(*TEAM, _MATRIX, _MATRIX, _VECTOR))
    return run


@compiled(parallel=False)
def _dense_loss_and_slopes_part(part, parts, logits, labels, losses, slopes):
    classes = logits.shape[1]
    first, last = stretch(part, parts, logits.shape[0], 1)
    for row in range(first, last):
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


def dense_loss_and_slopes() -> Any:
    """`run(team, parts, logits, labels, losses, slopes)`: also softmax * sum(labels) - labels."""

    @compiled(parallel=False)
    def run(team, parts, logits, labels, losses, slopes):
        spread(team, parts, _dense_loss_and_slopes_part, (logits, labels, losses, slopes))

    run.compile(void(*TEAM, _MATRIX, _MATRIX, _VECTOR, _MATRIX))
    return run


@compiled(parallel=False)
def _gradient_part(part, parts, g, logits, labels, result):
    classes = logits.shape[1]
    first, last = stretch(part, parts, logits.shape[0], 1)
    for row in range(first, last):
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


def gradient() -> Any:
    """`run(team, parts, g, logits, labels, result)`: g * (softmax(row) - one_hot(label))."""

    @compiled(parallel=False)
    def run(team, parts, g, logits, labels, result):
        spread(team, parts, _gradient_part, (g, logits, labels, result))

    run.compile(void(*TEAM, _VECTOR, _MATRIX, int64[::1], _MATRIX))
    return run
