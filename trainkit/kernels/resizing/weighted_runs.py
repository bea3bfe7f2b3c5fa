"""Weighted sums of runs of numbers in LLVM's vectors, which stay in registers over all weights."""

from __future__ import annotations

from llvmlite import ir
from numba.core import types

from trainkit.kernels.jit.emitters import emits
from trainkit.kernels.jit.simd import Loop, Tile


@emits(2, *(types.intp,) * 6)
def write_weighted(builder, lanes, cut, source, weights, target, count, step, size):
    """Write the weighted sum of the vectors at `source`, at `source + step` and so on.

    Args:
        lanes: numbers of a vector; a literal.
        cut: 1 where only the first `size` numbers are there, else 0; a literal.
        source: address of the first vector.
        weights: address of the weights.
        target: address of the sum.
        count: of vectors, at least 1.
        step: bytes from one to the next.
        size: see `cut`.
    """
    tile = Tile(builder, 1, 1, lanes)
    mask = tile.masks(size)[0] if cut else None
    loop = Loop(builder, count, [source, weights, ir.Constant(tile.vector, [0.0] * lanes)])
    at, weight, total = loop.values
    numbers = tile.masked_load(at, mask) if cut else tile.vector_at(at)
    (total,) = tile.add_products([total], [[numbers]], [tile.number(weight)])
    total = loop.close([tile.plus(at, step), tile.plus(weight, 4), total])[2]
    if cut:
        tile.masked_store(total, target, mask)
    else:
        tile.store(total, target)
