"""Attention and its gradient over `xp`, some samples at a time where there are many scores.

The reference that the compiled kernels are compared with, and what runs when there is none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core.cpu.cost_model import THIRD_CACHE
from trainkit.kernels.matmul.matmul_gpu import matmul

Array = Any
Piece = tuple[Array, ...]

MOST_SCORES = THIRD_CACHE // 8
"""How many scores are there at a time, if a single sample has no more: as many of float64 as the
third cache holds."""


def _pieces(xp: Any, q: Array, k: Array) -> list[slice]:
    """Stretches of samples whose scores are made together."""
    each = max(1, q.shape[1] * q.shape[2] * k.shape[1])
    count = max(1, MOST_SCORES // each) if xp is np else max(1, len(q))
    return [slice(i, i + count) for i in range(0, max(1, len(q)), count)]


def _of(mask: Array | None, piece: slice) -> Array | None:
    return mask if mask is None or len(mask) == 1 else mask[piece]


def by_head(x: Array, heads: int) -> Array:
    """(batch, length, heads, size) as (batch, heads, length, size); shared heads are repeated."""
    group = heads // x.shape[2]
    x = x.transpose(0, 2, 1, 3)
    return x if group == 1 else x.repeat(group, axis=1)


def shares(xp: Any, q: Array, k: Array, mask: Array | None, scale: float, causal: bool) -> Array:
    """What part of each value a query takes, (batch, heads, targets, sources); 0 if it sees none.

    Both are by head. A row with NaN in it is NaN.
    """
    s = matmul(xp, q * q.dtype.type(scale), k.swapaxes(2, 3))
    if not s.shape[3]:  # without sources there is no greatest score
        return s
    if causal:
        causal_mask = xp.tril(xp.ones(s.shape[2:], bool))
        mask = causal_mask if mask is None else mask & causal_mask
    if mask is not None:
        s = xp.where(mask, s, s.dtype.type(-np.inf))
    top = s.max(axis=-1, keepdims=True)
    s -= xp.where(top == -np.inf, top.dtype.type(0), top)
    s = xp.exp(s, out=s)
    total = s.sum(axis=-1, keepdims=True)
    s /= xp.where(total == 0, total.dtype.type(1), total)
    return s


def attention(
    xp: Any, q: Array, k: Array, v: Array, mask: Array | None, scale: float, causal: bool
) -> Array:
    """(batch, targets, heads, value size), laid out in this order."""
    y = xp.empty((*q.shape[:3], v.shape[3]), q.dtype)
    heads = q.shape[2]
    for piece in _pieces(xp, q, k):
        one, two, values = (by_head(x[piece], heads) for x in (q, k, v))
        p = shares(xp, one, two, _of(mask, piece), scale, causal)
        y[piece] = matmul(xp, p, values).transpose(0, 2, 1, 3)
    return y


def attention_gradient(
    xp: Any, g: Array, q: Array, k: Array, v: Array, mask: Array | None, scale: float, causal: bool
) -> tuple[Array, Array, Array]:
    """Gradients by q, k and v."""
    results = tuple(xp.empty(x.shape, x.dtype) for x in (q, k, v))
    for piece in _pieces(xp, q, k):
        inputs = tuple(x[piece] for x in (g, q, k, v))
        gradients = _gradient(xp, inputs, _of(mask, piece), scale, causal)
        for result, part in zip(results, gradients, strict=True):
            result[piece] = summed(part, result.shape[2])
    return results


def _gradient(xp: Any, inputs: Piece, mask: Array | None, scale: float, causal: bool) -> Piece:
    g, q, k, v = (by_head(x, inputs[1].shape[2]) for x in inputs)
    p = shares(xp, q, k, mask, scale, causal)
    by_v = matmul(xp, p.swapaxes(2, 3), g)
    grads = matmul(xp, g, v.swapaxes(2, 3))
    grads *= p
    grads -= p * grads.sum(axis=-1, keepdims=True)
    grads *= grads.dtype.type(scale)
    return matmul(xp, grads, k), matmul(xp, grads.swapaxes(2, 3), q), by_v


def summed(x: Array, heads: int) -> Array:
    """(batch, length, heads, size) of what is by head, heads that share one summed."""
    batch, every, length, size = x.shape
    if every != heads:
        x = x.reshape(batch, heads, every // heads, length, size).sum(axis=2)
    return x.transpose(0, 2, 1, 3)
