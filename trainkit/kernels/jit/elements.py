"""Elements of arrays as float32: a body that reads and writes by these serves bfloat16, too.

Numba has no type of bfloat16, so kernels take such arrays as the uint16 of their bits. For arrays
of float32 none of these functions is an instruction.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from trainkit.kernels.jit.half_vectors import I16, round_to_bfloat16
from trainkit.kernels.jit.simd import F32, I32

HALVES = types.uint16[:, ::1]
"""A matrix of the bits of bfloat16."""
# What is only read may also be an array that nobody may write to.
READ_HALVES = types.Array(types.uint16, 2, "C", readonly=True)
READ_HALF_CUBE = types.Array(types.uint16, 3, "C", readonly=True)
PART_STEP = 64
"""Numbers that a part of an array of bfloat16 begins at a multiple of: two lines of a cache."""


def _word(value):
    return ir.Constant(I32, value)


def _widen(builder, bits):
    """float32 that equals the bfloat16 of these bits."""
    return builder.bitcast(builder.shl(builder.zext(bits, I32), _word(16)), F32)


def _round(builder, value):
    """The bits of the nearest bfloat16 as an int16."""
    return builder.trunc(round_to_bfloat16(builder, value), I16)


@intrinsic
def as_float(typing, element):
    """An element of an array of float32, or of the bits of bfloat16, as float32."""

    def codegen(context, builder, signature, arguments):
        is_short = signature.args[0] == types.uint16
        return _widen(builder, arguments[0]) if is_short else arguments[0]

    return types.float32(element), codegen


@intrinsic
def as_element(typing, value, array):
    """The float32 `value` as an element of `array`, rounded where that holds bits of bfloat16."""

    def codegen(context, builder, signature, arguments):
        is_short = signature.return_type == types.uint16
        return _round(builder, arguments[0]) if is_short else arguments[0]

    return array.dtype(value, array), codegen


@intrinsic
def as_stored(typing, value, array):
    """What float32 `value` is when it was written to `array` and read again."""

    def codegen(context, builder, signature, arguments):
        if signature.args[1].dtype != types.uint16:
            return arguments[0]
        return _widen(builder, _round(builder, arguments[0]))

    return types.float32(value, array), codegen
