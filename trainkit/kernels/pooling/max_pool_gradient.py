"""The gradient of a largest value, written in LLVM's vectors: a few channels of a window at a time.

What is left of the gradient stays in a register while the places of the window are looked at.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from trainkit.kernels.jit.simd import Loop, Tile, literal


@intrinsic(prefer_literal=True)
def give_to_first(
    typing, lanes, cut, x, result, y, g, planes, rows, columns, plane, line, pixel, count
):
    """Add g to `result` at the first place of a window whose x equals y, for some channels.

    Args:
        typing: Numba's.
        lanes: channels; a literal.
        cut: 1 where only the first `count` channels are there, else 0; a literal.
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
    literals = lanes, cut
    size, masked = (literal(kind) for kind in literals)
    signature = types.void(*literals, *(types.intp,) * 11)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x, result, y, g, planes, rows, columns, plane, line, pixel, count = arguments[2:]
        tile = Tile(builder, 1, 1, size)
        mask = tile.masks(count)[0] if masked else None

        def read(at: Any) -> Any:
            return tile.masked_load(at, mask) if masked else tile.weights(at)[0]

        def write(value: Any, at: Any) -> None:
            tile.masked_store(value, at, mask) if masked else tile.store(value, at)

        none = ir.Constant(tile.vector, [0.0] * size)
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
