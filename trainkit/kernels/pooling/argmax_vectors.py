"""Largest values and where they stand in LLVM's vectors: some channels of a window at a time.

The index in the image of the largest so far stays beside it in a register. All channels of a place
have one index less their own number, so that a number is all that a place of the window adds.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types

from trainkit.kernels.jit.emitters import emits
from trainkit.kernels.jit.simd import I32, I64, Loop
from trainkit.kernels.pooling.largest_values import Channels

Pair = tuple[Any, Any]


class _IndexedChannels(Channels):
    """A vector of channels, and a vector of int32 of where each comes from."""

    def indices(self, first: Any) -> Any:
        """The index of the first channel in all lanes."""
        number = self.builder.trunc(first, I32)
        lane = ir.Constant(I32, 0)
        blank = ir.Constant(self.words, ir.Undefined)
        one = self.builder.insert_element(blank, number, lane)
        return self.builder.shuffle_vector(one, blank, ir.Constant(self.words, [0] * self.lanes))

    def better(self, later: Pair, earlier: Pair) -> Pair:
        """The larger of two values and its index; of equal ones, and of two NaNs, the earlier."""
        value, best = later[0], earlier[0]
        is_larger = self.builder.and_(
            self.builder.fcmp_unordered(">", value, best),
            self.builder.fcmp_ordered("ord", best, best),
        )
        pairs = zip(later, earlier, strict=True)
        new, index = (self.builder.select(is_larger, a, b) for a, b in pairs)
        return new, index

    def write_indices(self, indices: Any, at: Any) -> None:
        """int64 of the indices of these channels, which are there."""
        kind = ir.VectorType(I64, self.lanes)
        lanes = ir.Constant(self.words, list(range(self.lanes)))
        positions = self.builder.sext(self.builder.add(indices, lanes), kind)
        pointer = self.builder.inttoptr(at, kind.as_pointer())
        if self.mask is None:
            self.builder.store(positions, pointer).align = 8
            return
        operands = [positions, pointer, ir.Constant(I32, 8), self.mask]
        full = f"llvm.masked.store.v{self.lanes}i64.p0"
        module = self.builder.module
        function = ir.FunctionType(ir.VoidType(), [value.type for value in operands])
        store = module.globals.get(full) or ir.Function(module, function, full)
        self.builder.call(store, operands)


@emits(4, *(types.intp,) * 11)
def write_largest_and_index(
    builder, lanes, cut, square, size, x, y, argmax, index, rows, columns, line, pixel, below,
    beside, count,
):  # fmt: skip
    """Write the largest value of a window and its index in the image, for some channels.

    NaN is larger than all numbers; of equal values, and of NaNs, the first counts.

    Args:
        lanes: channels; a literal.
        cut: 1 where only the first `count` channels are there, else 0; a literal.
        square: 1 for a window of 2 x 2, else 0; a literal.
        size: bytes of a number: 4, or 2 of bfloat16; a literal.
        x: address of the first element in the input.
        y: address of the largest value.
        argmax: address of its index, an int64.
        index: of the first element, below 2**31.
        rows: of the window, at least 1.
        columns: of the window, at least 1.
        line: bytes from one row to the next.
        pixel: bytes from one element of a row to the next.
        below: what a row adds to an index.
        beside: what an element of a row adds.
        count: see `cut`.
    """
    tile = _IndexedChannels(builder, lanes, size, count if cut else None)

    def pair(at: Any, number: Any) -> Pair:
        return tile.read(at), tile.indices(number)

    if square:
        under, next_line = tile.plus(index, below), tile.plus(x, line)
        numbers = index, tile.plus(index, beside), under, tile.plus(under, beside)
        addresses = x, tile.plus(x, pixel), next_line, tile.plus(next_line, pixel)
        one, two, three, four = map(pair, addresses, numbers)
        largest = tile.better(tile.better(four, three), tile.better(two, one))
    else:
        outer = Loop(builder, rows, [x, index, *pair(x, index)])
        inner = Loop(builder, columns, outer.values)
        at, number, *best = inner.values
        largest = tile.better(pair(at, number), (best[0], best[1]))
        inner.close([tile.plus(at, pixel), tile.plus(number, beside), *largest])
        row, first = outer.values[:2]
        outer.close([tile.plus(row, line), tile.plus(first, below), *largest])
    tile.write(largest[0], y)
    tile.write_indices(largest[1], argmax)
