"""Vectors of 16-bit floats, which are read and written as bits and computed with as float32."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from trainkit.kernels.jit.simd import I32, Tile

I16 = ir.IntType(16)
HALF = 2  # bytes of a bfloat16
_EVEN, _QUIET = 0x7FFF, 0x7FC0
INFINITE = int(np.float32(np.inf).view(np.int32))
"""The bits of it as float32; without their sign, greater ones are those of NaN."""
_ALL_BUT_SIGN = np.iinfo(np.int32).max


def round_to_bfloat16(builder: Any, value: Any) -> Any:
    """float32 as the bits of the nearest bfloat16, of two equally near ones the even one.

    By integers: the processor's own conversion takes subnormal numbers for 0.

    Args:
        builder: llvmlite's.
        value: a float32 or a vector of such; the bits are an int32 or a vector of these.
    """
    lanes = getattr(value.type, "count", 0)
    words = ir.VectorType(I32, lanes) if lanes else I32

    def word(number: int) -> Any:
        return ir.Constant(words, [number] * lanes if lanes else number)

    bits = builder.bitcast(value, words)
    upper = builder.lshr(bits, word(16))
    last_bit = builder.and_(upper, word(1))
    nearest = builder.lshr(builder.add(bits, builder.add(last_bit, word(_EVEN))), word(16))
    # a NaN might become inf by the addition, or lose all bits that make it one
    nan = builder.or_(builder.and_(upper, word(0x8000)), word(_QUIET))
    is_nan = builder.icmp_unsigned(">", builder.and_(bits, word(_ALL_BUT_SIGN)), word(INFINITE))
    return builder.select(is_nan, nan, nearest)


class HalfTile(Tile):
    """A tile of float32 sums that reads and writes bfloat16."""

    def splat(self, value: int) -> Any:
        """A vector of int32."""
        return ir.Constant(self.words, [value] * self.lanes)

    @property
    def words(self) -> Any:
        """The type of a vector of int32."""
        return ir.VectorType(I32, self.lanes)

    def read_halves(self, at: Any, mask: Any = None, count: int = 0) -> Any:
        """`count` numbers of 16 bits, or as many as lanes; 0 where they are masked out."""
        kind = ir.VectorType(I16, count or self.lanes)
        pointer = self.builder.inttoptr(at, kind.as_pointer())
        if mask is None:
            halves = self.builder.load(pointer)
            halves.align = HALF
            return halves
        operands = [pointer, ir.Constant(I32, HALF), mask, ir.Constant(kind, None)]
        return self._on_halves("llvm.masked.load", kind, kind, operands)

    def write_halves(self, words: Any, at: Any, mask: Any = None) -> None:
        """The lower 16 bits of each lane."""
        kind = ir.VectorType(I16, self.lanes)
        halves, pointer = (
            self.builder.trunc(words, kind),
            self.builder.inttoptr(at, kind.as_pointer()),
        )
        if mask is None:
            self.builder.store(halves, pointer).align = HALF
            return
        operands = [halves, pointer, ir.Constant(I32, HALF), mask]
        self._on_halves("llvm.masked.store", ir.VoidType(), kind, operands)

    def _on_halves(self, name: str, result: Any, kind: Any, operands: list[Any]) -> Any:
        full = f"{name}.v{kind.count}i16.p0"
        module = self.builder.module
        function = ir.FunctionType(result, [value.type for value in operands])
        declared = module.globals.get(full) or ir.Function(module, function, full)
        return self.builder.call(declared, operands)

    def round_to_halves(self, value: Any) -> Any:
        """float32 as the bits of the nearest bfloat16, see `round_to_bfloat16`."""
        return round_to_bfloat16(self.builder, value)

    def widen(self, halves: Any) -> Any:
        """int32 that hold the bits of bfloat16 as float32."""
        return self.builder.bitcast(self.builder.shl(halves, self.splat(16)), self.vector)


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
