"""float32 as float16 and back, by the processor's own conversion."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from trainkit.kernels.jit.builders import by_parts
from trainkit.kernels.jit.elements import PART_STEP
from trainkit.kernels.jit.half_vectors import I16, HalfTile
from trainkit.kernels.jit.simd import literal
from trainkit.kernels.jit.target import vector_lanes
from trainkit.kernels.threads.parallel_for import chunk_range

_LANES = vector_lanes()


class Float16Tile(HalfTile):
    """A vector of float32 that is read or written as float16."""

    def round_to_halves(self, value: Any) -> Any:
        """float32 as the bits of the nearest float16, of two equally near ones the even one."""
        halves = self.builder.fptrunc(value, ir.VectorType(ir.HalfType(), self.lanes))
        bits = self.builder.bitcast(halves, ir.VectorType(I16, self.lanes))
        return self.builder.zext(bits, self.words)

    def widen(self, halves: Any) -> Any:
        """float32 that equal the float16 of these bits, which are the lower ones of int32."""
        bits = self.builder.trunc(halves, ir.VectorType(I16, self.lanes))
        numbers = self.builder.bitcast(bits, ir.VectorType(ir.HalfType(), self.lanes))
        return self.builder.fpext(numbers, self.vector)


@intrinsic(prefer_literal=True)
def _narrow_vector(typing, lanes, masks, source, target, count):
    """A vector of float32 as float16.

    Args:
        typing: Numba's.
        lanes: of a vector; a literal.
        masks: 1 where there are `count` numbers and no more; a literal.
        source: address of float32.
        target: address of float16.
        count: how many there are.
    """
    width, is_masked = literal(lanes), literal(masks)

    def codegen(context, builder, signature, arguments):
        source, target, count = arguments[2:]
        tile = Float16Tile(builder, 1, 1, width)
        if is_masked:
            (mask,) = tile.masks(count)
            tile.write_halves(tile.round_to_halves(tile.masked_load(source, mask)), target, mask)
        else:
            tile.write_halves(tile.round_to_halves(tile.weights(source)[0]), target)
        return context.get_dummy_value()

    return types.void(lanes, masks, *(types.intp,) * 3), codegen


@intrinsic(prefer_literal=True)
def _widen_vector(typing, lanes, masks, source, target, count):
    """A vector of float16 as float32; the arguments are those of `_narrow_vector`.

    Args:
        typing: Numba's.
        lanes: a literal.
        masks: a literal.
        source: address of float16.
        target: address of float32.
        count: numbers.
    """
    width, is_masked = literal(lanes), literal(masks)

    def codegen(context, builder, signature, arguments):
        source, target, count = arguments[2:]
        tile = Float16Tile(builder, 1, 1, width)
        mask = tile.masks(count)[0] if is_masked else None
        value = tile.widen(builder.zext(tile.read_halves(source, mask), tile.words))
        if is_masked:
            tile.masked_store(value, target, mask)
        else:
            tile.store(value, target)
        return context.get_dummy_value()

    return types.void(lanes, masks, *(types.intp,) * 3), codegen


@by_parts(types.intp, types.intp, types.intp)
def narrow(part, parts, x, y, size):
    """The nearest float16, of two equally near ones the even one; NaN stays one.

    x and y are addresses of so many numbers.
    """
    first, last = chunk_range(part, parts, size, PART_STEP)
    tail = first + (last - first) // _LANES * _LANES
    for i in range(first, tail, _LANES):
        _narrow_vector(_LANES, 0, x + 4 * i, y + 2 * i, _LANES)
    if tail < last:
        _narrow_vector(_LANES, 1, x + 4 * tail, y + 2 * tail, last - tail)


@by_parts(types.intp, types.intp, types.intp)
def widen(part, parts, x, y, size):
    """The same numbers as float32."""
    first, last = chunk_range(part, parts, size, PART_STEP)
    tail = first + (last - first) // _LANES * _LANES
    for i in range(first, tail, _LANES):
        _widen_vector(_LANES, 0, x + 2 * i, y + 4 * i, _LANES)
    if tail < last:
        _widen_vector(_LANES, 1, x + 2 * tail, y + 4 * tail, last - tail)
