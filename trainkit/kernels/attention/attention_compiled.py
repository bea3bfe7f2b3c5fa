"""Attention by blocks of queries: scores stay in the cache, and are made again for gradients.

A block has as many queries as a register tile is wide, and its scores lie turned, a row for each
key. So softmax works on whole registers, and every product finds rows side by side in one factor,
as a tile needs them, in any layout of the other.
Source: Rabe and Staats 2021, "Self-attention does not need O(n^2) memory", arXiv:2112.05682; Dao et
al. 2022, "FlashAttention", arXiv:2205.14135.
"""

from __future__ import annotations

import numpy as np
from numba import boolean, float32, uint8

from trainkit.kernels.convolution.conv_microkernels import turn_square
from trainkit.kernels.jit.builders import by_parts
from trainkit.kernels.jit.options import compiled
from trainkit.kernels.jit.register_tiles import product_columns, product_tiling
from trainkit.kernels.matmul.matmul_compiled import add_product
from trainkit.kernels.softmax.softmax_columns import column_gradients, column_softmax
from trainkit.kernels.threads.parallel_for import chunk_range

_HEADS, _MASK, _ROOM = float32[:, :, :, ::1], uint8[:, :, :, ::1], float32[:, :, ::1]
_BLOCK, _BYTES = product_columns(), 4
_, _VECTORS, _LANES = product_tiling()
_NOTHING = np.float32(-np.inf)


@compiled(parallel=False)
def _turn(x, b, first, count, h, turned):
    """Write `count` rows of head `h` from `first` on as columns; those after them are 0."""
    size, step = x.shape[3], _BYTES * x.shape[2] * x.shape[3]
    row = _BYTES * _BLOCK
    vector_end = size // _LANES * _LANES if count == _BLOCK else 0
    for f in range(0, vector_end, _LANES):
        for lane in range(0, _BLOCK, _LANES):
            at = x[b, first + lane, h].ctypes.data + _BYTES * f
            to = turned.ctypes.data + f * row + _BYTES * lane
            turn_square(_LANES, at, step, to, row)
    for f in range(vector_end, size):
        for lane in range(count):
            turned[f, lane] = x[b, first + lane, h, f]
        for lane in range(count, _BLOCK):
            turned[f, lane] = np.float32(0)


@compiled(parallel=False)
def _product_with_turned(x, b, h, rows, turned, zeros, y):
    """y[row, i] = x[b, row, h] . column i of `turned`."""
    size = x.shape[3]
    step = _BYTES * x.shape[2] * size
    at, row = x[b, 0, h].ctypes.data, _BYTES * _BLOCK
    to, start = y.ctypes.data, zeros.ctypes.data
    add_product(at, step, _BYTES, turned.ctypes.data, row, size, start, 0, rows, to, row, _BLOCK)


@compiled(parallel=False)
def _hide(s, rows, first, count, causal, mask, b, h):
    """Put -inf at keys that a query does not see."""
    if causal:
        for k in range(first + 1, rows):
            for i in range(min(k - first, _BLOCK)):
                s[k, i] = _NOTHING
    if mask.size:
        m = mask[b if mask.shape[0] > 1 else 0, h if mask.shape[1] > 1 else 0]
        for k in range(rows):
            if m.shape[1] == 1:
                if not m[k, 0]:
                    for i in range(_BLOCK):
                        s[k, i] = _NOTHING
            else:
                for i in range(count):
                    if not m[k, first + i]:
                        s[k, i] = _NOTHING


@compiled(parallel=False)
def _shares(q, k, mask, scale, causal, b, first, h, shared, s, turned, zeros):
    """Write what a block of queries gives to each key, (keys, queries); returns how many keys."""
    count, rows = min(_BLOCK, q.shape[1] - first), k.shape[1]
    if causal:
        rows = min(rows, first + count)
    _turn(q, b, first, count, h, turned)
    for f in range(q.shape[3]):
        for i in range(_BLOCK):
            turned[f, i] *= scale
    _product_with_turned(k, b, shared, rows, turned, zeros, s)
    if causal or mask.size:
        _hide(s, rows, first, count, causal, mask, b, h)
    column_softmax(_VECTORS, _LANES, s.ctypes.data, rows)
    return rows


@by_parts(_HEADS, _HEADS, _HEADS, _MASK, float32, boolean, _HEADS, _ROOM)
def attention(part, parts, q, k, v, mask, scale, causal, y, room):
    """What each query sees of the values.

    Shapes: q (batch, targets, heads, size), k (batch, sources, key heads, size), v (batch, sources,
    key heads, value size), mask (batch or 1, heads or 1, sources, targets or 1), of no elements for
    none, y (batch, targets, heads, value size), room of `room_shape`.
    """
    batch, targets, heads, size = q.shape
    blocks, group, wide = (targets + _BLOCK - 1) // _BLOCK, heads // k.shape[2], v.shape[3]
    s, turned = room[part, : k.shape[1]], room[part, 2 * k.shape[1] :]
    zeros = room[part, 2 * k.shape[1] + max(size, wide) :]
    v_step, y_step = _BYTES * v.shape[2] * wide, _BYTES * heads * wide
    start, end = chunk_range(part, parts, batch * heads * blocks, 1)
    for number in range(start, end):
        item = np.int64(number)
        first, h, b = item % blocks * _BLOCK, item // blocks % heads, item // blocks // heads
        rows = _shares(q, k, mask, scale, causal, b, first, h, h // group, s, turned, zeros)
        add_product(
            s.ctypes.data,
            _BYTES,
            _BYTES * _BLOCK,
            v[b, 0, h // group].ctypes.data,
            v_step,
            rows,
            zeros.ctypes.data,
            0,
            min(_BLOCK, targets - first),
            y[b, first, h].ctypes.data,
            y_step,
            wide,
        )


# ------------------------------------------------------------------ the backward pass


@compiled(parallel=False)
def _by_block(shares, rows, x, b, first, count, h, result, shared):
    """Add to each key's row of `result` what its shares make of the block's rows of `x`."""
    size = x.shape[3]
    to, step = result[b, 0, shared].ctypes.data, _BYTES * result.shape[2] * size
    at, next_row = x[b, first, h].ctypes.data, _BYTES * x.shape[2] * size
    row = _BYTES * _BLOCK
    add_product(
        shares.ctypes.data, row, _BYTES, at, next_row, count, to, step, rows, to, step, size
    )


@by_parts(_HEADS, _HEADS, _HEADS, _HEADS, _MASK, float32, boolean, _HEADS, _HEADS, _HEADS, _ROOM)
def attention_gradient(part, parts, g, q, k, v, mask, scale, causal, by_q, by_k, by_v, room):
    """Gradients of `attention` by q, k and v.

    As `attention`; g is like its y, and the gradients are like q, k and v.
    """
    batch, targets, heads, size = q.shape
    sources, groups, wide = k.shape[1], k.shape[2], v.shape[3]
    blocks, group = (targets + _BLOCK - 1) // _BLOCK, heads // groups
    s, grads = room[part, :sources], room[part, sources : 2 * sources]
    turned = room[part, 2 * sources :]
    zeros = room[part, 2 * sources + max(size, wide) :]
    start, end = chunk_range(part, parts, batch * groups, 1)
    for number in range(start, end):
        b, shared = np.int64(number) // groups, np.int64(number) % groups
        for row in range(sources):
            for f in range(size):
                by_k[b, row, shared, f] = np.float32(0)
            for f in range(wide):
                by_v[b, row, shared, f] = np.float32(0)
        for item in range(group * blocks):
            h, first = shared * group + item // blocks, item % blocks * _BLOCK
            count = min(_BLOCK, targets - first)
            rows = _shares(q, k, mask, scale, causal, b, first, h, shared, s, turned, zeros)
            _turn(g, b, first, count, h, turned)
            _product_with_turned(v, b, shared, rows, turned, zeros, grads)
            _by_block(s, rows, g, b, first, count, h, by_v, shared)
            column_gradients(_VECTORS, _LANES, s.ctypes.data, grads.ctypes.data, rows, scale)
            _by_block(grads, rows, q, b, first, count, h, by_k, shared)
            add_product(
                grads.ctypes.data,
                _BYTES,
                _BYTES * _BLOCK,
                k[b, 0, shared].ctypes.data,
                _BYTES * groups * size,
                rows,
                zeros.ctypes.data,
                0,
                count,
                by_q[b, first, h].ctypes.data,
                _BYTES * heads * size,
                size,
            )
