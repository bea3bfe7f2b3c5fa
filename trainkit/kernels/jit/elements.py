"""Elements of arrays as float32: a body that reads and writes by these serves 16-bit floats, too.

Numba has no type of bfloat16, so kernels take such arrays as the uint16 of their bits, and those of
float16 as int16. For arrays of float32 none of these functions but `as_held` is an instruction.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from trainkit.core.cpu.cost_model import CACHE_LINE
from trainkit.kernels.jit.half_vectors import I16, round_to_bfloat16
from trainkit.kernels.jit.simd import F32, I32

HALVES = types.uint16[:, ::1]
"""A matrix of the bits of bfloat16."""
FLOAT16S = types.int16[:, ::1]
"""A matrix of the bits of float16, for processors that convert it."""
HALF_CUBE, FLOAT16_CUBE = types.uint16[:, :, ::1], types.int16[:, :, ::1]
"""The same of three axes."""
# What is only read may also be an array that nobody may write to.
READ_HALVES = types.Array(types.uint16, 2, "C", readonly=True)
READ_HALF_CUBE = types.Array(types.uint16, 3, "C", readonly=True)
PART_STEP = CACHE_LINE
"""Numbers that a part of an array of bfloat16 begins at a multiple of: two lines of a cache."""


def _word(value):
    return ir.Constant(I32, value)


def _widen_bfloat16(builder, bits):
    """float32 that equals the bfloat16 of these bits."""
    return builder.bitcast(builder.shl(builder.zext(bits, I32), _word(16)), F32)


def _round_to_bfloat16(builder, value):
    """The bits of the nearest bfloat16 as an int16."""
    return builder.trunc(round_to_bfloat16(builder, value), I16)


def _widen_float16(builder, bits):
    """float32 that equals the float16 of these bits."""
    return builder.fpext(builder.bitcast(bits, ir.HalfType()), F32)


def _round_to_float16(builder, value):
    """The bits of the nearest float16 as an int16."""
    return builder.bitcast(builder.fptrunc(value, ir.HalfType()), I16)


def _identity(builder, value):
    return value


_WIDEN = {types.uint16: _widen_bfloat16, types.int16: _widen_float16}
_ROUND = {types.uint16: _round_to_bfloat16, types.int16: _round_to_float16}
"""By Numba's type of an element; those of float32 are in neither."""


@intrinsic
def as_float(typing, element):
    """An element of an array of float32, or of the bits of 16-bit floats, as float32."""

    def codegen(context, builder, signature, arguments):
        return _WIDEN.get(signature.args[0], _identity)(builder, arguments[0])

    return types.float32(element), codegen


@intrinsic
def as_element(typing, value, array):
    """The float32 `value` as an element of `array`, rounded where that holds 16-bit floats."""

    def codegen(context, builder, signature, arguments):
        return _ROUND.get(signature.return_type, _identity)(builder, arguments[0])

    return array.dtype(value, array), codegen


@intrinsic
def as_stored(typing, value, array):
    """What float32 `value` is when it was written to `array` and read again."""

    def codegen(context, builder, signature, arguments):
        kind = signature.args[1].dtype
        bits = _ROUND.get(kind, _identity)(builder, arguments[0])
        return _WIDEN.get(kind, _identity)(builder, bits)

    return types.float32(value, array), codegen


@intrinsic
def as_held(typing, value, low, high, array):
    """The float32 `value` as an element of `array`, and what rectifiers then make of that.

    A NaN stays, and of two zeros the limit is taken; float16 keeps its own zero, as by the loops of
    NumPy, which are those of rectifiers by themselves.
    """

    def codegen(context, builder, signature, arguments):
        value, low, high, _ = arguments
        kind = signature.return_type
        if kind == types.int16:
            value = _widen_float16(builder, _round_to_float16(builder, value))
            value = builder.select(builder.fcmp_ordered("<", value, low), low, value)
        else:
            value = builder.select(builder.fcmp_unordered(">", value, low), value, low)
        value = builder.select(builder.fcmp_ordered(">", value, high), high, value)
        return _ROUND.get(kind, _identity)(builder, value)

    return array.dtype(value, low, high, array), codegen
