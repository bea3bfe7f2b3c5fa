"""The rounding of `half_vectors` as a function in LLVM's language, for loops of graphs."""

from __future__ import annotations

from functools import cache

from llvmlite import ir

from trainkit.kernels.jit.half_vectors import round_to_bfloat16


@cache
def rounding_function(name: str) -> str:
    """The text of a function of that name: float32 to the nearest bfloat16, as a float32 again."""
    number, word = ir.FloatType(), ir.IntType(32)
    function = ir.Function(ir.Module(), ir.FunctionType(number, [number]), name)
    function.linkage = "private"
    function.attributes.add("alwaysinline")  # or loops that call it would have no vectors
    builder = ir.IRBuilder(function.append_basic_block())
    bits = builder.shl(round_to_bfloat16(builder, function.args[0]), word(16))
    builder.ret(builder.bitcast(bits, number))
    return str(function)
