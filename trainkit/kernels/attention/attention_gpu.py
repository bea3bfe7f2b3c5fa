"""Attention and its gradient on a GPU: products in blocks of targets, a kernel for what is between.

Never more than `MOST_SCORES` scores are there at a time, whatever the lengths. A block has some
samples whole, or some targets of one of them; causal ones see only the sources before their end.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from trainkit.kernels.attention.attention_reference import by_head, summed
from trainkit.kernels.attention.attention_room import MOST_SCORES
from trainkit.kernels.cuda.element_types import ready
from trainkit.kernels.matmul.matmul_gpu import matmul
from trainkit.kernels.softmax import softmax_cuda, softmax_gpu

Array = Any


class _Block:
    """Targets that are computed together.

    Attributes:
        samples: which samples.
        targets: which targets.
        sources: which sources they may see.
        is_first: whether no block before has these samples.
    """

    def __init__(self, sample: int, samples: int, first: int, end: int, visible: int) -> None:
        self.samples = slice(sample, sample + samples)
        self.targets = slice(first, end)
        self.sources = slice(0, visible)
        self.is_first = first == 0

    def mask(self, mask: Array | None) -> Array | None:
        """The part of a mask (batch, heads, targets, sources), whose axes may have size 1."""
        if mask is None:
            return None
        cuts = (self.samples, slice(None), self.targets, self.sources)
        sizes = zip(mask.shape, cuts, strict=True)
        return mask[tuple(slice(None) if n == 1 else cut for n, cut in sizes)]


def _block_size(q: Array, k: Array) -> tuple[int, int]:
    """How many samples and targets a block has, of queries and keys by head."""
    batch, heads, targets, _ = q.shape
    row = heads * k.shape[2]
    samples = min(batch, max(1, MOST_SCORES // (row * targets)))
    return samples, targets if samples > 1 else max(1, min(targets, MOST_SCORES // row))


class _ScoreMemory:
    """Memory for the scores of any block: blocks differ, and a pool would keep each size."""

    def __init__(self, xp: Any, q: Array, k: Array) -> None:
        samples, rows = _block_size(q, k)
        self._flat = xp.empty(samples * q.shape[1] * rows * k.shape[2], q.dtype)
        self._xp = xp

    def product(self, a: Array, b: Array) -> Array:
        """The product of `a` with the transposed matrices `b`, in this memory."""
        shape = (*a.shape[:3], b.shape[2])
        out = self._flat[: math.prod(shape)].reshape(shape)
        return matmul(self._xp, a, b.swapaxes(2, 3), out=out)


def _blocks(q: Array, k: Array, causal: bool) -> Iterator[_Block]:
    """The blocks of queries and keys by head."""
    batch, _, targets, _ = q.shape
    sources = k.shape[2]
    samples, rows = _block_size(q, k)
    for sample in range(0, batch, samples):
        for first in range(0, targets, rows):
            end = min(first + rows, targets)
            yield _Block(sample, samples, first, end, min(end, sources) if causal else sources)


def _are_there(xp: Any, q: Array, *others: Array) -> bool:
    if any(a.dtype != q.dtype or not a.size for a in (q, *others)):
        return False
    return ready(xp, q.dtype, softmax_cuda.SHARES, softmax_cuda.SOFTMAX_BACK) is not None


def _heads_first(xp: Any, heads: int, *arrays: Array) -> list[Array]:
    return [xp.ascontiguousarray(by_head(x, heads)) for x in arrays]


def _shares(
    xp: Any,
    room: _ScoreMemory,
    block: _Block,
    q: Array,
    k: Array,
    mask: Array | None,
    scale: float,
    causal: bool,
) -> Array:
    """What part of each source the targets of a block take."""
    one, two = q[block.samples, :, block.targets], k[block.samples, :, block.sources]
    p = room.product(one, two)
    softmax_gpu.shares(xp, p, block.mask(mask), scale, causal, block.targets.start)
    return p


def attention(
    xp: Any, q: Array, k: Array, v: Array, mask: Array | None, scale: float, causal: bool
) -> Array | None:
    """(batch, targets, heads, value size), or `None` where the reference is to do it."""
    if not _are_there(xp, q, k, v):
        return None
    y = xp.empty((*q.shape[:3], v.shape[3]), q.dtype)
    q, k, v = _heads_first(xp, q.shape[2], q, k, v)
    room = _ScoreMemory(xp, q, k)
    for block in _blocks(q, k, causal):
        p = _shares(xp, room, block, q, k, mask, scale, causal)
        part = matmul(xp, p, v[block.samples, :, block.sources])
        y[block.samples, block.targets] = part.transpose(0, 2, 1, 3)
    return y


def attention_gradient(
    xp: Any, g: Array, q: Array, k: Array, v: Array, mask: Array | None, scale: float, causal: bool
) -> tuple[Array, Array, Array] | None:
    """Gradients by q, k and v, or `None`."""
    if not _are_there(xp, q, k, v, g):
        return None
    groups, heads = k.shape[2], q.shape[2]
    g, q, k, v = _heads_first(xp, heads, g, q, k, v)
    by_q, by_k, by_v = xp.empty_like(q), xp.zeros_like(k), xp.zeros_like(v)
    room, other = _ScoreMemory(xp, q, k), _ScoreMemory(xp, q, k)
    for block in _blocks(q, k, causal):
        at = (block.samples, slice(None), block.targets)
        source_index = (block.samples, slice(None), block.sources)
        p = _shares(xp, room, block, q, k, mask, scale, causal)
        _gather(by_v, source_index, matmul(xp, p.swapaxes(2, 3), g[at]), block.is_first)
        by_scores = other.product(g[at], v[source_index])
        softmax_gpu.shares_gradient(xp, by_scores, p, scale)
        by_q[at] = matmul(xp, by_scores, k[source_index])
        _gather(by_k, source_index, matmul(xp, by_scores.swapaxes(2, 3), q[at]), block.is_first)
    sums = ((by_q, heads), (by_k, groups), (by_v, groups))
    by_q, by_k, by_v = (xp.ascontiguousarray(summed(x, count)) for x, count in sums)
    return by_q, by_k, by_v


def _gather(total: Array, index: Any, part: Array, is_first: bool) -> None:
    """Add what a block gives."""
    if is_first:
        total[index] = part
    else:
        total[index] += part
