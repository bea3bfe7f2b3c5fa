"""When compiled attention pays, and how arrays are laid out for it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainkit.core.cpu.cost_model import PRODUCT_NANOSECONDS
from trainkit.kernels.attention.attention_room import room_shape
from trainkit.kernels.jit import kernel_family
from trainkit.kernels.jit.kernel_family import owned
from trainkit.kernels.threads import pools
from trainkit.kernels.threads.thread_pool import PARTS_EACH, shared

Array = Any

_F32 = np.dtype(np.float32)
ATTENTION = kernel_family.Family("attention", "attention.attention_compiled", "attention")
GRADIENT = kernel_family.Family(
    "attention_gradient", "attention.attention_compiled", "attention_gradient"
)

_NONE = np.zeros((0, 0, 0, 0), np.uint8)


def _products(q: Array, k: Array, v: Array) -> int:
    batch, targets, heads, size = q.shape
    count: int = batch * targets * heads * k.shape[1] * (size + v.shape[3])
    return count


def _find_kernel(family: kernel_family.Family, q: Array, k: Array, v: Array, *others: Array) -> Any:
    if any(a.dtype is not _F32 or not a.size for a in (q, k, v, *others)):
        return None
    scores = math.prod(q.shape[:3]) * k.shape[1]
    products = _products(q, k, v) * (3 if others else 1)
    moved = 10 * scores * _F32.itemsize * (2 if others else 1)  # softmax has ten passes
    seconds = kernel_family.PRODUCT_SECONDS * products + kernel_family.BYTE_SECONDS * moved
    return family.find((), seconds)


def _turn(mask: Array | None, sources: int) -> Array:
    """The mask, which broadcasts with (batch, heads, targets, sources), as the kernels take it."""
    if mask is None:
        return _NONE
    full = np.broadcast_to(mask, (*mask.shape[:3], sources))
    return owned(full.swapaxes(2, 3)).view(np.uint8)


def _work(products: int, k: Array, v: Array) -> tuple[int, int, Array]:
    """`pool`, `parts`, and room for the parts."""
    pool, parts = shared(PRODUCT_NANOSECONDS * products)
    parts = min(parts, PARTS_EACH * pools.planned_threads())  # each has its own room
    shape, zeros = room_shape(parts, k.shape[1], max(k.shape[3], v.shape[3]))
    room = np.empty(shape, np.float32)
    room[:, -zeros:] = 0
    return pool, parts, room


def attention(
    q: Array, k: Array, v: Array, mask: Array | None, scale: float, causal: bool
) -> Array | None:
    """What each query sees of the values, or `None` where the plain version is to do it.

    Args:
        q: (batch, targets, heads, size).
        k: (batch, sources, key heads, size).
        v: (batch, sources, key heads, value size).
        mask: bool, of four axes, broadcasts to (batch, heads, targets, sources); or `None`.
        scale: of the scores.
        causal: a query sees sources up to its own position.
    """
    run = _find_kernel(ATTENTION, q, k, v)
    if run is None:
        return None
    y = np.empty((*q.shape[:3], v.shape[3]), np.float32)
    pool, parts, room = _work(_products(q, k, v), k, v)
    arrays = (*map(owned, (q, k, v)), _turn(mask, k.shape[1]))
    run(pool, parts, *arrays, np.float32(scale), causal, y, room)
    return y


def attention_gradient(
    g: Array, q: Array, k: Array, v: Array, mask: Array | None, scale: float, causal: bool
) -> tuple[Array, Array, Array] | None:
    """Gradients by q, k and v, or `None` where the plain version is to do it."""
    run = _find_kernel(GRADIENT, q, k, v, g)
    if run is None:
        return None
    by_q, by_k, by_v = (np.empty(x.shape, np.float32) for x in (q, k, v))
    pool, parts, room = _work(3 * _products(q, k, v), k, v)
    arrays = (*map(owned, (g, q, k, v)), _turn(mask, k.shape[1]))
    run(pool, parts, *arrays, np.float32(scale), causal, by_q, by_k, by_v, room)
    return by_q, by_k, by_v
