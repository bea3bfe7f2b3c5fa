"""float32 as bfloat16 and back by their bits, as float16 by the processor's own conversion."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from trainkit.kernels.jit.builders import Builder, by_parts
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


_TILES = HalfTile, Float16Tile
"""By the format of 16 bits: bfloat16, float16."""
_BFLOAT16, _FLOAT16 = range(2)


@intrinsic(prefer_literal=True)
def _narrow_vector(typing, form, lanes, masks, source, target, count):
    """A vector of float32 as 16-bit floats.

    Args:
        typing: Numba's.
        form: of 16 bits; a literal.
        lanes: of a vector; a literal.
        masks: 1 where there are `count` numbers and no more; a literal.
        source: address of float32.
        target: address of 16-bit floats.
        count: how many there are.
    """
    tile_type, width, is_masked = _TILES[literal(form)], literal(lanes), literal(masks)

    def codegen(context, builder, signature, arguments):
        source, target, count = arguments[3:]
        tile = tile_type(builder, 1, 1, width)
        if is_masked:
            (mask,) = tile.masks(count)
            tile.write_halves(tile.round_to_halves(tile.masked_load(source, mask)), target, mask)
        else:
            tile.write_halves(tile.round_to_halves(tile.weights(source)[0]), target)
        return context.get_dummy_value()

    return types.void(form, lanes, masks, *(types.intp,) * 3), codegen


@intrinsic(prefer_literal=True)
def _widen_vector(typing, form, lanes, masks, source, target, count):
    """A vector of 16-bit floats as float32; the arguments are those of `_narrow_vector`.

    Args:
        typing: Numba's.
        form: a literal.
        lanes: a literal.
        masks: a literal.
        source: address of 16-bit floats.
        target: address of float32.
        count: numbers.
    """
    tile_type, width, is_masked = _TILES[literal(form)], literal(lanes), literal(masks)

    def codegen(context, builder, signature, arguments):
        source, target, count = arguments[3:]
        tile = tile_type(builder, 1, 1, width)
        mask = tile.masks(count)[0] if is_masked else None
        value = tile.widen(builder.zext(tile.read_halves(source, mask), tile.words))
        if is_masked:
            tile.masked_store(value, target, mask)
        else:
            tile.store(value, target)
        return context.get_dummy_value()

    return types.void(form, lanes, masks, *(types.intp,) * 3), codegen


def _narrow_kernel(form: int) -> Builder:
    @by_parts(types.intp, types.intp, types.intp)
    def narrow(part, parts, x, y, size):
        """The nearest 16-bit floats, of two equally near ones the even one; NaN stays one.

        x and y are addresses of so many numbers.
        """
        first, last = chunk_range(part, parts, size, PART_STEP)
        tail = first + (last - first) // _LANES * _LANES
        for i in range(first, tail, _LANES):
            _narrow_vector(form, _LANES, 0, x + 4 * i, y + 2 * i, _LANES)
        if tail < last:
            _narrow_vector(form, _LANES, 1, x + 4 * tail, y + 2 * tail, last - tail)

    return narrow


def _widen_kernel(form: int) -> Builder:
    @by_parts(types.intp, types.intp, types.intp)
    def widen(part, parts, x, y, size):
        """The same numbers as float32."""
        first, last = chunk_range(part, parts, size, PART_STEP)
        tail = first + (last - first) // _LANES * _LANES
        for i in range(first, tail, _LANES):
            _widen_vector(form, _LANES, 0, x + 2 * i, y + 4 * i, _LANES)
        if tail < last:
            _widen_vector(form, _LANES, 1, x + 2 * tail, y + 4 * tail, last - tail)

    return widen


narrow_to_bfloat16, widen_bfloat16 = _narrow_kernel(_BFLOAT16), _widen_kernel(_BFLOAT16)
narrow_to_float16, widen_float16 = _narrow_kernel(_FLOAT16), _widen_kernel(_FLOAT16)
