"""A rule program as one compiled loop: every element is read once, updated, and written once.

The loop does the same float operations in the same order as the program's NumPy steps, so both give
the same bits. Compiling takes about a second and needs Numba, so it happens only once a program has
done enough work for that to pay, and never for GPU arrays.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.optimizers.rule_program import RuleProgram, Symbol

HOT_ELEMENTS = 20_000_000
"""Elements after which compiling pays when Numba is loaded: 200 steps of a model of 100,000
weights."""

COLD_ELEMENTS = 200_000_000
"""Elements after which loading Numba and compiling pays."""

_INFIX = {np.add: "+", np.subtract: "-", np.multiply: "*", np.true_divide: "/"}


def pays(elements: int) -> bool:
    """Whether a program that has updated `elements` elements so far should be compiled now."""
    return elements > HOT_ELEMENTS and ("numba" in sys.modules or elements > COLD_ELEMENTS)


def loop_source(program: RuleProgram) -> str:
    """The text of `loop(b0, ..., s0, ..., h0, ...)`: buffers, scalars, what follows from these."""
    buffers, scalars = program.inputs
    names = {id(x): f"x{i}" for i, x in enumerate(buffers)}
    names |= {id(x): f"s{i}" for i, x in enumerate(scalars)}
    hoisted = [x for x in program.order if x.is_scalar]
    names |= {id(x): f"h{i}" for i, x in enumerate(hoisted)}
    body = []
    for i, symbol in enumerate(x for x in program.order if not x.is_scalar):
        names[id(symbol)] = f"y{i}"
        body.append(f"y{i} = {_expression(symbol, names, program)}")
    arrays = [f"b{i}" for i in range(len(buffers))]
    numbers = [names[id(x)] for x in (*scalars, *hoisted)]
    stores = []
    for i, result in enumerate(program.results):
        slot = i if i == 0 else i + 1
        if result is not buffers[slot]:
            stores.append(f"b{slot}[i] = {names[id(result)]}")
    loads = [f"x{i} = b{i}[i]" for i in range(len(buffers))]
    lines = [f"def loop({', '.join(arrays + numbers)}):", "    for i in range(b0.size):"]
    return "\n".join(lines + [f"        {line}" for line in loads + body + stores]) + "\n"


def _expression(symbol: Symbol, names: dict[int, str], program: RuleProgram) -> str:
    inputs = [
        names[id(x)] if isinstance(x, Symbol) else f"real({float(x)!r})" for x in symbol.inputs
    ]
    if symbol.ufunc in _INFIX:
        return f"{inputs[0]} {_INFIX[symbol.ufunc]} {inputs[1]}"
    return f"np.{symbol.ufunc.__name__}({', '.join(inputs)})"


def compiled_loop(program: RuleProgram) -> Callable[..., None]:
    """A function of flat buffers and scalars that does what `program.run` does.

    Args:
        program: the program, for float32 or float64 buffers.

    Returns:
        `run(buffers, scalars)`; buffers are C-contiguous, of one shape.
    """
    import numba

    space: dict[str, Any] = {"np": np, "real": program.dtype.type}
    exec(compile(loop_source(program), "<optimizer update>", "exec"), space)
    # error_model="numpy": a division by zero gives inf, and the loop vectorises. No fastmath: same
    # bits.
    loop = numba.njit(error_model="numpy")(space["loop"])
    real = program.dtype.type

    def run(buffers: Any, scalars: Any) -> None:
        hoisted = [real(x) for x in program.hoisted(scalars)]
        loop(*[x.reshape(-1) for x in buffers], *[real(x) for x in scalars], *hoisted)

    return run
