"""The gradient of a largest value, written in LLVM's vectors: a few channels of a window at a time.

What is left of the gradient stays in a register while the places of the window are looked at.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from trainkit.kernels.jit.half_vectors import HalfTile
from trainkit.kernels.jit.simd import Loop, literal


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
        tile = HalfTile(builder, 1, 1, width)
        mask = tile.masks(count)[0] if is_masked else None

        def read(at: Any) -> Any:
            if number_size == 2:
                return tile.widen(builder.zext(tile.read_halves(at, mask), tile.words))
            return tile.masked_load(at, mask) if is_masked else tile.weights(at)[0]

        def write(value: Any, at: Any) -> None:
            if number_size == 2:
                tile.write_halves(tile.round_to_halves(value), at, mask)
            elif is_masked:
                tile.masked_store(value, at, mask)
            else:
                tile.store(value, at)

        none = ir.Constant(tile.vector, [0.0] * width)
        largest = read(y)
        outermost = Loop(builder, planes, [x, result, read(g)])
        outer = Loop(builder, rows, outermost.values)
        inner = Loop(builder, columns, outer.values)
        x_at, result_at, left = inner.values
        is_maximum = builder.fcmp_ordered("==", read(x_at), largest)
        write(builder.fadd(read(result_at), builder.select(is_maximum, left, none)), result_at)
        left = builder.select(is_maximum, none, left)
        inner.close([tile.plus(x_at, pixel), tile.plus(result_at, pixel), left])
        x_at, result_at = outer.values[:2]
        outer.close([tile.plus(x_at, line), tile.plus(result_at, line), left])
        x_at, result_at = outermost.values[:2]
        outermost.close([tile.plus(x_at, plane), tile.plus(result_at, plane), left])
        return context.get_dummy_value()

    return signature, codegen
