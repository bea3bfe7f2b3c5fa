"""Largest values and their gradients in LLVM's vectors: some channels of a window at a time.

The largest so far, or what is left of the gradient, stays in a register while the places of the
window are looked at. Windows of 2 x 2, which most networks have, are written out: the branches of
three loops take longer than their four places.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types

from trainkit.kernels.jit.emitters import emits
from trainkit.kernels.jit.half_vectors import HalfTile
from trainkit.kernels.jit.simd import Loop


class Channels(HalfTile):
    """Reads and writes a vector of channels.

    Args:
        builder: LLVM's.
        lanes: channels.
        size: bytes of a number: 4, or 2 of bfloat16.
        count: channels that are there, or `None` for all.
    """

    def __init__(self, builder: Any, lanes: int, size: int, count: Any) -> None:
        super().__init__(builder, 1, 1, lanes)
        self._is_half = size == 2
        self.mask = None if count is None else self.masks(count)[0]

    def read(self, at: Any) -> Any:
        """Those at an address, 0 where there are none."""
        if self._is_half:
            halves = self.read_halves(at, self.mask)
            return self.widen(self.builder.zext(halves, self.words))
        return self.weights(at)[0] if self.mask is None else self.masked_load(at, self.mask)

    def write(self, value: Any, at: Any) -> None:
        """Those that are there."""
        if self._is_half:
            self.write_halves(self.round_to_halves(value), at, self.mask)
        elif self.mask is None:
            self.store(value, at)
        else:
            self.masked_store(value, at, self.mask)

    def larger(self, value: Any, best: Any) -> Any:
        """`value` where it is larger than `best`, or NaN; else `best`."""
        is_larger = self.builder.fcmp_ordered(">", value, best)
        is_nan = self.builder.fcmp_unordered("uno", value, value)
        return self.builder.select(self.builder.or_(is_larger, is_nan), value, best)

    def give(self, x: Any, result: Any, largest: Any, left: Any) -> Any:
        """Add what is left of a gradient where x is the largest; what is left then."""
        none = ir.Constant(self.vector, [0.0] * self.lanes)
        is_maximum = self.builder.fcmp_ordered("==", self.read(x), largest)
        part = self.builder.select(is_maximum, left, none)
        self.write(self.builder.fadd(self.read(result), part), result)
        return self.builder.select(is_maximum, none, left)

    def square(self, at: Any, line: Any, pixel: Any) -> list[Any]:
        """The addresses of the places of a window of 2 x 2, by rows."""
        below = self.plus(at, line)
        return [at, self.plus(at, pixel), below, self.plus(below, pixel)]


@emits(4, *(types.intp,) * 9)
def write_largest(
    builder, lanes, cut, square, size, x, y, planes, rows, columns, plane, line, pixel, count
):
    """Write the largest value of a window, for some channels; NaN is larger than all others.

    Args:
        lanes: channels; a literal.
        cut: 1 where only the first `count` channels are there, else 0; a literal.
        square: 1 for a window of 2 x 2, else 0; a literal.
        size: bytes of a number: 4, or 2 of bfloat16; a literal.
        x: address of the first place in the input.
        y: address of the result.
        planes: of the window, at least 1.
        rows: of the window, at least 1.
        columns: of the window, at least 1.
        plane: bytes from one plane to the next.
        line: bytes from one row to the next.
        pixel: bytes from one place of a row to the next.
        count: see `cut`.
    """
    tile = Channels(builder, lanes, size, count if cut else None)
    least = ir.Constant(tile.vector, [float("-inf")] * lanes)
    if square:
        # in pairs: the later one of equals never counts, and of NaNs the last one does
        one, two, three, four = map(tile.read, tile.square(x, line, pixel))
        tile.write(tile.larger(tile.larger(four, three), tile.larger(two, one)), y)
        return
    outermost = Loop(builder, planes, [x, least])
    outer = Loop(builder, rows, outermost.values)
    inner = Loop(builder, columns, outer.values)
    at, best = inner.values
    best = tile.larger(tile.read(at), best)
    inner.close([tile.plus(at, pixel), best])
    outer.close([tile.plus(outer.values[0], line), best])
    outermost.close([tile.plus(outermost.values[0], plane), best])
    tile.write(best, y)


@emits(4, *(types.intp,) * 11)
def give_to_first(
    builder, lanes, cut, square, size, x, result, y, g, planes, rows, columns, plane, line,
    pixel, count,
):  # fmt: skip
    """Add g to `result` at the first place of a window whose x equals y, for some channels.

    Args:
        lanes: channels; a literal.
        cut: 1 where only the first `count` channels are there, else 0; a literal.
        square: 1 for a window of 2 x 2, else 0; a literal.
        size: bytes of a number: 4, or 2 of bfloat16, whose windows do not overlap; a literal.
        x: address of the first place in the input.
        result: address of that place in the result.
        y: address of the window's largest value.
        g: address of its gradient.
        planes: of the window, at least 1.
        rows: of the window, at least 1.
        columns: of the window, at least 1.
        plane: bytes from one plane to the next.
        line: bytes from one row to the next.
        pixel: bytes from one place of a row to the next.
        count: see `cut`.
    """
    tile = Channels(builder, lanes, size, count if cut else None)
    largest, left = tile.read(y), tile.read(g)
    if square:
        addresses = (tile.square(at, line, pixel) for at in (x, result))
        for x_at, result_at in zip(*addresses, strict=True):
            left = tile.give(x_at, result_at, largest, left)
        return
    outermost = Loop(builder, planes, [x, result, left])
    outer = Loop(builder, rows, outermost.values)
    inner = Loop(builder, columns, outer.values)
    x_at, result_at, left = inner.values
    left = tile.give(x_at, result_at, largest, left)
    for loop, step in (inner, pixel), (outer, line), (outermost, plane):
        x_at, result_at = loop.values[:2]
        loop.close([tile.plus(x_at, step), tile.plus(result_at, step), left])
