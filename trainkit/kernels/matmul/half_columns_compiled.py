"""Sums of the columns of 16-bit floats, and gradients of a rectifier with theirs."""

from __future__ import annotations

from llvmlite import ir
from numba import types

from trainkit.kernels.jit.builders import MATRIX, by_parts
from trainkit.kernels.jit.emitters import emits
from trainkit.kernels.jit.target import vector_lanes
from trainkit.kernels.matmul.half_tiles import FLOAT16S, SINGLES, half_tile_class
from trainkit.kernels.threads.parallel_for import chunk_range

_LANES = vector_lanes()
_ROWS = types.Array(types.uint16, 2, "C", readonly=True)


@emits(4, *(types.intp,) * 5)
def _add_vector(builder, kind, rectifies, masks, lanes, g, y, result, sums, count):
    """Add a vector of 16-bit floats to sums of float32.

    Args:
        kind: of words that the numbers would become in a product; a literal.
        rectifies: 1 to add, and to write, 0 where y is not above 0; a literal.
        masks: 1 where there are `count` numbers and no more; a literal.
        lanes: of a vector; a literal.
        g: address of the vector.
        y: address of as many numbers.
        result: address of what is added, for as many.
        sums: address of float32.
        count: how many there are.
    """
    tile = half_tile_class(kind)(builder, 1, 1, lanes)
    mask = tile.masks(count)[0] if masks else None

    def read(at):
        return builder.zext(tile.read_halves(at, mask), tile.words)

    bits = read(g)
    if rectifies:
        zero = ir.Constant(tile.vector, [0.0] * lanes)
        is_positive = builder.fcmp_ordered(">", tile.widen(read(y)), zero)
        bits = builder.select(is_positive, bits, tile.splat(0))
        tile.write_halves(bits, result, mask)
    if masks:
        total = builder.fadd(tile.masked_load(sums, mask), tile.widen(bits))
        tile.masked_store(total, sums, mask)
    else:
        total = builder.fadd(tile.weights(sums)[0], tile.widen(bits))
        tile.store(total, sums)


def _kernel(kind: int, rectifies: int) -> object:
    """The builder of a kernel that fills rows of `sums`, each with those of a share of all rows."""

    @by_parts(_ROWS, _ROWS, types.uint16[:, ::1], MATRIX, exact=True)
    def columns(part, parts, g, y, result, sums):
        """The sums of the columns of g, where y > 0 if there is one; g there is the result."""
        first_share, end_share = chunk_range(part, parts, sums.shape[0], 1)
        rows, features, shares = g.shape[0], g.shape[1], sums.shape[0]
        step, each = (rows + shares - 1) // shares, 2 * features
        tail = features // _LANES * _LANES
        for number in range(first_share, end_share):
            share = int(number)
            for f in range(features):
                sums[share, f] = 0
            total = sums.ctypes.data + 4 * share * features
            for row in range(share * step, min((share + 1) * step, rows)):
                at = row * each
                a, b, c = g.ctypes.data + at, y.ctypes.data + at, result.ctypes.data + at
                for f in range(0, tail, _LANES):
                    _add_vector(
                        kind, rectifies, 0, _LANES,
                        a + 2 * f, b + 2 * f, c + 2 * f, total + 4 * f, _LANES,
                    )  # fmt: skip
                if tail < features:
                    _add_vector(
                        kind, rectifies, 1, _LANES, a + 2 * tail, b + 2 * tail, c + 2 * tail,
                        total + 4 * tail, features - tail,
                    )  # fmt: skip

    return columns


column_sums, rectified_gradient = _kernel(SINGLES, 0), _kernel(SINGLES, 1)
float16_column_sums, float16_rectified_gradient = _kernel(FLOAT16S, 0), _kernel(FLOAT16S, 1)
