"""Work of compiled kernels for the thread pool, part by part."""

from __future__ import annotations

import sys
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

POOL = (types.intp, types.intp)
"""The first two arguments of a kernel that calls `spread`: `pool` and `parts`."""

WITHOUT_POOL = not sys.platform.startswith("linux")
"""Whether kernels that take long are shared out by Numba's own threads, as there is no pool."""

_WORD, _BYTES = ir.IntType(64), ir.IntType(8).as_pointer()


@intrinsic(prefer_literal=True)
def spread(typing, pool, parts, work, operands):
    """Call `work(part, parts, *operands)` for each part; a free thread of the pool takes the next.

    Args:
        typing: Numba's.
        pool: address of `pool_run`, or 0 to do all parts here.
        parts: how many; one is done here too.
        work: a function compiled by Numba that stands in a module, so that it is found on disk.
            It raises nothing.
        operands: a tuple of arrays and numbers. What is a literal in it is one to `work`, too, and
            stands last.
    """
    kinds = (types.intp, types.intp, *operands.types)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pool, parts, _, packed = arguments
        function = _part(context, builder.module, work.dispatcher, kinds, packed.type)
        slot = cgutils.alloca_once(builder, packed.type)
        builder.store(packed, slot)
        data = builder.bitcast(slot, _BYTES)
        is_there = builder.icmp_signed("!=", pool, ir.Constant(_WORD, 0))
        with builder.if_else(is_there) as (together, alone):
            with together:
                kind = ir.FunctionType(ir.VoidType(), [function.type, _BYTES, _WORD])
                builder.call(builder.inttoptr(pool, kind.as_pointer()), [function, data, parts])
            with alone, cgutils.for_range(builder, parts) as loop:
                builder.call(function, [data, loop.index, parts])
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, work, operands), codegen


def _part(context: Any, module: Any, work: Any, kinds: Any, packed: Any) -> Any:
    """A function of the address of the packed arguments, a part, and the number of parts."""
    work.compile(kinds)
    compiled = work.overloads[kinds]
    context.active_code_library.add_linking_library(compiled.library)
    kind = ir.FunctionType(ir.VoidType(), [_BYTES, _WORD, _WORD])
    function = ir.Function(module, kind, name=f"part_of_{compiled.fndesc.mangled_name}")
    function.linkage = "internal"
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    data, part, parts = function.args
    value = builder.load(builder.bitcast(data, packed.as_pointer()))
    members = [builder.extract_value(value, i) for i in range(len(kinds) - 2)]
    context.call_internal_no_propagate(
        builder, compiled.fndesc, compiled.signature, [part, parts, *members]
    )
    # Else the first process calls the code of `work` alone, and those that load from disk the code
    # that stands beside this function, which LLVM has looked at twice: other roundings.
    for step in builder.block.instructions:
        if getattr(step, "callee", None) and step.callee.name == compiled.fndesc.llvm_func_name:
            step.attributes.add("alwaysinline")
    builder.ret_void()
    return function


@numba.njit(inline="always")
def chunk_range(part, parts, count, unit):
    """From where to where the part goes of `count` things, in whole units but for the last.

    Without a sign: places below 0 would be looked for from the end, and then LLVM makes no vectors.
    """
    units = (count + unit - 1) // unit
    first, last = units * part // parts * unit, min(units * (part + 1) // parts * unit, count)
    return np.uintp(first), np.uintp(last)
