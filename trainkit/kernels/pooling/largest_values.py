"""Largest values and their gradients in LLVM's vectors: some channels of a window at a time.

The largest so far, or what is left of the gradient, stays in a register while the places of the
window are looked at.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from trainkit.kernels.jit.half_vectors import HalfTile
from trainkit.kernels.jit.simd import Loop, literal


class _Channels(HalfTile):
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
        self._mask = None if count is None else self.masks(count)[0]

    def read(self, at: Any) -> Any:
        """Those at an address, 0 where there are none."""
        if self._is_half:
            halves = self.read_halves(at, self._mask)
            return self.widen(self.builder.zext(halves, self.words))
        return self.weights(at)[0] if self._mask is None else self.masked_load(at, self._mask)

    def write(self, value: Any, at: Any) -> None:
        """Those that are there."""
        if self._is_half:
            self.write_halves(self.round_to_halves(value), at, self._mask)
        elif self._mask is None:
            self.store(value, at)
        else:
            self.masked_store(value, at, self._mask)


@intrinsic(prefer_literal=True)
def write_largest(typing, lanes, cut, size, x, y, planes, rows, columns, plane, line, pixel, count):
    """Write the largest value of a window, for some channels; NaN is larger than all others.

    Args:
        typing: Numba's.
        lanes: channels; a literal.
        cut: 1 where only the first `count` channels are there, else 0; a literal.
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
    literals = lanes, cut, size
    width, is_masked, number_size = (literal(kind) for kind in literals)
    signature = types.void(*literals, *(types.intp,) * 9)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x, y, planes, rows, columns, plane, line, pixel, count = arguments[3:]
        tile = _Channels(builder, width, number_size, count if is_masked else None)
        least = ir.Constant(tile.vector, [float("-inf")] * width)
        outermost = Loop(builder, planes, [x, least])
        outer = Loop(builder, rows, outermost.values)
        inner = Loop(builder, columns, outer.values)
        at, best = inner.values
        value = tile.read(at)
        is_larger = builder.fcmp_ordered(">", value, best)
        is_chosen = builder.or_(is_larger, builder.fcmp_unordered("uno", value, value))
        best = builder.select(is_chosen, value, best)
        inner.close([tile.plus(at, pixel), best])
        _, best = outer.close([tile.plus(outer.values[0], line), best])
        _, best = outermost.close([tile.plus(outermost.values[0], plane), best])
        tile.write(best, y)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic(prefer_literal=True)
def give_to_first(
    typing, lanes, cut, size, x, result, y, g, planes, rows, columns, plane, line, pixel, count
):
    """Add g to `result` at the first place of a window whose x equals y, for some channels.

    Args:
        typing: Numba's.
        lanes: channels; a literal.
        cut: 1 where only the first `count` channels are there, else 0; a literal.
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
    literals = lanes, cut, size
    width, is_masked, number_size = (literal(kind) for kind in literals)
    signature = types.void(*literals, *(types.intp,) * 11)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x, result, y, g, planes, rows, columns, plane, line, pixel, count = arguments[3:]
        tile = _Channels(builder, width, number_size, count if is_masked else None)
        none = ir.Constant(tile.vector, [0.0] * width)
        largest = tile.read(y)
        outermost = Loop(builder, planes, [x, result, tile.read(g)])
        outer = Loop(builder, rows, outermost.values)
        inner = Loop(builder, columns, outer.values)
        x_at, result_at, left = inner.values
        is_maximum = builder.fcmp_ordered("==", tile.read(x_at), largest)
        tile.write(
            builder.fadd(tile.read(result_at), builder.select(is_maximum, left, none)), result_at
        )
        left = builder.select(is_maximum, none, left)
        inner.close([tile.plus(x_at, pixel), tile.plus(result_at, pixel), left])
        x_at, result_at = outer.values[:2]
        outer.close([tile.plus(x_at, line), tile.plus(result_at, line), left])
        x_at, result_at = outermost.values[:2]
        outermost.close([tile.plus(x_at, plane), tile.plus(result_at, plane), left])
        return context.get_dummy_value()

    return signature, codegen
