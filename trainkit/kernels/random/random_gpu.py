"""Draws on a GPU: one launch gives the values and the state after them.

Each function gives `None` where the kernel can't run: without NVRTC, or for a state that lies on
another GPU than the current one. Array arithmetic does the same then.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core import rng
from trainkit.kernels.cuda.raw_kernel import MOST_THREADS, RawKernel, blocks_for
from trainkit.kernels.random import dropped_cuda, philox_cuda, truncated_cuda

Array = Any
Drawn = tuple[Array, Array]


def serves(xp: Any, kernel: RawKernel, state: Array) -> bool:
    """Whether `kernel` can be launched, and `state` lies on the current GPU."""
    device = int(xp.cuda.Device().id)
    lies_here = isinstance(state, xp.ndarray) and int(state.device.id) == device
    return lies_here and kernel.is_there(xp)


def _drawn(
    xp: Any, kernel: RawKernel, state: Array, out: Array, bits_each: int, *more: Any
) -> Drawn | None:
    """What `kernel` writes into `out`, and the next state.

    Args:
        xp: CuPy.
        kernel: of `philox_cuda`.
        state: three words.
        out: new and flat.
        bits_each: random bits of an element.
        more: arguments of the kernel after the count.
    """
    if not serves(xp, kernel, state):
        return None
    state = xp.ascontiguousarray(state)
    new = xp.empty(3, np.uint64)
    used = rng.blocks_for(out.size, bits_each)
    args = (state, new, out, np.uint64(used), np.int64(out.size), *more)
    kernel(blocks_for(used), args)
    return out, new


def words(xp: Any, state: Array, count: int) -> Drawn | None:
    """`count` words of 64 bits, and the next state."""
    return _drawn(xp, philox_cuda.words(), state, xp.empty(count, np.uint64), 64)


def uniform(xp: Any, state: Array, count: int, dtype: np.dtype[Any]) -> Drawn | None:
    """`count` floats in [0, 1), and the next state."""
    kernel = philox_cuda.uniform(dtype.name)
    return _drawn(xp, kernel, state, xp.empty(count, dtype), _bits_of(dtype))


def normal(xp: Any, state: Array, count: int, dtype: np.dtype[Any]) -> Drawn | None:
    """`count` draws of the standard normal distribution, and the next state."""
    kernel = philox_cuda.normal(dtype.name)
    if not serves(xp, kernel, state):
        return None
    out, new = xp.empty(count, dtype), xp.empty(3, np.uint64)
    pairs = (count + 1) // 2
    used = rng.blocks_for(2 * pairs, _bits_of(dtype))
    state = xp.ascontiguousarray(state)
    kernel(blocks_for(-(-used // 2)), (state, new, out, np.uint64(used), np.int64(count)))
    return out, new


def _bits_of(dtype: np.dtype[Any]) -> int:
    return 64 if dtype.itemsize == 8 else 32


def mask(xp: Any, state: Array, count: int, limit: int, off: Any, on: Any) -> Drawn | None:
    """`off` where 16 random bits are below `limit`, else `on`, and the next state.

    Args:
        xp: CuPy.
        state: of the generator.
        count: how many.
        limit: 0 to 65,536.
        off: NumPy scalar of the result's dtype.
        on: another one.
    """
    kind = np.dtype(f"u{off.dtype.itemsize}")
    values = [np.array(x)[None].view(kind)[0] for x in (off, on)]
    kernel = philox_cuda.mask(kind.itemsize)
    return _drawn(xp, kernel, state, xp.empty(count, off.dtype), 16, np.int32(limit), *values)


def integers(
    xp: Any, state: Array, count: int, low: int, high: int, dtype: np.dtype[Any]
) -> Drawn | None:
    """`count` integers in [low, high), and the next state."""
    if dtype.kind not in "iu":
        return None
    full = 1 << 64
    bounds = (np.uint64((high - low) % full), np.uint64(low % full))
    return _drawn(
        xp, philox_cuda.integers(dtype.itemsize), state, xp.empty(count, dtype), 64, *bounds
    )


def integers_between(
    xp: Any, state: Array, count: int, low: Array, high: Array, dtype: np.dtype[Any]
) -> Drawn | None:
    """`count` integers in [low, high), which lie on the GPU, and the next state.

    The bounds are not waited for: where no number is between them, all draws are `low`.
    """
    if dtype.kind not in "iu":
        return None
    is_unsigned = np.int32("uint64" in (low.dtype.name, high.dtype.name))
    bounds = [x.astype(np.int64, copy=False).reshape(()) for x in (low, high)]
    kernel = philox_cuda.integers_between(dtype.itemsize)
    return _drawn(xp, kernel, state, xp.empty(count, dtype), 64, *bounds, is_unsigned)


def seeded(xp: Any, seed: Array) -> Array | None:
    """The state of the stream that two integers name."""
    kernel = philox_cuda.seeded()
    if not serves(xp, kernel, seed):
        return None
    state = xp.empty(3, np.uint64)
    kernel(1, (xp.ascontiguousarray(seed.astype(np.int64, copy=False)), state), threads=1)
    return state


def truncated_normal(xp: Any, state: Array, count: int, dtype: np.dtype[Any]) -> Drawn | None:
    """`count` normal draws within [-2, 2], others being drawn again, and the next state.

    `dtype` is float32 or float64. Five launches, whatever is outside.
    """
    name = dtype.name
    kernels = (
        truncated_cuda.outside_count(name),
        truncated_cuda.summed_counts(),
        truncated_cuda.outside_list(name),
        truncated_cuda.redrawn(name),
    )
    drawn = normal(xp, state, count, dtype)
    if drawn is None or not all(kernel.is_there(xp) for kernel in kernels):
        return None
    out, new = drawn
    if not count:
        return drawn
    chunks = -(-count // truncated_cuda.CHUNK)
    counts, positions = xp.empty(chunks + 1, np.int64), xp.empty(count, np.int64)
    number, size = np.int32(chunks), np.int64(count)
    each, summed, listed, again = kernels
    each(chunks, (out, counts, size))
    summed(1, (counts, number), threads=MOST_THREADS)
    listed(chunks, (out, counts, positions, size))
    again(1, (out, positions, counts, number, new), threads=MOST_THREADS)
    return out, new


def dropped(xp: Any, x: Array, keep_mask: Array, *, scale: float) -> Array | None:
    """`x` times `scale` where `keep_mask`, else times 0; `None` for a mask that broadcasts."""
    if (
        x.shape != keep_mask.shape
        or x.dtype.name not in dropped_cuda.DTYPES
        or keep_mask.dtype != bool
    ):
        return None
    kernel = dropped_cuda.dropped(x.dtype.name)
    if not (serves(xp, kernel, x) and serves(xp, kernel, keep_mask)):
        return None
    out = xp.empty(x.shape, x.dtype)
    if out.size:
        factor = (np.float64 if x.dtype == np.float64 else np.float32)(x.dtype.type(scale))
        x, keep_mask = xp.ascontiguousarray(x), xp.ascontiguousarray(keep_mask)
        kernel(blocks_for(out.size), (x, keep_mask, out, factor, np.int64(out.size)))
    return out
