"""Softmax and its cross-entropy on a GPU: how arrays are laid out for their kernels.

Each function gives `None` where the reference is to do the work.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from trainkit.kernels.cuda.element_types import TypedKernel, computed_in, ready
from trainkit.kernels.cuda.raw_kernel import EACH, MOST_THREADS, THREADS
from trainkit.kernels.softmax import softmax_cuda as cuda

Array = Any

_MOST_BLOCKS = 1 << 16
_ROWS = np.dtype([("count", np.int64), ("width", np.int64), ("lanes", np.int32)], align=True)
_SCORES = np.dtype(
    [(name, np.int64) for name in ("heads", "targets", "sources", "first")]
    + [(f"far_{name}", np.int64) for name in ("batch", "head", "target", "source")]
    + [("causal", np.int32)],
    align=True,
)


@functools.lru_cache(maxsize=256)
def _plan(count: int, width: int) -> tuple[int, int, Any]:
    """Blocks, threads of a block, and `Rows`."""
    lanes = 4
    while lanes * EACH < width and lanes < MOST_THREADS:
        lanes *= 2
    threads = max(THREADS, lanes)
    blocks = min(-(-count * lanes // threads), _MOST_BLOCKS)
    return blocks, threads, np.array((count, width, lanes), _ROWS)


def _launch(xp: Any, kernel: TypedKernel, x: Array, width: int, *arguments: Any) -> bool:
    """Launch a kernel over the rows of `x`, where it can be."""
    kernels = ready(xp, x.dtype, kernel)
    if kernels is None:
        return False
    blocks, threads, rows = _plan(x.size // width, width)
    kernels[0](blocks, (*arguments, rows), threads)
    return True


def _width(x: Array, axis: Any) -> int:
    """The number of elements along `axis` if these are the last axes, else 0."""
    if axis is None:
        return int(x.size)
    raw_axes = axis if isinstance(axis, tuple) else (axis,)
    if not all(-x.ndim <= a < x.ndim for a in raw_axes):
        return 0  # the reference refuses it
    axes = sorted(a % x.ndim for a in raw_axes)
    if axes != list(range(x.ndim - len(axes), x.ndim)):
        return 0
    return math.prod(x.shape[a] for a in axes)


def softmax(xp: Any, x: Array, *, axis: Any, logarithm: bool = False) -> Array | None:
    """exp(x) over its sum along the last axes, or the logarithm of that."""
    width = _width(x, axis) if x.size else 0
    if not width:
        return None
    y = xp.empty(x.shape, x.dtype)
    arguments = (xp.ascontiguousarray(x), y, np.int32(logarithm))
    return y if _launch(xp, cuda.SOFTMAX, x, width, *arguments) else None


def log_softmax(xp: Any, x: Array, *, axis: Any) -> Array | None:
    """The logarithm of softmax along the last axes."""
    return softmax(xp, x, axis=axis, logarithm=True)


def softmax_gradient(xp: Any, g: Array, y: Array, *, axis: Any) -> Array | None:
    """y * (g - sum(g * y))."""
    width = _width(y, axis) if y.size and g.dtype == y.dtype and g.shape == y.shape else 0
    if not width:
        return None
    by_x = xp.empty(y.shape, y.dtype)
    packed = map(xp.ascontiguousarray, (g, y))
    one = computed_in(y.dtype)(1)
    return by_x if _launch(xp, cuda.SOFTMAX_BACK, y, width, *packed, by_x, one) else None


# ------------------------------------------------------------------ cross-entropy


def _cross_entropy(
    xp: Any,
    labels: Array,
    logits: Array,
    g: Array | None = None,
    with_losses: bool = True,
    with_gradients: bool = False,
) -> tuple[Array | None, Array | None] | None:
    """(losses, gradients), of labels of integers or of the chance of each class."""
    classes_known = labels.dtype.kind in "iu"
    fits = labels.shape == (logits.shape[:-1] if classes_known else logits.shape)
    fits = fits and (classes_known or labels.dtype == logits.dtype)
    if not fits or not logits.size or (g is not None and g.dtype != logits.dtype):
        return None
    losses = xp.empty(logits.shape[:-1], logits.dtype) if with_losses else None
    grads = xp.empty(logits.shape, logits.dtype) if with_gradients else None
    labels, x = map(xp.ascontiguousarray, (labels, logits))
    weights = None if g is None else xp.ascontiguousarray(g)
    kernel: TypedKernel = cuda.DENSE
    kind: tuple[Any, ...] = ()
    if classes_known:
        sign = -1 if labels.dtype.kind == "i" else 1
        kernel, kind = cuda.SPARSE, (np.int32(sign * labels.itemsize),)
    order = (labels, *kind, x, weights, losses, grads)
    if not _launch(xp, kernel, logits, logits.shape[-1], *order):
        return None
    return losses, grads


def loss(xp: Any, labels: Array, logits: Array) -> Array | None:
    """Cross-entropy along the last axis."""
    results = _cross_entropy(xp, labels, logits)
    return results and results[0]


def loss_and_gradients(xp: Any, labels: Array, logits: Array) -> tuple[Array, ...] | None:
    """The same, with the gradient of each row."""
    return _cross_entropy(xp, labels, logits, with_gradients=True)


def gradient(xp: Any, g: Array, labels: Array, logits: Array) -> Array | None:
    """The gradients times `g`, a number for each row."""
    results = _cross_entropy(xp, labels, logits, g, with_losses=False, with_gradients=True)
    return results and results[1]


# ------------------------------------------------------------------ attention


def shares(
    xp: Any, scores: Array, mask: Array | None, scale: float, causal: bool, first: int
) -> bool:
    """Turn scores (batch, heads, targets, sources) into what part of each source a target takes.

    Args:
        xp: CuPy.
        scores: in row-major order; they are written over.
        mask: bools of four axes that broadcast against them, or `None`: which sources are seen.
        scale: a factor of the scores.
        causal: a target sees sources up to its own place.
        first: the place of the first target.

    Returns:
        False, with nothing done, where there is no kernel.
    """
    strides: tuple[int, ...] = (0, 0, 0, 0)
    if mask is not None:
        pairs = zip(mask.shape, mask.strides, strict=True)
        strides = tuple(0 if n == 1 else step // mask.itemsize for n, step in pairs)
    sizes = np.array((*scores.shape[1:], first, *strides, causal), _SCORES)
    factor = computed_in(scores.dtype)(scale)
    return _launch(xp, cuda.SHARES, scores, scores.shape[-1], scores, mask, factor, sizes)


def shares_gradient(xp: Any, g: Array, p: Array, scale: float) -> bool:
    """Turn `g`, by the shares `p`, into the gradient by the scores; see `shares`."""
    factor = computed_in(p.dtype)(scale)
    return _launch(xp, cuda.SOFTMAX_BACK, p, p.shape[-1], g, p, g, factor)
