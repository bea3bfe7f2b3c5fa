"""float32 as bfloat16 and back by their bits, as float16 by the processor's own conversion."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from trainkit.kernels.jit.builders import Builder, by_parts
from trainkit.kernels.jit.elements import PART_STEP
from trainkit.kernels.jit.half_vectors import Float16Tile, HalfTile
from trainkit.kernels.jit.simd import literal
from trainkit.kernels.jit.target import vector_lanes
from trainkit.kernels.threads.parallel_for import chunk_range

_LANES = vector_lanes()


_TILES = HalfTile, Float16Tile
"""By the format of 16 bits: bfloat16, float16."""
_BFLOAT16, _FLOAT16 = range(2)


def _narrow(tile: HalfTile, source: Any, target: Any, mask: Any) -> None:
    value = tile.weights(source)[0] if mask is None else tile.masked_load(source, mask)
    tile.write_halves(tile.round_to_halves(value), target, mask)


def _widen(tile: HalfTile, source: Any, target: Any, mask: Any) -> None:
    value = tile.widen(tile.builder.zext(tile.read_halves(source, mask), tile.words))
    if mask is None:
        tile.store(value, target)
    else:
        tile.masked_store(value, target, mask)


_CASTS = (_narrow, 4, 2), (_widen, 2, 4)
"""How a vector is read and written, and the bytes of a number before and after."""
_NARROW, _WIDEN = range(2)


@intrinsic(prefer_literal=True)
def _cast_vector(typing, cast, form, lanes, masks, source, target, count):
    """A vector of float32 as 16-bit floats, or back.

    Args:
        typing: Numba's.
        cast: its number among `_CASTS`; a literal.
        form: of 16 bits; a literal.
        lanes: of a vector; a literal.
        masks: 1 where there are `count` numbers and no more; a literal.
        source: address of what is read.
        target: address of what is written.
        count: how many there are.
    """
    write, tile_type = _CASTS[literal(cast)][0], _TILES[literal(form)]
    width, is_masked = literal(lanes), literal(masks)

    def codegen(context, builder, signature, arguments):
        source, target, count = arguments[4:]
        tile = tile_type(builder, 1, 1, width)
        write(tile, source, target, tile.masks(count)[0] if is_masked else None)
        return context.get_dummy_value()

    return types.void(cast, form, lanes, masks, *(types.intp,) * 3), codegen


def _cast_kernel(cast: int, form: int) -> Builder:
    _, x_size, y_size = _CASTS[cast]

    @by_parts(types.intp, types.intp, types.intp)
    def cast_halves(part, parts, x, y, size):
        """The nearest 16-bit floats, of two equally near ones the even one; or these as float32.

        NaN stays one. x and y are addresses of so many numbers.
        """
        first, last = chunk_range(part, parts, size, PART_STEP)
        tail = first + (last - first) // _LANES * _LANES
        for i in range(first, tail, _LANES):
            _cast_vector(cast, form, _LANES, 0, x + x_size * i, y + y_size * i, _LANES)
        if tail < last:
            _cast_vector(cast, form, _LANES, 1, x + x_size * tail, y + y_size * tail, last - tail)

    return cast_halves


narrow_to_bfloat16, widen_bfloat16 = (_cast_kernel(cast, _BFLOAT16) for cast in (_NARROW, _WIDEN))
narrow_to_float16, widen_float16 = (_cast_kernel(cast, _FLOAT16) for cast in (_NARROW, _WIDEN))
