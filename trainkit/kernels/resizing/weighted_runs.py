"""Weighted sums of runs of numbers in LLVM's vectors, which stay in registers over all weights."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from trainkit.kernels.jit.simd import Loop, Tile, literal


@intrinsic(prefer_literal=True)
def write_weighted(typing, lanes, cut, source, weights, target, count, step, size):
    """Write the weighted sum of the vectors at `source`, at `source + step` and so on.

    Args:
        typing: Numba's.
        lanes: numbers of a vector; a literal.
        cut: 1 where only the first `size` numbers are there, else 0; a literal.
        source: address of the first vector.
        weights: address of the weights.
        target: address of the sum.
        count: of vectors, at least 1.
        step: bytes from one to the next.
        size: see `cut`.
    """
    literals = lanes, cut
    width, is_masked = (literal(kind) for kind in literals)
    signature = types.void(*literals, *(types.intp,) * 6)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, weights, target, count, step, size = arguments[2:]
        tile = Tile(builder, 1, 1, width)
        mask = tile.masks(size)[0] if is_masked else None
        loop = Loop(builder, count, [source, weights, ir.Constant(tile.vector, [0.0] * width)])
        at, weight, total = loop.values
        numbers = tile.masked_load(at, mask) if is_masked else tile.vector_at(at)
        (total,) = tile.add_products([total], [[numbers]], [tile.number(weight)])
        total = loop.close([tile.plus(at, step), tile.plus(weight, 4), total])[2]
        if is_masked:
            tile.masked_store(total, target, mask)
        else:
            tile.store(total, target)
        return context.get_dummy_value()

    return signature, codegen
