"""Functions that emit LLVM's code, as Numba's code calls them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from trainkit.core.cpu.cost_model import CACHE_LINE
from trainkit.kernels.jit.options import compiled
from trainkit.kernels.jit.simd import literal


def emits(literals: int, *kinds: Any) -> Callable[[Callable[..., None]], Any]:
    """Makes an intrinsic without a result of a function that emits what it does.

    The function takes LLVM's builder, as many literal arguments as `literals` says, as ints, and
    other arguments of the types `kinds`, as values of LLVM. Calls are by position.
    """

    def decorate(emit: Callable[..., None]) -> Any:
        def declare(typing: Any, *arguments: Any) -> Any:
            numbers = [literal(kind) for kind in arguments[:literals]]

            def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
                emit(builder, *numbers, *values[literals:])
                return context.get_dummy_value()

            return types.void(*arguments[:literals], *kinds), codegen

        # Numba would take a star among its parameters for a tuple.
        names = (f"p{i}" for i in range(1 + literals + len(kinds)))
        parameters = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_ONLY) for n in names]
        declare.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        declare.__name__, declare.__doc__ = emit.__name__, emit.__doc__
        return intrinsic(prefer_literal=True)(declare)

    return decorate


@emits(1, types.intp)
def fetch_line(builder: Any, to_write: int, address: Any) -> None:
    """Ask for a line of memory that is read, or written, soon; it need not be there.

    Args:
        builder: LLVM's.
        to_write: 1 or 0; a literal.
        address: any in the line.
    """
    word, pointer = ir.IntType(32), ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [pointer, word, word, word])
    name = "llvm.prefetch.p0"
    fetch = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    # Into the second cache: the first one is full of what is multiplied meanwhile.
    operands = [ir.Constant(word, number) for number in (to_write, 2, 1)]
    builder.call(fetch, [builder.inttoptr(address, pointer), *operands])


@compiled(parallel=False)
def fetch_bytes(at: int, length: int) -> None:
    """Ask for so many bytes that are read soon; there may be nothing at the address."""
    for line in range(0, length, CACHE_LINE):
        fetch_line(0, at + line)
