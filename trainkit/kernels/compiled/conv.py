"""Convolution in two dimensions, compiled for a window and numbers of channels.

Six sums for each of a block of filters stay in registers, so that every number that is loaded
serves six products. Arrays are indexed in full inside the loops, and padding is filled in by a
function of its own: a view of one image, or a store to the padded image in the same function,
keeps LLVM from seeing that nobody else writes the sums, and they would go through memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import boolean, float32, int64, prange, void
from numba.core.types import UniTuple

from trainkit.kernels.compiled.options import compiled

_IMAGES = float32[:, :, :, ::1]


@compiled(parallel=False)
def _fill(source, slot, x, n, top, left, gap_h, gap_w):
    """Image `n` of `x` into `source[slot]`, shifted, `gap` apart, zeros around."""
    height, width = source.shape[1], source.shape[2]
    for i in range(height):
        for j in range(width):
            for c in range(source.shape[3]):
                source[slot, i, j, c] = 0
    for i in range(x.shape[1]):
        to_i = top + i * gap_h
        if to_i < 0 or to_i >= height:
            continue
        for j in range(x.shape[2]):
            to_j = left + j * gap_w
            if to_j >= 0 and to_j < width:
                for c in range(x.shape[3]):
                    source[slot, to_i, to_j, c] = x[n, i, j, c]


def forward(rows: int, columns: int, channels: int, filters: int, block: int) -> Any:
    """The convolution with weights (rows, columns, channels, filters rounded up to `block`).

    Its arguments: x; source, where images are padded, one for each worker; weights; bias; y;
    (stride_h, stride_w, dilation_h, dilation_w, top, left, gap_h, gap_w); whether to pad; whether
    to rectify. Row i of x lies at `top + i * gap_h` of the padded image.
    """

    @compiled()
    def run(x, source, weights, bias, y, geometry, fill, rectify):
        stride_h, stride_w, dilation_h, dilation_w, top, left, gap_h, gap_w = geometry
        images, out_h, out_w = y.shape[0], y.shape[1], y.shape[2]
        workers = source.shape[0] if fill else images
        for number in prange(workers):
            worker = np.int64(number)  # prange counts in uint64, which with int64 would make floats
            for n in range(worker, images, workers):
                if fill:
                    _fill(source, worker, x, n, top, left, gap_h, gap_w)
                for f0 in range(0, filters, block):
                    for i in range(out_h):
                        for j0 in range(0, out_w, 6):
                            j = max(min(j0, out_w - 6), 0)
                            acc = np.zeros((6, block), np.float32)
                            for a in range(rows):
                                row = i * stride_h + a * dilation_h
                                for b in range(columns):
                                    at = j * stride_w + b * dilation_w
                                    for c in range(channels):
                                        x0 = source[worker, row, at, c]
                                        x1 = source[worker, row, at + stride_w, c]
                                        x2 = source[worker, row, at + 2 * stride_w, c]
                                        x3 = source[worker, row, at + 3 * stride_w, c]
                                        x4 = source[worker, row, at + 4 * stride_w, c]
                                        x5 = source[worker, row, at + 5 * stride_w, c]
                                        for f in range(block):
                                            w = weights[a, b, c, f0 + f]
                                            acc[0, f] += x0 * w
                                            acc[1, f] += x1 * w
                                            acc[2, f] += x2 * w
                                            acc[3, f] += x3 * w
                                            acc[4, f] += x4 * w
                                            acc[5, f] += x5 * w
                            for q in range(min(6, out_w - j)):
                                for f in range(min(block, filters - f0)):
                                    total = acc[q, f] + bias[f0 + f]
                                    if rectify:
                                        total = max(total, np.float32(0))
                                    y[n, i, j + q, f0 + f] = total

    run.compile(
        void(_IMAGES, _IMAGES, _IMAGES, float32[::1], _IMAGES, UniTuple(int64, 8), boolean, boolean)
    )
    return run


def kernel_gradient(rows: int, jumps: int, run_length: int, filters: int, block: int) -> Any:
    """Sums of products of inputs and gradients, for weights (rows, jumps * run_length, filters).

    A run is a stretch of the input, taps and channels alike, that lies side by side in memory; a
    row of a window has `jumps` of them. Its arguments: x; source, as for `forward`; g; parts,
    zeros (workers, rows, jumps * run_length, filters), which the caller adds up; and as for
    `forward`.
    """

    @compiled()
    def run(x, source, flat, g, parts, geometry, fill):
        stride_h, stride_w, dilation_h, dilation_w, top, left, channels = geometry
        images, out_h, out_w = g.shape[0], g.shape[1], g.shape[2]
        workers = parts.shape[0]
        deep = max(1, 96 // out_w)  # rows whose gradients stay in the first-level cache
        for number in prange(workers):
            worker = np.int64(number)
            for n in range(worker, images, workers):
                slot = n
                if fill:
                    slot = worker
                    _fill(source, worker, x, n, top, left, 1, 1)
                for f0 in range(0, filters, block):
                    for i0 in range(0, out_h, deep):
                        for a in range(rows):
                            for b in range(jumps):
                                for r0 in range(0, run_length, 6):
                                    r = max(min(r0, run_length - 6), 0)
                                    start = b * dilation_w * channels + r
                                    acc = np.zeros((6, block), np.float32)
                                    for i in range(i0, min(i0 + deep, out_h)):
                                        row = i * stride_h + a * dilation_h
                                        for j in range(out_w):
                                            at = start + j * stride_w * channels
                                            x0 = flat[slot, row, at]
                                            x1 = flat[slot, row, at + 1]
                                            x2 = flat[slot, row, at + 2]
                                            x3 = flat[slot, row, at + 3]
                                            x4 = flat[slot, row, at + 4]
                                            x5 = flat[slot, row, at + 5]
                                            for f in range(block):
                                                v = g[n, i, j, f0 + f]
                                                acc[0, f] += x0 * v
                                                acc[1, f] += x1 * v
                                                acc[2, f] += x2 * v
                                                acc[3, f] += x3 * v
                                                acc[4, f] += x4 * v
                                                acc[5, f] += x5 * v
                                    at = b * run_length + r
                                    for q in range(r0 - r, min(6, run_length - r)):
                                        for f in range(block):
                                            parts[worker, a, at + q, f0 + f] += acc[q, f]

    run.compile(
        void(
            _IMAGES,
            _IMAGES,
            float32[:, :, ::1],
            _IMAGES,
            _IMAGES,
            UniTuple(int64, 7),
            boolean,
        )
    )
    return run
